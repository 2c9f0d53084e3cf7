//! A SELECT of one named partition: its conditions become keys and ranges, its order a direction.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType as ArrowType, SchemaRef as ArrowSchemaRef};
use datafusion::common::ScalarValue;
use futures::StreamExt;
use tidegate_engine::batch::{columns_of, read_schema};
use tidegate_engine::mutation::{ClusteringRange, Direction, Slice};
use tidegate_engine::{
    ClusteringOrder, ColumnId, DataType, Database, Partitions, ReadCommand, RowKey, RowValues,
    SchemaRef, Terms,
};

use super::condition::Conditions;
use super::lookup::{RunContext, want};
use super::selected::Selected;
use super::shape::{Operand, SelectShape};
use super::together;
use crate::query::error::Result;
use crate::query::outcome::{Outcome, batch};
use crate::query::scan::pushdown::{Access, Keys, decide_for, is_ordered_alike};
use crate::query::watch;

/// How a trace names the path of a statement that is one read.
const ONE_READ: &str = "short path: one read, without a plan";

/// See the head of this file.
pub struct Select {
    table: SchemaRef,
    whose: Keys,
    selected: Selected,
    conditions: Conditions,
    order: Vec<(ColumnId, bool)>,
    /// Of the partition and of the query, which read the same rows here.
    limits: Vec<Operand>,
}

impl Select {
    /// Looks up the names of a statement. `types` learns which parameters it wants.
    pub fn new(
        shape: SelectShape,
        table: &SchemaRef,
        is_attached: bool,
        types: &mut [ArrowType],
    ) -> Option<Self> {
        let selected = Selected::of(table, &shape.items)?;
        let conditions = Conditions::of(table, shape.conditions, types)?;
        let named = |(name, descending): (crate::query::parse::Name, bool)| {
            table.find(&name.value).map(|(id, _)| (id, descending))
        };
        let order = shape.order.into_iter().map(named).collect::<Option<Vec<_>>>()?;
        let limits = [shape.partition_limit, shape.limit].into_iter().flatten();
        let limits: Vec<Operand> = limits.collect();
        for limit in &limits {
            match limit {
                Operand::Number(1..) => {}
                Operand::Parameter(n) => want(types, *n, ArrowType::Int64)?,
                _ => return None,
            }
        }
        let whose = if is_attached { Keys::Foreign } else { Keys::Own };
        let table = Arc::clone(table);
        Some(Select { table, whose, selected, conditions, order, limits })
    }

    /// The schema of the rows.
    pub fn schema(&self) -> &ArrowSchemaRef {
        &self.selected.schema
    }

    /// Starts the read, or those of several rows of parameters in their order; `None` where the
    /// planner has to look at the values.
    pub async fn run(
        &self,
        database: &Database,
        rows: &[Vec<ScalarValue>],
        context: &RunContext<'_>,
    ) -> Result<Option<Outcome>> {
        let command = |values: &Vec<ScalarValue>| {
            let command = self.command(values, context.past_cache)?;
            let Terms { deadline, level } = context.terms;
            Some(ReadCommand { deadline, level, ..command })
        };
        if let [values] = rows {
            let Some(command) = command(values) else { return Ok(None) };
            let turn = context.memory.turn().await?;
            let form = self.selected.form();
            let batches = context.read(ONE_READ, database, command).map(move |batch| {
                let _held = &turn;
                form(batch?)
            });
            return Ok(Some(Outcome::rows(Arc::clone(self.schema()), batches.boxed())));
        }
        let Some(commands) = rows.iter().map(command).collect() else { return Ok(None) };
        let turn = context.memory.turn().await?;
        let (table, form) = (&self.table, self.selected.form());
        let read = read_schema(table, &self.selected.columns, &self.selected.stamps);
        watch::note(|| format!("short path: {} reads, without a plan", rows.len()));
        let reads = context.reads(table);
        let batches = together::read(database, (commands, reads), &read).map(move |batch| {
            let _held = &turn;
            form(batch?)
        });
        Ok(Some(Outcome::rows(Arc::clone(self.schema()), batches.boxed())))
    }

    /// Whether it gives one row at most, whatever the values are: it names the key of a row.
    pub fn is_of_a_row(&self) -> bool {
        self.whose == Keys::Own && self.order.is_empty() && self.conditions.name_a_row(&self.table)
    }

