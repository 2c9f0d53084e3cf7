//! CREATE, ALTER and DROP SERVICE LEVEL, and what is in effect in a session or for a role.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use sqlparser::tokenizer::Token;
use tidegate_engine::config::{LEVEL_SHARES_DEFAULT, LEVEL_SHARES_MAX};
use tidegate_engine::{DEFAULT_LEVEL, EffectiveLevel, LevelOptions, Workload};

use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::{Outcome, batch, text_schema};
use crate::query::parse::{Cursor, Name};
use crate::query::session::Session;
use crate::query::setting::SERVICE_LEVEL;
use crate::query::statements::access::role_name;
use crate::query::statements::storage::io::shares;
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

/// SHOW EFFECTIVE SERVICE LEVEL: what statements of the session get, or those of a role, and who
/// says so.
#[derive(Debug)]
pub struct ShowEffective(Option<Name>);

impl Read for ShowEffective {
    /// `[OF role]`.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(ShowEffective(cursor.take_word("of").then(|| role_name(cursor)).transpose()?))
    }
}

/// Where a value comes from that nobody set.
const UNSET: &str = "default";

fn effective_schema() -> SchemaRef {
    text_schema(&["option", "value", "origin"])
}

/// Of each option its value and who says so.
type Rows = [(&'static str, (String, String)); 4];

/// A value as text, and who says so.
type Said = Option<(String, String)>;

fn effective_rows(level: (&str, String), timeout: Said, workload: Said, shares: Said) -> Rows {
    let unset = |value: &str| (value.to_owned(), UNSET.to_owned());
    let default_shares = LEVEL_SHARES_DEFAULT.to_string();
    [
        ("service_level", (level.0.to_owned(), level.1)),
        ("timeout", timeout.unwrap_or_else(|| unset("none"))),
        ("workload_type", workload.unwrap_or_else(|| unset("none"))),
        ("shares", shares.unwrap_or_else(|| unset(&default_shares))),
    ]
}

/// Of one level, which somebody named.
fn rows_of_level(name: &str, origin: String, options: &LevelOptions) -> Rows {
    let said = |set: Option<String>| Some((set?, format!("service level {name}")));
    let timeout = said(options.timeout().map(|time| format!("{time:?}")));
    let workload = said(options.workload.map(|kind| kind.to_string()));
    effective_rows((name, origin), timeout, workload, said(options.shares.map(|n| n.to_string())))
}

/// Of the levels of a role.
fn rows_of_role(effective: &EffectiveLevel, role: &str) -> Rows {
    let timeout = effective.timeout_ms.as_ref().map(|found| {
        let time = Duration::from_millis(found.value);
        (format!("{time:?}"), format!("service level {}", found.level))
    });
    let workload = effective.workload.as_ref();
    let workload =
        workload.map(|found| (found.value.to_string(), format!("service level {}", found.level)));
    let shares = effective.shares.as_ref();
    let shares =
        shares.map(|found| (found.value.to_string(), format!("service level {}", found.level)));
    let level = (effective.level.level.as_str(), format!("role {role}"));
    effective_rows(level, timeout, workload, shares)
}

impl ShowEffective {
    fn rows(&self, session: &Session) -> Result<Rows> {
        let ShowEffective(of) = self;
        if let Some(role) = of {
            session.role(role)?;
            let effective = session.database.catalog().effective_level(&role.value);
            return Ok(match effective {
                Some(effective) => rows_of_role(&effective, &role.value),
                None => rows_of_level(DEFAULT_LEVEL, UNSET.to_owned(), &LevelOptions::default()),
            });
        }
        let name = session.service_level();
        if let (true, Some(role), Some(effective)) =
            (name == DEFAULT_LEVEL, session.caller().role(), session.level_of_caller())
        {
            return Ok(rows_of_role(&effective, role));
        }
        let options = session.level(&name)?.options;
        let origin = if name == DEFAULT_LEVEL { UNSET } else { SERVICE_LEVEL };
        Ok(rows_of_level(&name, origin.to_owned(), &options))
    }
}

impl OwnStatement for ShowEffective {
    /// Everyone may look at the own one.
    fn needs(&self, session: &Session) -> Vec<Need> {
        let of = self.0.as_ref().map(|role| role.value.as_str());
        match of.is_none() || of == session.caller().role() {
            true => Vec::new(),
            false => vec![Need::view()],
        }
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let rows = self.rows(session)?;
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
