//! `DESCRIBE`: the columns of a table with their types and roles, and its options.
//!
//! Invariant: an option stands as `WITH` takes it, so what is shown can be typed.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, SchemaRef as ArrowSchemaRef};
use tidegate_engine::schema::table_schema::RateLimit;
use tidegate_engine::{
    ClusteringOrder, ColumnKind, CompactionOptions, Compression, LargeDataOptions, OnCorruption,
    TableOptions, TableSchema,
};

use super::{OwnStatement, Read};
use crate::query::error::{QueryError, Result};
use crate::query::outcome::{Outcome, batch, text_schema};
use crate::query::parse::{Cursor, TableName};
use crate::query::scan::catalog::CATALOG;
use crate::query::session::Session;
use crate::query::system::SYSTEM_KEYSPACE;

/// Name, type or value, and kind of a column or option.
type Row = [String; 3];

/// Schema of the rows: `name`, `definition` (a type, or an option's value) and `kind`.
fn schema() -> ArrowSchemaRef {
    text_schema(&["name", "definition", "kind"])
}

#[derive(Debug)]
pub struct Describe(TableName);

impl Read for Describe {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        cursor.take_word("table");
        Ok(Describe(cursor.table_name()?))
    }
}

#[async_trait]
impl OwnStatement for Describe {
    /// One row a column, then one an option. Tables of `system` have no options.
    async fn run(&self, session: &Session) -> Result<Outcome> {
        let Describe(name) = self;
        let keyspace = name.keyspace.as_ref().map(|keyspace| keyspace.value.clone());
        if keyspace.unwrap_or_else(|| session.keyspace()) == SYSTEM_KEYSPACE {
            return outcome(system_columns(session, name).await?);
        }
        let table = session.table(name)?;
        let mut rows = columns(&table);
        let options = options(&table.options).into_iter();
        rows.extend(options.map(|(name, value)| [name.to_owned(), value, "option".to_owned()]));
        outcome(rows)
    }

    async fn schema(&self, _session: &Session) -> Result<ArrowSchemaRef> {
        Ok(schema())
    }

    fn is_query(&self) -> bool {
        true
    }
}

async fn system_columns(session: &Session, name: &TableName) -> Result<Vec<Row>> {
    let catalog = session.context.catalog(CATALOG);
    let system = catalog.and_then(|catalog| catalog.schema(SYSTEM_KEYSPACE));
    let system = system.expect("every session has the keyspace system");
    let Some(table) = system.table(&name.table.value).await? else {
        let known = system.table_names();
        let known = known.iter().map(String::as_str);
        let error = QueryError::not_found("table", &name.table.value, known);
        return Err(error.at(name.table.span));
    };
    let schema = table.schema();
    let rows = schema
        .fields()
        .iter()
        .map(|field| [field.name().clone(), sql_name(field.data_type()), "column".to_owned()]);
    Ok(rows.collect())
}

fn outcome(rows: Vec<Row>) -> Result<Outcome> {
    let column = |n: usize| {
        let values = rows.iter().map(|row| row[n].as_str());
        Arc::new(StringArray::from_iter_values(values)) as ArrayRef
    };
    let batch = batch(schema(), vec![column(0), column(1), column(2)])?;
    Ok(Outcome::batches(schema(), vec![batch]))
}

fn columns(table: &TableSchema) -> Vec<Row> {
    let kind = |kind: ColumnKind| match kind {
        ColumnKind::PartitionKey { .. } => "partition key",
        ColumnKind::ClusteringKey { order: ClusteringOrder::Ascending, .. } => "clustering key",
        ColumnKind::ClusteringKey { order: ClusteringOrder::Descending, .. } => {
            "clustering key, descending"
        }
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
        ColumnKind::Dropped { .. } => "dropped",
    };
    let row = |column: &tidegate_engine::Column| {
        [column.name.clone(), column.ty.sql_name(), kind(column.kind).to_owned()]
    };
    table.present_columns().map(row).collect()
}

/// SQL's name of a type of Arrow, as tables of `system` have them.
fn sql_name(ty: &DataType) -> String {
    match ty {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 => "tinyint".to_owned(),
        DataType::Int16 | DataType::UInt8 => "smallint".to_owned(),
        DataType::Int32 | DataType::UInt16 => "int".to_owned(),
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => "bigint".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "blob".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        other => other.to_string(),
    }
}

