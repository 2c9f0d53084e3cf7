//! The service level of a caller.

use tidegate_engine::{EffectiveLevel, Permission, Resource};

use super::Caller;
use crate::query::error::{ErrorKind, QueryError, Result};
use crate::query::session::Session;

impl Session {
    /// The service level of the caller's role; `None` where none is attached to it.
    pub(in crate::query) fn level_of_caller(&self) -> Option<EffectiveLevel> {
        let role = self.caller().role()?;
        self.database.catalog().effective_level(role)
    }

    /// Whether the caller's statements may run under a service level that they or the session name:
    /// a role that has levels keeps to them, else they would hold nobody back.
    ///
    /// Errors: `Denied`.
    pub(in crate::query) fn allow_level(&self, name: &str) -> Result<()> {
        let Caller::Role(role) = self.caller() else { return Ok(()) };
        let catalog = self.database.catalog();
        let roles = catalog.roles();
        let inherited = roles.with_inherited(role);
        let mut own =
            inherited.values().filter_map(|role| role.service_level.as_deref()).peekable();
        let is_free = own.peek().is_none() || own.any(|level| level == name);
        if is_free || roles.may(role, Permission::Alter, &Resource::Administration) {
            return Ok(());
        }
        let message = format!("role '{role}' may not use service level '{name}'");
        let help = "SHOW EFFECTIVE SERVICE LEVEL says which one it has";
        Err(QueryError::new(ErrorKind::Denied, message).with_help(help))
    }
}
