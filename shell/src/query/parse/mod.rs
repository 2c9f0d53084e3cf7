//! Statements to commands: the first words decide who parses.
//!
//! Our own statements are read off the tokens here; all other SQL goes to DataFusion's parser with
//! the same tokens, so that every error points into the text as it was written.

mod balance;
mod command;
mod copy;
mod cursor;
mod depth;
mod element;
mod policy;
mod row_value;
mod sstable;
mod table;
mod table_option;
mod type_name;
mod write;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use datafusion::sql::parser::{DFParserBuilder, Statement as SqlStatement};
use sqlparser::tokenizer::{Token, TokenWithSpan};

pub use command::{
    Attach, Command, CopyFrom, CopyOptions, CopyTo, CreatePolicy, CreateTable, CreateType,
    ElementHow, ElementWrite, Elements, Format, ImportSstables, Name, OnError, Operand, PolicyMode,
    SetCachePolicy, Show, TableName, Using, UsingValue, Write, WriteKind,
};
use cursor::Cursor;
pub use row_value::{NAMED_CAST, ROW_IN, take_apart, tell_apart};
pub use table_option::TableOption;
pub use type_name::{TypeName, unknown as unknown_type};

use super::dialect::TideDialect;
use super::error::{ErrorKind, QueryError, Result, Span, nearest};
use super::replay::REPLAY_FUNCTION;
use super::statement::{DIALECT, Statement, WRITE_DIALECT, is_word};

/// First words of statements, for "did you mean".
const FIRST_WORDS: [&str; 24] = [
    "select",
    "insert",
    "update",
    "delete",
    "create",
    "drop",
    "alter",
    "copy",
    "use",
    "show",
    "describe",
    "explain",
    "flush",
    "values",
    "with",
    "set",
    "truncate",
    "desc",
    "attach",
    "detach",
    "import",
    "record",
    "rollback",
    "invalidate",
];

/// Digits of the longest number that can be a decimal.
const DECIMAL_DIGITS_MAX: usize = 76;

/// Parses one statement.
///
/// Errors: `Syntax`, with the place; `Unsupported` for known statements that are not offered.
pub fn parse(statement: &Statement) -> Result<Command> {
    parse_tokens(statement.tokens()).map_err(|error| statement.widen(error))
}

fn parse_tokens(tokens: &[TokenWithSpan]) -> Result<Command> {
    let tokens = &*balance::balance(tokens);
    depth::check(tokens)?;
    let mut cursor = Cursor::new(tokens);
    let command = match own_statement(&mut cursor)? {
        Some(command) => command,
        None => return other_statement(tokens),
    };
    cursor.expect_end()?;
    Ok(command)
}

