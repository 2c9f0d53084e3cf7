//! CREATE, ALTER and DROP SERVICE LEVEL, and what is in effect in a session.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use sqlparser::tokenizer::Token;
use tidegate_engine::config::{LEVEL_SHARES_DEFAULT, LEVEL_SHARES_MAX};
use tidegate_engine::{DEFAULT_LEVEL, LevelOptions, Workload};

use crate::query::error::{QueryError, Result};
use crate::query::outcome::{Outcome, batch, text_schema};
use crate::query::parse::{Cursor, Name};
use crate::query::session::Session;
use crate::query::setting::SERVICE_LEVEL;
use crate::query::statements::io::shares;
use crate::query::statements::{OwnStatement, Read};

/// What the options are called.
pub const OPTIONS: &[&str] = &["shares", "timeout", "workload_type"];

/// What a statement says of a level; an option that it does not name stays as it is.
#[derive(Debug, Clone, Copy, Default)]
struct Changes {
    timeout_ms: Option<Option<u64>>,
    workload: Option<Option<Workload>>,
    shares: Option<Option<u32>>,
}

impl Changes {
    /// `timeout = 50ms AND workload_type = 'interactive' AND shares = 200`; NULL takes one away.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let mut changes = Changes::default();
        loop {
            let span = cursor.span();
            let option = cursor.name("an option of a service level")?;
            cursor.expect(&Token::Eq)?;
            let is_set = !cursor.take_word("null");
            let repeated = match option.value.as_str() {
                "timeout" => {
                    let timeout = is_set.then(|| timeout_ms(cursor)).transpose()?;
                    changes.timeout_ms.replace(timeout).is_some()
                }
                "workload_type" => {
                    let workload = is_set.then(|| workload(cursor)).transpose()?;
                    changes.workload.replace(workload).is_some()
                }
                "shares" => {
                    let shares = is_set.then(|| shares(cursor, LEVEL_SHARES_MAX)).transpose()?;
                    changes.shares.replace(shares).is_some()
                }
                other => {
                    let known = OPTIONS.iter().copied();
                    let error = QueryError::not_found("option of a service level", other, known);
                    return Err(error.at(span));
                }
            };
            if repeated {
                let message = format!("{} is said twice", option.value);
                return Err(QueryError::invalid(message).at(span));
            }
            if !cursor.take_word("and") {
                return Ok(changes);
            }
        }
    }

    fn apply(self, options: &mut LevelOptions) {
        options.timeout_ms = self.timeout_ms.unwrap_or(options.timeout_ms);
        options.workload = self.workload.unwrap_or(options.workload);
        options.shares = self.shares.unwrap_or(options.shares);
    }
}

/// Errors: `Syntax`, or `Invalid` for parts of a millisecond.
fn timeout_ms(cursor: &mut Cursor<'_>) -> Result<u64> {
    let span = cursor.span();
    let timeout = cursor.duration()?;
    let ms = u64::try_from(timeout.as_millis()).ok().filter(|ms| *ms > 0);
    ms.filter(|ms| Duration::from_millis(*ms) == timeout).ok_or_else(|| {
        let message = format!("a timeout is a whole number of milliseconds, not {timeout:?}");
        QueryError::invalid(message).at(span).with_help("timeout = NULL takes it away")
    })
}

fn workload(cursor: &mut Cursor<'_>) -> Result<Workload> {
    let (text, span) = cursor.string("'interactive' or 'batch'")?;
    text.parse().map_err(|error| QueryError::from(error).at(span))
}

fn level_name(cursor: &mut Cursor<'_>) -> Result<Name> {
    cursor.name("the name of a service level")
}

#[derive(Debug)]
pub struct CreateServiceLevel {
    name: Name,
    changes: Changes,
    if_not_exists: bool,
}

impl Read for CreateServiceLevel {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
        let name = level_name(cursor)?;
        let is_told = cursor.take_word("with");
        let changes = if is_told { Changes::read(cursor)? } else { Changes::default() };
        Ok(CreateServiceLevel { name, changes, if_not_exists })
    }
}

