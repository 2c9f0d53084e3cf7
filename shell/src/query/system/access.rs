//! The tables `system.roles`, `system.permissions`, `system.tokens` and `system.audit`: who may do
//! what, how programs come as somebody, and who did what concerns all.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, StringArray, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Field};
use tidegate_engine::{AccessToken, Grant, Resource, Role, Roles};

use super::columns::{count, counts, moment, optional, text, texts};
use crate::query::access::AuditRecord;
use crate::query::engine::Engine;

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Roles,
    Permissions,
    Tokens,
    Audit,
}

impl Access {
    pub fn name(self) -> &'static str {
        match self {
            Access::Roles => "roles",
            Access::Permissions => "permissions",
            Access::Tokens => "tokens",
            Access::Audit => "audit",
        }
    }

    pub fn fields(self) -> Vec<Field> {
        match self {
            Access::Roles => role_fields(),
            Access::Permissions => permission_fields(),
            Access::Tokens => token_fields(),
            Access::Audit => audit_fields(),
        }
    }

    pub fn columns(self, database: &Engine) -> Vec<ArrayRef> {
        let catalog = database.catalog();
        match self {
            Access::Roles => role_columns(catalog.roles().iter().collect()),
            Access::Permissions => permission_columns(catalog.roles(), None, |_| true),
            Access::Tokens => token_columns(catalog.roles().iter().collect()),
            Access::Audit => audit_columns(&database.journal().audit().all()),
        }
    }
}

/// A row a role. Of a password it says whether there is one.
pub fn role_fields() -> Vec<Field> {
    let flag = |name: &str| Field::new(name, DataType::Boolean, false);
    vec![
        text("role"),
        flag("login"),
        flag("superuser"),
        flag("has_password"),
        text("roles"),
        optional("service_level", DataType::Utf8),
    ]
}

/// Those of these roles.
pub fn role_columns(roles: Vec<(&str, &Role)>) -> Vec<ArrayRef> {
    let flags = |of: fn(&Role) -> bool| -> ArrayRef {
        Arc::new(roles.iter().map(|(_, role)| Some(of(role))).collect::<BooleanArray>())
    };
    let has = |role: &Role| role.roles.iter().cloned().collect::<Vec<_>>().join(", ");
    let level = |role: &Role| role.service_level.clone();
    vec![
        texts(roles.iter().map(|(name, _)| *name)),
        flags(|role| role.options.login),
        flags(|role| role.options.superuser),
        flags(|role| role.options.password.is_some()),
        texts(roles.iter().map(|(_, role)| has(role))),
        Arc::new(roles.iter().map(|(_, role)| level(role)).collect::<StringArray>()),
    ]
}

/// A row a permission that was granted.
pub fn permission_fields() -> Vec<Field> {
    vec![text("role"), text("resource"), text("permission")]
}

/// Those of a role and of all that it has, or of all roles; a superuser has none of its own.
pub fn permission_columns(
    roles: &Roles,
    of: Option<&str>,
    is_on: impl Fn(&Resource) -> bool,
) -> Vec<ArrayRef> {
    let of: Vec<(&str, &Role)> = match of {
        Some(name) => roles.with_inherited(name).into_iter().collect(),
        None => roles.iter().collect(),
    };
    let all: Vec<(&str, &Grant)> = of
        .into_iter()
        .flat_map(|(name, role)| role.grants.iter().map(move |grant| (name, grant)))
        .filter(|(_, grant)| is_on(&grant.resource))
        .collect();
    vec![
        texts(all.iter().map(|(name, _)| *name)),
        texts(all.iter().map(|(_, grant)| grant.resource.to_string())),
        texts(all.iter().map(|(_, grant)| grant.permission.name())),
    ]
}

/// A row a token. The text of a token is told to whoever makes it, and kept nowhere.
pub fn token_fields() -> Vec<Field> {
    vec![
        text("role"),
        text("token"),
        Field::new("created_at", moment(), false),
        Field::new("expires_at", moment(), true),
    ]
}

/// Those of these roles.
pub fn token_columns(roles: Vec<(&str, &Role)>) -> Vec<ArrayRef> {
    let of_role = |(role, of): (&'_ str, &'_ Role)| -> Vec<_> {
        let tokens = of.tokens.iter();
        let token = |(name, token): (&String, &AccessToken)| {
            (role.to_owned(), name.clone(), token.created_us, token.expires_us)
        };
        tokens.map(token).collect()
    };
    let all: Vec<_> = roles.into_iter().flat_map(of_role).collect();
    let moments = |of: Vec<Option<i64>>| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(of).with_timezone("UTC"))
    };
    vec![
        texts(all.iter().map(|(role, ..)| role.as_str())),
        texts(all.iter().map(|(_, name, ..)| name.as_str())),
        moments(all.iter().map(|(_, _, created_us, _)| Some(*created_us)).collect()),
        moments(all.iter().map(|(.., expires_us)| *expires_us).collect()),
    ]
}

/// A row for each thing that was done.
fn audit_fields() -> Vec<Field> {
    vec![
        count("number"),
        Field::new("at", moment(), false),
        text("event"),
        text("who"),
        text("what"),
        optional("error", DataType::Utf8),
    ]
}

fn audit_columns(all: &[AuditRecord]) -> Vec<ArrayRef> {
    let at = TimestampMicrosecondArray::from_iter_values(all.iter().map(|record| record.at_us));
    vec![
        counts(all.iter().map(|record| record.number)),
        Arc::new(at.with_timezone("UTC")),
        texts(all.iter().map(|record| record.event.name())),
        texts(all.iter().map(|record| record.who.as_str())),
        texts(all.iter().map(|record| record.what.as_str())),
        Arc::new(all.iter().map(|record| record.error.as_deref()).collect::<StringArray>()),
    ]
}
