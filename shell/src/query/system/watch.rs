//! The tables `system.traces`, `system.slow_queries` and `system.long_waits`: what statements did,
//! and which reads waited.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, StringArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field};
use tidegate_engine::Error as EngineError;
use tidegate_engine::policy::admission::WorkClass;
use tidegate_engine::probe::{Count, Step};

use super::columns::{count, counts, moment, optional, shard, text, texts};
use crate::query::engine::Engine;
use crate::query::watch::Record;

/// A row a step.
pub fn trace_fields() -> Vec<Field> {
    let mut fields = vec![count("trace")];
    fields.extend(statement_fields());
    fields.extend([
        Field::new("step", DataType::UInt32, false),
        count("at_us"),
        optional("shard", DataType::UInt32),
        optional("class", DataType::Utf8),
        optional("bytes", DataType::UInt64),
        text("activity"),
        count("left_out"),
    ]);
    fields
}

pub fn traces(database: &Engine) -> Vec<ArrayRef> {
    let traces = database.journal().traces(database.clock().wall_us());
    let rows: Vec<(&Record, u32, Step)> = traces
        .iter()
        .flat_map(|trace| (1..).zip(trace.steps()).map(move |(n, step)| (trace, n, step)))
        .collect();
    let mut columns = vec![counts(rows.iter().map(|(trace, ..)| trace.number))];
    columns.extend(statement_columns(rows.iter().map(|(trace, ..)| *trace)));
    let steps = || rows.iter().map(|(.., step)| step);
    let own: [ArrayRef; 7] = [
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(_, n, _)| *n))),
        counts(steps().map(|step| step.at_ns / 1000)),
        Arc::new(steps().map(|step| step.shard).collect::<UInt32Array>()),
        Arc::new(steps().map(|step| step.class).collect::<StringArray>()),
        Arc::new(steps().map(|step| step.bytes).collect::<UInt64Array>()),
        texts(steps().map(|step| &*step.text)),
        counts(rows.iter().map(|(trace, ..)| trace.left_out())),
    ];
    columns.extend(own);
    columns
}

/// A row a statement, with all counters.
pub fn slow_fields() -> Vec<Field> {
    let mut fields = vec![count("number")];
    fields.extend(statement_fields());
    fields.push(count("rows"));
    fields.push(optional("error", DataType::Utf8));
    fields.extend(Count::ALL.iter().map(|what| match what.is_time() {
        true => count(&format!("{}_us", what.name())),
        false => count(what.name()),
    }));
    fields
}

pub fn slow_queries(database: &Engine) -> Vec<ArrayRef> {
    let all = database.journal().slow(database.clock().wall_us());
    let mut columns = vec![counts(all.iter().map(|record| record.number))];
    columns.extend(statement_columns(all.iter().map(|record| &**record)));
    columns.push(counts(all.iter().map(|record| record.rows)));
    columns
        .push(Arc::new(all.iter().map(|record| record.error.as_deref()).collect::<StringArray>()));
    for what in Count::ALL {
        let unit = if what.is_time() { 1000 } else { 1 };
        columns.push(counts(all.iter().map(|record| record.stats()[what] / unit)));
    }
    columns
}

/// A row a read that waited long for its turn.
pub fn wait_fields() -> Vec<Field> {
    vec![
        shard(),
        Field::new("at", moment(), false),
        text("table_name"),
        text("class"),
        count("waited_us"),
        Field::new("had_turn", DataType::Boolean, false),
    ]
}

pub async fn long_waits(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.long_waits().await?;
    let at = TimestampMicrosecondArray::from_iter_values(all.iter().map(|(_, wait)| wait.at_us));
    let had_turn = all.iter().map(|(_, wait)| Some(wait.had_turn));
    Ok(vec![
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|(shard, _)| *shard))),
        Arc::new(at.with_timezone("UTC")),
        texts(all.iter().map(|(_, wait)| wait.table.as_str())),
        texts(all.iter().map(|(_, wait)| WorkClass::from(wait.class).as_str())),
        counts(all.iter().map(|(_, wait)| wait.waited_us)),
        Arc::new(had_turn.collect::<BooleanArray>()),
    ])
}

fn statement_fields() -> Vec<Field> {
    vec![
        Field::new("started_at", moment(), false),
        text("session"),
        text("statement"),
        count("duration_us"),
        optional("trace_id", DataType::Utf8),
    ]
}

fn statement_columns<'a>(
    records: impl Iterator<Item = &'a Record> + Clone,
) -> impl Iterator<Item = ArrayRef> {
    let started = records.clone().map(|record| record.started_us);
    let started = TimestampMicrosecondArray::from_iter_values(started).with_timezone("UTC");
    let trace_ids = records.clone().map(|record| record.trace_id.as_deref());
    let columns: [ArrayRef; 5] = [
        Arc::new(started),
        texts(records.clone().map(|record| &*record.session)),
        texts(records.clone().map(|record| &*record.statement)),
        counts(records.map(|record| record.duration_us)),
        Arc::new(trace_ids.collect::<StringArray>()),
    ];
    columns.into_iter()
}
