//! What was asked and found, for another database to be asked the same: `tests/answers/duckdb.py`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::ast::{Expr, Query, Summary};
use super::evaluate::{Answer, Relation, Row, compare_keys};
use super::print::plain;
use super::shrink::visit_query;
use super::table::{COLLECTIONS, Table};
use super::value::{Type, Value, text};

/// A file of one JSON object a line.
pub struct Dump(BufWriter<File>);

impl Dump {
    /// The file of a seed in the folder that `TIDEGATE_ANSWERS_DUMP` names, if it does.
    pub fn of_seed(seed: u64) -> Option<Dump> {
        let folder = PathBuf::from(std::env::var("TIDEGATE_ANSWERS_DUMP").ok()?);
        let file =
            File::create(folder.join(format!("{seed}.jsonl"))).expect("a folder to write to");
        Some(Dump(BufWriter::new(file)))
    }

    fn line(&mut self, line: Json) {
        writeln!(self.0, "{line}").expect("a dump is written");
    }

    /// What a table holds from now on.
    pub fn table(&mut self, table: &Table, contents: &Relation) {
        let columns: Vec<String> = table
            .columns
            .iter()
            .filter(|column| !column.ty.is_collection())
            .map(|column| {
                let ty = match column.ty {
                    Type::Text => "varchar".to_owned(),
                    ty => ty.sql(),
                };
                format!("{} {ty}", column.name)
            })
            .collect();
        let name = &table.name;
        self.line(json!({
            "run": format!("CREATE OR REPLACE TABLE {name} ({})", columns.join(", ")),
        }));
        for row in &contents.rows {
            let cells: Vec<String> = (row.iter().zip(&table.columns))
                .filter(|(_, column)| !column.ty.is_collection())
                .map(|(value, column)| plain(value, column.ty))
                .collect();
            self.line(
                json!({ "run": format!("INSERT INTO {name} VALUES ({})", cells.join(", ")) }),
            );
        }
    }

    /// A query and what it gave, if others mean the same by it and only these rows can come.
    pub fn query(&mut self, query: &Query, answer: &Answer, found: &[Row]) {
        if !is_portable(query) || !is_determined(query, answer) {
            return;
        }
        let rows: Vec<Vec<Json>> = found.iter().map(|row| row.iter().map(cell).collect()).collect();
        self.line(json!({ "ask": query.to_string(), "rows": rows }));
    }
}

/// A value with its kind: `n` number, `t` text, `b` boolean, `x` bytes, `d` date or time.
fn cell(value: &Value) -> Json {
    let kind = match value {
        Value::Null => return Json::Null,
        Value::Bool(_) => "b",
        Value::Int(_) | Value::Float(_) | Value::Decimal(..) => "n",
        Value::Text(_) | Value::Set(_) | Value::Map(_) => "t",
        Value::Blob(_) => "x",
        Value::Date(_) | Value::Time(_) | Value::Timestamp(_) => "d",
    };
    json!(format!("{kind}:{}", text(value)))
}

/// Casts of fractions to integers round elsewhere, averages of decimals do not, zones need columns
/// that know theirs, texts in rows stay texts, and there are no sets.
fn is_portable(query: &Query) -> bool {
    let mut is_portable = true;
    visit_query(&mut query.clone(), &mut |expr| match expr {
        Expr::Cast(_, _, true) | Expr::Row(..) | Expr::InRows { .. } => is_portable = false,
        Expr::Column(_, name) if name.starts_with(COLLECTIONS) => is_portable = false,
        Expr::Part(_, _, zone) if *zone != "UTC" => is_portable = false,
        Expr::Aggregate(of) if of.summary == Summary::Average => is_portable = false,
        _ => {}
    });
    is_portable
}

/// Whether no other row that sorts alike could have come.
fn is_determined(query: &Query, answer: &Answer) -> bool {
    let rows = &answer.rows;
    let is_cut_clean = |at: usize| {
        at == 0 || at >= rows.len() || {
            let (before, after) = (&rows[at - 1].1, &rows[at].1);
            compare_keys(&answer.order, before, after).is_ne()
        }
    };
    is_cut_clean(query.offset)
        && query.limit.is_none_or(|limit| limit == 0 || is_cut_clean(query.offset + limit))
}
