//! LIST PERMISSIONS: what roles may do, and by which role. LIST ROLES OF: the roles that one has.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use tidegate_engine::Resource;

use super::grant::Named;
use super::{role_name, unless_own};
use crate::query::access::Need;
use crate::query::error::Result;
use crate::query::outcome::{Outcome, batch};
use crate::query::parse::{Cursor, Name};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};
use crate::query::system::access::{
    permission_columns, permission_fields, role_columns, role_fields,
};

/// `role [NORECURSIVE]`: the role and all that it has, or those that it was granted itself.
#[derive(Debug)]
pub struct ListRolesOf {
    role: Name,
    is_recursive: bool,
}

impl Read for ListRolesOf {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let role = role_name(cursor)?;
        Ok(ListRolesOf { role, is_recursive: !cursor.take_word("norecursive") })
    }
}

fn roles_schema() -> SchemaRef {
    Arc::new(Schema::new(role_fields()))
}

/// Everyone may look at what is its own.
pub(super) fn needs_of(role: Option<&Name>, session: &Session) -> Vec<Need> {
    role.map_or(vec![Need::view()], |role| unless_own(role, session, Need::view()))
}

impl OwnStatement for ListRolesOf {
    fn needs(&self, session: &Session) -> Vec<Need> {
        needs_of(Some(&self.role), session)
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        session.role(&self.role)?;
        let (catalog, name) = (session.database.catalog(), self.role.value.as_str());
        let all = catalog.roles().with_inherited(name);
        let granted = catalog.roles().get(name).map(|role| &role.roles);
        let is_wanted = |role: &str| {
            let is_own = role == name || granted.is_some_and(|granted| granted.contains(role));
            self.is_recursive || is_own
        };
        let wanted = all.into_iter().filter(|(role, _)| is_wanted(role)).collect();
        let rows = batch(roles_schema(), role_columns(wanted))?;
        Ok(Outcome::batches(roles_schema(), vec![rows]))
    }

    async fn schema(&self, _session: &Session) -> Result<SchemaRef> {
        Ok(roles_schema())
    }

    fn is_query(&self) -> bool {
        true
    }
}

/// `[ON resource] [OF role]`.
#[derive(Debug)]
pub struct ListPermissions {
    on: Option<Named>,
    of: Option<Name>,
}

impl Read for ListPermissions {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let on = cursor.take_word("on").then(|| Named::read(cursor)).transpose()?;
        let of = cursor.take_word("of").then(|| role_name(cursor)).transpose()?;
        Ok(ListPermissions { on, of })
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(permission_fields()))
}

impl OwnStatement for ListPermissions {
    fn needs(&self, session: &Session) -> Vec<Need> {
        needs_of(self.of.as_ref(), session)
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        if let Some(role) = &self.of {
            session.role(role)?;
        }
        let on = self.on.as_ref().map(|named| named.resource(session));
        // What is granted on all counts for each.
        let is_on = |granted: &Resource| on.as_ref().is_none_or(|on| granted.covers(on));
        let catalog = session.database.catalog();
        let of = self.of.as_ref().map(|role| role.value.as_str());
        let columns = permission_columns(catalog.roles(), of, is_on);
        Ok(Outcome::batches(schema(), vec![batch(schema(), columns)?]))
    }

    async fn schema(&self, _session: &Session) -> Result<SchemaRef> {
        Ok(schema())
    }

    fn is_query(&self) -> bool {
        true
    }
}
