//! GRANT and REVOKE, of roles and of permissions.

use sqlparser::tokenizer::Token;
use tidegate_engine::{Permission, Resource};

use super::role_name;
use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::statement::is_word;
use crate::query::parse::{Cursor, Name, TableName};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};

/// A resource as a statement names it.
#[derive(Debug)]
pub enum Named {
    Table(TableName),
    /// One whose name does not depend on the session.
    Whole(Resource),
}

impl Named {
    /// `ALL KEYSPACES`, `KEYSPACE k`, `[TABLE] [k.]t`, `ADMINISTRATION` or `POLICIES`.
    pub fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        // A table may have one of these names.
        let is_bare = cursor.peek_nth(1) != Some(&Token::Period);
        if cursor.take_words(&["all", "keyspaces"]) {
            return Ok(Named::Whole(Resource::AllKeyspaces));
        }
        if is_bare && cursor.take_word("administration") {
            return Ok(Named::Whole(Resource::Administration));
        }
        if is_bare && cursor.take_word("policies") {
            return Ok(Named::Whole(Resource::Policies));
        }
        if is_bare && cursor.take_word("keyspace") {
            let keyspace = cursor.name("a keyspace name")?;
            return Ok(Named::Whole(Resource::Keyspace(keyspace.value)));
        }
        if is_bare {
            cursor.take_word("table");
        }
        Ok(Named::Table(cursor.table_name()?))
    }

    pub fn resource(&self, session: &Session) -> Resource {
        match self {
            Named::Table(name) => Resource::table(&session.keyspace_of(name), &name.table.value),
            Named::Whole(resource) => resource.clone(),
        }
    }
}

/// What is granted.
#[derive(Debug)]
enum What {
    Role(Name),
    /// All that there are where none is named.
    Permissions(Vec<Permission>, Named),
}

impl What {
    /// `permission [, …] | ALL [PERMISSIONS] ON resource`, or a role.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let is_right = cursor.rest().iter().any(|token| is_word(&token.token, "on"));
        if !is_right {
            return Ok(What::Role(role_name(cursor)?));
        }
        let permissions = match cursor.take_word("all") {
            true => Vec::new(),
            false => cursor.comma_separated(permission)?,
        };
        if !cursor.take_word("permissions") {
            cursor.take_word("permission");
        }
        cursor.expect_word("on")?;
        Ok(What::Permissions(permissions, Named::read(cursor)?))
    }

    /// Who grants a permission has it, and may hand it on.
    fn needs(&self, session: &Session) -> Vec<Need> {
        let What::Permissions(permissions, named) = self else { return vec![Need::Superuser] };
        let resource = named.resource(session);
        let granted = whole(permissions, &resource).iter().copied();
        let all = granted.chain([Permission::Authorize]);
        all.map(|permission| Need::new(permission, resource.clone())).collect()
    }
}

fn whole<'a>(permissions: &'a [Permission], resource: &Resource) -> &'a [Permission] {
    match permissions.is_empty() {
        true => resource.permissions(),
        false => permissions,
    }
}

fn permission(cursor: &mut Cursor<'_>) -> Result<Permission> {
    let found = Permission::ALL.into_iter().find(|known| cursor.take_word(known.name()));
    found.ok_or_else(|| {
        let names = Permission::ALL.map(Permission::name).join(", ");
        cursor.expected(&format!("{names} or ALL"))
    })
}

/// GRANT, or REVOKE where it does not give.
#[derive(Debug)]
pub struct Change<const GIVES: bool> {
    what: What,
    role: Name,
}

pub type Grant = Change<true>;
pub type Revoke = Change<false>;

impl<const GIVES: bool> Read for Change<GIVES> {
    /// `what TO role`, or `what FROM role`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let what = What::read(cursor)?;
        cursor.expect_word(if GIVES { "to" } else { "from" })?;
        Ok(Change { what, role: role_name(cursor)? })
    }
}

impl<const GIVES: bool> OwnStatement for Change<GIVES> {
    fn needs(&self, session: &Session) -> Vec<Need> {
        self.what.needs(session)
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let Change { what, role } = self;
        session.role(role)?;
        let (database, whose) = (&session.database, &role.value);
        let (changed, done) = match what {
            What::Role(given) => {
                session.role(given)?;
                let given = &given.value;
                let changed = match GIVES {
                    true => database.grant_role(given, whose),
                    false => database.revoke_role(given, whose),
                };
                (changed, format!("role {given}"))
            }
            What::Permissions(permissions, named) => {
                let resource = named.resource(session);
                let permissions = whole(permissions, &resource);
                let changed = match GIVES {
                    true => database.grant(permissions, &resource, whose),
                    false => database.revoke(permissions, &resource, whose),
                };
                (changed, format!("{} on {resource}", names(permissions)))
            }
        };
        changed.await.map_err(QueryError::from)?;
        let has = if GIVES { "has" } else { "is without a grant of" };
        Ok(Outcome::message(format!("Role {whose} {has} {done}.")))
    }
}

fn names(permissions: &[Permission]) -> String {
    permissions.iter().map(|permission| permission.name()).collect::<Vec<_>>().join(", ")
}