/// The statements that are read to their end by our own parser.
fn own_statement(cursor: &mut Cursor<'_>) -> Result<Option<Command>> {
    let command = if cursor.take_words(&["create", "keyspace"])
        || cursor.take_words(&["create", "schema"])
    {
        let if_not_exists = cursor.take_words(&["if", "not", "exists"]);
        Command::CreateKeyspace { name: cursor.name("a keyspace name")?, if_not_exists }
    } else if cursor.take_words(&["drop", "keyspace"]) || cursor.take_words(&["drop", "schema"]) {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Command::DropKeyspace { name: cursor.name("a keyspace name")?, if_exists }
    } else if cursor.take_words(&["create", "table"]) {
        table::create_table(cursor)?
    } else if cursor.take_words(&["alter", "table"]) {
        table::alter_table(cursor)?
    } else if cursor.take_words(&["drop", "table"]) {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Command::DropTable { name: cursor.table_name()?, if_exists }
    } else if cursor.take_words(&["create", "type"]) {
        type_name::create_type(cursor)?
    } else if cursor.take_words(&["drop", "type"]) {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Command::DropType { name: cursor.table_name()?, if_exists }
    } else if cursor.take_words(&["create", "policy"]) {
        policy::create_policy(cursor)?
    } else if cursor.take_words(&["drop", "policy"]) {
        let if_exists = cursor.take_words(&["if", "exists"]);
        Command::DropPolicy { name: cursor.name("a policy name")?, if_exists }
    } else if cursor.take_words(&["alter", "cache"]) {
        policy::alter_cache(cursor)?
    } else if cursor.take_words(&["alter", "rate", "limiter"]) {
        policy::alter_rate_limiter(cursor)?
    } else if cursor.take_words(&["alter", "read", "admission"]) {
        policy::alter_read_admission(cursor)?
    } else if cursor.take_words(&["alter", "load", "shedding"]) {
        policy::alter_load_shedding(cursor)?
    } else if cursor.take_words(&["record", "trace"]) {
        policy::record_trace(cursor)?
    } else if cursor.take_words(&["rollback", "policy"])
        || cursor.take_words(&["rollback", "cache", "policy"])
    {
        Command::RollBackPolicy
    } else if cursor.take_words(&["explain", "policy"]) {
        policy::explain_policy(cursor)?
    } else if cursor.take_word("copy") {
        copy::copy(cursor)?
    } else if cursor.take_word("use") {
        Command::Use(cursor.name("a keyspace name")?)
    } else if cursor.take_words(&["show", "tables"]) {
        Command::Show(Show::Tables)
    } else if cursor.take_words(&["show", "keyspaces"]) || cursor.take_words(&["show", "schemas"]) {
        Command::Show(Show::Keyspaces)
    } else if cursor.take_words(&["show", "policies"]) {
        Command::Show(Show::Policies)
    } else if cursor.take_words(&["show", "policy", "exits"]) {
        Command::Show(Show::PolicyExits)
    } else if cursor.take_words(&["show", "cache", "tables"]) {
        Command::Show(Show::RowCache)
    } else if cursor.take_words(&["show", "cache"]) {
        Command::Show(Show::Cache)
    } else if cursor.take_words(&["show", "stalls"]) {
        Command::Show(Show::Stalls)
    } else if cursor.take_words(&["show", "corruption"]) {
        Command::Show(Show::Corruption)
    } else if cursor.take_word("describe") || cursor.take_word("desc") {
        cursor.take_word("table");
        Command::Describe(cursor.table_name()?)
    } else if cursor.take_word("attach") {
        sstable::attach(cursor)?
    } else if cursor.take_word("detach") {
        cursor.take_word("table");
        Command::Detach(cursor.table_name()?)
    } else if cursor.take_word("import") {
        sstable::import(cursor)?
    } else if cursor.take_word("flush") {
        let table = if cursor.peek().is_some() { Some(cursor.table_name()?) } else { None };
        Command::Flush(table)
    } else if cursor.take_words(&["invalidate", "cache"]) {
        let table = if cursor.peek().is_some() { Some(cursor.table_name()?) } else { None };
        Command::InvalidateCache(table)
    } else {
        return Ok(None);
    };
    Ok(Some(command))
}

