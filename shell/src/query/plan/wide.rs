//! Projections that compute text, bytes or lists: what they make is measured while they make it.
//!
//! DataFusion computes an expression for all rows of a batch at once and charges nobody for the
//! result: `repeat(v, 1000)` of 8,192 rows of 1 KB is 8 GB. Here a projection takes so many rows at
//! a time as make [`OUTPUT_BYTES`], going by the rows before, and reserves what it made from the
//! memory of queries until the next operator asks for more. Other operators that compute what can
//! grow, and UNNEST, get a few rows at a time ([`Slices`]).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};
use futures::{Stream, StreamExt};

use super::union::Changed;
use crate::query::outcome::{column_bytes, parts_of};
use crate::query::types::growing::is_growing;

/// What a batch of computed values aims at.
const OUTPUT_BYTES: usize = 4 << 20;
/// Constants up to this many bytes are never too wide.
const CONSTANT_BYTES: usize = 512;
/// Rows of the first step, where values are about as long as what they are made of.
const ROWS_AT_FIRST: usize = 256;
/// Rows that operators get at once where values can grow.
const SLICE_ROWS: usize = 64;

/// Goes last: puts a [`WideProjection`] in the place of each projection that needs one, and
/// [`Slices`] below other operators.
pub fn measure(plan: Arc<dyn ExecutionPlan>) -> Result<Changed> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return slice_inputs(plan);
    };
    let schema = projection.input().schema();
    if !projection.expr().iter().any(|column| can_be_wide(&*column.expr, &schema)) {
        return Ok(Transformed::no(plan));
    }
    let metrics = ExecutionPlanMetricsSet::new();
    Ok(Transformed::yes(Arc::new(WideProjection { projection: plan, metrics })))
}

fn slice_inputs(plan: Arc<dyn ExecutionPlan>) -> Result<Changed> {
    let mut grow = plan.is::<UnnestExec>();
    plan.apply_expressions(&mut |expr| {
        grow |= grows(&**expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !grow || plan.children().is_empty() {
        return Ok(Transformed::no(plan));
    }
    let slices = |input: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        Arc::new(Slices { input: Arc::clone(input) })
    };
    let inputs = plan.children().into_iter().map(slices).collect();
    Ok(Transformed::yes(replace_children_if_necessary(plan, inputs)?))
}

/// Whether values of an expression can take more than those that it is made of.
fn can_be_wide(expr: &dyn PhysicalExpr, schema: &SchemaRef) -> bool {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return literal.value().size() > CONSTANT_BYTES;
    }
    if expr.is::<Column>() {
        return false;
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return can_be_wide(&**cast.expr(), schema);
    }
    let is_flat = |ty: DataType| ty.primitive_width().is_some() || ty == DataType::Boolean;
    // A number that is computed from wide values is made of them while it is computed.
    expr.data_type(schema).is_ok_and(|ty| !is_flat(ty))
        || expr.children().iter().any(|child| can_be_wide(&***child, schema))
}

/// Whether values can be many times as long as what they are made of.
fn grows(expr: &dyn PhysicalExpr) -> bool {
    match expr.downcast_ref::<Literal>() {
        Some(literal) => literal.value().size() > CONSTANT_BYTES,
        None => {
            let function = expr.downcast_ref::<ScalarFunctionExpr>();
            function.is_some_and(|function| is_growing(function.name()))
                || expr.children().iter().any(|child| grows(&***child))
        }
    }
}

/// A projection that measures what it makes.
#[derive(Debug)]
pub struct WideProjection {
    /// A [`ProjectionExec`].
    projection: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl DisplayAs for WideProjection {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.projection.fmt_as(t, f)
    }
}

impl ExecutionPlan for WideProjection {
    fn name(&self) -> &str {
        "WideProjection"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.projection.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.projection.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.projection.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.projection.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = replace_children_if_necessary(Arc::clone(&self.projection), children)?;
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(WideProjection { projection, metrics }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(projection) = self.projection.downcast_ref::<ProjectionExec>() else {
            return self.projection.execute(partition, context);
        };
        let grow = projection.expr().iter().any(|column| grows(&*column.expr));
        let reservation = MemoryConsumer::new(format!("computed columns of stream {partition}"))
            .register(context.memory_pool());
        Ok(Box::pin(WideStream {
            expressions: projection.expr().iter().map(|column| Arc::clone(&column.expr)).collect(),
            schema: self.projection.schema(),
            input: projection.input().execute(partition, context)?,
            rest: None,
            rows_at_once: if grow { 1 } else { ROWS_AT_FIRST },
            rows_max: if grow { SLICE_ROWS } else { usize::MAX },
            reservation,
            baseline: BaselineMetrics::new(&self.metrics, partition),
        }))
    }
}

struct WideStream {
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    input: SendableRecordBatchStream,
    /// What of a batch is still to be computed.
    rest: Option<RecordBatch>,
    /// How many rows the next step takes.
    rows_at_once: usize,
    rows_max: usize,
    /// What the last step made.
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

impl WideStream {
    /// Computes the next rows of `batch` and leaves the others.
    fn step(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let _timer = self.baseline.elapsed_compute().timer();
        let taken = batch.num_rows().min(self.rows_at_once);
        let part = batch.slice(0, taken);
        if taken < batch.num_rows() {
            self.rest = Some(batch.slice(taken, batch.num_rows() - taken));
        }
        let columns: Result<Vec<_>> =
            self.expressions.iter().map(|e| e.evaluate(&part)?.into_array(taken)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(taken));
        let made = RecordBatch::try_new_with_options(self.schema.clone(), columns?, &options)?;
        let bytes = bytes_of(&made);
        self.reservation.try_resize(bytes)?;
        if taken == self.rows_at_once {
            self.rows_at_once = next_rows(taken, bytes).min(self.rows_max);
        }
        Ok(made)
    }
}

/// How many rows to take after `rows` that made `bytes`: twice as many at most.
fn next_rows(rows: usize, bytes: usize) -> usize {
    let fitting = OUTPUT_BYTES.saturating_mul(rows) / bytes.max(1);
    fitting.clamp(1, rows.saturating_mul(2))
}

/// What the columns of a batch hold, of shared buffers their part alone.
fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(column_bytes).sum()
}

impl Stream for WideStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        // Whoever asks for more has done with what it got.
        this.reservation.free();
        let batch = match this.rest.take() {
            Some(rest) => rest,
            None => match ready!(this.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => batch,
                end => return Poll::Ready(end),
            },
        };
        let made = this.step(batch);
        Poll::Ready(Some(made.record_output(&this.baseline)))
    }
}

impl RecordBatchStream for WideStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Its input, a few rows at a time.
#[derive(Debug)]
struct Slices {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for Slices {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slices: rows={SLICE_ROWS}")
    }
}

impl ExecutionPlan for Slices {
    fn name(&self) -> &str {
        "Slices"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(children.pop().map_or(self, |input| Arc::new(Slices { input })))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let slices = self.input.execute(partition, context)?.flat_map(|batch| {
            let slices: Vec<Result<RecordBatch>> = match batch {
                Ok(batch) => parts_of(&batch, SLICE_ROWS).map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            futures::stream::iter(slices)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), slices)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_at_once_follow_their_bytes() {
        assert_eq!(next_rows(1, 10), 2);
        assert_eq!(next_rows(64, 64 * 100), 128);
        assert_eq!(next_rows(64, 4 << 20), 64);
        assert_eq!(next_rows(64, 64 << 20), 4);
        assert_eq!(next_rows(1, 64 << 20), 1);
        assert_eq!(next_rows(8, 0), 16);
    }
}
