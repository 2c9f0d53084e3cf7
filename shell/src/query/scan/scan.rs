//! The physical plan of a read: which shards, which slice, which direction, and what is checked on
//! the way out.
//!
//! Invariant: rows leave in the order that the plan's properties claim (`order.rs`).
//! Conditions that a slice cannot say are checked here, before the limit is counted, so that a
//! reversed page with such a condition is still read as a page.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef as ArrowSchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::apply_expression_roots;
use datafusion::physical_plan::filter::batch_filter;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SortOrderPushdownResult,
};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use tidegate_engine::batch::arrow_schema;
use tidegate_engine::mutation::{ClusteringRange, Direction, Slice};
use tidegate_engine::probe::Probe;
use tidegate_engine::schema::table_schema::SchemaRef;
use tidegate_engine::schema::{ColumnId, PartitionKey, TableSchema, Token};
use tidegate_engine::{
    BatchStream, ManyTombstones, NodeId, Partitions, ReadCommand, RowFilter, Terms,
};

use super::metrics::ScanMetrics;
use super::order::properties;
use super::partition_limit::{FirstRows, PartitionLimit};
use super::pushdown::{Access, Part};
use super::selection::Selection;
use super::source::{KEY_STREAMS_MAX, Read, Source, divided, sources};
use super::text::{ReadText, keys_text, ranges_text, slices_text};
use super::wanted::{WantedKeys, WantedValues};
use crate::query::engine::Engine;
use crate::query::setting::terms_under;

/// One row in so many is taken to pass a condition of which nothing is known, as DataFusion does.
const SHARE: u64 = 5;
/// Bytes of a value without a fixed width, about.
const OTHER_BYTES: usize = 24;
/// Batches without a matching row after which the stream lets other tasks run.
const EMPTY_BATCHES_MAX: usize = 16;

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct TideScan {
    pub(super) database: Engine,
    pub(super) table: SchemaRef,
    pub(super) access: Arc<Access>,
    pub(super) sources: Arc<[Source]>,
    pub(super) selection: Arc<Selection>,
    /// Over the batches as they are read.
    pub(super) predicate: Option<Arc<dyn PhysicalExpr>>,
    /// What of it shards judge by bytes of rows.
    pub(super) row_filter: Option<RowFilter>,
    pub(super) direction: Direction,
    pub(super) limit: Option<usize>,
    /// Rows of each partition, the first in the direction of the scan.
    pub(super) partition_limit: Option<usize>,
    pub(super) past_cache: bool,
    /// Tells which partitions have partners in a join; `None` outside one.
    pub(super) wanted: Option<Arc<WantedKeys>>,
    /// Tell which rows have partners in joins.
    pub(super) joined: Vec<Arc<WantedValues>>,
    /// Rows of the table, about; `None` where nobody has asked.
    pub(super) table_rows: Option<u64>,
    pub(super) properties: Arc<PlanProperties>,
    pub(super) metrics: ScanMetrics,
    /// On what terms it runs, where those of its session do not reach it.
    pub(super) terms: Option<Terms>,
    /// Whether nodes may send it to each other.
    pub(super) is_sent: bool,
}

impl TideScan {
    /// A forward scan of what `access` says; `predicate` is over all that is read.
    pub fn new(
        database: Engine,
        table: SchemaRef,
        access: Access,
        selection: Selection,
        predicate: Option<Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
    ) -> Self {
        let sources = sources(&database, &table, &access);
        let direction = Direction::Forward;
        let properties = properties(&table, &access, &selection, &sources, direction);
        TideScan {
            database,
            table,
            access: Arc::new(access),
            sources: sources.into(),
            selection: Arc::new(selection),
            predicate,
            row_filter: None,
            direction,
            limit,
            partition_limit: None,
            past_cache: false,
            wanted: None,
            joined: Vec::new(),
            table_rows: None,
            properties: Arc::new(properties),
            metrics: ScanMetrics::default(),
            terms: None,
            is_sent: false,
        }
    }

