//! What a statement's tokens ask for, without looking at any table.
//!
//! The grammar is smaller than SQL on purpose: whatever else there is ends the reading, and the
//! planner's path takes the statement.

use datafusion::logical_expr::Operator;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use tidegate_engine::batch::StampKind;

use crate::query::parse::{Cursor, IfOperator, Name, TableName, Using, UsingValue};

/// Words that cannot be names here: SQL gives them a meaning of their own.
const RESERVED: &[&str] = &[
    "all",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "desc",
    "distinct",
    "else",
    "end",
    "except",
    "exists",
    "false",
    "from",
    "group",
    "having",
    "in",
    "intersect",
    "interval",
    "into",
    "is",
    "join",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "select",
    "session_user",
    "set",
    "some",
    "table",
    "then",
    "top",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "when",
    "where",
    "with",
];

/// A value of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// `$n`, counted from 1.
    Parameter(usize),
    Number(i64),
    Text(String),
    Null,
}

/// `column operator value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub column: Name,
    pub operator: Operator,
    pub value: Operand,
}

/// What stands in a select list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Column(Name),
    /// `writetime(v)` or `ttl(v)`, with the call as it was written.
    Stamp {
        kind: StampKind,
        column: Name,
        heading: String,
    },
}

impl Item {
    pub fn column(&self) -> Option<&Name> {
        match self {
            Item::Column(name) => Some(name),
            Item::Stamp { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectShape {
    pub table: TableName,
    /// None means all columns.
    pub items: Vec<Item>,
    pub conditions: Vec<Condition>,
    /// Columns, and whether they are descending.
    pub order: Vec<(Name, bool)>,
    pub partition_limit: Option<Operand>,
    pub limit: Option<Operand>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsertShape {
    pub table: TableName,
    /// None means all.
    pub columns: Vec<Name>,
    pub rows: Vec<Vec<Operand>>,
    pub using: Using,
    pub condition: Option<IfShape>,
}

/// An UPDATE or DELETE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeShape {
    pub table: TableName,
    pub verb: ChangeVerb,
    pub conditions: Vec<Condition>,
    pub using: Using,
    pub condition: Option<IfShape>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeVerb {
    /// Columns and what they become.
    Update(Vec<(Name, Operand)>),
    /// Of these columns; none means whole rows.
    Delete(Vec<Name>),
}

/// `IF …` at the end of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfShape {
    NotExists,
    Exists,
    /// A column, an operator, and what it is compared with: one value, of IN one or more.
    All(Vec<(Name, IfOperator, Vec<Operand>)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteShape {
    Insert(InsertShape),
    Change(ChangeShape),
}

impl WriteShape {
    pub fn table(&self) -> &TableName {
        match self {
            WriteShape::Insert(insert) => &insert.table,
            WriteShape::Change(change) => &change.table,
        }
    }
}

/// `BEGIN BATCH … APPLY BATCH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchShape {
    pub is_logged: bool,
    pub timestamp: Option<UsingValue>,
    pub writes: Vec<WriteShape>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    Select(SelectShape),
    Write(WriteShape),
    Batch(BatchShape),
}

impl Shape {
    /// Reads a whole statement; `None` for any that is not of this grammar.
    pub fn read(tokens: &[TokenWithSpan]) -> Option<Self> {
        let mut cursor = Cursor::new(tokens);
        let shape = if cursor.take_word("select") {
            Shape::Select(select(&mut cursor)?)
        } else if cursor.take_word("begin") {
            Shape::Batch(batch(&mut cursor)?)
        } else {
            Shape::Write(write(&mut cursor)?)
        };
        cursor.expect_end().ok()?;
        Some(shape)
    }
}

fn write(cursor: &mut Cursor<'_>) -> Option<WriteShape> {
    Some(if cursor.take_word("insert") {
        WriteShape::Insert(insert(cursor)?)
    } else if cursor.take_word("update") {
        WriteShape::Change(update(cursor)?)
    } else if cursor.take_word("delete") {
        WriteShape::Change(delete(cursor)?)
    } else {
        return None;
    })
}

/// What follows BEGIN.
fn batch(cursor: &mut Cursor<'_>) -> Option<BatchShape> {
    let is_logged = !cursor.take_word("unlogged");
    if is_logged {
        cursor.take_word("logged");
    }
    if !cursor.take_word("batch") {
        return None;
    }
    let timestamp = match cursor.take_words(&["using", "timestamp"]) {
        true => Some(using_value(cursor)?),
        false => None,
    };
    let mut writes = Vec::new();
    let mut is_open = true;
    loop {
        while cursor.take(&Token::SemiColon) {
            is_open = true;
        }
        if cursor.take_words(&["apply", "batch"]) {
            return Some(BatchShape { is_logged, timestamp, writes });
        }
        // Between two statements stands a semicolon.
        if !is_open {
            return None;
        }
        writes.push(write(cursor)?);
        is_open = false;
    }
}

fn select(cursor: &mut Cursor<'_>) -> Option<SelectShape> {
    let mut items = Vec::new();
    if !cursor.take(&Token::Mul) {
        items.push(item(cursor)?);
        while cursor.take(&Token::Comma) {
            items.push(item(cursor)?);
        }
    }
    if !cursor.take_word("from") {
        return None;
    }
    let table = table(cursor)?;
    let conditions = conditions(cursor)?;
    let mut order = Vec::new();
    if cursor.take_words(&["order", "by"]) {
        order.push(ordered(cursor)?);
        while cursor.take(&Token::Comma) {
            order.push(ordered(cursor)?);
        }
    }
    let mut rows = |words: &[&str]| match cursor.take_words(words) {
        true => operand(cursor).map(Some),
        false => Some(None),
    };
    let partition_limit = rows(&["per", "partition", "limit"])?;
    let limit = rows(&["limit"])?;
    cursor.take_words(&["allow", "filtering"]);
    Some(SelectShape { table, items, conditions, order, partition_limit, limit })
}

fn item(cursor: &mut Cursor<'_>) -> Option<Item> {
    let bare = |n: usize| match cursor.peek_nth(n) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    };
    let kinds = [StampKind::WriteTime, StampKind::TimeToLive];
    let called =
        |word: &String| kinds.into_iter().find(|kind| word.eq_ignore_ascii_case(kind.function()));
    let is_call =
        (cursor.peek_nth(1), cursor.peek_nth(3)) == (Some(&Token::LParen), Some(&Token::RParen));
    let (Some(function), Some(argument), true) = (bare(0), bare(2), is_call) else {
        return name(cursor).map(Item::Column);
    };
    let kind = called(function)?;
    let heading = format!("{function}({argument})");
    cursor.skip_to(cursor.position() + 2);
    let column = name(cursor)?;
    cursor.skip_to(cursor.position() + 1);
    Some(Item::Stamp { kind, column, heading })
}

fn insert(cursor: &mut Cursor<'_>) -> Option<InsertShape> {
    if !cursor.take_word("into") {
        return None;
    }
    let table = table(cursor)?;
    let mut columns = Vec::new();
    if cursor.take(&Token::LParen) {
        columns = names(cursor)?;
        if !cursor.take(&Token::RParen) {
            return None;
        }
    }
    if !cursor.take_word("values") {
        return None;
    }
    let mut rows = vec![row(cursor)?];
    while cursor.take(&Token::Comma) {
        rows.push(row(cursor)?);
    }
    let mut given = using(cursor)?;
    let condition = if_clause(cursor)?;
    if condition.is_some() && given == Using::default() {
        given = using(cursor)?;
    }
    Some(InsertShape { table, columns, rows, using: given, condition })
}

fn update(cursor: &mut Cursor<'_>) -> Option<ChangeShape> {
    let table = table(cursor)?;
    let using = using(cursor)?;
    if !cursor.take_word("set") {
        return None;
    }
    let mut assigned = vec![assignment(cursor)?];
    while cursor.take(&Token::Comma) {
        assigned.push(assignment(cursor)?);
    }
    let (conditions, condition) = (conditions(cursor)?, if_clause(cursor)?);
    let verb = ChangeVerb::Update(assigned);
    Some(ChangeShape { table, verb, conditions, using, condition })
}

fn assignment(cursor: &mut Cursor<'_>) -> Option<(Name, Operand)> {
    let name = name(cursor)?;
    if !cursor.take(&Token::Eq) {
        return None;
    }
    Some((name, operand(cursor)?))
}

fn delete(cursor: &mut Cursor<'_>) -> Option<ChangeShape> {
    let mut columns = Vec::new();
    if !cursor.take_word("from") {
        columns = names(cursor)?;
        if !cursor.take_word("from") {
            return None;
        }
    }
    let table = table(cursor)?;
    let using = using(cursor)?;
    let (conditions, condition) = (conditions(cursor)?, if_clause(cursor)?);
    let verb = ChangeVerb::Delete(columns);
    Some(ChangeShape { table, verb, conditions, using, condition })
}

/// `WHERE condition AND …`: without a condition there is no named partition.
fn conditions(cursor: &mut Cursor<'_>) -> Option<Vec<Condition>> {
    if !cursor.take_word("where") {
        return None;
    }
    let mut conditions = vec![condition(cursor)?];
    while cursor.take_word("and") {
        conditions.push(condition(cursor)?);
    }
    Some(conditions)
}

/// `IF [NOT] EXISTS`, `IF column operator value AND …`, or nothing.
fn if_clause(cursor: &mut Cursor<'_>) -> Option<Option<IfShape>> {
    if !cursor.take_word("if") {
        return Some(None);
    }
    if cursor.take_words(&["not", "exists"]) {
        return Some(Some(IfShape::NotExists));
    }
    if cursor.take_word("exists") {
        return Some(Some(IfShape::Exists));
    }
    let mut all = vec![comparison(cursor)?];
    while cursor.take_word("and") {
        all.push(comparison(cursor)?);
    }
    Some(Some(IfShape::All(all)))
}

fn comparison(cursor: &mut Cursor<'_>) -> Option<(Name, IfOperator, Vec<Operand>)> {
    let column = name(cursor)?;
    if cursor.take_word("in") {
        return Some((column, IfOperator::In, row(cursor)?));
    }
    let operator = match cursor.peek()? {
        Token::Eq => IfOperator::Equal,
        Token::Neq => IfOperator::NotEqual,
        Token::Lt => IfOperator::Less,
        Token::LtEq => IfOperator::LessOrEqual,
        Token::Gt => IfOperator::Greater,
        Token::GtEq => IfOperator::GreaterOrEqual,
        _ => return None,
    };
    cursor.skip_to(cursor.position() + 1);
    Some((column, operator, vec![operand(cursor)?]))
}

/// `USING TTL n AND TIMESTAMP n`, or nothing.
fn using(cursor: &mut Cursor<'_>) -> Option<Using> {
    let mut using = Using::default();
    if !cursor.take_word("using") {
        return Some(using);
    }
    loop {
        let place = if cursor.take_word("ttl") {
            &mut using.ttl
        } else if cursor.take_word("timestamp") {
            &mut using.timestamp
        } else {
            return None;
        };
        if place.replace(using_value(cursor)?).is_some() {
            return None;
        }
        if !cursor.take_word("and") {
            return Some(using);
        }
    }
}

fn using_value(cursor: &mut Cursor<'_>) -> Option<UsingValue> {
    match operand(cursor)? {
        Operand::Number(number @ 0..) => Some(UsingValue::Number(number)),
        Operand::Parameter(n) => Some(UsingValue::Parameter(n)),
        _ => None,
    }
}

fn row(cursor: &mut Cursor<'_>) -> Option<Vec<Operand>> {
    if !cursor.take(&Token::LParen) {
        return None;
    }
    let mut values = vec![operand(cursor)?];
    while cursor.take(&Token::Comma) {
        values.push(operand(cursor)?);
    }
    cursor.take(&Token::RParen).then_some(values)
}

fn table(cursor: &mut Cursor<'_>) -> Option<TableName> {
    let first = name(cursor)?;
    if cursor.take(&Token::Period) {
        return Some(TableName { keyspace: Some(first), table: name(cursor)? });
    }
    Some(TableName { keyspace: None, table: first })
}

fn names(cursor: &mut Cursor<'_>) -> Option<Vec<Name>> {
    let mut names = vec![name(cursor)?];
    while cursor.take(&Token::Comma) {
        names.push(name(cursor)?);
    }
    Some(names)
}

/// A name, quoted or no word that means something else.
fn name(cursor: &mut Cursor<'_>) -> Option<Name> {
    match cursor.peek()? {
        Token::Word(word) if word.quote_style.is_none() => {
            let is_reserved = RESERVED.iter().any(|known| word.value.eq_ignore_ascii_case(known));
            if is_reserved {
                return None;
            }
        }
        Token::Word(word) if word.quote_style == Some('"') => {}
        _ => return None,
    }
    cursor.name("a name").ok()
}

fn condition(cursor: &mut Cursor<'_>) -> Option<Condition> {
    let column = name(cursor)?;
    let operator = match cursor.peek()? {
        Token::Eq => Operator::Eq,
        Token::Lt => Operator::Lt,
        Token::LtEq => Operator::LtEq,
        Token::Gt => Operator::Gt,
        Token::GtEq => Operator::GtEq,
        _ => return None,
    };
    cursor.skip_to(cursor.position() + 1);
    Some(Condition { column, operator, value: operand(cursor)? })
}

fn ordered(cursor: &mut Cursor<'_>) -> Option<(Name, bool)> {
    let name = name(cursor)?;
    let is_descending = cursor.take_word("desc");
    if !is_descending {
        cursor.take_word("asc");
    }
    Some((name, is_descending))
}

fn operand(cursor: &mut Cursor<'_>) -> Option<Operand> {
    let (operand, length) = match (cursor.peek()?, cursor.peek_nth(1)) {
        (Token::Placeholder(name), _) => {
            (Operand::Parameter(name.strip_prefix('$')?.parse().ok()?), 1)
        }
        (Token::Number(digits, false), _) => (Operand::Number(digits.parse().ok()?), 1),
        (Token::Minus, Some(Token::Number(digits, false))) => {
            (Operand::Number(format!("-{digits}").parse().ok()?), 2)
        }
        (Token::SingleQuotedString(text), _) => (Operand::Text(text.clone()), 1),
        (Token::Word(word), _)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("null") =>
        {
            (Operand::Null, 1)
        }
        _ => return None,
    };
    cursor.skip_to(cursor.position() + length);
    // `1 + 2`, `'a' || 'b'` and the like: what follows a value is for the caller's grammar, which
    // knows no operator between values.
    Some(operand)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::split;

    fn shape(text: &str) -> Option<Shape> {
        Shape::read(split(text).unwrap().remove(0).tokens())
    }

    /// Words with a meaning in SQL, of which a query would otherwise read a column.
    const WORDS: &str = "all and any array as asc between by case cast current_catalog \
         current_date current_role current_time current_timestamp current_user desc distinct else \
         end except exists false from group having in intersect interval into is join like limit \
         localtime localtimestamp not null offset on or order select session_user set some table \
         then top true union unique user using values when where with";

    #[test]
    fn a_word_with_a_meaning_of_its_own_is_a_name_in_quotes_alone() {
        for word in WORDS.split_whitespace() {
            let mut mixed = word.to_owned();
            mixed[..1].make_ascii_uppercase();
            let quoted = format!("\"{word}\"");
            for (name, is_name) in
                [(word, false), (&word.to_uppercase(), false), (&mixed, false), (&quoted, true)]
            {
                for text in [
                    format!("SELECT {name} FROM t WHERE pk = 1"),
                    format!("SELECT v FROM {name} WHERE pk = 1"),
                    format!("SELECT v FROM ks.{name} WHERE pk = 1"),
                    format!("SELECT v FROM t WHERE {name} = 1"),
                    format!("SELECT v FROM t WHERE pk = 1 ORDER BY {name}"),
                    format!("INSERT INTO t (pk, {name}) VALUES (1, 2)"),
                    format!("UPDATE t SET {name} = 1 WHERE pk = 1"),
                    format!("DELETE v, {name} FROM t WHERE pk = 1"),
                    format!("DELETE FROM t WHERE pk = 1 IF {name} = 1"),
                ] {
                    assert_eq!(shape(&text).is_some(), is_name, "{text}");
                }
            }
        }
        assert!(shape("SELECT writetimes FROM t WHERE pk = 1").is_some());
    }

    #[test]
    fn a_batch_is_logged_unless_it_says_otherwise() {
        let write = "UPDATE t SET v = 1 WHERE pk = 1";
        for (begin, is_logged) in [
            ("BEGIN BATCH", Some(true)),
            ("BEGIN LOGGED BATCH", Some(true)),
            ("begin unlogged batch", Some(false)),
            ("BEGIN UNLOGGED BATCH USING TIMESTAMP 5", Some(false)),
            ("BEGIN BATCH USING TIMESTAMP $1", Some(true)),
            ("BEGIN UNLOGGED LOGGED BATCH", None),
            ("BEGIN BATCH USING TTL 5", None),
            ("BEGIN BATCH USING TIMESTAMP -5", None),
        ] {
            let text = format!("{begin} {write}; {write}; APPLY BATCH");
            let found = match shape(&text) {
                Some(Shape::Batch(batch)) => {
                    assert_eq!(batch.writes.len(), 2, "{text}");
                    let timestamp = begin.contains("TIMESTAMP");
                    assert_eq!(batch.timestamp.is_some(), timestamp, "{text}");
                    Some(batch.is_logged)
                }
                _ => None,
            };
            assert_eq!(found, is_logged, "{text}");
        }
    }

    #[test]
    fn what_is_compared_keeps_its_operator_and_what_is_sorted_its_direction() {
        let read = |text: &str| match shape(text) {
            Some(Shape::Select(select)) => select,
            other => panic!("{text}: {other:?}"),
        };
        for (sign, operator) in [
            ("=", Operator::Eq),
            ("<", Operator::Lt),
            ("<=", Operator::LtEq),
            (">", Operator::Gt),
            (">=", Operator::GtEq),
        ] {
            let select = read(&format!("SELECT v FROM t WHERE pk = 1 AND a {sign} -7"));
            let [_, condition] = &select.conditions[..] else { panic!("{sign}") };
            assert_eq!((condition.operator, &condition.value), (operator, &Operand::Number(-7)));
        }
        assert!(shape("SELECT v FROM t WHERE pk = 1 AND a <> 7").is_none());
        let select = read("SELECT v FROM t WHERE pk = 1 ORDER BY a, b ASC, c DESC LIMIT 7");
        let directions: Vec<bool> = select.order.iter().map(|(_, down)| *down).collect();
        assert_eq!(directions, [false, false, true]);
        assert_eq!((select.partition_limit, select.limit), (None, Some(Operand::Number(7))));
        let select = read("SELECT v FROM t WHERE pk = 1 PER PARTITION LIMIT 7");
        assert_eq!((select.partition_limit, select.limit), (Some(Operand::Number(7)), None));
        let write = "UPDATE t SET v = 1 WHERE pk = 1 IF v";
        for (sign, operator) in [
            ("= 7", IfOperator::Equal),
            ("!= 7", IfOperator::NotEqual),
            ("<> 7", IfOperator::NotEqual),
            ("< 7", IfOperator::Less),
            ("<= 7", IfOperator::LessOrEqual),
            ("> 7", IfOperator::Greater),
            (">= 7", IfOperator::GreaterOrEqual),
            ("IN (7)", IfOperator::In),
        ] {
            let Some(Shape::Write(WriteShape::Change(change))) = shape(&format!("{write} {sign}"))
            else {
                panic!("{sign} is of this grammar");
            };
            let Some(IfShape::All(all)) = change.condition else { panic!("{sign} is a condition") };
            assert_eq!((all[0].1, &all[0].2[..]), (operator, &[Operand::Number(7)][..]), "{sign}");
        }
    }
}
