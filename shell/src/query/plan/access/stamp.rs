//! `writetime(v)` and `ttl(v)`: what the scan of `v`'s table reads beside the value.
//!
//! The scan gets a column of the name of the call, and operators up to the one with the call pass
//! it on. So the shard that reads the cell tells its stamps, by its own clock. Stamps are known
//! where a column comes straight from its table: what a query in FROM selects, groups or unites has
//! none.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, Projection, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, SubqueryAlias, TableScan, TableScanBuilder, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use tidegate_engine::TableSchema;
use tidegate_engine::batch::{Stamp, StampKind, arrow_type};

use super::below::column_below;
use crate::query::error::QueryError;
use crate::query::scan::TideTable;
use crate::query::types::rewrite::expressions_of;

/// The functions that statements call.
pub fn functions() -> [ScalarUDF; 2] {
    [StampKind::WriteTime, StampKind::TimeToLive].map(|kind| {
        ScalarUDF::from(StampOf { kind, signature: Signature::any(1, Volatility::Stable) })
    })
}

/// See the head of this file. Goes before types are asked for.
#[derive(Debug)]
pub struct ReadStamps;

impl AnalyzerRule for ReadStamps {
    fn name(&self) -> &str {
        "read_stamps"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(of_node).data()
    }
}

/// A call: what it asks of which column.
type Call = (StampKind, Column);

fn kind_of(function: &ScalarFunction) -> Option<StampKind> {
    let kinds = [StampKind::WriteTime, StampKind::TimeToLive];
    kinds.into_iter().find(|kind| kind.function() == function.name())
}

/// Reads the calls in an operator's expressions.
fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let calls = calls(&plan)?;
    if calls.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let mut inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
    let mut known: Vec<(Call, Column)> = Vec::with_capacity(calls.len());
    for (kind, column) in calls {
        let from = inputs.iter_mut().find(|input| input.schema().has_column(&column));
        let Some(input) = from else { return Err(no_column(kind)) };
        // ORDER BY stands over what is selected, which may not have the stamp.
        let under_sort = matches!(plan, LogicalPlan::Sort(_));
        let stamp = add(input, kind, &column, under_sort)?;
        known.push(((kind, column), stamp));
    }
    let change = |expr: Expr, _: &DFSchema| match &expr {
        Expr::ScalarFunction(function) => match call(function)? {
            None => Ok(Transformed::no(expr)),
            Some(call) => {
                let stamp = known.iter().find(|(known, _)| *known == call);
                let stamp = stamp.map(|(_, stamp)| Expr::Column(stamp.clone()));
                Ok(stamp.map_or(Transformed::no(expr), Transformed::yes))
            }
        },
        _ => Ok(Transformed::no(expr)),
    };
    let columns = plan.schema().columns();
    let sorts = matches!(plan, LogicalPlan::Sort(_));
    let plan = plan.with_new_exprs(plan.expressions(), inputs)?;
    let plan = expressions_of(plan, &change)?.data;
    if !sorts || plan.schema().fields().len() == columns.len() {
        return Ok(Transformed::yes(plan));
    }
    let selected = columns.into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(plan).project(selected)?.build().map(Transformed::yes)
}