    /// Reads for several rows of parameters at once, and gives what each of them gives, where that
    /// is a row at most; `None` where the planner has to look at the values.
    pub async fn run_rows(
        &self,
        database: &Database,
        rows: &[Vec<ScalarValue>],
        context: &RunContext<'_>,
    ) -> Result<Option<Vec<Result<RecordBatch>>>> {
        let _turn = context.memory.turn().await?;
        // Look-ups give values without stamps, of the rows of this node.
        if self.selected.stamps.is_empty() && !context.past_cache && database.ring().is_none() {
            let Some(keys) = rows.iter().map(|values| self.row_key(values)).collect() else {
                return Ok(None);
            };
            // An error may be that of one row. Each read says its own.
            if let Ok(found) = database.under(context.terms).get_many(&self.table, keys).await {
                return self.batches_of(found).map(Some);
            }
        }
        let Terms { deadline, level } = context.terms;
        let command = |values: &Vec<ScalarValue>| {
            let command = self.exact_command(values, context.past_cache)?;
            Some(ReadCommand { deadline, level, ..command })
        };
        let Some(commands) = rows.iter().map(command).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        // All are asked for before one is waited for.
        let read = |command| context.read(ONE_READ, database, command);
        let reads: Vec<_> = commands.into_iter().map(read).collect();
        let form = self.selected.form();
        let mut found = Vec::with_capacity(reads.len());
        for read in reads {
            let row = together::row(read).await;
            found.push(row.and_then(|row| match row {
                Some(row) => form(row),
                None => Ok(RecordBatch::new_empty(Arc::clone(self.schema()))),
            }));
        }
        Ok(Some(found))
    }

    /// The key of the row that it reads; `None` where the planner has to look at the values.
    fn row_key(&self, values: &[ScalarValue]) -> Option<RowKey> {
        let key = self.conditions.key(&self.table, values)?;
        self.row_limit(values)?;
        Some(key.into())
    }

    /// The columns of each row, of those that are not there a batch without rows.
    fn batches_of(&self, found: Vec<Option<RowValues>>) -> Result<Vec<Result<RecordBatch>>> {
        let counts: Vec<usize> = found.iter().map(|row| usize::from(row.is_some())).collect();
        let there: Vec<_> = found.into_iter().filter(Option::is_some).collect();
        let columns = columns_of(&self.table, &self.selected.columns, &there)?;
        let all = batch(Arc::clone(self.schema()), columns)?;
        let mut next = 0;
        let one = |rows: &usize| {
            next += rows;
            Ok(all.slice(next - rows, *rows))
        };
        Ok(counts.iter().map(one).collect())
    }

    /// What the engine is asked for.
    pub fn command(&self, values: &[ScalarValue], past_cache: bool) -> Option<ReadCommand> {
        let command = self.exact_command(values, past_cache);
        command.or_else(|| self.decided_command(values, past_cache))
    }

    /// The same for conditions that are equations, without a decision: most statements have no
    /// others.
    fn exact_command(&self, values: &[ScalarValue], past_cache: bool) -> Option<ReadCommand> {
        if self.whose != Keys::Own || !self.order.is_empty() {
            return None;
        }
        let (partition, prefix) = self.conditions.key(&self.table, values)?;
        let row_limit = self.row_limit(values)?;
        let ranges = vec![ClusteringRange::prefix(prefix)];
        Some(ReadCommand {
            schema: Arc::clone(&self.table),
            partitions: Partitions::Keys(vec![partition]),
            slice: Slice { ranges, direction: Direction::Forward },
            columns: self.selected.columns.clone(),
            stamps: self.selected.stamps.clone(),
            row_limit,
            partition_limit: None,
            deadline: None,
            level: Default::default(),
            past_cache,
            filter: None,
        })
    }

    fn decided_command(&self, values: &[ScalarValue], past_cache: bool) -> Option<ReadCommand> {
        let access =
            decide_for(&self.table, &self.conditions.filters(&self.table, values)?, self.whose);
        // Rows that are checked one by one, and conditions that exclude each other.
        if !access.residual.is_empty() || access.is_empty() {
            return None;
        }
        let direction = self.direction(&access)?;
        let row_limit = self.row_limit(values)?;
        Some(ReadCommand {
            schema: Arc::clone(&self.table),
            // Several scales of a decimal are several partitions, without a common order.
            partitions: Partitions::Keys(access.keys.filter(|keys| keys.len() == 1)?),
            slice: Slice { ranges: access.ranges, direction },
            columns: self.selected.columns.clone(),
            stamps: self.selected.stamps.clone(),
            row_limit,
            partition_limit: None,
            deadline: None,
            level: Default::default(),
            past_cache,
            filter: None,
        })
    }

    /// The least of the limits, if there is any; `None` where a value is none.
    fn row_limit(&self, values: &[ScalarValue]) -> Option<Option<usize>> {
        let limits = self.limits.iter().map(|limit| row_limit(limit, values));
        Some(limits.collect::<Option<Vec<_>>>()?.into_iter().min())
    }

