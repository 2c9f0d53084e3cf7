//! Cells and rows as the files write them, and whether a statement is about a table.
//!
//! Conventions: `NULL`, `(empty)` for a text without characters, numbers without an exponent and
//! without zeros at their end, at most 12 digits behind the point of a float. A last cell of
//! several lines is a row for each line, with its number.

use std::ops::ControlFlow;

use sqlparser::ast::{Query, Statement, TableFactor, Visit, Visitor};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use tidegate::query::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use tidegate::query::arrow::datatypes::DataType;
use tidegate::query::arrow::util::display::{
    ArrayFormatter, DurationFormat, FormatOptions, array_value_to_string,
};

/// Digits of a float behind its point.
const FLOAT_DIGITS: usize = 12;

/// Statements that are questions or settings: what begins otherwise is about a table.
const PLAIN: &[&str] = &[
    "(",
    "deallocate",
    "execute",
    "explain",
    "prepare",
    "select",
    "set ",
    "reset",
    "values",
    "with",
];

/// Finds a relation that is neither made in the statement nor by a function.
#[derive(Default)]
struct Relations {
    made: Vec<String>,
}

impl Visitor for Relations {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.made.extend(tables.map(|table| table.alias.name.value.to_lowercase()));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: None, .. }
                if !self.made.contains(&name.to_string().to_lowercase()) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether a statement is about a table or view.
pub fn names_table(sql: &str) -> bool {
    let start = sql.trim_start().to_lowercase();
    if !PLAIN.iter().any(|word| start.starts_with(word)) {
        return true;
    }
    let parsed = Parser::parse_sql(&GenericDialect {}, sql).unwrap_or_default();
    let is_description =
        |statement: &Statement| matches!(statement, Statement::ExplainTable { .. });
    parsed.iter().any(is_description) || parsed.visit(&mut Relations::default()).is_break()
}

/// The rows of all batches.
pub fn rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let of_batch = |batch: &RecordBatch| {
        let row = |at| batch.columns().iter().map(|column| cell(column, at)).collect();
        (0..batch.num_rows()).map(row).collect::<Vec<Vec<String>>>()
    };
    batches.iter().flat_map(of_batch).flat_map(by_lines).collect()
}

/// A row, and behind it one for each line of its last cell, if that has several.
fn by_lines(mut row: Vec<String>) -> Vec<Vec<String>> {
    let Some(last) = row.pop_if(|last| last.contains('\n')) else { return vec![row] };
    let line = |(number, line): (usize, &str)| {
        let text = line.trim_start();
        let indent = "-".repeat(line.len() - text.len());
        vec![format!("{number:02}){indent}{text}")]
    };
    let lines: Vec<Vec<String>> = (1..).zip(last.split('\n')).map(line).collect();
    [row].into_iter().chain(lines).collect()
}

fn cell(column: &ArrayRef, at: usize) -> String {
    if column.is_null(at) {
        return "NULL".to_owned();
    }
    let shown = || array_value_to_string(column, at).expect("a value has a text");
    match column.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match shown() {
            text if text.is_empty() => "(empty)".to_owned(),
            text => text.trim_end_matches('\n').replace('\0', "\\0"),
        },
        DataType::Float16 | DataType::Float32 | DataType::Float64 => float(&shown()),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => without_zeros(&shown()),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            cell(dictionary.values(), dictionary.normalized_keys()[at])
        }
        _ => {
            let options = FormatOptions::new()
                .with_null("NULL")
                .with_date_format(Some("%Y-%m-%d"))
                .with_datetime_format(Some("%Y-%m-%dT%H:%M:%S%.f"))
                .with_timestamp_format(Some("%Y-%m-%dT%H:%M:%S%.f"))
                .with_time_format(Some("%H:%M:%S%.f"))
                .with_duration_format(DurationFormat::Pretty);
            let formatter = ArrayFormatter::try_new(column, &options);
            formatter.expect("a type has a format").value(at).to_string()
        }
    }
}

/// A float as it is shown: perhaps with an exponent.
fn float(shown: &str) -> String {
    match shown {
        "NaN" | "-NaN" => "NaN".to_owned(),
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        number => without_zeros(&rounded(&without_exponent(number))),
    }
}

fn without_exponent(number: &str) -> String {
    let Some((digits, exponent)) = number.split_once('e') else { return number.to_owned() };
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{behind}");
    let point = whole.len() as i32 + exponent;
    match usize::try_from(point) {
        Ok(point) if point >= all.len() => format!("{sign}{all:0<point$}"),
        Ok(point) if point > 0 => format!("{sign}{}.{}", &all[..point], &all[point..]),
        _ => format!("{sign}0.{}{all}", "0".repeat(point.unsigned_abs() as usize)),
    }
}

/// At most [`FLOAT_DIGITS`] behind the point; of two that are as near, the even one.
fn rounded(number: &str) -> String {
    let Some((whole, behind)) = number.split_once('.') else { return number.to_owned() };
    if behind.len() <= FLOAT_DIGITS {
        return number.to_owned();
    }
    let (kept, rest) = behind.split_at(FLOAT_DIGITS);
    let mut digits: Vec<u8> = format!("{whole}{kept}").into_bytes();
    let is_odd = digits.last().is_some_and(|digit| (digit - b'0') % 2 == 1);
    let half = format!("5{}", "0".repeat(rest.len() - 1));
    if rest > &half[..] || rest == half && is_odd {
        let nines = digits.iter().rev().take_while(|digit| **digit == b'9').count();
        let last = digits.len() - nines;
        digits[last..].fill(b'0');
        match last.checked_sub(1).filter(|at| digits[*at] != b'-') {
            Some(at) => digits[at] += 1,
            None => digits.insert(last, b'1'),
        }
    }
    let digits = String::from_utf8(digits).expect("digits are text");
    let (whole, behind) = digits.split_at(digits.len() - FLOAT_DIGITS);
    format!("{whole}.{behind}")
}

fn without_zeros(number: &str) -> String {
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    if number == "-0" { "0".to_owned() } else { number.to_owned() }
}

#[test]
fn numbers_are_plain() {
    let cases = [
        ("1.0", "1"),
        ("-0.0", "0"),
        ("1e3", "1000"),
        ("-1.25e-3", "-0.00125"),
        ("1.5e16", "15000000000000000"),
        ("9.9999999999999", "10"),
        ("-9.9999999999999", "-10"),
        ("0.1234567890125", "0.123456789012"),
        ("0.1234567890135", "0.123456789014"),
        ("0.12345678901251", "0.123456789013"),
        ("NaN", "NaN"),
        ("-inf", "-Infinity"),
        ("100", "100"),
    ];
    for (shown, wanted) in cases {
        assert_eq!(float(shown), wanted, "{shown}");
    }
    assert_eq!(without_zeros("1.500"), "1.5");
}

#[test]
fn statements_about_tables_are_told_from_others() {
    for sql in [
        "SELECT 1",
        "WITH t AS (SELECT 1) SELECT * FROM t",
        "SET a = 1",
        "VALUES (1)",
        "SELECT * FROM generate_series(1, 2)",
        "SELECT what is this",
    ] {
        assert!(!names_table(sql), "{sql}");
    }
    for sql in [
        "SELECT * FROM t",
        "CREATE TABLE t (a INT)",
        "DROP VIEW v",
        "EXPLAIN SELECT a FROM t",
        "COPY t TO 'x'",
        "SELECT (SELECT max(a) FROM t)",
    ] {
        assert!(names_table(sql), "{sql}");
    }
}
