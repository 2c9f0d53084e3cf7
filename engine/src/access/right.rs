//! Permissions, what they are on, and what covers what.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What somebody may do to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    /// Grant to others what one may do oneself.
    Authorize,
}

impl Permission {
    pub const ALL: [Permission; 6] = [
        Permission::Create,
        Permission::Alter,
        Permission::Drop,
        Permission::Select,
        Permission::Modify,
        Permission::Authorize,
    ];

    /// As statements have it.
    pub fn name(self) -> &'static str {
        match self {
            Permission::Create => "CREATE",
            Permission::Alter => "ALTER",
            Permission::Drop => "DROP",
            Permission::Select => "SELECT",
            Permission::Modify => "MODIFY",
            Permission::Authorize => "AUTHORIZE",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What permissions are on. A table is covered by its keyspace, and each keyspace by all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    AllKeyspaces,
    Keyspace(String),
    Table {
        keyspace: String,
        name: String,
    },
    /// What concerns the work of all: caches, flushes, service levels, statements of others.
    Administration,
    /// Policies: creating, dropping, and putting them in charge.
    Policies,
}

impl Resource {
    pub fn keyspace(keyspace: &str) -> Self {
        Resource::Keyspace(keyspace.to_owned())
    }

    pub fn table(keyspace: &str, name: &str) -> Self {
        Resource::Table { keyspace: keyspace.to_owned(), name: name.to_owned() }
    }

    /// Whether a permission on this one is one on `other` as well.
    pub fn covers(&self, other: &Resource) -> bool {
        match (self, other) {
            (Resource::AllKeyspaces, Resource::Keyspace(_) | Resource::Table { .. }) => true,
            (Resource::Keyspace(own), Resource::Table { keyspace, .. }) => own == keyspace,
            _ => self == other,
        }
    }

    /// The permissions that there are on it.
    pub fn permissions(&self) -> &'static [Permission] {
        use Permission::{Alter, Authorize, Create, Drop, Modify, Select};
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) => &Permission::ALL,
            Resource::Table { .. } => &[Alter, Drop, Select, Modify, Authorize],
            Resource::Administration => &[Alter, Select, Authorize],
            Resource::Policies => &[Create, Alter, Drop, Authorize],
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::AllKeyspaces => f.write_str("ALL KEYSPACES"),
            Resource::Keyspace(keyspace) => write!(f, "KEYSPACE {keyspace}"),
            Resource::Table { keyspace, name } => write!(f, "TABLE {keyspace}.{name}"),
            Resource::Administration => f.write_str("ADMINISTRATION"),
            Resource::Policies => f.write_str("POLICIES"),
        }
    }
}

/// A permission on a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Grant {
    pub resource: Resource,
    pub permission: Permission,
}

impl Grant {
    pub fn new(permission: Permission, resource: Resource) -> Self {
        Grant { resource, permission }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.permission, self.resource)
    }
}
