//! Statements about roles: what they are, what they may do, how somebody comes as one, and which
//! service level they have.

pub mod grant;
pub mod level;
pub mod list;
pub mod role;
pub mod token;

use sqlparser::tokenizer::Token;

use crate::query::access::Need;
use crate::query::error::Result;
use crate::query::parse::{Cursor, Name};
use crate::query::session::Session;

/// The name of a role: a name, or a string as Cassandra takes it too.
pub fn role_name(cursor: &mut Cursor<'_>) -> Result<Name> {
    name_or_string(cursor, "the name of a role")
}

/// A name, or one in quotes.
fn name_or_string(cursor: &mut Cursor<'_>, what: &str) -> Result<Name> {
    match cursor.peek() {
        Some(Token::SingleQuotedString(_)) => {
            let (value, span) = cursor.string(what)?;
            Ok(Name { value, span })
        }
        _ => cursor.name(what),
    }
}

/// What somebody needs who is not this role: everyone may do some things to the own one.
fn unless_own(role: &Name, session: &Session, need: Need) -> Vec<Need> {
    match session.caller().role() == Some(role.value.as_str()) {
        true => Vec::new(),
        false => vec![need],
    }
}