    /// The table, where all its partitions are read.
    pub fn whole_table(&self) -> Option<SchemaRef> {
        let is_limited = self.limit.is_some() || self.partition_limit.is_some();
        let is_cut = self.access.keys.is_some() || self.access.tokens.is_some();
        let is_whole = !is_cut && !is_limited && self.wanted.is_none();
        is_whole.then(|| Arc::clone(&self.table))
    }

    /// Whether the conditions name the partitions.
    pub fn names_partitions(&self) -> bool {
        self.access.keys.is_some()
    }

    /// The column of the table at a place of the output.
    pub fn column_at(&self, place: usize) -> Option<ColumnId> {
        self.selection.output().get(place).copied()
    }

    /// A scan of which shards leave rows out that fail its predicate.
    pub fn filtered(self, row_filter: Option<RowFilter>) -> Self {
        TideScan { row_filter, ..self }
    }

    /// A scan that reads partitions with partners only.
    pub fn of_wanted(&self, wanted: Arc<WantedKeys>) -> Self {
        TideScan { wanted: Some(wanted), metrics: ScanMetrics::default(), ..self.clone() }
    }

    /// The table, where rows may be left out of what is read.
    pub fn unlimited_table(&self) -> Option<SchemaRef> {
        let is_limited = self.limit.is_some() || self.partition_limit.is_some();
        let is_long = self.access.keys.is_none();
        (is_long && !is_limited).then(|| Arc::clone(&self.table))
    }

    /// A scan that leaves out rows without partners.
    pub fn of_values(&self, wanted: Arc<WantedValues>) -> Self {
        let joined = self.joined.iter().cloned().chain([wanted]).collect();
        TideScan { joined, metrics: ScanMetrics::default(), ..self.clone() }
    }

    /// A scan of a table that has about so many rows, in up to so many streams where they are many.
    pub fn of_rows(self, table_rows: Option<u64>, streams: usize) -> Self {
        let scan = TideScan { table_rows, ..self };
        let rows = scan.rows_about().unwrap_or(0);
        match divided(&scan.sources, streams, rows) {
            None => scan,
            Some(sources) => {
                let scan = TideScan { sources: sources.into(), ..scan };
                scan.with_direction(scan.direction)
            }
        }
    }

    /// How many rows come of a scan of all partitions, about: enough to tell which side of a join
    /// is the smaller one.
    fn rows_about(&self) -> Option<u64> {
        let is_cut = !self.access.is_whole_partition() || self.access.tokens.is_some();
        let share = |rows: u64, is_part: bool| if is_part { rows.div_ceil(SHARE) } else { rows };
        let rows = self.table_rows.filter(|_| self.access.keys.is_none())?;
        let rows = share(share(rows, is_cut), self.predicate.is_some());
        Some(self.limit.map_or(rows, |limit| rows.min(limit as u64)))
    }

    /// A scan that goes past the caches, or not.
    pub fn past_cache(self, past_cache: bool) -> Self {
        TideScan { past_cache, ..self }
    }

    /// A scan of what it reads of one shard.
    pub fn of_shard(self, shard: u32) -> Self {
        let mut sources = Vec::new();
        for source in self.sources.iter() {
            match source {
                Source::Shard { shard: own, .. } if *own == shard => sources.push(source.clone()),
                // Results have no parts in a cluster.
                Source::Shard { .. } | Source::Node { .. } => {}
                Source::Parts(parts) => {
                    let is_here = |key: &&PartitionKey| self.database.shard_of(key) == shard;
                    let here = |part: &Part| part.keys.iter().filter(is_here).cloned().collect();
                    let parts = parts.iter().map(|part| part.of(here(part)));
                    sources
                        .push(Source::Parts(parts.filter(|part| !part.keys.is_empty()).collect()));
                }
            }
        }
        let scan = TideScan { sources: sources.into(), ..self };
        scan.with_direction(scan.direction)
    }

