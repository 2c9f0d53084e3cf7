//! INSERT, UPDATE and DELETE: takes what SQL lacks (USING, IF, columns of a DELETE, single
//! elements) out of the tokens and hands the rest to sqlparser. Tokens are only taken out, so
//! places stay right.

use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::condition::take_if;
use super::element;
use crate::query::error::{ErrorKind, QueryError, Result};
use crate::query::parse::ast::{
    Elements, IfKind, Name, TableName, Using, UsingValue, Write, WriteKind,
};
use crate::query::parse::cursor::Cursor;
use crate::query::parse::sql;
use crate::query::parse::statement::{is_word, span_of};

/// A statement that begins with INSERT, UPDATE or DELETE.
pub fn write(tokens: &[TokenWithSpan]) -> Result<Write> {
    let (tokens, using) = take_using(tokens)?;
    let (tokens, condition) = take_if(tokens)?;
    let write = if tokens.first().is_some_and(|token| is_word(&token.token, "insert")) {
        insert(&tokens, using)?
    } else if tokens.first().is_some_and(|token| is_word(&token.token, "update")) {
        let mut cursor = Cursor::new(&tokens);
        cursor.expect_word("update")?;
        let table = cursor.table_name()?;
        update(tokens, table, using)?
    } else {
        delete(tokens, using)?
    };
    let write = Write { condition, ..write };
    check_condition(&write)?;
    Ok(write)
}

/// Refuses clauses that do not go together with IF.
fn check_condition(write: &Write) -> Result<()> {
    let Some(condition) = &write.condition else { return Ok(()) };
    let refuse = |message: &str, help: &str| {
        Err(QueryError::invalid(message).at(condition.span).with_help(help))
    };
    if write.using.timestamp.is_some() {
        return refuse(
            "a write with IF takes no USING TIMESTAMP",
            "leave it out: the write has to be newer than what it depends on, so the server gives it",
        );
    }
    let is_insert = matches!(write.kind, WriteKind::Insert(_));
    match condition.kind {
        IfKind::NotExists if !is_insert => refuse(
            "IF NOT EXISTS belongs to INSERT",
            "write INSERT … IF NOT EXISTS, or compare columns with null",
        ),
        IfKind::Exists | IfKind::Compare { .. } if is_insert => refuse(
            "INSERT takes IF NOT EXISTS alone",
            "write UPDATE … IF EXISTS, or UPDATE … IF column = value",
        ),
        _ => Ok(()),
    }
}

fn delete(mut tokens: Vec<TokenWithSpan>, using: Using) -> Result<Write> {
    let mut cursor = Cursor::new(&tokens);
    cursor.expect_word("delete")?;
    let (columns, elements) = match cursor.peek() {
        Some(token) if is_word(token, "from") => Default::default(),
        _ => element::deleted_columns(&mut cursor)?,
    };
    cursor.expect_word("from")?;
    let from = cursor.position() - 1;
    let table = cursor.table_name()?;
    if using.ttl.is_some() {
        return Err(QueryError::invalid("a DELETE has no time to live").at(table.table.span));
    }
    tokens.drain(1..from);
    let (statement, elements) = (sql(&tokens)?, elements.parse()?);
    let kind = WriteKind::Delete(columns);
    Ok(Write { kind, table, statement, using, elements, condition: None })
}

fn insert(tokens: &[TokenWithSpan], using: Using) -> Result<Write> {
    let mut cursor = Cursor::new(tokens);
    cursor.expect_word("insert")?;
    cursor.expect_word("into")?;
    let table = cursor.table_name()?;
    let starts_query = |token: &Token| {
        is_word(token, "select") || is_word(token, "values") || is_word(token, "with")
    };
    let has_columns = cursor.peek() == Some(&Token::LParen)
        && !cursor.peek_nth(1).is_some_and(|token| starts_query(token) || *token == Token::LParen);
    let columns = if has_columns {
        cursor.parenthesised(|cursor| cursor.name("a column name"))?
    } else {
        Vec::new()
    };
    let statement = sql(tokens)?;
    if let SqlStatement::Statement(inner) = &statement
        && let ast::Statement::Insert(insert) = &**inner
        && (insert.on.is_some() || insert.returning.is_some() || insert.source.is_none())
    {
        return Err(QueryError::unsupported(
            "INSERT takes VALUES or SELECT, without other clauses",
        )
        .at(table.table.span)
        .with_help("every INSERT replaces the row with the same key"));
    }
    let elements = Elements::default();
    let kind = WriteKind::Insert(columns);
    Ok(Write { kind, table, statement, using, elements, condition: None })
}