/// Writes, EXPLAIN, and everything that DataFusion plans.
fn other_statement(tokens: &[TokenWithSpan]) -> Result<Command> {
    let mut cursor = Cursor::new(tokens);
    let first = |words: &[&str]| words.iter().any(|word| is_word(&tokens[0].token, word));
    if first(&["insert", "update", "delete"]) {
        return Ok(Command::Write(write::write(tokens)?));
    }
    if cursor.take_word("explain") {
        let start = cursor.span();
        let analyze = cursor.take_word("analyze");
        cursor.take_word("verbose");
        let rest = cursor.rest();
        let is_write = rest.first().is_some_and(|token| {
            ["insert", "update", "delete"].iter().any(|word| is_word(&token.token, word))
        });
        if is_write && analyze {
            return Err(QueryError::unsupported("EXPLAIN ANALYZE would run the write")
                .at(start)
                .with_help("EXPLAIN without ANALYZE shows what it would do"));
        }
        if is_write {
            return Ok(Command::ExplainWrite(write::write(rest)?));
        }
        return Ok(Command::Query(sql(tokens)?));
    }
    if first(&["show"]) {
        known_to_show(&mut cursor)?;
    }
    let is_query = first(&["select", "with", "values", "set", "show", "from", "reset"])
        || tokens[0].token == Token::LParen;
    if is_query {
        return Ok(Command::Query(sql(tokens)?));
    }
    if first(&["create", "drop", "alter"]) {
        cursor.skip_to(1);
        return Err(match &tokens[0].token {
            token if is_word(token, "create") => cursor.expected("TABLE, TYPE, KEYSPACE or POLICY"),
            token if is_word(token, "drop") => cursor.expected("TABLE, TYPE, KEYSPACE or POLICY"),
            _ => cursor.expected("TABLE, CACHE, RATE LIMITER, READ ADMISSION or LOAD SHEDDING"),
        });
    }
    if first(&["truncate", "begin", "commit", "rollback", "merge", "grant", "revoke"]) {
        let error = QueryError::unsupported(format!("{} is not offered", tokens[0].token))
            .at(cursor.span());
        return Err(if first(&["rollback"]) {
            error.with_help("ROLLBACK POLICY brings back the policy before")
        } else if first(&["begin", "commit"]) {
            error.with_help("there are no transactions: every statement takes effect by itself")
        } else {
            error
        });
    }
    let error = QueryError::new(
        ErrorKind::Syntax,
        format!("no statement begins with '{}'", tokens[0].token),
    )
    .at(cursor.span());
    Err(match nearest(&tokens[0].token.to_string(), FIRST_WORDS) {
        Some(near) => error.with_help(format!("did you mean {}?", near.to_uppercase())),
        None => error,
    })
}

/// What follows SHOW in statements of our own.
const SHOWN: &[&str] = &[
    "cache",
    "cache tables",
    "corruption",
    "keyspaces",
    "policies",
    "policy exits",
    "stalls",
    "tables",
];
/// What follows SHOW in statements that DataFusion plans.
const SHOWN_BY_SQL: &[&str] = &["all", "columns", "create", "functions", "time", "timezone"];