    /// A scan of the first rows of each partition.
    pub fn limited(&self, limit: PartitionLimit) -> Self {
        TideScan { partition_limit: Some(limit.rows), ..self.with_direction(limit.direction) }
    }

    pub(super) fn with_direction(&self, direction: Direction) -> Self {
        let (table, access, selection) = (&self.table, &self.access, &self.selection);
        let properties = properties(table, access, selection, &self.sources, direction);
        TideScan {
            direction,
            properties: Arc::new(properties),
            metrics: ScanMetrics::default(),
            ..self.clone()
        }
    }

    /// Counts rows of partitions behind the predicate, where there is one.
    fn first_rows(&self) -> Option<FirstRows> {
        let rows = self.partition_limit.filter(|_| self.predicate.is_some())?;
        let place = |id| self.selection.columns().iter().position(|column| *column == id);
        let key = self.table.partition_key_ids().into_iter().map(place);
        Some(FirstRows::new(key.collect::<Option<_>>()?, rows))
    }

    /// What is read, but for the predicate.
    fn text(&self) -> ReadText<'_> {
        let partitions = match &self.access.keys {
            None if self.wanted.is_some() => "those of the join".to_owned(),
            None => match (self.access.tokens, self.only_node()) {
                (Some((min, max)), _) => format!("tokens {} to {}", min.0, max.0),
                (None, Some(name)) => format!("all of node {name}"),
                (None, None) => "all".to_owned(),
            },
            Some(keys) => keys_text(keys),
        };
        let slices = match &self.access.apart {
            Some(parts) => {
                let ranges = parts.iter().flat_map(|part| part.ranges.iter().cloned());
                let ranges: Vec<_> = ranges.collect();
                Some(format!("slices by key={}", slices_text(&self.table, &ranges)))
            }
            None => ranges_text(&self.table, &self.access.ranges),
        };
        ReadText {
            table: &self.table,
            partitions,
            slices,
            direction: self.direction,
            limit: self.limit,
            partition_limit: self.partition_limit,
            joined: self.joined.iter().map(|wanted| wanted.column_name()).collect(),
            past_cache: self.past_cache,
        }
    }
}

impl DisplayAs for TideScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, separator, end) = match format {
            DisplayFormatType::TreeRender => ("", "\n", "\n"),
            _ => ("TideScan: ", ", ", ""),
        };
        write!(f, "{start}")?;
        self.text().write(f, separator)?;
        if let Some(predicate) = &self.predicate {
            write!(f, "{separator}filter={predicate}")?;
        }
        write!(f, "{end}")
    }
}

impl ExecutionPlan for TideScan {
    fn name(&self) -> &str {
        "TideScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.predicate.iter(), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert!(children.is_empty(), "a scan has no input");
        Ok(self)
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(TideScan { limit, ..self.clone() }))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        Ok(match self.turned(order)? {
            Some(turned) => SortOrderPushdownResult::Exact { inner: Arc::new(turned) },
            None => SortOrderPushdownResult::Unsupported,
        })
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.all())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let schema = self.schema();
        let mut known = Statistics::new_unknown(&schema);
        if let Some(rows) = self.rows_about() {
            let streams = args.partition().map_or(1, |_| self.sources.len().max(1));
            let rows = usize::try_from(rows).unwrap_or(usize::MAX) / streams;
            let width = |field: &FieldRef| field.data_type().primitive_width();
            let widths = schema.fields().iter().map(|field| width(field).unwrap_or(OTHER_BYTES));
            known.num_rows = Precision::Inexact(rows);
            known.total_byte_size = Precision::Inexact(rows.saturating_mul(widths.sum()));
        }
        Ok(Arc::new(known))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let of_session = || terms_under(context.session_config(), &self.database.catalog());
        let terms = self.terms.unwrap_or_else(of_session);
        let reads = self.sources[partition].reads(&self.database, &self.access);
        let asks = self.wanted.is_some() || !self.joined.is_empty();
        let asked = match &self.sources[partition] {
            Source::Shard { shard, tokens } if asks => {
                Some(asked(self.clone(), *shard, *tokens).boxed())
            }
            _ => None,
        };
        let filter = self.row_filter.as_ref().map(RowFilter::anew);
        let command = |Read { node, partitions, ranges }| Command {
            node,
            read: self.command(partitions, ranges, (&terms, &filter)),
        };
        let set = self.metrics.of_streams();
        Ok(Box::pin(ScanStream {
            database: self.database.clone(),
            probe: self.metrics.probe(&context, &self.table),
            tombstones: context.session_config().get_extension(),
            commands: reads.into_iter().map(command).collect(),
            asked,
            batches: None,
            schema: self.schema(),
            predicate: self.predicate.clone(),
            filter,
            first_rows: self.first_rows(),
            output: self.selection.places(),
            remaining: self.limit,
            baseline: BaselineMetrics::new(set, partition),
            batches_read: MetricBuilder::new(set).counter("batches", partition),
            rows_read: MetricBuilder::new(set).counter("rows_read", partition),
        }))
    }
}

