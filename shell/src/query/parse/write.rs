//! INSERT, UPDATE and DELETE: takes what SQL lacks (USING, columns of a DELETE, single elements)
//! out of the tokens and hands the rest to sqlparser. Tokens are only taken out, so places stay
//! right.

use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::{Elements, Name, TableName, Using, UsingValue, Write, WriteKind};
use super::cursor::Cursor;
use super::statement::{is_word, span_of};
use super::{element, sql};
use crate::query::error::{ErrorKind, QueryError, Result};

/// A statement that begins with INSERT, UPDATE or DELETE.
pub fn write(tokens: &[TokenWithSpan]) -> Result<Write> {
    let (mut tokens, using) = take_using(tokens)?;
    let mut cursor = Cursor::new(&tokens);
    if cursor.take_word("insert") {
        refuse_if_not_exists(&tokens)?;
        return insert(&tokens, using);
    }
    if cursor.take_word("update") {
        let table = cursor.table_name()?;
        return update(tokens, table, using);
    }
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
    Ok(Write { kind: WriteKind::Delete(columns), table, statement, using, elements })
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
    Ok(Write { kind: WriteKind::Insert(columns), table, statement, using, elements })
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
    Ok(Write { kind: WriteKind::Update(columns), table, statement, using, elements })
}

fn refuse_if_not_exists(tokens: &[TokenWithSpan]) -> Result<()> {
    let found = tokens.windows(3).find(|words| {
        is_word(&words[0].token, "if")
            && is_word(&words[1].token, "not")
            && is_word(&words[2].token, "exists")
    });
    match found {
        Some(words) => Err(QueryError::unsupported("INSERT … IF NOT EXISTS is not offered")
            .at(span_of(&words[0].span))
            .with_help(
                "every INSERT replaces the row with the same key, without reading it first",
            )),
        None => Ok(()),
    }
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

fn using_value(cursor: &mut Cursor<'_>) -> Result<UsingValue> {
    if let Some(Token::Placeholder(name)) = cursor.peek()
        && let Some(number) = name.strip_prefix('$').and_then(|digits| digits.parse().ok())
    {
        cursor.skip_to(cursor.position() + 1);
        return Ok(UsingValue::Parameter(number));
    }
    Ok(UsingValue::Number(cursor.number("a number or a parameter")?))
}
