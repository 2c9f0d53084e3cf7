//! ALTER CACHE: which policy decides for the caches, what they keep and how much; INVALIDATE CACHE.

use sqlparser::tokenizer::Token;
use tidegate_engine::{Permission, Resource};

use super::policy::{at_name, value_of};
use super::{OwnStatement, Read};
use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::{Cursor, Name, TableName};
use crate::query::session::Session;

#[derive(Debug)]
pub enum AlterCache {
    /// `SET POLICY`.
    Policy(SetCachePolicy),
    /// `SET ADMISSION`; `None` keeps all that is read.
    Admission(Option<Name>),
    /// `SET CAPACITY`, bytes a shard.
    Capacity(usize),
}

/// Which policy decides for the caches, and how it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetCachePolicy {
    /// `None` is the native policy; as a shadow, none at all.
    pub name: Option<Name>,
    pub mode: PolicyMode,
}

/// How a policy begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyMode {
    /// In charge at once, everywhere.
    Active,
    /// In charge on some shards, the others following when it proves better.
    Canary,
    /// Beside the one in charge, with nothing to decide; it sees one key in `sample`.
    Shadow { sample: Option<u32> },
}

impl Read for AlterCache {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        if cursor.take_words(&["shadow", "policy"]) {
            return shadow(cursor).map(AlterCache::Policy);
        }
        if !cursor.take_word("set") {
            return Err(cursor.expected("SET or SHADOW POLICY"));
        }
        if cursor.take_word("policy") {
            return policy(cursor).map(AlterCache::Policy);
        }
        if cursor.take_word("admission") {
            cursor.take_word("policy");
            cursor.take(&Token::Eq);
            let name = cursor.name("a policy name or NONE")?;
            return Ok(AlterCache::Admission((name.value != "none").then_some(name)));
        }
        if cursor.take_word("capacity") {
            return capacity(cursor).map(AlterCache::Capacity);
        }
        Err(cursor.expected("POLICY, ADMISSION or CAPACITY"))
    }
}

/// After `SHADOW POLICY`: `[=] name [WITH (SAMPLE = 1/64)]`.
fn shadow(cursor: &mut Cursor<'_>) -> Result<SetCachePolicy> {
    cursor.take(&Token::Eq);
    let name = shadow_name(cursor.name("a policy name or NONE")?);
    let mut sample = None;
    if cursor.take_word("with") {
        cursor.parenthesised(|cursor| {
            if !cursor.take_word("sample") {
                return Err(cursor.expected("SAMPLE"));
            }
            sample = Some(one_in(cursor)?);
            Ok(())
        })?;
    }
    Ok(SetCachePolicy { name, mode: PolicyMode::Shadow { sample } })
}

/// After `SET POLICY`.
fn policy(cursor: &mut Cursor<'_>) -> Result<SetCachePolicy> {
    cursor.take(&Token::Eq);
    let name = cursor.name("a policy name or NATIVE")?;
    let mode = mode(cursor)?;
    let name = match mode {
        PolicyMode::Shadow { .. } => shadow_name(name),
        PolicyMode::Active | PolicyMode::Canary => (name.value != "native").then_some(name),
    };
    Ok(SetCachePolicy { name, mode })
}

/// NONE ends the shadow; NATIVE is the native policy by its name.
fn shadow_name(name: Name) -> Option<Name> {
    match name.value.as_str() {
        "none" => None,
        "native" => Some(Name { value: "lru".into(), span: name.span }),
        _ => Some(name),
    }
}

/// `[MODE = active | canary | shadow] [SAMPLE = 1/64]`
fn mode(cursor: &mut Cursor<'_>) -> Result<PolicyMode> {
    if !cursor.take_word("mode") {
        return Ok(PolicyMode::Active);
    }
    cursor.take(&Token::Eq);
    if cursor.take_word("active") {
        return Ok(PolicyMode::Active);
    }
    if cursor.take_word("canary") {
        return Ok(PolicyMode::Canary);
    }
    if !cursor.take_word("shadow") {
        return Err(cursor.expected("SHADOW, CANARY or ACTIVE"));
    }
    let sample = if cursor.take_word("sample") { Some(one_in(cursor)?) } else { None };
    Ok(PolicyMode::Shadow { sample })
}

/// `= 1/64`, or `= 64` for the same.
fn one_in(cursor: &mut Cursor<'_>) -> Result<u32> {
    cursor.take(&Token::Eq);
    let span = cursor.span();
    let mut number = cursor.number("a rate such as 1/64")?;
    if cursor.take(&Token::Div) {
        if number != 1 {
            return Err(QueryError::invalid("a sample is one key in so many: 1/64").at(span));
        }
        number = cursor.number("a number")?;
    }
    u32::try_from(number).ok().filter(|rate| *rate > 0).ok_or_else(|| {
        QueryError::invalid(format!("a sample cannot be one key in {number}")).at(span)
    })
}