impl TideScan {
    fn command(
        &self,
        partitions: Partitions,
        ranges: Vec<ClusteringRange>,
        (terms, filter): (&Terms, &Option<RowFilter>),
    ) -> ReadCommand {
        ReadCommand {
            schema: Arc::clone(&self.table),
            partitions,
            slice: Slice { ranges, direction: self.direction },
            columns: self.selection.columns().to_vec(),
            stamps: self.selection.stamps().to_vec(),
            row_limit: None,
            // Rows that the predicate drops do not count.
            partition_limit: self.partition_limit.filter(|_| self.predicate.is_none()),
            deadline: terms.deadline,
            level: terms.level,
            past_cache: self.past_cache,
            filter: filter.clone(),
        }
    }
}

/// What joins ask a scan for.
struct Asked {
    /// The partitions that have partners; `None` where all are read.
    keys: Option<Vec<PartitionKey>>,
    /// Leaves out rows that have none.
    filter: Option<RowFilter>,
}

async fn asked(scan: TideScan, shard: u32, tokens: Option<(Token, Token)>) -> Asked {
    let mut keys = match &scan.wanted {
        Some(wanted) => wanted.of_shard(&scan.database, shard, KEY_STREAMS_MAX).await,
        None => None,
    };
    if let (Some(keys), Some((min, max))) = (&mut keys, tokens) {
        keys.retain(|key| (min..=max).contains(&key.token()));
    }
    let mut filter = None;
    // What is read by its key is little.
    if keys.is_none() {
        for wanted in &scan.joined {
            filter = RowFilter::both(filter, wanted.wait().await);
        }
    }
    Asked { keys, filter }
}

/// A read, and whom it is asked of; this node where there is none.
struct Command {
    node: Option<(NodeId, (Token, Token))>,
    read: ReadCommand,
}

struct ScanStream {
    database: Engine,
    /// Is told what the reads do, if the statement is watched.
    probe: Option<Probe>,
    /// Are told of pages that met many, if somebody wants to know.
    tombstones: Option<Arc<ManyTombstones>>,
    /// Tells what joins ask for, before anything is read.
    asked: Option<BoxFuture<'static, Asked>>,
    /// What is still to be read, one after the other.
    commands: VecDeque<Command>,
    /// What is being read. Dropping it stops the shard.
    batches: Option<BatchStream>,
    schema: ArrowSchemaRef,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    /// Knows of rows that were read and are in no batch.
    filter: Option<RowFilter>,
    /// Of each partition, where the shard cannot count what the predicate leaves.
    first_rows: Option<FirstRows>,
    output: Vec<usize>,
    remaining: Option<usize>,
    baseline: BaselineMetrics,
    batches_read: Count,
    rows_read: Count,
}

