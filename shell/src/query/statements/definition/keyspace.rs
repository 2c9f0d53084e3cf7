//! CREATE KEYSPACE, DROP KEYSPACE and USE.

use tidegate_engine::{Permission, Resource};

use super::foreign::Ignored;
use crate::query::access::Need;
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, Name};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};

#[derive(Debug)]
pub struct CreateKeyspace {
    name: Name,
    if_not_exists: bool,
    ignored: Ignored,
}

impl Read for CreateKeyspace {
    /// `[IF NOT EXISTS] name [WITH option = value [AND …]]`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
        let name = cursor.name("a keyspace name")?;
        let mut ignored = Ignored::default();
        if cursor.take_word("with") {
            ignored.take_keyspace_options(cursor)?;
        }
        Ok(CreateKeyspace { name, if_not_exists, ignored })
    }
}

impl OwnStatement for CreateKeyspace {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        vec![Need::new(Permission::Create, Resource::AllKeyspaces)]
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let CreateKeyspace { name, if_not_exists, ignored } = self;
        let is_new = !session.database.catalog().has_keyspace(&name.value);
        session.database.create_keyspace(&name.value, *if_not_exists).await?;
        if !is_new {
            return Ok(Outcome::message(format!("Keyspace {} exists already.", name.value)));
        }
        session.hand_over(&Resource::keyspace(&name.value)).await?;
        let created = Outcome::message(format!("Keyspace {} created.", name.value));
        Ok(ignored.noted(created, "one node keeps all data, and every write is logged"))
    }
}

#[derive(Debug)]
pub struct DropKeyspace {
    name: Name,
    if_exists: bool,
}

impl Read for DropKeyspace {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Ok(DropKeyspace { name: cursor.name("a keyspace name")?, if_exists })
    }
}

impl OwnStatement for DropKeyspace {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        vec![Need::new(Permission::Drop, Resource::keyspace(&self.name.value))]
    }

    /// A session that used the keyspace uses the default one from then on.
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let DropKeyspace { name, if_exists } = self;
        let is_there = session.database.catalog().has_keyspace(&name.value);
        session.database.drop_keyspace(&name.value, *if_exists).await?;
        if session.keyspace() == name.value {
            session.set_keyspace("default")?;
        }
        Ok(Outcome::message(match is_there {
            true => format!("Keyspace {} dropped.", name.value),
            false => format!("There is no keyspace {}.", name.value),
        }))
    }
}

#[derive(Debug)]
pub struct Use(Name);

impl Read for Use {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Use(cursor.name("a keyspace name")?))
    }
}

impl OwnStatement for Use {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        Vec::new()
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let Use(name) = self;
        session.set_keyspace(&name.value).map_err(|error| error.at(name.span))?;
        Ok(Outcome::message(format!("Using keyspace {}.", name.value)))
    }
}
