//! CREATE, DROP and LIST TOKEN: what a program sends in place of a password.
//!
//! Invariant: the text of a token is in the answer of CREATE TOKEN, and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use tidegate_engine::{AccessToken, Error};

use super::list::needs_of;
use super::{name_or_string, role_name, unless_own};
use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::{Outcome, batch};
use crate::query::parse::{Cursor, Name};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};
use crate::query::system::access::{token_columns, token_fields};
use crate::token;

/// `name OF role`.
#[derive(Debug)]
struct Whose {
    token: Name,
    role: Name,
}

impl Whose {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let token = name_or_string(cursor, "the name of a token")?;
        if !cursor.take_word("for") {
            cursor.expect_word("of")?;
        }
        cursor.take_word("role");
        Ok(Whose { token, role: role_name(cursor)? })
    }

    /// Everyone may make and drop tokens of the own role.
    fn needs(&self, session: &Session) -> Vec<Need> {
        unless_own(&self.role, session, Need::Superuser)
    }

    /// An error of the role or of the token, at its place.
    fn wrong(&self, error: Error) -> QueryError {
        QueryError::from(error).at(self.token.span)
    }
}

#[derive(Debug)]
pub struct CreateToken {
    whose: Whose,
    /// For ever without one.
    valid: Option<Duration>,
}

impl Read for CreateToken {
    /// `name OF role [VALID FOR 90d]`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let whose = Whose::read(cursor)?;
        let is_bounded = cursor.take_words(&["valid", "for"]);
        let span = cursor.span();
        let valid = is_bounded.then(|| cursor.duration()).transpose()?;
        if valid.is_some_and(|valid| valid.is_zero()) {
            return Err(QueryError::invalid("a token that never holds is of no use").at(span));
        }
        Ok(CreateToken { whose, valid })
    }
}

impl OwnStatement for CreateToken {
    fn needs(&self, session: &Session) -> Vec<Need> {
        self.whose.needs(session)
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let CreateToken { whose, valid } = self;
        session.role(&whose.role)?;
        let (role, name) = (&whose.role.value, &whose.token.value);
        let (text, digest) = token::new(role, name).map_err(QueryError::invalid)?;
        let created_us = session.database.clock().wall_us();
        let valid_us = valid.map(|valid| i64::try_from(valid.as_micros()).unwrap_or(i64::MAX));
        let expires_us = valid_us.map(|valid_us| created_us.saturating_add(valid_us));
        let made = AccessToken { digest, created_us, expires_us };
        let created = session.database.create_token(role, name, made).await;
        created.map_err(|error| whose.wrong(error))?;
        Ok(Outcome::message(format!(
            "{text}\nThis is token {name} of role {role}. It is told only now: send it as \
             'authorization: Bearer {}…'.",
            &text[..text.len().min(8)]
        )))
    }
}

#[derive(Debug)]
pub struct DropToken {
    whose: Whose,
    if_exists: bool,
}

impl Read for DropToken {
    /// `[IF EXISTS] name OF role`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Ok(DropToken { whose: Whose::read(cursor)?, if_exists })
    }
}

impl OwnStatement for DropToken {
    fn needs(&self, session: &Session) -> Vec<Need> {
        self.whose.needs(session)
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let DropToken { whose, if_exists } = self;
        session.role(&whose.role)?;
        let (role, name) = (&whose.role.value, &whose.token.value);
        let dropped = session.database.drop_token(role, name, *if_exists).await;
        dropped.map_err(|error| whose.wrong(error))?;
        Ok(Outcome::message(format!("Token {name} of role {role} is gone.")))
    }
}

/// `[OF role]`.
#[derive(Debug)]
pub struct ListTokens(Option<Name>);

impl Read for ListTokens {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(ListTokens(cursor.take_word("of").then(|| role_name(cursor)).transpose()?))
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(token_fields()))
}

impl OwnStatement for ListTokens {
    fn needs(&self, session: &Session) -> Vec<Need> {
        needs_of(self.0.as_ref(), session)
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let ListTokens(role) = self;
        if let Some(role) = role {
            session.role(role)?;
        }
        let catalog = session.database.catalog();
        let is_wanted = |name: &str| role.as_ref().is_none_or(|role| role.value == name);
        let roles = catalog.roles().iter().filter(|(name, _)| is_wanted(name)).collect();
        Ok(Outcome::batches(schema(), vec![batch(schema(), token_columns(roles))?]))
    }

    async fn schema(&self, _session: &Session) -> Result<SchemaRef> {
        Ok(schema())
    }

    fn is_query(&self) -> bool {
        true
    }
}
