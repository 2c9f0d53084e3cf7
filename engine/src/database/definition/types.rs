//! Creates and drops user types.

use futures::future::BoxFuture;

use crate::database::catalog::check_name;
use crate::database::database::Database;
use crate::error::{Error, Result};
use crate::schema::{DataType, UserType};

impl Database {
    /// Creates a user type. Tables that use it keep it as it is then.
    ///
    /// Errors: `Exists`, `NotFound` for the keyspace, `Invalid` for impossible fields, `Io`.
    pub fn create_type(&self, ty: UserType, if_not_exists: bool) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let change = async move {
            check_name("type", &ty.name)?;
            DataType::User(Box::new(ty.clone())).validate()?;
            let catalog = database.catalog();
            if !catalog.has_keyspace(&ty.keyspace) {
                return Err(Error::NotFound { kind: "keyspace", name: ty.keyspace });
            }
            if catalog.user_type(&ty.keyspace, &ty.name).is_some() {
                return match if_not_exists {
                    true => Ok(()),
                    false => {
                        let name = format!("{}.{}", ty.keyspace, ty.name);
                        Err(Error::Exists { kind: "type", name })
                    }
                };
            }
            let mut changed = catalog.changed();
            changed.add_type(ty);
            database.publish(changed).await
        };
        self.uninterrupted(change)
    }

    /// Drops a user type.
    ///
    /// Errors: `NotFound`, `Invalid` when a table or another type uses it, `Io`.
    pub fn drop_type(
        &self,
        keyspace: &str,
        name: &str,
        if_exists: bool,
    ) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        let change = async move {
            let catalog = database.catalog();
            let full_name = format!("{keyspace}.{name}");
            if catalog.user_type(&keyspace, &name).is_none() {
                return match if_exists {
                    true => Ok(()),
                    false => Err(Error::NotFound { kind: "type", name: full_name }),
                };
            }
            let table = catalog.all_tables().find(|table| {
                table.present_columns().any(|column| column.ty.uses(&keyspace, &name))
            });
            let uses = |ty: &&UserType| ty.fields.iter().any(|(_, ty)| ty.uses(&keyspace, &name));
            let user = match table {
                Some(table) => Some(format!("table {}", table.full_name())),
                None => catalog
                    .keyspaces()
                    .flat_map(|keyspace| catalog.types(keyspace))
                    .find(uses)
                    .map(|ty| format!("type {}.{}", ty.keyspace, ty.name)),
            };
            if let Some(user) = user {
                return Err(Error::invalid(format!("type '{full_name}' is used by {user}")));
            }
            let mut changed = catalog.changed();
            changed.remove_type(&keyspace, &name);
            database.publish(changed).await
        };
        self.uninterrupted(change)
    }
}