/// The calls in an operator's expressions, each once.
fn calls(plan: &LogicalPlan) -> Result<Vec<Call>> {
    let mut all = Vec::new();
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            if let Expr::ScalarFunction(function) = part
                && let Some(call) = call(function)?
                && !all.contains(&call)
            {
                all.push(call);
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(all)
}

/// Errors: `Invalid` for a call of anything but a column.
fn call(function: &ScalarFunction) -> Result<Option<Call>> {
    match (kind_of(function), &function.args[..]) {
        (None, _) => Ok(None),
        (Some(kind), [Expr::Column(column)]) => Ok(Some((kind, column.clone()))),
        (Some(kind), _) => Err(no_column(kind)),
    }
}

/// Adds a stamp of a column to what a plan gives; returns what it is called there. What selects
/// columns is passed only right `under_sort`.
fn add(
    plan: &mut LogicalPlan,
    kind: StampKind,
    column: &Column,
    under_sort: bool,
) -> Result<Column> {
    let below = column_below(plan, column);
    match plan {
        LogicalPlan::Projection(projection) if under_sort => {
            let Some(below) = below else { return Err(no_column(kind)) };
            let mut input = LogicalPlan::clone(&projection.input);
            let stamp = add(&mut input, kind, &below, false)?;
            let mut exprs = projection.expr.clone();
            if !exprs.contains(&Expr::Column(stamp.clone())) {
                exprs.push(Expr::Column(stamp.clone()));
            }
            *plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?);
            Ok(stamp)
        }
        LogicalPlan::TableScan(scan) => {
            let (stamped, stamp) = scanned(scan, kind, column)?;
            *plan = LogicalPlan::TableScan(stamped);
            Ok(stamp)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(below) = below else { return Err(no_column(kind)) };
            let mut input = LogicalPlan::clone(&alias.input);
            let stamp = add(&mut input, kind, &below, false)?;
            let place = input.schema().index_of_column(&stamp)?;
            let renamed = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
            let stamp = Column::from(renamed.schema.qualified_field(place));
            *plan = LogicalPlan::SubqueryAlias(renamed);
            Ok(stamp)
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Join(_) => {
            let mut inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
            let from = inputs.iter_mut().find(|input| input.schema().has_column(column));
            let Some(input) = from else { return Err(no_column(kind)) };
            let stamp = add(input, kind, column, false)?;
            *plan = plan.with_new_exprs(plan.expressions(), inputs)?.recompute_schema()?;
            Ok(stamp)
        }
        _ => Err(no_column(kind)),
    }
}

/// A scan with a stamp among its columns, and what that is called.
fn scanned(scan: &TableScan, kind: StampKind, column: &Column) -> Result<(TableScan, Column)> {
    let provider = source_as_provider(&scan.source)?;
    let table = provider.downcast_ref::<TideTable>().filter(|_| scan.projection.is_none());
    let Some(table) = table else { return Err(no_column(kind)) };
    let stamp = stamp(table.table(), kind, column)?;
    let name = stamp.name(table.table());
    let source = provider_as_source(Arc::new(table.stamped(stamp)));
    let builder = TableScanBuilder::new(scan.table_name.clone(), source);
    let builder = builder.with_filters(scan.filters.clone()).with_fetch(scan.fetch);
    let stamped = builder.with_statistics_requests(scan.statistics_requests.clone()).build()?;
    Ok((stamped, Column::new(Some(scan.table_name.clone()), name)))
}

/// Errors: `Invalid` for a column that has no stamps.
fn stamp(table: &TableSchema, kind: StampKind, column: &Column) -> Result<Stamp> {
    let (function, name) = (kind.function(), &column.name);
    let Some((id, found)) = table.find(name) else { return Err(no_column(kind)) };
    let stamp = Stamp { column: id, kind };
    let Err(error) = stamp.check(table) else {
        if table.find(&stamp.name(table)).is_some() {
            let message = format!("a column is called '{}' as well", stamp.name(table));
            return Err(external(QueryError::unsupported(message)));
        }
        return Ok(stamp);
    };
    let help = match found.is_key() {
        true => format!("ask for {function}() of a column that is not in the key"),
        false => format!("declare '{name}' frozen to give it one time as a whole"),
    };
    Err(external(QueryError::from(error).with_help(help)))
}

fn no_column(kind: StampKind) -> DataFusionError {
    let function = kind.function();
    let message = format!("{function}() takes a column of a table, where that is read");
    let help = format!(
        "a query in FROM selects {function}(v) under a name, which the query around it has then"
    );
    external(QueryError::invalid(message).with_help(help))
}

fn external(error: QueryError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Stands for a stamp until [`ReadStamps`] has looked at it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StampOf {
    kind: StampKind,
    signature: Signature,
}

impl ScalarUDFImpl for StampOf {
    fn name(&self) -> &str {
        self.kind.function()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(arrow_type(&self.kind.data_type()))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("{}() takes a column of a table, where that is read", self.kind.function())
    }
}