    /// The direction in which rows have the wanted order; `None` where neither has.
    fn direction(&self, access: &Access) -> Option<Direction> {
        let mut clustering = self.table.clustering_key_ids().into_iter();
        let mut direction = None;
        for (id, is_descending) in &self.order {
            // One value has every order.
            if access.fixed.contains(id) {
                continue;
            }
            let next = clustering.find(|next| !access.fixed.contains(next))?;
            let column = self.table.column(next);
            let is_sorted_alike = is_ordered_alike(&column.ty)
                && !matches!(column.ty, DataType::Float | DataType::Double)
                && !self.table.may_lack(next);
            if next != *id || !is_sorted_alike {
                return None;
            }
            let is_natural_descending = column.clustering_order() == ClusteringOrder::Descending;
            let wanted = match *is_descending == is_natural_descending {
                true => Direction::Forward,
                false => Direction::Reversed,
            };
            if direction.is_some_and(|known| known != wanted) {
                return None;
            }
            direction = Some(wanted);
        }
        Some(direction.unwrap_or(Direction::Forward))
    }
}

/// A limit of at least one row.
fn row_limit(limit: &Operand, values: &[ScalarValue]) -> Option<usize> {
    let number = match limit {
        Operand::Number(number) => *number,
        Operand::Parameter(n) => match values.get(n.checked_sub(1)?)? {
            ScalarValue::Int64(Some(number)) => *number,
            _ => return None,
        },
        Operand::Text(_) | Operand::Null => return None,
    };
    usize::try_from(number).ok().filter(|rows| *rows > 0)
}

#[cfg(test)]
mod tests {
    use tidegate_engine::{Column, ColumnKind, TableId, TableOptions, TableSchema};

    use super::super::shape::Shape;
    use super::*;
    use crate::query::split;

    /// Equations of keys as they are decided, and as they are read off.
    #[test]
    fn exact_keys_are_those_that_are_decided() {
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let order = ClusteringOrder::Descending;
        let clustering = |position| ColumnKind::ClusteringKey { position, order };
        let table = TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("p", DataType::Text, ColumnKind::PartitionKey { position: 1 }),
                column("q", DataType::BigInt, ColumnKind::PartitionKey { position: 0 }),
                column("a", DataType::SmallInt, clustering(0)),
                column("b", DataType::Boolean, clustering(1)),
                column("c", DataType::Double, clustering(2)),
                column("v", DataType::Text, ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        };
        let table = Arc::new(table);
        for (conditions, is_exact) in [
            ("p = 'x' AND q = 1", true),
            ("a = -7 AND q = 1 AND p = ''", true),
            ("q = 1 AND p = 'x' AND a = 1 LIMIT 3", true),
            ("q = 1 AND p = 'x' AND a = 1 AND a = 1", false),
            ("q = 1 AND p = 'x' AND a > 1", false),
            ("q = 1 AND p = 'x' AND a = 1 ORDER BY b", false),
        ] {
            let text = format!("SELECT v FROM t WHERE {conditions}");
            let statement = split(&text).unwrap().remove(0);
            let Some(Shape::Select(shape)) = Shape::read(statement.tokens()) else {
                panic!("{text} has the shape of a short one");
            };
            let select = Select::new(shape, &table, false, &mut []).unwrap();
            let exact = select.exact_command(&[], true);
            assert_eq!(exact.is_some(), is_exact, "{text}");
            let decided = select.decided_command(&[], true);
            if let Some(exact) = exact {
                assert_eq!(format!("{exact:?}"), format!("{:?}", decided.unwrap()), "{text}");
            }
        }
    }

    #[test]
    fn columns_that_rows_may_lack_order_nothing() {
        let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
        let order = ClusteringOrder::Ascending;
        let mut table = TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("pk", ColumnKind::PartitionKey { position: 0 }),
                column("a", ColumnKind::ClusteringKey { position: 0, order }),
                column("b", ColumnKind::ClusteringKey { position: 1, order }),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        };
        let is_taken = |table: &TableSchema, order: &str| {
            let text = format!("SELECT a FROM t WHERE pk = 1 ORDER BY {order}");
            let statement = split(&text).unwrap().remove(0);
            let Some(Shape::Select(shape)) = Shape::read(statement.tokens()) else {
                panic!("{text} has the shape of a short one");
            };
            let select = Select::new(shape, &Arc::new(table.clone()), true, &mut []).unwrap();
            select.command(&[], false).is_some()
        };
        for order in ["a", "a DESC", "a, b", "a DESC, b DESC"] {
            assert!(is_taken(&table, order), "{order}");
        }
        // Rows without a value stand before others, where the planner has nulls last.
        table.options.has_partial_keys = true;
        assert!(is_taken(&table, "a") && is_taken(&table, "a DESC"));
        assert!(!is_taken(&table, "a, b") && !is_taken(&table, "a DESC, b DESC"));
    }
}
