//! Joins with tables: the rows of one side name the partitions that are read of the other, or the
//! values that its rows must have.
//!
//! A hash join reads its left input before its right one. Where the right one is a scan of a whole
//! table whose partition key the join compares, [`Tell`] in the left input tells the scan which
//! partitions have partners, and the scan reads these only ([`WantedKeys`]). Where it compares a
//! column of integers, shards leave out rows whose value has no partner ([`WantedValues`]). The
//! join is as it was: a row too many costs a read and changes no answer.
//!
//! The side with few rows must be the left one. DataFusion swaps sides by their sizes, which scans
//! of whole tables tell about; [`few_to_left`] swaps where a side names its partitions or has a
//! limit.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    replace_children_if_necessary,
};
use futures::StreamExt;
use tidegate_engine::schema::ColumnId;
use tidegate_engine::schema::table_schema::SchemaRef;

use crate::query::plan::union::{Changed, Curtain};
use crate::query::scan::pushdown::{is_plain, is_wider_integer};
use crate::query::scan::{Listener, TideScan, WantedKeys, WantedValues};

/// Most rows of a side that is read first for the sake of look-ups in the other.
const FEW_ROWS: usize = 10_000;

/// Goes after the sides of joins are chosen.
pub fn few_to_left(plan: Arc<dyn ExecutionPlan>) -> Result<Changed> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
        return Ok(Transformed::no(plan));
    };
    let swaps = join.join_type().supports_swap()
        && tells(join.join_type().swap())
        && join.partition_mode() != &PartitionMode::Auto
        && keyed(join, Side::Left).is_some()
        && has_few_rows(join.right())
        && !has_few_rows(join.left());
    match swaps {
        true => Ok(Transformed::yes(join.swap_inputs(*join.partition_mode())?)),
        false => Ok(Transformed::no(plan)),
    }
}

/// Goes last.
#[derive(Debug)]
pub struct LookUp;

