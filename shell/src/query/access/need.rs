//! What a statement needs.

use tidegate_engine::{Grant, Permission, Resource};

use crate::query::parse::TableName;
use crate::query::session::Session;

/// Something that a statement needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    Right(Grant),
    /// To be a superuser.
    Superuser,
}

impl Need {
    pub fn new(permission: Permission, resource: Resource) -> Self {
        Need::Right(Grant::new(permission, resource))
    }

    /// What statements need that concern the work of all.
    pub fn administration() -> Self {
        Need::new(Permission::Alter, Resource::Administration)
    }

    /// To see what others do.
    pub fn view() -> Self {
        Need::new(Permission::Select, Resource::Administration)
    }

    /// A right on a table.
    pub fn on_table(permission: Permission, session: &Session, table: &TableName) -> Self {
        let keyspace = session.keyspace_of(table);
        Need::new(permission, Resource::table(&keyspace, &table.table.value))
    }
}
