//! ALTER IO CLASS: how much of the disk a class of requests gets beside others, and at most.

use sqlparser::tokenizer::Token;
use tidegate_engine::config::IO_SHARES_MAX;
use tidegate_engine::io::Class;

use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::Cursor;
use crate::query::session::Session;
use crate::query::statements::cache::size;
use crate::query::statements::{OwnStatement, Read};

/// What is set of a class; `None` stays as it is.
#[derive(Debug)]
pub struct AlterIoClass {
    class: Class,
    shares: Option<u32>,
    bandwidth: Option<Bandwidth>,
}

#[derive(Debug, Clone, Copy)]
enum Bandwidth {
    Unlimited,
    /// A second, of all shards.
    Bytes(u64),
}

/// Names of all classes.
pub const CLASSES: &[&str] = &["commitlog", "compaction", "flush", "maintenance", "query"];

impl Read for AlterIoClass {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let name = cursor.name("a class of I/O")?;
        let class = name.value.parse::<Class>().map_err(|_| {
            let error = QueryError::not_found("class of I/O", &name.value, CLASSES.iter().copied());
            error.at(name.span)
        })?;
        cursor.expect_word("set")?;
        let mut read = AlterIoClass { class, shares: None, bandwidth: None };
        loop {
            if cursor.take_word("shares") {
                cursor.take(&Token::Eq);
                read.shares = Some(shares(cursor, IO_SHARES_MAX)?);
            } else if cursor.take_word("bandwidth") {
                read.bandwidth = Some(bandwidth(cursor)?);
            } else {
                return Err(cursor.expected("SHARES or BANDWIDTH"));
            }
            if !cursor.take(&Token::Comma) && !cursor.take_word("and") {
                return Ok(read);
            }
        }
    }
}

/// Shares, 1 to `most`.
///
/// Errors: `Syntax`, or `Invalid` for other numbers.
pub fn shares(cursor: &mut Cursor<'_>, most: u32) -> Result<u32> {
    let span = cursor.span();
    let number = cursor.number("a number of shares")?;
    let shares = u32::try_from(number).ok().filter(|shares| (1..=most).contains(shares));
    let wrong = || QueryError::invalid(format!("shares are 1 to {most}, not {number}")).at(span);
    shares.ok_or_else(wrong)
}

fn bandwidth(cursor: &mut Cursor<'_>) -> Result<Bandwidth> {
    cursor.take(&Token::Eq);
    if cursor.take_word("none") {
        return Ok(Bandwidth::Unlimited);
    }
    let span = cursor.span();
    match size(cursor)? {
        0 => Err(QueryError::invalid("a class without bandwidth would wait for ever")
            .at(span)
            .with_help("NONE takes the limit away")),
        bytes => Ok(Bandwidth::Bytes(bytes as u64)),
    }
}

impl OwnStatement for AlterIoClass {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let AlterIoClass { class, shares, bandwidth } = *self;
        let change = session.database.alter_io_class(class, move |settings| {
            settings.shares = shares.unwrap_or(settings.shares);
            match bandwidth {
                Some(Bandwidth::Unlimited) => settings.bandwidth = None,
                Some(Bandwidth::Bytes(bytes)) => settings.bandwidth = Some(bytes),
                None => {}
            }
        });
        let settings = change.await?;
        let limit = match settings.bandwidth {
            Some(bytes) => format!(", at most {bytes} bytes a second"),
            None => String::new(),
        };
        let (class, shares) = (class.name(), settings.shares);
        Ok(Outcome::message(format!("I/O class {class} has {shares} shares{limit}.")))
    }
}