impl ScanStream {
    /// Reads these partitions, where there are some, instead of all, and leaves rows out.
    fn ask(&mut self, Asked { keys, filter }: Asked) {
        if keys.as_ref().is_some_and(Vec::is_empty) {
            return self.stop();
        }
        self.filter = RowFilter::both(self.filter.take(), filter);
        for command in &mut self.commands {
            command.read.filter = self.filter.clone();
            if let Some(keys) = &keys {
                command.read.partitions = Partitions::Keys(keys.clone());
            }
        }
    }

    /// Nothing more is read.
    fn stop(&mut self) {
        self.commands.clear();
        self.end();
    }

    /// All of a command was read.
    fn end(&mut self) {
        self.batches = None;
        if let Some(filter) = &self.filter {
            self.rows_read.add(filter.take_left_out() as usize);
        }
    }

    /// The batches that come next; `None` where all is read.
    fn batches(&mut self) -> Option<&mut BatchStream> {
        if self.batches.is_none() {
            let Command { node, mut read } = self.commands.pop_front()?;
            // Rows that the predicate drops do not count.
            read.row_limit = self.remaining.filter(|_| self.predicate.is_none());
            let batches = match node {
                None => self.database.read_watched(read, self.probe.clone()),
                Some((node, tokens)) => self.database.read_of_node(node, tokens, read),
            };
            self.batches = Some(match &self.tombstones {
                None => batches,
                Some(tombstones) => batches.noting(Arc::clone(tombstones)),
            });
        }
        self.batches.as_mut()
    }

    /// What of a batch leaves the scan.
    fn output(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let timer = self.baseline.elapsed_compute().timer();
        self.batches_read.add(1);
        self.rows_read.add(batch.num_rows());
        let mut batch = match &self.predicate {
            Some(predicate) => filtered(&batch, predicate)?,
            None => batch,
        };
        if let Some(first_rows) = &mut self.first_rows {
            batch = first_rows.of(&batch)?;
        }
        if self.output.len() < batch.num_columns() {
            batch = batch.project(&self.output)?;
        }
        drop(timer);
        if let Some(remaining) = self.remaining {
            if batch.num_rows() > remaining {
                batch = batch.slice(0, remaining);
            }
            let remaining = remaining - batch.num_rows();
            self.remaining = Some(remaining);
            if remaining == 0 {
                self.stop();
            }
        }
        Ok(batch)
    }
}

/// The rows of a batch that satisfy a predicate. What a predicate computes may be far longer than
/// the rows are, and take more memory at once than there is: then halves of the batch follow one
/// another.
fn filtered(batch: &RecordBatch, predicate: &Arc<dyn PhysicalExpr>) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    match batch_filter(batch, predicate) {
        Err(DataFusionError::ResourcesExhausted(_)) if rows > 1 => {
            let (half, rest) = (rows / 2, rows - rows / 2);
            let halves = [batch.slice(0, half), batch.slice(half, rest)];
            let kept = halves.iter().map(|half| filtered(half, predicate));
            let kept = kept.collect::<Result<Vec<_>>>()?;
            Ok(concat_batches(batch.schema_ref(), &kept)?)
        }
        filtered => filtered,
    }
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        for _ in 0..EMPTY_BATCHES_MAX {
            if let Some(asked) = &mut this.asked {
                let asked = ready!(asked.poll_unpin(context));
                this.asked = None;
                this.ask(asked);
            }
            let Some(batches) = this.batches() else { return Poll::Ready(None) };
            let output = match ready!(batches.poll_next_unpin(context)) {
                Some(Ok(batch)) => this.output(batch),
                Some(Err(error)) => Err(DataFusionError::External(Box::new(error))),
                None => {
                    this.end();
                    continue;
                }
            };
            match output {
                Ok(batch) if batch.num_rows() == 0 => {}
                Ok(batch) => {
                    let batch = (&batch).record_output(&this.baseline).clone();
                    return Poll::Ready(Some(Ok(batch)));
                }
                Err(error) => {
                    this.stop();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> ArrowSchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The Arrow schema of all columns of a table.
pub fn table_arrow_schema(table: &TableSchema) -> Arc<Schema> {
    arrow_schema(table, &table.ids().collect::<Vec<_>>())
}
