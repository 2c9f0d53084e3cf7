//! CREATE POLICY, EXPLAIN POLICY, RECORD TRACE and the ALTER statements that put policies in
//! charge.

use sqlparser::tokenizer::Token;

use super::command::{Command, CreatePolicy, Name, PolicyMode, SetCachePolicy};
use super::cursor::Cursor;
use crate::query::error::{QueryError, Result};

/// After `CREATE POLICY`.
pub fn create_policy(cursor: &mut Cursor<'_>) -> Result<Command> {
    let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
    let name = cursor.name("a policy name")?;
    cursor.expect_word("from")?;
    let (file, file_span) = cursor.string("a file name in quotes")?;
    let (sha256, parameters) = (None, Vec::new());
    let mut policy = CreatePolicy { name, if_not_exists, file, file_span, sha256, parameters };
    if cursor.take_word("with") {
        cursor.parenthesised(|cursor| {
            let name = cursor.name("a parameter")?;
            cursor.expect(&Token::Eq)?;
            let value = cursor.option_value()?;
            if name.value == "sha256" {
                policy.sha256 = Some(value);
            } else {
                policy.parameters.push((name.value, value));
            }
            Ok(())
        })?;
    }
    Ok(Command::CreatePolicy(policy))
}

/// After `ALTER CACHE`.
pub fn alter_cache(cursor: &mut Cursor<'_>) -> Result<Command> {
    if cursor.take_words(&["shadow", "policy"]) {
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
        let mode = PolicyMode::Shadow { sample };
        return Ok(Command::SetCachePolicy(SetCachePolicy { name, mode }));
    }
    if !cursor.take_word("set") {
        return Err(cursor.expected("SET or SHADOW POLICY"));
    }
    if cursor.take_word("policy") {
        cursor.take(&Token::Eq);
        let name = cursor.name("a policy name or NATIVE")?;
        let mode = mode(cursor)?;
        let name = match mode {
            PolicyMode::Shadow { .. } => shadow_name(name),
            PolicyMode::Active | PolicyMode::Canary => (name.value != "native").then_some(name),
        };
        return Ok(Command::SetCachePolicy(SetCachePolicy { name, mode }));
    }
    if cursor.take_word("admission") {
        cursor.take_word("policy");
        cursor.take(&Token::Eq);
        let name = cursor.name("a policy name or NONE")?;
        return Ok(Command::SetAdmissionPolicy((name.value != "none").then_some(name)));
    }
    if cursor.take_word("capacity") {
        cursor.take(&Token::Eq);
        let span = cursor.span();
        let text = match cursor.option_value() {
            // 512 KiB without quotes: the unit is a token of its own.
            Ok(digits) if matches!(cursor.peek(), Some(Token::Word(_))) => {
                format!("{digits} {}", cursor.option_value()?)
            }
            other => other?,
        };
        let bytes = parse_bytes(&text).ok_or_else(|| {
            QueryError::invalid(format!("'{text}' is no size"))
                .at(span)
                .with_help("write a number of bytes or a text such as '512 KiB', '64 MiB', '1 GiB'")
        })?;
        return Ok(Command::SetCacheBytes(bytes));
    }
    Err(cursor.expected("POLICY, ADMISSION or CAPACITY"))
}

/// After `ALTER RATE LIMITER`.
pub fn alter_rate_limiter(cursor: &mut Cursor<'_>) -> Result<Command> {
    set_policy(cursor, "native", "a policy name or NATIVE").map(Command::SetRatePolicy)
}

/// After `ALTER READ ADMISSION`.
pub fn alter_read_admission(cursor: &mut Cursor<'_>) -> Result<Command> {
    set_policy(cursor, "native", "a policy name or NATIVE").map(Command::SetReadAdmissionPolicy)
}

/// After `ALTER LOAD SHEDDING`.
pub fn alter_load_shedding(cursor: &mut Cursor<'_>) -> Result<Command> {
    set_policy(cursor, "none", "a policy name or NONE").map(Command::SetLoadSheddingPolicy)
}

/// `SET POLICY [=] name`; nothing for the word that stands for no component.
fn set_policy(cursor: &mut Cursor<'_>, nothing: &str, wanted: &str) -> Result<Option<Name>> {
    cursor.expect_word("set")?;
    cursor.expect_word("policy")?;
    cursor.take(&Token::Eq);
    let name = cursor.name(wanted)?;
    Ok((name.value != nothing).then_some(name))
}

/// After `RECORD TRACE`: `[TO] 'file' [FOR n [EVENTS]]`, or `STOP`.
pub fn record_trace(cursor: &mut Cursor<'_>) -> Result<Command> {
    if cursor.take_word("stop") {
        return Ok(Command::StopTrace);
    }
    cursor.take_word("to");
    let (file, file_span) = cursor.string("a file name in quotes, or STOP")?;
    let mut reads_max = None;
    if cursor.take_word("for") {
        let span = cursor.span();
        let number = cursor.number("a number of events")?;
        let number = u64::try_from(number).ok().filter(|number| *number > 0);
        let wrong = || QueryError::invalid("a recording takes one event at least").at(span);
        reads_max = Some(number.ok_or_else(wrong)?);
        cursor.take_word("events");
    }
    Ok(Command::RecordTrace { file, file_span, reads_max })
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

/// After `EXPLAIN POLICY`.
pub fn explain_policy(cursor: &mut Cursor<'_>) -> Result<Command> {
    Ok(Command::ExplainPolicy(cursor.name("a policy name")?))
}

/// `123`, `512 KiB`, `64MB`: a number with an optional unit.
pub fn parse_bytes(text: &str) -> Option<usize> {
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
