//! Statements that change the catalog: keyspaces, tables and types; and `USE`.

use tidegate_engine::TableOptions;

use super::ddl::{table_schema, user_type};
use super::error::{ErrorKind, QueryError, Result};
use super::outcome::Outcome;
use super::parse::{CreateTable, CreateType, Name, TableName, TableOption};
use super::session::Session;

impl Session {
    pub(super) async fn create_keyspace(
        &self,
        name: &Name,
        if_not_exists: bool,
    ) -> Result<Outcome> {
        self.database.create_keyspace(&name.value, if_not_exists).await?;
        Ok(Outcome::message(format!("Keyspace {} created.", name.value)))
    }

    /// A session that used the keyspace uses the default one from then on.
    pub(super) async fn drop_keyspace(&self, name: &Name, if_exists: bool) -> Result<Outcome> {
        self.database.drop_keyspace(&name.value, if_exists).await?;
        if self.keyspace() == name.value {
            self.set_keyspace("default")?;
        }
        Ok(Outcome::message(format!("Keyspace {} dropped.", name.value)))
    }

    pub(super) fn use_keyspace(&self, name: &Name) -> Result<Outcome> {
        self.set_keyspace(&name.value).map_err(|error| error.at(name.span))?;
        Ok(Outcome::message(format!("Using keyspace {}.", name.value)))
    }

    /// The keyspace that a name says or leaves out.
    fn keyspace_of(&self, name: &TableName) -> String {
        match &name.keyspace {
            Some(keyspace) => keyspace.value.clone(),
            None => self.keyspace(),
        }
    }

    pub(super) async fn create_table(&self, create: &CreateTable) -> Result<Outcome> {
        let keyspace = self.keyspace_of(&create.name);
        let schema = table_schema(create, &self.database.catalog(), &keyspace)?;
        let made = self.database.create_table(schema, create.if_not_exists).await;
        let schema = made.map_err(|error| QueryError::from(error).at(create.name.table.span))?;
        Ok(Outcome::message(format!("Table {} created.", schema.full_name())))
    }

    pub(super) async fn alter_table(
        &self,
        name: &TableName,
        options: Vec<TableOption>,
    ) -> Result<Outcome> {
        let table = self.table(name)?;
        let change = move |present: &mut TableOptions| {
            options.into_iter().for_each(|option| option.apply(present));
        };
        let altered = self.database.alter_table(&table.keyspace, &table.name, change).await;
        let altered = altered.map_err(|error| QueryError::from(error).at(name.table.span))?;
        let name = table.full_name();
        Ok(Outcome::message(match altered.shards_closed {
            0 => format!("Table {name} altered."),
            _ => format!("Table {name} altered. The next start opens it with the new options."),
        }))
    }

    pub(super) async fn drop_table(&self, name: &TableName, if_exists: bool) -> Result<Outcome> {
        let table = match self.table(name) {
            Ok(table) => table,
            Err(error) if if_exists && error.kind == ErrorKind::NotFound => {
                let name = &name.table.value;
                return Ok(Outcome::message(format!("There is no table {name}.")));
            }
            Err(error) => return Err(error),
        };
        self.database.drop_table(&table.keyspace, &table.name, if_exists).await?;
        Ok(Outcome::message(format!("Table {} dropped.", table.full_name())))
    }

    pub(super) async fn create_type(&self, create: &CreateType) -> Result<Outcome> {
        let keyspace = self.keyspace_of(&create.name);
        let ty = user_type(create, &self.database.catalog(), &keyspace)?;
        let name = format!("{keyspace}.{}", ty.name);
        let made = self.database.create_type(ty, create.if_not_exists).await;
        made.map_err(|error| QueryError::from(error).at(create.name.table.span))?;
        Ok(Outcome::message(format!("Type {name} created.")))
    }

    pub(super) async fn drop_type(&self, name: &TableName, if_exists: bool) -> Result<Outcome> {
        let keyspace = self.keyspace_of(name);
        let dropped = self.database.drop_type(&keyspace, &name.table.value, if_exists).await;
        dropped.map_err(|error| QueryError::from(error).at(name.table.span))?;
        Ok(Outcome::message(format!("Type {keyspace}.{} dropped.", name.table.value)))
    }
}