/// After `SHOW`, which is taken: whether there is such a thing.
///
/// Errors: `NotFound`, with what may have been meant; a setting, `SHOW a.b`, is none of ours.
fn known_to_show(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.skip_to(1);
    let Some(Token::Word(word)) = cursor.peek() else {
        return Err(cursor.expected("what to show").with_help(shown_help()));
    };
    let is_setting = cursor.peek_nth(1) == Some(&Token::Period);
    if is_setting || SHOWN_BY_SQL.iter().any(|known| word.value.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let words = cursor.rest().iter().map(|token| token.token.to_string());
    let typed = words.take(2).collect::<Vec<_>>().join(" ");
    let near = nearest(&typed, SHOWN.iter().copied());
    let near = near.or_else(|| nearest(&word.value, SHOWN.iter().copied()));
    let message = format!("there is nothing to show by the name '{}'", word.value);
    let error = QueryError::new(ErrorKind::NotFound, message).at(cursor.span());
    Err(match near {
        Some(near) => error.with_help(format!("did you mean SHOW {}?", near.to_uppercase())),
        None => error.with_help(shown_help()),
    })
}

fn shown_help() -> String {
    let names: Vec<String> = SHOWN.iter().map(|name| name.to_uppercase()).collect();
    format!("SHOW takes {}, or the name of a setting", names.join(", "))
}

/// Hands tokens to DataFusion's parser.
pub fn sql(tokens: &[TokenWithSpan]) -> Result<SqlStatement> {
    in_dialect(tokens, &DIALECT)
}

/// As [`sql`], with the literals of CQL.
fn write_sql(tokens: &[TokenWithSpan]) -> Result<SqlStatement> {
    in_dialect(tokens, &WRITE_DIALECT)
}

fn in_dialect(tokens: &[TokenWithSpan], dialect: &TideDialect) -> Result<SqlStatement> {
    // The parser has no place for "found: EOF"; it is right after the last token.
    let at_end = |error: QueryError| match (error.span, tokens.last()) {
        (None, Some(last)) => {
            let end = last.span.end;
            error.at(Span { line: end.line, column: end.column, length: 1 })
        }
        _ => error,
    };
    let tokens = &with_named_arguments(tokens);
    let mut parser = DFParserBuilder::new(with_doubles(tokens))
        .with_dialect(dialect)
        .with_recursion_limit(depth::RECURSIONS_MAX)
        .build()
        .map_err(QueryError::from)?;
    let mut statements = parser.parse_statements().map_err(|error| at_end(error.into()))?;
    match (statements.pop_front(), statements.pop_front()) {
        (Some(statement), None) => Ok(statement),
        _ => Err(QueryError::new(ErrorKind::Syntax, "expected one statement")),
    }
}

/// Writes `name => value` among the arguments of `replay_policy` as the text `'name=value'`,
/// because the planner takes no named arguments of table functions.
fn with_named_arguments(tokens: &[TokenWithSpan]) -> Cow<'_, [TokenWithSpan]> {
    if !tokens.iter().any(|token| is_word(&token.token, REPLAY_FUNCTION)) {
        return Cow::Borrowed(tokens);
    }
    let mut all: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Depth of parentheses since the function's own.
    let mut depth = 0;
    let mut rest = tokens.iter();
    while let Some(token) = rest.next() {
        let follows_name = || all.last().is_some_and(|last| is_word(&last.token, REPLAY_FUNCTION));
        match &token.token {
            Token::LParen if depth > 0 || follows_name() => depth += 1,
            Token::RParen if depth > 0 => depth -= 1,
            Token::Word(name) if depth == 1 => {
                let mut ahead = rest.clone();
                let (arrow, value) = (ahead.next(), ahead.next());
                if let (Some(Token::RArrow), Some(value)) =
                    (arrow.map(|arrow| &arrow.token), value.and_then(|value| plain(&value.token)))
                {
                    let text = format!("{}={value}", name.value.to_lowercase());
                    let token =
                        TokenWithSpan { token: Token::SingleQuotedString(text), span: token.span };
                    all.push(token);
                    rest = ahead;
                    continue;
                }
            }
            _ => {}
        }
        all.push(token.clone());
    }
    Cow::Owned(all)
}

/// The text of a value that needs no planning.
fn plain(token: &Token) -> Option<&str> {
    match token {
        Token::SingleQuotedString(text) | Token::Number(text, _) => Some(text),
        Token::Word(word) => Some(&word.value),
        _ => None,
    }
}

/// Writes numbers with an exponent, which are doubles, so that the planner takes them for doubles.
/// Numbers with a point and no exponent are decimals. There is no decimal −0.0: a zero with a sign
/// stands in parentheses, so that it becomes one only where it is no double.
fn with_doubles(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let is_double = |text: &str| text.contains(['e', 'E']) || text.len() > DECIMAL_DIGITS_MAX;
    let mut all = Vec::with_capacity(tokens.len());
    for token in tokens {
        match &token.token {
            Token::Number(text, _) if is_double(text) => {
                let double = [
                    Token::make_keyword("CAST"),
                    Token::LParen,
                    Token::SingleQuotedString(text.clone()),
                    Token::make_keyword("AS"),
                    Token::make_keyword("DOUBLE"),
                    Token::RParen,
                ];
                // All stand where the number stands, so that errors point there.
                all.extend(double.map(|part| TokenWithSpan { token: part, span: token.span }));
            }
            Token::Number(text, _) if text.contains('.') && is_zero(text) && has_sign(&all) => {
                for part in [Token::LParen, token.token.clone(), Token::RParen] {
                    all.push(TokenWithSpan { token: part, span: token.span });
                }
            }
            _ => all.push(token.clone()),
        }
    }
    all
}

fn is_zero(number: &str) -> bool {
    number.bytes().all(|byte| matches!(byte, b'0' | b'.'))
}

fn has_sign(before: &[TokenWithSpan]) -> bool {
    before.last().is_some_and(|last| last.token == Token::Minus)
}
