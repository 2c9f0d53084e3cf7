//! `PER PARTITION LIMIT n`: the first n rows of each partition among those that the conditions
//! leave, in the order of the table or, where ORDER BY begins with clustering columns the other way
//! round, from the end.
//!
//! The parser makes `LIMIT per_partition_limit(n, rows)` of it. Here the scan below gets the limit,
//! which it keeps by going on at the next partition, and LIMIT keeps its own rows. All conditions
//! reach the scan, for it takes every one that has no query and no volatile function in it.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Limit, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TableScan, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use tidegate_engine::{ClusteringOrder, ColumnKind, Direction, TableSchema};

use super::below::column_below;
use crate::query::error::QueryError;
use crate::query::parse::PARTITION_LIMIT;
use crate::query::plan::correlated::is_query;
use crate::query::scan::{PartitionLimit, TideTable};

/// The function that the parser writes.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(PartitionLimitOf { signature: Signature::variadic_any(Volatility::Immutable) })
}

/// See the head of this file. Goes before conditions are looked at.
#[derive(Debug)]
pub struct LimitPartitions;

impl AnalyzerRule for LimitPartitions {
    fn name(&self) -> &str {
        "limit_partitions"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_down(|node| match node {
            LogicalPlan::Limit(limit) if arguments(&limit).is_some() => {
                resolve(limit).map(Transformed::yes)
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

/// The arguments of the call in a LIMIT.
fn arguments(limit: &Limit) -> Option<&[Expr]> {
    match limit.fetch.as_deref() {
        Some(Expr::ScalarFunction(ScalarFunction { func, args }))
            if func.name() == PARTITION_LIMIT =>
        {
            Some(args)
        }
        _ => None,
    }
}

fn resolve(limit: Limit) -> Result<LogicalPlan> {
    let arguments = arguments(&limit).unwrap_or_default();
    let fetch = arguments.get(1).cloned().map(Box::new);
    let input = match arguments.first() {
        // Nobody runs it before it has a value.
        Some(Expr::Placeholder(_)) | None => Arc::clone(&limit.input),
        Some(rows) => {
            let mut search = Search { rows: rows_of(rows)?, order: Vec::new(), is_filtered: false };
            Arc::new(search.limited(LogicalPlan::clone(&limit.input))?)
        }
    };
    if fetch.is_none() && limit.skip.is_none() {
        return Ok(Arc::unwrap_or_clone(input));
    }
    Ok(LogicalPlan::Limit(Limit { skip: limit.skip, fetch, input }))
}

/// Errors: `Invalid` for what is no number of at least one row.
fn rows_of(expr: &Expr) -> Result<usize> {
    let rows = match expr {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(rows)) => rows,
            _ => None,
        },
        _ => None,
    };
    match rows.and_then(|rows| usize::try_from(rows).ok()).filter(|rows| *rows > 0) {
        Some(rows) => Ok(rows),
        None => {
            let error = QueryError::invalid("PER PARTITION LIMIT takes a number of at least 1");
            Err(DataFusionError::External(Box::new(error)))
        }
    }
}

/// The way from a LIMIT down to the table.
struct Search {
    rows: usize,
    /// Keys of ORDER BY as they are called at this place, and whether each is ascending. A key that
    /// is no column ends them.
    order: Vec<(Column, bool)>,
    /// A condition was passed.
    is_filtered: bool,
}

impl Search {
    fn limited(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        match &plan {
            LogicalPlan::Sort(sort) => {
                let column = |expr: &Expr| expr.try_as_col().cloned();
                let keys = sort.expr.iter().map_while(|key| Some((column(&key.expr)?, key.asc)));
                self.order = keys.collect();
            }
            LogicalPlan::Projection(projection)
                if self.is_filtered && projection.expr.iter().any(Expr::is_volatile) =>
            {
                return refused("conditions on functions like random()");
            }
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => self.pass_names(&plan),
            LogicalPlan::Filter(filter) => {
                self.is_filtered = true;
                if filter.predicate.is_volatile()
                    || filter.predicate.exists(|part| Ok(is_query(part)))?
                {
                    return refused("conditions with queries or functions like random()");
                }
            }
            LogicalPlan::TableScan(scan) => return self.of_table(scan),
            LogicalPlan::Aggregate(_) => return refused("GROUP BY and aggregates"),
            LogicalPlan::Distinct(_) => return refused("DISTINCT"),
            LogicalPlan::Join(_) => return refused("joins"),
            LogicalPlan::Window(_) => return refused("window functions"),
            LogicalPlan::Union(_) => return refused("UNION"),
            LogicalPlan::Limit(_) => return refused("a query with a LIMIT in FROM"),
            _ => return refused("a query of this form"),
        }
        plan.map_children(|child| self.limited(child).map(Transformed::yes)).data()
    }

    /// Below a plan that gives columns other names.
    fn pass_names(&mut self, plan: &LogicalPlan) {
        let below = |(key, asc): &(Column, bool)| Some((column_below(plan, key)?, *asc));
        self.order = self.order.iter().map_while(below).collect();
    }

    fn of_table(&self, scan: &TableScan) -> Result<LogicalPlan> {
        let provider = source_as_provider(&scan.source)?;
        let Some(table) = provider.downcast_ref::<TideTable>().filter(|_| scan.fetch.is_none())
        else {
            return refused("what is no table of partitions");
        };
        let limit = PartitionLimit { rows: self.rows, direction: self.direction(table.table()) };
        let source = provider_as_source(Arc::new(table.limited(limit)));
        Ok(LogicalPlan::TableScan(TableScan { source, ..scan.clone() }))
    }

    /// From which end of a partition its first rows are: the first clustering column in the order
    /// decides, with nothing but columns of the partition key before it.
    fn direction(&self, table: &TableSchema) -> Direction {
        for (key, is_ascending) in &self.order {
            let kind = table.find(&key.name).map(|(_, column)| column.kind);
            match kind {
                Some(ColumnKind::PartitionKey { .. }) => {}
                Some(ColumnKind::ClusteringKey { order, .. })
                    if *is_ascending == (order == ClusteringOrder::Descending) =>
                {
                    return Direction::Reversed;
                }
                _ => return Direction::Forward,
            }
        }
        Direction::Forward
    }
}

fn refused<T>(what: &str) -> Result<T> {
    let message = format!("PER PARTITION LIMIT is not offered with {what}");
    let error = QueryError::unsupported(message).with_help(
        "row_number() OVER (PARTITION BY pk ORDER BY ck) in a query in FROM numbers the rows of \
         each partition",
    );
    Err(DataFusionError::External(Box::new(error)))
}

/// Stands for the clause until [`LimitPartitions`] has looked at it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PartitionLimitOf {
    signature: Signature,
}

impl ScalarUDFImpl for PartitionLimitOf {
    fn name(&self) -> &str {
        PARTITION_LIMIT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("{PARTITION_LIMIT} is no function: write PER PARTITION LIMIT n")
    }
}
