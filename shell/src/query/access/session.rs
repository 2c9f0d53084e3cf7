//! A session asks whether its caller may.

use std::sync::Arc;

use tidegate_engine::{Grant, Permission, Resource};

use super::{AuditEvent, Caller, Need, hand_over};
use crate::password::Passwords;
use crate::query::error::{ErrorKind, QueryError, Result};
use crate::query::parse::statement::Statement;
use crate::query::parse::{Name, TableName, Write};
use crate::query::session::Session;
use crate::query::short::Short;
use crate::query::statements::Command;

impl Session {
    /// Who runs the statements of this session.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The same session for another caller.
    pub fn of_caller(self, caller: Caller) -> Session {
        let member = Arc::new(self.member.of_caller(caller.clone()));
        Session { caller, ..self.seen_as(member) }
    }

    /// Grants the caller everything on what it has made.
    ///
    /// Errors: `Io`.
    pub async fn hand_over(&self, made: &Resource) -> Result<()> {
        match self.caller.role() {
            Some(role) => hand_over(&self.database, role, made).await,
            None => Ok(()),
        }
    }

    /// Who hashes the passwords of roles.
    pub fn passwords(&self) -> &Arc<Passwords> {
        &self.options.passwords
    }

    /// Notes what concerns all: `who` did `what`.
    pub fn audit(&self, event: AuditEvent, who: &str, what: &str) {
        let at_us = self.database.clock().wall_us();
        self.options.journal.audit().add(at_us, event, (who, what), None);
    }

    /// Notes a statement that concerns all, with its end.
    pub(in crate::query) fn audit_statement<T>(&self, statement: &Statement, ended: &Result<T>) {
        if let Some(event) = AuditEvent::of(statement) {
            self.audit_ended(event, statement.text(), ended);
        }
    }

    /// Notes what the caller did that concerns all, with its end.
    pub(in crate::query) fn audit_ended<T>(
        &self,
        event: AuditEvent,
        what: &str,
        ended: &Result<T>,
    ) {
        let at_us = self.database.clock().wall_us();
        let what = (self.caller.name(), what);
        self.options.journal.audit().add(at_us, event, what, ended.as_ref().err());
    }

    /// The keyspace that a name says or leaves out.
    pub fn keyspace_of(&self, name: &TableName) -> String {
        match &name.keyspace {
            Some(keyspace) => keyspace.value.clone(),
            None => self.keyspace(),
        }
    }

    /// Errors: `NotFound` at the name of a role that does not exist.
    pub fn role(&self, name: &Name) -> Result<()> {
        let catalog = self.database.catalog();
        match catalog.roles().get(&name.value) {
            Some(_) => Ok(()),
            None => {
                let known = catalog.roles().iter().map(|(name, _)| name);
                Err(QueryError::not_found("role", &name.value, known).at(name.span))
            }
        }
    }

    /// Errors: `Denied` where the caller lacks something of this.
    pub fn allow(&self, needs: &[Need]) -> Result<()> {
        let Caller::Role(name) = &self.caller else { return Ok(()) };
        let catalog = self.database.catalog();
        let roles = catalog.roles();
        if roles.get(name).is_none() {
            let message = format!("role '{name}' is gone");
            return Err(QueryError::new(ErrorKind::Denied, message)
                .with_help("log in as another one, or have it created again"));
        }
        for need in needs {
            match need {
                Need::Right(Grant { permission, resource }) => {
                    if !roles.may(name, *permission, resource) {
                        return Err(lacks(name, *permission, resource));
                    }
                }
                Need::Superuser if roles.is_superuser(name) => {}
                Need::Superuser => {
                    let message = format!("role '{name}' may not do this: it is no superuser");
                    return Err(QueryError::new(ErrorKind::Denied, message)
                        .with_help("roles are made, changed and granted by superusers"));
                }
            }
        }
        Ok(())
    }

    /// Errors: `Denied` where the caller lacks what a statement needs. What a query reads follows
    /// from its plan.
    pub(in crate::query) fn allow_command(&self, command: &Command) -> Result<()> {
        if self.caller == Caller::Owner {
            return Ok(());
        }
        let needs = match command {
            Command::Query(_) => Vec::new(),
            Command::Write(write) | Command::ExplainWrite(write) => self.needs_of_write(write),
            Command::Batch(batch) => {
                batch.writes.iter().flat_map(|write| self.needs_of_write(write)).collect()
            }
            Command::Own(own) => own.needs(self),
        };
        self.allow(&needs)
    }

    /// A condition tells what is in a row.
    fn needs_of_write(&self, write: &Write) -> Vec<Need> {
        let reads = write.condition.as_ref().map(|_| Permission::Select);
        let permissions = [Some(Permission::Modify), reads].into_iter().flatten();
        permissions.map(|one| Need::on_table(one, self, &write.table)).collect()
    }

    /// Errors: `Denied` where the caller lacks what a statement of the short path needs.
    pub(in crate::query) fn allow_short(&self, short: &Short) -> Result<()> {
        if self.caller == Caller::Owner {
            return Ok(());
        }
        let needs: Vec<Need> = short.grants().iter().cloned().map(Need::Right).collect();
        self.allow(&needs)
    }
}

fn lacks(role: &str, permission: Permission, resource: &Resource) -> QueryError {
    let message = format!("role '{role}' may not do this: it has no {permission} on {resource}");
    QueryError::new(ErrorKind::Denied, message).with_help(format!(
        "a superuser, or who has AUTHORIZE there, can say: GRANT {permission} ON {resource} TO {role}"
    ))
}
