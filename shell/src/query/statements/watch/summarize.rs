//! SUMMARIZE: of each column of a table or of a query, how its values spread, as a row.
//!
//! One query aggregates all columns at once, so that the rows are read once. The columns of the
//! answer have the names that DuckDB gives them. What a type has no aggregate for is null.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as SqlStatement;
use sqlparser::tokenizer::TokenWithSpan;
use tidegate_engine::schema::in_quotes;

use crate::query::access::Need;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::{Outcome, batch};
use crate::query::parse::statement::synthetic;
use crate::query::parse::{self, Cursor};
use crate::query::session::Session;
use crate::query::statements::{OwnStatement, Read};

/// Aggregates whose values are texts, in the order of the answer.
const TEXTS: [&str; 7] = ["min", "max", "avg", "std", "q25", "q50", "q75"];

/// See the head of this file.
#[derive(Debug)]
pub struct Summarize {
    /// A table, or a query in parentheses.
    source: Vec<TokenWithSpan>,
    /// What EXPLAIN or EXPLAIN ANALYZE says of the query is wanted instead of its answer.
    explained: Option<&'static str>,
}

impl Read for Summarize {
    /// `[keyspace.]table`, or a query.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let rest = cursor.rest();
        let begins = |word: &str| parse::statement::is_word(&rest[0].token, word);
        if !rest.is_empty() && (begins("select") || begins("with")) {
            cursor.skip_to(cursor.position() + rest.len());
            let source = [&synthetic("(")?[..], rest, &synthetic(") AS summarized")?].concat();
            return Ok(Summarize { source, explained: None });
        }
        cursor.table_name()?;
        let source = rest[..rest.len() - cursor.rest().len()].to_vec();
        Ok(Summarize { source, explained: None })
    }
}

impl Summarize {
    /// The same statement below EXPLAIN, or below EXPLAIN ANALYZE.
    pub fn explained(self, analyze: bool) -> Self {
        let explained = if analyze { "EXPLAIN ANALYZE" } else { "EXPLAIN" };
        Summarize { explained: Some(explained), ..self }
    }

    /// A statement that ends with the source.
    fn sql(&self, text: &str) -> Result<SqlStatement> {
        parse::sql(&[&synthetic(text)?[..], &self.source].concat())
    }

    /// The columns of the source.
    async fn columns(&self, session: &Session) -> Result<Vec<Arc<Field>>> {
        let plan = session.plan(self.sql("SELECT * FROM")?).await?;
        Ok(plan.schema().fields().iter().cloned().collect())
    }
}

/// The aggregates of all columns, in the order of the columns: rows that are not null, distinct
/// values, then those of [`TEXTS`].
fn aggregates(columns: &[Arc<Field>]) -> String {
    let mut all = vec!["count(*)".to_owned()];
    for (n, field) in columns.iter().enumerate() {
        let name = in_quotes(field.name());
        all.push(format!("count({name}) AS c{n}"));
        let ty = field.data_type();
        all.push(match is_scalar(ty) {
            true => format!("approx_distinct(CAST({name} AS text)) AS d{n}"),
            false => format!("NULL AS d{n}"),
        });
        for what in TEXTS {
            let value = aggregate(what, &name, ty).unwrap_or_else(|| "NULL".to_owned());
            all.push(format!("CAST({value} AS text) AS {what}{n}"));
        }
    }
    format!("SELECT {} FROM", all.join(", "))
}

fn aggregate(what: &str, name: &str, ty: &DataType) -> Option<String> {
    let number = || ty.is_numeric().then(|| format!("CAST({name} AS double)"));
    let quantile = |part: &str| {
        let number = number()?;
        let part = format!("CAST({part} AS double)");
        Some(format!("approx_percentile_cont({part}) WITHIN GROUP (ORDER BY {number})"))
    };
    match what {
        "min" | "max" => is_scalar(ty).then(|| format!("{what}({name})")),
        "avg" => Some(format!("avg({})", number()?)),
        "std" => Some(format!("stddev({})", number()?)),
        "q25" => quantile("0.25"),
        "q50" => quantile("0.5"),
        _ => quantile("0.75"),
    }
}

