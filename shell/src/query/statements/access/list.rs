//! LIST PERMISSIONS: what roles may do, and by which role.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use tidegate_engine::Resource;

use super::grant::Named;
use super::role_name;
use crate::query::access::Need;
use crate::query::error::Result;
use crate::query::outcome::{Outcome, batch};
use crate::query::parse::{Cursor, Name};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};
use crate::query::system::access::{permission_columns, permission_fields};

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

#[async_trait]
impl OwnStatement for ListPermissions {
    /// Everyone may look at the own ones.
    fn needs(&self, session: &Session) -> Vec<Need> {
        let of = self.of.as_ref().map(|role| role.value.as_str());
        match of.is_some() && of == session.caller().role() {
            true => Vec::new(),
            false => vec![Need::view()],
        }
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
