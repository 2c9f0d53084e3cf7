//! CREATE TYPE and DROP TYPE.

use tidegate_engine::{Catalog, Permission, Resource, UserType};

use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, Name, TableName, TypeName, type_name, unknown_type};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};

/// The user type of that name; without a keyspace it is one of `keyspace`.
pub fn find_type(catalog: &Catalog, keyspace: &str, name: &TableName) -> Result<UserType> {
    let keyspace = name.keyspace.as_ref().map_or(keyspace, |keyspace| &keyspace.value);
    let found = catalog.user_type(keyspace, &name.table.value).cloned();
    found.ok_or_else(|| {
        unknown_type(&name.table, catalog.types(keyspace).map(|ty| ty.name.as_str()))
    })
}

#[derive(Debug)]
pub struct CreateType {
    name: TableName,
    pub if_not_exists: bool,
    pub fields: Vec<(Name, TypeName)>,
}

impl CreateType {
    /// The type that the statement asks for.
    ///
    /// Errors: `Invalid` at a field's type that is not there.
    fn user_type(&self, catalog: &Catalog, keyspace: &str) -> Result<UserType> {
        let find = |name: &TableName| find_type(catalog, keyspace, name);
        let field = |(name, ty): &(Name, TypeName)| Ok((name.value.clone(), ty.resolve(&find)?));
        let fields: Result<Vec<_>> = self.fields.iter().map(field).collect();
        Ok(UserType::new(keyspace, &self.name.table.value, fields?))
    }
}

impl Read for CreateType {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
        let name = cursor.table_name()?;
        let fields = cursor
            .definitions(|cursor| Ok((cursor.name("the name of a field")?, type_name(cursor)?)))?;
        Ok(CreateType { name, if_not_exists, fields })
    }
}

impl OwnStatement for CreateType {
    fn needs(&self, session: &Session) -> Vec<Need> {
        let keyspace = Resource::Keyspace(session.keyspace_of(&self.name));
        vec![Need::new(Permission::Create, keyspace)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let keyspace = session.keyspace_of(&self.name);
        let catalog = session.database.catalog();
        let ty = self.user_type(&catalog, &keyspace)?;
        let name = format!("{keyspace}.{}", ty.name);
        let is_new = catalog.user_type(&keyspace, &ty.name).is_none();
        let made = session.database.create_type(ty, self.if_not_exists).await;
        made.map_err(|error| QueryError::from(error).at(self.name.table.span))?;
        Ok(Outcome::message(match is_new {
            true => format!("Type {name} created."),
            false => format!("Type {name} exists already."),
        }))
    }
}

#[derive(Debug)]
pub struct DropType {
    name: TableName,
    pub if_exists: bool,
}

impl Read for DropType {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Ok(DropType { name: cursor.table_name()?, if_exists })
    }
}

impl OwnStatement for DropType {
    fn needs(&self, session: &Session) -> Vec<Need> {
        let keyspace = Resource::Keyspace(session.keyspace_of(&self.name));
        vec![Need::new(Permission::Drop, keyspace)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let DropType { name, if_exists } = self;
        let keyspace = session.keyspace_of(name);
        let is_there = session.database.catalog().user_type(&keyspace, &name.table.value).is_some();
        let dropped = session.database.drop_type(&keyspace, &name.table.value, *if_exists).await;
        dropped.map_err(|error| QueryError::from(error).at(name.table.span))?;
        let name = format!("{keyspace}.{}", name.table.value);
        Ok(Outcome::message(match is_there {
            true => format!("Type {name} dropped."),
            false => format!("There is no type {name}."),
        }))
    }
}
