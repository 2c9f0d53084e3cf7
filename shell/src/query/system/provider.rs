//! The keyspace `system` and its tables as DataFusion sees them.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::system::SystemTable;
use crate::query::engine::Engine;
use crate::query::roster::Member;

/// Name of the keyspace.
pub const SYSTEM_KEYSPACE: &str = "system";

#[derive(Debug)]
pub struct SystemSchema {
    database: Engine,
}

impl SystemSchema {
    pub fn new(database: Engine) -> Self {
        SystemSchema { database }
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        SystemTable::ALL.iter().map(|table| table.name().to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(SystemTable::ALL.into_iter().find(|table| table.name() == name).map(|table| {
            let source = SystemSource { database: self.database.clone(), table };
            Arc::new(source) as Arc<dyn TableProvider>
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        SystemTable::ALL.iter().any(|table| table.name() == name)
    }
}

/// One table.
#[derive(Debug)]
pub struct SystemSource {
    database: Engine,
    table: SystemTable,
}

impl SystemSource {
    pub fn name(&self) -> &'static str {
        self.table.name()
    }
}

impl TableProvider for SystemSource {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    /// Conditions are looked at, and checked above all the same.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    /// What `async_trait` makes of an async function, without its bounds on what waits.
    fn scan<'table, 'state, 'projection, 'filters, 'scan>(
        &'table self,
        state: &'state dyn Session,
        projection: Option<&'projection Vec<usize>>,
        filters: &'filters [Expr],
        _limit: Option<usize>,
    ) -> BoxFuture<'scan, Result<Arc<dyn ExecutionPlan>>>
    where
        'table: 'scan,
        'state: 'scan,
        'projection: 'scan,
        'filters: 'scan,
    {
        self.read(state, projection, filters)
    }
}

impl SystemSource {
    /// What the table holds now, as a plan.
    fn read<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        let read = async move {
            let queries = &state.runtime_env().memory_pool;
            let viewer = state.config().get_extension::<Member>();
            let asked = (filters, queries, viewer.as_deref());
            let columns = self.table.columns(&self.database, asked).await;
            let columns = columns.map_err(|error| DataFusionError::External(Box::new(error)))?;
            let batch = RecordBatch::try_new(self.table.schema(), columns)?;
            let (schema, projection) = (self.table.schema(), projection.cloned());
            let plan = MemorySourceConfig::try_new_exec(&[vec![batch]], schema, projection)?;
            Ok(plan as Arc<dyn ExecutionPlan>)
        };
        read.boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use datafusion::arrow::array::TimestampMicrosecondArray;
    use datafusion::arrow::util::display::array_value_to_string;
    use tempfile::TempDir;
    use tidegate_engine::clock::SimulatedClock;
    use tidegate_engine::{Database, Options, RateReport, TableReport};

    use super::*;
    use crate::query::{Session as Sql, SessionOptions};

    /// A session on a database of its own.
    async fn session(shards: u32) -> (Sql, TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let options = Options { shards: Some(shards), ..Options::new(data) };
        let database = Database::open(options).await.unwrap();
        (Sql::new(database, SessionOptions::default()).unwrap(), directory)
    }

    async fn run(session: &Sql, text: &str) -> Vec<RecordBatch> {
        match session.execute(text).await {
            Ok(outcome) => outcome.collect().await.unwrap(),
            Err(error) => panic!("{text}: {error}"),
        }
    }

    /// All rows, sorted, each with its values behind one another.
    async fn rows(session: &Sql, columns: &str, from: &str) -> Vec<String> {
        let mut rows = Vec::new();
        for batch in run(session, &format!("SELECT {columns} FROM system.{from}")).await {
            rows.extend((0..batch.num_rows()).map(|row| {
                let values = batch.columns().iter();
                let texts = values.map(|column| array_value_to_string(column, row).unwrap());
                texts.collect::<Vec<_>>().join("|")
            }));
        }
        rows.sort();
        rows
    }

    fn sorted(rows: impl Iterator<Item = String>) -> Vec<String> {
        let mut rows: Vec<String> = rows.collect();
        rows.sort();
        rows
    }

    /// Two tables of one name, each with SSTables of several sizes and with rows in memory.
    async fn written(session: &Sql) {
        for text in [
            "CREATE KEYSPACE ks",
            "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))",
            "CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c))",
            "INSERT INTO t SELECT value % 7, value, 'x' FROM generate_series(1, 60) AS s(value)",
            "INSERT INTO ks.t (k, c) VALUES (1, 1), (2, 1), (2, 2)",
            "FLUSH",
            "INSERT INTO t (k, c, v) VALUES (1, 500, 'later') USING TIMESTAMP 77",
            "FLUSH t",
            "INSERT INTO t (k, c) VALUES (1, 1), (1, 2), (3, 3), (5, 5), (6, 6)",
            "INSERT INTO ks.t (k, c) VALUES (9, 9), (9, 8)",
        ] {
            run(session, text).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tables_and_their_files_have_the_figures_of_the_engine() {
        let (session, _directory) = session(2).await;
        written(&session).await;
        let columns = "keyspace_name, table_name, shard, number, run, level, bytes, partitions, \
                       rows, min_timestamp, max_timestamp, state";
        let files = session.database().sstable_report().await.unwrap();
        assert!(files.len() >= 3, "{files:?}");
        let wanted = files.iter().map(|file| {
            let (status, info) = (&file.status, &file.status.info);
            let place = format!("{}|{}|{}", file.keyspace, file.table, file.shard);
            let sizes = format!("{}|{}|{}", info.data_bytes, info.partitions, info.rows);
            let times = format!("{}|{}", info.min_timestamp, info.max_timestamp);
            let numbers = format!("{}|{}|{}", info.generation, status.run, info.level);
            format!("{place}|{numbers}|{sizes}|{times}|live")
        });
        assert_eq!(rows(&session, columns, "sstables").await, sorted(wanted));

        let figures = |report: &TableReport| {
            let TableReport { memtable_rows, memtable_bytes, sstables, .. } = *report;
            [memtable_rows, memtable_bytes, sstables, report.sstable_rows, report.sstable_bytes]
        };
        let mut sums = BTreeMap::<(String, String), [u64; 5]>::new();
        for report in session.database().table_report().await.unwrap() {
            let key = (report.keyspace.clone(), report.table.clone());
            let sum = sums.entry(key).or_default();
            sum.iter_mut().zip(figures(&report)).for_each(|(sum, figure)| *sum += figure);
        }
        let known = [("default", 5, 61), ("ks", 2, 3)];
        for ((keyspace, memtable_rows, sstable_rows), sum) in known.into_iter().zip(sums.values()) {
            assert_eq!((sum[0], sum[3]), (memtable_rows, sstable_rows), "{keyspace}: {sums:?}");
        }
        let columns = "keyspace_name, table_name, memtable_rows, memtable_bytes, sstables, \
                       sstable_rows, sstable_bytes";
        let wanted = sums.iter().map(|((keyspace, table), figures)| {
            let figures = figures.map(|figure| figure.to_string()).join("|");
            format!("{keyspace}|{table}|{figures}")
        });
        assert_eq!(rows(&session, columns, "tables").await, sorted(wanted));
        session.database().close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn limits_and_what_is_asked_most_have_the_figures_of_the_engine() {
        let directory = tempfile::tempdir().unwrap();
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let options = Options { shards: Some(1), clock, ..Options::new(directory.path()) };
        let database = Database::open(options).await.unwrap();
        let session = Sql::new(database, SessionOptions::default()).unwrap();
        let limits = "{'max_reads_per_second': 2, 'max_writes_per_second': 5}";
        let table = "CREATE TABLE t (k int PRIMARY KEY) WITH per_partition_rate_limit = ";
        run(&session, &format!("{table}{limits}")).await;
        for _ in 0..40 {
            // What is beyond a limit is refused, and counted.
            let _ = session.execute("INSERT INTO t (k) VALUES (1)").await;
        }
        for _ in 0..20 {
            if let Ok(outcome) = session.execute("SELECT k FROM t WHERE k = 2").await {
                let _ = outcome.collect().await;
            }
        }
        let database = session.database();
        let wanted = database.rate_report().await.unwrap();
        let [only] = &wanted[..] else { panic!("one of each shard: {wanted:?}") };
        let RateReport { reads, reads_refused, writes, writes_refused, .. } = *only;
        assert_eq!((reads, writes), (20, 40), "{only:?}");
        assert!(reads_refused > 0 && writes_refused > 0 && reads_refused != writes_refused);
        let wanted = format!(
            "{}|{}|{reads}|{reads_refused}|{writes}|{writes_refused}|{}|{}|{}",
            only.shard,
            only.policy,
            only.asked,
            only.not_counted,
            only.last_failure.as_deref().unwrap_or("")
        );
        assert_eq!(rows(&session, "*", "rate_limits").await, [wanted]);

        let hot = database.hot_partitions().await.unwrap();
        let wanted = hot.iter().map(|report| {
            let counts = [report.hot.reads, report.hot.writes, report.hot.refused];
            let counts = counts.map(|count| count.to_string()).join("|");
            let (schema, missed) = (&report.schema, report.hot.missed_max);
            format!("{}|{}|{}|{counts}|{missed}", schema.keyspace, schema.name, report.shard)
        });
        let columns = "keyspace_name, table_name, shard, reads, writes, rejected, missed_max";
        let found = rows(&session, columns, "hot_partitions").await;
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found, sorted(wanted));
        session.database().close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_trace_in_the_table_is_that_of_the_session_step_by_step() {
        let (session, _directory) = session(2).await;
        written(&session).await;
        run(&session, "FLUSH").await;
        run(&session, "TRACING ON").await;
        let text = "SELECT v FROM t WHERE k IN (1, 2, 3) AND c > 0";
        run(&session, text).await;
        let trace = session.take_trace().expect("it is traced");
        run(&session, "TRACING OFF").await;
        let steps = trace.steps();
        let from_disk = steps.iter().filter(|step| step.class.is_some() && step.bytes.is_some());
        assert!(from_disk.count() > 0, "cold rows come from the disk: {steps:?}");
        let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let wanted = (1..).zip(&steps).map(|(n, step)| {
            let head = format!("{}|{}|{}", trace.number, trace.session, trace.statement);
            let (at_us, shard) = (step.at_ns / 1000, number(step.shard.map(u64::from)));
            let (class, bytes) = (step.class.unwrap_or(""), number(step.bytes));
            let of_step = format!("{n}|{at_us}|{shard}|{class}|{bytes}|{}", step.text);
            format!("{head}|{}|{of_step}|{}", trace.duration_us, trace.left_out())
        });
        let columns = "trace, session, statement, duration_us, step, at_us, shard, class, bytes, \
                       activity, left_out";
        let from = format!("traces WHERE trace = {}", trace.number);
        assert_eq!(rows(&session, columns, &from).await, sorted(wanted));
        assert_eq!(&*trace.statement, text);
        let began = TimestampMicrosecondArray::from(vec![trace.started_us]).with_timezone("UTC");
        let began = array_value_to_string(&began, 0).unwrap();
        assert_eq!(rows(&session, "max(started_at)", &from).await, [began]);
        session.database().close().await.unwrap();
    }
}