fn update(tokens: Vec<TokenWithSpan>, table: TableName, using: Using) -> Result<Write> {
    let (tokens, elements) = element::take_assignments(tokens, &table)?;
    let mut statement = sql(&tokens)?;
    let elements = elements.parse()?;
    let mut columns = Vec::new();
    if let SqlStatement::Statement(inner) = &mut statement
        && let ast::Statement::Update(update) = &mut **inner
    {
        for assignment in &mut update.assignments {
            let ast::AssignmentTarget::ColumnName(name) = &mut assignment.target else {
                return Err(
                    QueryError::unsupported("SET takes one column at a time").at(table.table.span)
                );
            };
            let Some(ast::ObjectNamePart::Identifier(ident)) = name.0.last_mut() else {
                return Err(QueryError::invalid("SET takes column names").at(table.table.span));
            };
            // DataFusion looks these up as they are written; names fold like everywhere else.
            if ident.quote_style.is_none() {
                ident.value = ident.value.to_lowercase();
            }
            let name = Name { value: ident.value.clone(), span: span_of(&ident.span) };
            let is_changed =
                elements.changes.iter().any(|change| change.column.value == name.value);
            if is_changed || columns.iter().any(|known: &Name| known.value == name.value) {
                let message = format!("column '{}' is assigned twice", name.value);
                return Err(QueryError::invalid(message).at(name.span));
            }
            columns.push(name);
        }
    }
    let kind = WriteKind::Update(columns);
    Ok(Write { kind, table, statement, using, elements, condition: None })
}

/// Takes `USING TTL n AND TIMESTAMP n` out of the tokens.
fn take_using(tokens: &[TokenWithSpan]) -> Result<(Vec<TokenWithSpan>, Using)> {
    let mut depth = 0;
    let start = tokens.iter().enumerate().position(|(n, token)| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
            && is_word(&token.token, "using")
            && tokens.get(n + 1).is_some_and(|next| {
                is_word(&next.token, "ttl") || is_word(&next.token, "timestamp")
            })
    });
    let Some(start) = start else { return Ok((tokens.to_vec(), Using::default())) };
    let mut cursor = Cursor::new(tokens);
    cursor.skip_to(start + 1);
    let mut using = Using::default();
    loop {
        let span = cursor.span();
        let place = if cursor.take_word("ttl") {
            &mut using.ttl
        } else if cursor.take_word("timestamp") {
            &mut using.timestamp
        } else {
            return Err(cursor.expected("TTL or TIMESTAMP"));
        };
        if place.is_some() {
            return Err(QueryError::new(ErrorKind::Syntax, "given twice").at(span));
        }
        *place = Some(using_value(&mut cursor)?);
        if !cursor.take_word("and") {
            break;
        }
    }
    let mut kept = tokens[..start].to_vec();
    kept.extend_from_slice(cursor.rest());
    Ok((kept, using))
}

/// The value of a timestamp or of a time to live.
pub fn using_value(cursor: &mut Cursor<'_>) -> Result<UsingValue> {
    if let Some(Token::Placeholder(name)) = cursor.peek()
        && let Some(number) = name.strip_prefix('$').and_then(|digits| digits.parse().ok())
    {
        cursor.skip_to(cursor.position() + 1);
        return Ok(UsingValue::Parameter(number));
    }
    Ok(UsingValue::Number(cursor.number("a number or a parameter")?))
}