impl PhysicalOptimizerRule for LookUp {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let change = |plan: Arc<dyn ExecutionPlan>| match plan.is::<RecursiveQueryExec>() {
            // What it runs again and again tells other keys each time.
            true => Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump)),
            false => look_up(plan),
        };
        plan.transform_down(change).data()
    }

    fn name(&self) -> &str {
        "look_up_keys"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn look_up(plan: Arc<dyn ExecutionPlan>) -> Result<Changed> {
    // `x NOT IN (query)` of a null depends on whether the query has rows at all.
    let is_told = |join: &&HashJoinExec| tells(*join.join_type()) && !join.null_aware;
    let Some(join) = plan.downcast_ref::<HashJoinExec>().filter(is_told) else {
        return Ok(Transformed::no(plan));
    };
    // Whoever reads one stream of a repartitioned input reads all that it is made of; so what is
    // wanted is told below it. Several streams that are not made so may be read one after another.
    let left = join.left();
    let (above, below) = match left.downcast_ref::<RepartitionExec>() {
        Some(repartition) => (Some(left), repartition.input()),
        None if left.output_partitioning().partition_count() == 1 => (None, left),
        None => return Ok(Transformed::no(plan)),
    };
    let streams = below.output_partitioning().partition_count();
    let tell = |input, partners, listener: Arc<dyn Listener>| -> Arc<dyn ExecutionPlan> {
        Arc::new(Tell { input, partners, listener })
    };
    let (mut told, mut right) = (Arc::clone(below), Arc::clone(join.right()));
    if let Some(Keyed { table, partners }) = keyed(join, Side::Right) {
        let wanted = Arc::new(WantedKeys::new(table, streams));
        told = tell(told, partners, Arc::clone(&wanted) as _);
        right = asking(right, |scan| scan.of_wanted(Arc::clone(&wanted)))?;
    }
    for (column, partner) in valued(join) {
        let Some((scan, _)) = scan_below(&right) else { break };
        let wanted = scan.unlimited_table().and_then(|t| WantedValues::new(t, column, streams));
        let Some(wanted) = wanted.map(Arc::new) else { continue };
        told = tell(told, vec![partner], Arc::clone(&wanted) as _);
        right = asking(right, |scan| scan.of_values(Arc::clone(&wanted)))?;
    }
    if Arc::ptr_eq(&right, join.right()) {
        return Ok(Transformed::no(plan));
    }
    let left = match above {
        Some(repartition) => replace_children_if_necessary(Arc::clone(repartition), vec![told])?,
        None => told,
    };
    Ok(Transformed::yes(replace_children_if_necessary(plan, vec![left, right])?))
}

/// An input with another scan below it; between them stand operators of one input.
fn asking(
    input: Arc<dyn ExecutionPlan>,
    change: impl Fn(&TideScan) -> TideScan,
) -> Result<Arc<dyn ExecutionPlan>> {
    let asks = |scan: Arc<dyn ExecutionPlan>| match scan.downcast_ref::<TideScan>() {
        Some(tide) => Ok(Transformed::yes(Arc::new(change(tide)) as Arc<dyn ExecutionPlan>)),
        None => Ok(Transformed::no(scan)),
    };
    input.transform_up(asks).data()
}

/// Whether rows of the right input without a partner leave the join nowhere.
fn tells(join: JoinType) -> bool {
    matches!(
        join,
        JoinType::Inner
            | JoinType::Left
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark
            | JoinType::RightSemi
    )
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

/// A side of a join that is a scan of a whole table, and whose partition key the join compares.
struct Keyed {
    table: SchemaRef,
    /// What of the other side is compared with each column of the partition key.
    partners: Vec<Arc<dyn PhysicalExpr>>,
}

/// A column of an input, by its place in the scan that the input is made of, with the type that it
/// has by now.
#[derive(Debug, Clone)]
struct Place {
    at: usize,
    ty: ArrowType,
}

fn keyed(join: &HashJoinExec, side: Side) -> Option<Keyed> {
    let (input, beside) = match side {
        Side::Left => (join.left(), join.right()),
        Side::Right => (join.right(), join.left()),
    };
    let (scan, places) = scan_below(input)?;
    let table = scan.whole_table()?;
    let beside = beside.schema();
    let partner = |id| {
        let ty = &table.column(id).ty;
        join.on().iter().find_map(|(left, right)| {
            let (own, other) = if side == Side::Left { (left, right) } else { (right, left) };
            let place = place_of(own, &places).filter(|at| scan.column_at(at.at) == Some(id))?;
            let is_alike = is_plain(ty) && is_same(&other.data_type(&beside).ok()?, &place.ty);
            is_alike.then(|| Arc::clone(other))
        })
    };
    let partners: Option<Vec<_>> = table.partition_key_ids().into_iter().map(partner).collect();
    Some(Keyed { partners: partners?, table })
}

/// The columns of the scan that the right input is made of, with what of the left input they are
/// compared with; where null finds no partner.
fn valued(join: &HashJoinExec) -> Vec<(ColumnId, Arc<dyn PhysicalExpr>)> {
    let Some((scan, places)) = scan_below(join.right()) else { return Vec::new() };
    if join.null_equality() != NullEquality::NullEqualsNothing {
        return Vec::new();
    }
    let beside = join.left().schema();
    let pair = |(left, right): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
        let place = place_of(right, &places)?;
        let is_alike = is_same(&left.data_type(&beside).ok()?, &place.ty);
        let column = scan.column_at(place.at).filter(|_| is_alike)?;
        Some((column, Arc::clone(left)))
    };
    join.on().iter().filter_map(pair).collect()
}

/// The column that an expression is, or an integer that it widens. Other casts may make values
/// equal that are different keys.
fn place_of(expr: &Arc<dyn PhysicalExpr>, places: &[Option<Place>]) -> Option<Place> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let place = place_of(cast.expr(), places)?;
        let ty = cast.cast_type().clone();
        return is_wider_integer(&ty, &place.ty).then_some(Place { ty, ..place });
    }
    places.get(expr.downcast_ref::<Column>()?.index())?.clone()
}

fn is_same(one: &ArrowType, other: &ArrowType) -> bool {
    one == other || (one.is_string() && other.is_string())
}

