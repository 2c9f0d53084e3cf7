//! Who runs statements.

use std::sync::Arc;

use tidegate_engine::{Database, Resource};

use crate::query::error::Result;

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Caller {
    /// Whoever has the data directory: may do everything, whatever roles there are.
    #[default]
    Owner,
    /// A role, by its name.
    Role(Arc<str>),
}

impl Caller {
    /// The role; `None` for the owner.
    pub fn role(&self) -> Option<&str> {
        match self {
            Caller::Owner => None,
            Caller::Role(name) => Some(name),
        }
    }

    /// How logs and errors name who it is.
    pub fn name(&self) -> &str {
        self.role().unwrap_or("owner")
    }
}

/// Grants a role everything on what it has made.
///
/// Errors: `Io`.
pub(in crate::query) async fn hand_over(
    database: &Database,
    role: &str,
    made: &Resource,
) -> Result<()> {
    // A superuser needs none.
    if !database.catalog().roles().is_superuser(role) {
        database.grant(made.permissions(), made, role).await?;
    }
    Ok(())
}