#[async_trait]
impl OwnStatement for CreateServiceLevel {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let CreateServiceLevel { name, changes, if_not_exists } = self;
        let mut options = LevelOptions::default();
        changes.apply(&mut options);
        let create = session.database.create_service_level(&name.value, options, *if_not_exists);
        create.await.map_err(|error| QueryError::from(error).at(name.span))?;
        Ok(Outcome::message(format!("Service level {} is there.", name.value)))
    }
}

#[derive(Debug)]
pub struct AlterServiceLevel {
    name: Name,
    changes: Changes,
}

impl Read for AlterServiceLevel {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let name = level_name(cursor)?;
        cursor.expect_word("with")?;
        Ok(AlterServiceLevel { name, changes: Changes::read(cursor)? })
    }
}

#[async_trait]
impl OwnStatement for AlterServiceLevel {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let AlterServiceLevel { name, changes } = self;
        session.level(&name.value).map_err(|error| error.at(name.span))?;
        let changes = *changes;
        let change = move |options: &mut LevelOptions| changes.apply(options);
        let altered = session.database.alter_service_level(&name.value, change).await;
        let options = altered.map_err(|error| QueryError::from(error).at(name.span))?;
        let said = [
            options.timeout().map(|timeout| format!("timeout {timeout:?}")),
            options.workload.map(|workload| format!("workload type {workload}")),
            Some(format!("{} shares", options.shares())),
        ];
        let said: Vec<String> = said.into_iter().flatten().collect();
        Ok(Outcome::message(format!("Service level {} has {}.", name.value, said.join(", "))))
    }
}

#[derive(Debug)]
pub struct DropServiceLevel {
    name: Name,
    if_exists: bool,
}

impl Read for DropServiceLevel {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Ok(DropServiceLevel { name: level_name(cursor)?, if_exists })
    }
}

#[async_trait]
impl OwnStatement for DropServiceLevel {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let DropServiceLevel { name, if_exists } = self;
        if !if_exists {
            session.level(&name.value).map_err(|error| error.at(name.span))?;
        }
        let dropped = session.database.drop_service_level(&name.value, *if_exists).await;
        dropped.map_err(|error| QueryError::from(error).at(name.span))?;
        Ok(Outcome::message(format!("Service level {} is gone.", name.value)))
    }
}

/// SHOW EFFECTIVE SERVICE LEVEL: what statements of the session get, and who says so.
#[derive(Debug)]
pub struct ShowEffective;

impl Read for ShowEffective {
    fn read(_cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(ShowEffective)
    }
}

/// Where a value comes from that nobody set.
const UNSET: &str = "default";

fn effective_schema() -> SchemaRef {
    text_schema(&["option", "value", "origin"])
}

#[async_trait]
impl OwnStatement for ShowEffective {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let name = session.service_level();
        let options = session.level(&name)?.options;
        let of = |set: Option<String>, unset: (&str, &str)| match set {
            Some(value) => (value, format!("service level {name}")),
            None => (unset.0.to_owned(), unset.1.to_owned()),
        };
        let named = if name == DEFAULT_LEVEL { UNSET } else { SERVICE_LEVEL };
        let default_shares = LEVEL_SHARES_DEFAULT.to_string();
        let rows = [
            ("service_level", (name.clone(), named.to_owned())),
            ("timeout", of(options.timeout().map(|time| format!("{time:?}")), ("none", UNSET))),
            ("workload_type", of(options.workload.map(|kind| kind.to_string()), ("none", UNSET))),
            ("shares", of(options.shares.map(|n| n.to_string()), (&default_shares, UNSET))),
        ];
        let texts = |of: fn(&(&str, (String, String))) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
        };
        let columns = vec![
            texts(|(option, _)| (*option).to_owned()),
            texts(|(_, (value, _))| value.clone()),
            texts(|(_, (_, origin))| origin.clone()),
        ];
        let rows = batch(effective_schema(), columns)?;
        Ok(Outcome::batches(effective_schema(), vec![rows]))
    }

    async fn schema(&self, _session: &Session) -> Result<SchemaRef> {
        Ok(effective_schema())
    }

    fn is_query(&self) -> bool {
        true
    }
}
