//! Statements about roles: what they are, what they may do, how somebody comes as one, and which
//! service level they have.

pub mod grant;
pub mod level;
pub mod list;
pub mod role;
pub mod token;

use sqlparser::tokenizer::Token;

use crate::query::error::Result;
use crate::query::parse::{Cursor, Name};

/// The name of a role: a name, or a string as Cassandra takes it too.
pub fn role_name(cursor: &mut Cursor<'_>) -> Result<Name> {
    const WHAT: &str = "the name of a role";
    match cursor.peek() {
        Some(Token::SingleQuotedString(_)) => {
            let (value, span) = cursor.string(WHAT)?;
            Ok(Name { value, span })
        }
        _ => cursor.name(WHAT),
    }
}