/// The scan that an input is made of, and for each column of the input its place in the scan;
/// `None` where other operators stand between, or it is none.
fn scan_below(input: &Arc<dyn ExecutionPlan>) -> Option<(&TideScan, Vec<Option<Place>>)> {
    if let Some(scan) = input.downcast_ref::<TideScan>() {
        let schema = scan.schema();
        let place = |(at, field): (usize, &FieldRef)| Place { at, ty: field.data_type().clone() };
        return Some((scan, schema.fields().iter().enumerate().map(place).map(Some).collect()));
    }
    if let Some(projection) = input.downcast_ref::<ProjectionExec>() {
        let (scan, places) = scan_below(projection.input())?;
        let place = |column: &ProjectionExpr| place_of(&column.expr, &places);
        return Some((scan, projection.expr().iter().map(place).collect()));
    }
    let is_whole = input.is::<RepartitionExec>()
        || input.is::<Curtain>()
        || input.downcast_ref::<FilterExec>().is_some_and(|f| f.projection().is_none());
    let [below] = input.children()[..] else { return None };
    if is_whole { scan_below(below) } else { None }
}

/// Whether an input surely has few rows.
fn has_few_rows(input: &Arc<dyn ExecutionPlan>) -> bool {
    if input.fetch().is_some_and(|rows| rows <= FEW_ROWS) {
        return true;
    }
    if let Some(scan) = input.downcast_ref::<TideScan>() {
        return scan.names_partitions();
    }
    // What a scan of a table tells is about so.
    let statistics = StatisticsContext::new().compute(&**input, &StatisticsArgs::new());
    if statistics.is_ok_and(|known| matches!(known.num_rows, Precision::Exact(0..=FEW_ROWS))) {
        return true;
    }
    let keeps_or_drops = input.is::<ProjectionExec>()
        || input.is::<FilterExec>()
        || input.is::<RepartitionExec>()
        || input.is::<Curtain>();
    keeps_or_drops && input.children().into_iter().all(has_few_rows)
}

/// Its input, of whose rows it tells what they ask for.
#[derive(Debug)]
struct Tell {
    input: Arc<dyn ExecutionPlan>,
    /// What names each thing that is asked for.
    partners: Vec<Arc<dyn PhysicalExpr>>,
    listener: Arc<dyn Listener>,
}

impl DisplayAs for Tell {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partners: Vec<String> = self.partners.iter().map(ToString::to_string).collect();
        write!(f, "{}: {}", self.listener.name(), partners.join(", "))
    }
}

impl ExecutionPlan for Tell {
    fn name(&self) -> &str {
        self.listener.name()
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        datafusion::physical_plan::execution_plan::apply_expression_roots(self.partners.iter(), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert_eq!(children.len(), 1, "it has one input");
        let (partners, listener) = (self.partners.clone(), Arc::clone(&self.listener));
        Ok(Arc::new(Tell { input: children.remove(0), partners, listener }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut input = self.input.execute(partition, context)?;
        let telling = Telling { listener: Arc::clone(&self.listener), is_whole: false };
        telling.listener.begin();
        let partners = self.partners.clone();
        let mut telling = Some(telling);
        let tell = move |batch: &RecordBatch, telling: &Telling| {
            let column = |expr: &Arc<dyn PhysicalExpr>| -> Result<ArrayRef> {
                expr.evaluate(batch)?.into_array(batch.num_rows())
            };
            let columns: Result<Vec<ArrayRef>> = partners.iter().map(column).collect();
            telling.listener.add(&columns?)
        };
        let told = futures::stream::poll_fn(move |context| {
            let next = std::task::ready!(input.poll_next_unpin(context));
            match (&next, &mut telling) {
                (Some(Ok(batch)), Some(telling)) => {
                    if let Err(error) = tell(batch, telling) {
                        return std::task::Poll::Ready(Some(Err(error)));
                    }
                }
                (None, telling) => {
                    if let Some(telling) = telling {
                        telling.is_whole = true;
                    }
                    *telling = None;
                }
                _ => {}
            }
            std::task::Poll::Ready(next)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), told)))
    }
}

/// A stream that tells. When it is dropped, it has ended.
struct Telling {
    listener: Arc<dyn Listener>,
    /// Whether all rows were told.
    is_whole: bool,
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.listener.end(self.is_whole);
    }
}