/// After `SET CAPACITY`: bytes a shard.
fn capacity(cursor: &mut Cursor<'_>) -> Result<usize> {
    cursor.take(&Token::Eq);
    size(cursor)
}

/// A number of bytes, with a unit or without.
pub(super) fn size(cursor: &mut Cursor<'_>) -> Result<usize> {
    let span = cursor.span();
    let is_unit = |token: &Token| matches!(token, Token::Word(word) if !word.value.eq_ignore_ascii_case("and"));
    let text = match cursor.option_value() {
        // 512 KiB without quotes: the unit is a token of its own.
        Ok(digits) if cursor.peek().is_some_and(is_unit) => {
            format!("{digits} {}", cursor.option_value()?)
        }
        other => other?,
    };
    parse_bytes(&text).ok_or_else(|| {
        QueryError::invalid(format!("'{text}' is no size"))
            .at(span)
            .with_help("write a number of bytes or a text such as '512 KiB', '64 MiB', '1 GiB'")
    })
}

/// `123`, `512 KiB`, `64MB`: a number with an optional unit.
fn parse_bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: usize = text[..split].parse().ok()?;
    let unit = match text[split..].trim().to_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "kb" => 1_000,
        "mib" | "m" => 1 << 20,
        "mb" => 1_000_000,
        "gib" | "g" => 1 << 30,
        "gb" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

impl OwnStatement for AlterCache {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        match self {
            AlterCache::Policy(_) | AlterCache::Admission(_) => {
                vec![Need::new(Permission::Alter, Resource::Policies)]
            }
            AlterCache::Capacity(_) => vec![Need::administration()],
        }
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        match self {
            AlterCache::Policy(set) => set_policy(session, set).await,
            AlterCache::Admission(name) => set_admission(session, name.as_ref()).await,
            AlterCache::Capacity(bytes) => {
                session.database.set_cache_bytes(*bytes).await?;
                Ok(Outcome::message(format!("Cache capacity set to {bytes} bytes a shard.")))
            }
        }
    }
}

async fn set_policy(session: &Session, set: &SetCachePolicy) -> Result<Outcome> {
    let database = &session.database;
    let value = value_of(set.name.as_ref());
    let shown = value.unwrap_or("native");
    let placed = |error| at_name(QueryError::from(error), set.name.as_ref());
    let message = match set.mode {
        PolicyMode::Active => {
            database.set_cache_policy(value).await.map_err(placed)?;
            format!("Eviction policy set to {shown}.")
        }
        PolicyMode::Canary => {
            let value = value.unwrap_or("lru");
            let shards = database.canary_cache_policy(value).await.map_err(placed)?;
            let all = database.shard_count();
            format!("Canary of {value} started on {shards} of {all} shards.")
        }
        PolicyMode::Shadow { sample } => {
            let rate = database.shadow_cache_policy(value, sample).await.map_err(placed)?;
            match value {
                Some(name) => format!("Shadow of {name} started on one key in {rate}."),
                None => "Shadow ended.".to_owned(),
            }
        }
    };
    let note = "SHOW POLICIES tells how the canary fares, and what it came to";
    let note = matches!(set.mode, PolicyMode::Canary).then(|| note.to_owned());
    Ok(Outcome { note, ..Outcome::message(message) })
}

async fn set_admission(session: &Session, name: Option<&Name>) -> Result<Outcome> {
    let set = session.database.set_admission_policy(value_of(name)).await;
    set.map_err(|error| at_name(error.into(), name))?;
    Ok(Outcome::message(match value_of(name) {
        Some(value) => format!("Cache admission set to {value}."),
        None => "Cache admission set to none: the cache keeps all that is read.".to_owned(),
    }))
}

/// Forgets cached rows: of one table, or of all.
#[derive(Debug)]
pub struct InvalidateCache(Option<TableName>);

impl Read for InvalidateCache {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(InvalidateCache(cursor.table_name_or_end()?))
    }
}

impl OwnStatement for InvalidateCache {
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let table = self.0.as_ref().map(|name| session.table(name)).transpose()?;
        session.database.invalidate_cache(table.as_ref().map(|table| table.id)).await?;
        let what = table.map_or("all tables".to_owned(), |table| table.full_name());
        Ok(Outcome::message(format!("Cached rows of {what} dropped.")))
    }
}
