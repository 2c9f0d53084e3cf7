//! ATTACH and DETACH SERVICE LEVEL: which level the statements of a role run under.

use super::role_name;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, Name};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};

/// `level TO role`.
#[derive(Debug)]
pub struct AttachLevel {
    level: Name,
    role: Name,
}

impl Read for AttachLevel {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let level = cursor.name("the name of a service level")?;
        cursor.expect_word("to")?;
        Ok(AttachLevel { level, role: role_name(cursor)? })
    }
}

impl OwnStatement for AttachLevel {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let AttachLevel { level, role } = self;
        session.level(&level.value).map_err(|error| error.at(level.span))?;
        session.role(role)?;
        let (level, role) = (&level.value, &role.value);
        let attached = session.database.attach_service_level(Some(level), role).await;
        attached.map_err(QueryError::from)?;
        Ok(Outcome::message(format!("Role {role} has service level {level}.")))
    }
}

/// `FROM role`.
#[derive(Debug)]
pub struct DetachLevel(Name);

impl Read for DetachLevel {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        cursor.expect_word("from")?;
        Ok(DetachLevel(role_name(cursor)?))
    }
}

impl OwnStatement for DetachLevel {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let DetachLevel(role) = self;
        session.role(role)?;
        let detached = session.database.attach_service_level(None, &role.value).await;
        detached.map_err(QueryError::from)?;
        Ok(Outcome::message(format!("Role {} has no service level of its own.", role.value)))
    }
}