/// Names of all options with their values as `WITH` takes them.
fn options(options: &TableOptions) -> Vec<(&'static str, String)> {
    // Every field is named, so that a new one cannot be forgotten here.
    let TableOptions {
        default_time_to_live,
        gc_grace_seconds,
        column_index_bytes,
        comment,
        per_partition_rate_limit,
        large_data,
        on_corruption,
        compression,
        compaction,
        // Found out when files are attached; no statement sets it.
        has_partial_keys: _,
    } = options;
    let on_corruption = match on_corruption {
        OnCorruption::Fail => "fail",
        OnCorruption::Skip => "skip",
    };
    vec![
        ("column_index_size_in_kb", (column_index_bytes / 1024).to_string()),
        ("comment", quoted(comment)),
        ("compaction", compaction_map(compaction)),
        ("compression", compression_map(compression.as_ref())),
        ("default_time_to_live", default_time_to_live.to_string()),
        ("gc_grace_seconds", gc_grace_seconds.to_string()),
        ("large_data", large_data_map(large_data)),
        ("on_corruption", quoted(on_corruption)),
        ("per_partition_rate_limit", rate_map(per_partition_rate_limit)),
    ]
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn map(entries: Vec<(&str, String)>) -> String {
    let entries = entries.into_iter().map(|(name, value)| format!("'{name}': {value}"));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}

fn compression_map(compression: Option<&Compression>) -> String {
    let Some(Compression { compressor, chunk_bytes, level, .. }) = compression else {
        return "{'enabled': false}".to_owned();
    };
    let mut entries = vec![
        ("class", quoted(compressor.class())),
        ("chunk_length_in_kb", (chunk_bytes / 1024).to_string()),
    ];
    entries.extend(level.map(|level| ("compression_level", level.to_string())));
    map(entries)
}

/// The strategy, and what differs from its options in a new table.
fn compaction_map(options: &CompactionOptions) -> String {
    let class = ("class", quoted(options.class.class()));
    let usual = compaction_entries(&CompactionOptions::of_class(options.class));
    let entries = compaction_entries(options).into_iter();
    let differing = entries.filter(|entry| !usual.contains(entry));
    map([class].into_iter().chain(differing).collect())
}

/// Every option but the class.
fn compaction_entries(options: &CompactionOptions) -> Vec<(&'static str, String)> {
    let goal = options.space_amplification_goal;
    let mut entries = vec![
        ("enabled", options.is_enabled.to_string()),
        ("min_threshold", options.min_threshold.to_string()),
        ("max_threshold", options.max_threshold.to_string()),
        ("bucket_low", options.bucket_low.to_string()),
        ("bucket_high", options.bucket_high.to_string()),
        ("min_sstable_size", options.min_sstable_bytes.to_string()),
        ("sstable_size_in_mb", (options.sstable_bytes >> 20).to_string()),
        ("fanout_size", options.fanout.to_string()),
        ("compaction_window_unit", quoted(options.window_unit.name())),
        ("compaction_window_size", options.window_size.to_string()),
        ("tombstone_threshold", options.tombstone_threshold.to_string()),
        ("tombstone_compaction_interval", options.tombstone_interval_seconds.to_string()),
    ];
    entries.extend(goal.map(|goal| ("space_amplification_goal", goal.to_string())));
    entries
}

fn large_data_map(thresholds: &LargeDataOptions) -> String {
    let all = [
        ("partition_bytes", thresholds.partition_bytes),
        ("row_bytes", thresholds.row_bytes),
        ("cell_bytes", thresholds.cell_bytes),
        ("partition_rows", thresholds.partition_rows),
        ("collection_elements", thresholds.collection_elements),
    ];
    let set = all.into_iter().filter_map(|(name, most)| Some((name, most?.to_string())));
    map(set.collect())
}

fn rate_map(limit: &RateLimit) -> String {
    let reads = limit.max_reads_per_second.map(|rate| ("max_reads_per_second", rate.to_string()));
    let writes =
        limit.max_writes_per_second.map(|rate| ("max_writes_per_second", rate.to_string()));
    map(reads.into_iter().chain(writes).collect())
}