/// Whether values of a type are compared and written as text.
fn is_scalar(ty: &DataType) -> bool {
    let is_text = matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    is_text || ty.is_numeric() || ty.is_temporal() || *ty == DataType::Boolean
}

fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let mut fields = vec![
        Field::new("column_name", DataType::Utf8, false),
        Field::new("column_type", DataType::Utf8, false),
        text("min"),
        text("max"),
        Field::new("approx_unique", DataType::UInt64, true),
    ];
    fields.extend(TEXTS[2..].iter().map(|name| text(name)));
    fields.push(Field::new("count", DataType::UInt64, false));
    fields.push(Field::new("null_percentage", DataType::Float64, true));
    Arc::new(Schema::new(fields))
}

/// The one row of aggregates, column by column of the source.
struct Values<'a>(&'a RecordBatch);

impl Values<'_> {
    fn text(&self, at: usize) -> Result<Option<String>> {
        let column = self.0.column(at);
        if column.is_null(0) {
            return Ok(None);
        }
        let text = array_value_to_string(column, 0).map_err(DataFusionError::from);
        text.map(Some).map_err(QueryError::from)
    }

    fn number(&self, at: usize) -> Result<Option<u64>> {
        Ok(self.text(at)?.and_then(|text| text.parse().ok()))
    }
}

/// A row for each column of the source.
fn answer(columns: &[Arc<Field>], row: &RecordBatch) -> Result<RecordBatch> {
    let values = Values(row);
    let rows = values.number(0)?.unwrap_or_default();
    // Behind the number of rows each column has its count, its distinct values and the texts.
    let first = |n: usize| 1 + n * (2 + TEXTS.len());
    let texts = |what: usize| -> Result<ArrayRef> {
        let all = (0..columns.len()).map(|n| values.text(first(n) + 2 + what));
        Ok(Arc::new(all.collect::<Result<StringArray>>()?))
    };
    let distinct = (0..columns.len()).map(|n| values.number(first(n) + 1));
    let null_part = |n: usize| -> Result<Option<f64>> {
        let known = values.number(first(n))?.unwrap_or_default();
        let percent = (rows - known.min(rows)) as f64 * 100.0 / rows as f64;
        Ok((rows > 0).then(|| (percent * 100.0).round() / 100.0))
    };
    let nulls = (0..columns.len()).map(null_part);
    let names = columns.iter().map(|field| field.name().as_str());
    let types = columns.iter().map(|field| field.data_type().to_string());
    let mut answer: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(names)),
        Arc::new(StringArray::from_iter_values(types)),
        texts(0)?,
        texts(1)?,
        Arc::new(distinct.collect::<Result<UInt64Array>>()?),
    ];
    for what in 2..TEXTS.len() {
        answer.push(texts(what)?);
    }
    answer.push(Arc::new(UInt64Array::from(vec![rows; columns.len()])));
    answer.push(Arc::new(nulls.collect::<Result<Float64Array>>()?));
    batch(schema(), answer)
}

impl OwnStatement for Summarize {
    fn needs(&self, _session: &Session) -> Vec<Need> {
        Vec::new()
    }

    async fn run(&self, session: &Session) -> Result<Outcome> {
        let columns = self.columns(session).await?;
        let text = aggregates(&columns);
        if let Some(explained) = self.explained {
            return session.query(self.sql(&format!("{explained} {text}"))?, &[]).await;
        }
        let batches = session.query(self.sql(&text)?, &[]).await?.collect().await?;
        let row = batches.iter().find(|batch| batch.num_rows() > 0);
        let row = row.ok_or_else(|| QueryError::invalid("an aggregate gave no row"))?;
        Ok(Outcome::batches(schema(), vec![answer(&columns, row)?]))
    }

    async fn schema(&self, _session: &Session) -> Result<SchemaRef> {
        Ok(match self.explained {
            None => schema(),
            Some(_) => LogicalPlan::explain_schema(),
        })
    }

    fn is_query(&self) -> bool {
        true
    }
}
