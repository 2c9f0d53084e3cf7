//! What a join asks for: the side of the join that is read first tells it, and the scan on its
//! other side reads only what has partners. Partitions are read by their keys, where these are few;
//! rows are left out by their values.
//!
//! Invariant: whoever waits is answered. A side that ends early, or brings too much, makes the scan
//! read all; what it reads too much finds no partner in the join.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType as ArrowType, Int64Type};
use datafusion::common::Result;
use futures::FutureExt;
use tidegate_engine::RowFilter;
use tidegate_engine::batch::{arrow_type, value_at};
use tidegate_engine::database::Shard;
use tidegate_engine::schema::table_schema::SchemaRef;
use tidegate_engine::schema::{ColumnId, PartitionKey, Value};
use tokio::sync::watch;

use super::pushdown::is_plain;
use crate::query::engine::Engine;

/// Most keys that are collected; a scan of all partitions takes more from then on.
const KEYS_MAX: usize = 1 << 16;
/// A partition by its key costs about as much as so many rows of a scan of all.
const ROWS_A_KEY: u64 = 16;
/// Most values that are collected, those of several rows alike included: 16 MiB.
const VALUES_MAX: usize = 1 << 21;

/// Who is told what rows ask for.
pub trait Listener: fmt::Debug + Send + Sync {
    /// What it does, for a plan.
    fn name(&self) -> &'static str;

    /// A stream that tells begins.
    fn begin(&self);

    /// Takes rows, a column for each thing that is asked for. A row with a null asks for nothing.
    ///
    /// Errors: those of a cast between types that have none.
    fn add(&self, columns: &[ArrayRef]) -> Result<()>;

    /// A stream that tells ends, with all its rows told or not.
    fn end(&self, is_whole: bool);
}

/// What is known of what is told.
#[derive(Debug, Clone)]
enum Known<T> {
    /// Rows may still come.
    Waits,
    These(Arc<T>),
    /// Too many, or nobody knows.
    All,
}

#[derive(Debug)]
struct State<T> {
    /// Streams of the telling side that have begun, and ended.
    begun: usize,
    ended: usize,
    all: T,
}

/// What several streams tell; known when all have ended.
#[derive(Debug)]
struct Told<T> {
    streams: usize,
    state: Mutex<State<T>>,
    known: watch::Sender<Known<T>>,
}

impl<T: Default> Told<T> {
    fn new(streams: usize) -> Self {
        let state = State { begun: 0, ended: 0, all: T::default() };
        Told { streams, state: Mutex::new(state), known: watch::Sender::new(Known::Waits) }
    }

    /// One that begins anew may tell otherwise: then all are read.
    fn begin(&self) {
        let mut state = self.state();
        state.begun += 1;
        if state.begun > self.streams {
            self.known.send_replace(Known::All);
        }
    }

    /// Whether more makes a difference.
    fn is_awaited(&self) -> bool {
        matches!(*self.known.borrow(), Known::Waits)
    }

    /// Adds what `add` does, which says whether there is room for more.
    fn add(&self, add: impl FnOnce(&mut T) -> bool) {
        let mut state = self.state();
        if !add(&mut state.all) {
            state.all = T::default();
            self.known.send_replace(Known::All);
        }
    }

    fn end(&self, is_whole: bool) {
        let mut state = self.state();
        state.ended += 1;
        if !is_whole {
            self.known.send_replace(Known::All);
        } else if state.ended == self.streams && state.begun == self.streams {
            let all = Arc::new(std::mem::take(&mut state.all));
            self.known.send_modify(|known| {
                if matches!(known, Known::Waits) {
                    *known = Known::These(all);
                }
            });
        }
    }

    /// All that was told; `None` where nobody knows all of it.
    async fn wait(&self) -> Option<Arc<T>> {
        let mut known = self.known.subscribe();
        // The sender is `self`, so it is there.
        let known = known.wait_for(|known| !matches!(known, Known::Waits)).await;
        match known.as_deref() {
            Ok(Known::These(all)) => Some(Arc::clone(all)),
            _ => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing panics while it is held, but for want of memory.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A column as one of a type; what has no value of it is null.
fn cast(column: &ArrayRef, wanted: &ArrowType) -> Result<ArrayRef> {
    if column.data_type() == wanted {
        return Ok(Arc::clone(column));
    }
    let safe = CastOptions { safe: true, ..CastOptions::default() };
    Ok(cast_with_options(column, wanted, &safe)?)
}

/// The partitions that have partners.
#[derive(Debug)]
pub struct WantedKeys {
    table: SchemaRef,
    told: Told<BTreeSet<PartitionKey>>,
}

impl WantedKeys {
    /// Keys of `table` that so many streams tell. The types of its partition key must be such that
    /// equal values are one key ([`is_plain`]).
    pub fn new(table: SchemaRef, streams: usize) -> Self {
        debug_assert!(table.partition_key().all(|column| is_plain(&column.ty)));
        WantedKeys { table, told: Told::new(streams) }
    }

    /// The keys of a shard in ring order, once all are told; `None` where reading all partitions
    /// takes less. So `few` are always read by their keys.
    pub async fn of_shard(
        &self,
        database: &Engine,
        shard: u32,
        few: usize,
    ) -> Option<Vec<PartitionKey>> {
        let keys = self.told.wait().await?;
        let is_here = |key: &&PartitionKey| database.shard_of(key) == shard;
        let keys: Vec<PartitionKey> = keys.iter().filter(is_here).cloned().collect();
        if keys.len() <= few {
            return Some(keys);
        }
        // Its shard knows the table.
        let (first, id) = (keys.first()?.clone(), self.table.id);
        let rows = move |shard: Rc<Shard>| {
            async move {
                let stats = shard.table(id).ok()?.stats();
                Some(stats.memtable_rows + stats.sstable_rows)
            }
            .boxed_local()
        };
        let rows = database.on_shard(&first, rows).await.ok()??;
        (keys.len() as u64 * ROWS_A_KEY <= rows).then_some(keys)
    }
}

impl Listener for WantedKeys {
    fn name(&self) -> &'static str {
        "TellKeys"
    }

    fn begin(&self) {
        self.told.begin();
    }

    fn add(&self, columns: &[ArrayRef]) -> Result<()> {
        if !self.told.is_awaited() {
            return Ok(());
        }
        // A number out of range is null then, and in no partition.
        let parts: Vec<_> = self.table.partition_key().collect();
        let columns = columns.iter().zip(&parts);
        let columns = columns.map(|(column, part)| cast(column, &arrow_type(&part.ty)));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let rows = columns.first().map_or(0, |column| column.len());
        self.told.add(|keys| {
            for row in 0..rows {
                let values = columns.iter().zip(&parts);
                let values: Option<Vec<Value>> = values
                    .map(|(column, part)| value_at(column, row, &part.ty).ok().flatten())
                    .collect();
                // Values that make no key (too long, empty) are in no partition.
                let key =
                    values.and_then(|values| PartitionKey::from_values(&self.table, &values).ok());
                keys.extend(key);
                if keys.len() > KEYS_MAX {
                    return false;
                }
            }
            true
        });
        Ok(())
    }

    fn end(&self, is_whole: bool) {
        self.told.end(is_whole);
    }
}

/// The values of a column of integers that have partners.
#[derive(Debug)]
pub struct WantedValues {
    table: SchemaRef,
    column: ColumnId,
    told: Told<Vec<i64>>,
    /// What leaves out the others, made once for all streams of the scan.
    filter: OnceLock<Option<RowFilter>>,
}

impl WantedValues {
    /// Values of a column that so many streams tell; `None` for a column whose values shards do not
    /// judge by a set.
    pub fn new(table: SchemaRef, column: ColumnId, streams: usize) -> Option<Self> {
        let is_judged = RowFilter::judges_numbers(&table, column);
        let (told, filter) = (Told::new(streams), OnceLock::new());
        is_judged.then_some(WantedValues { table, column, told, filter })
    }

    /// The name of the column.
    pub fn column_name(&self) -> &str {
        &self.table.column(self.column).name
    }

    /// What leaves out rows without a partner, once all values are told; `None` where all rows are
    /// to be read.
    pub async fn wait(&self) -> Option<RowFilter> {
        let values = self.told.wait().await?;
        let filter = || RowFilter::among(&self.table, self.column, &values);
        self.filter.get_or_init(filter).as_ref().map(RowFilter::anew)
    }
}

impl Listener for WantedValues {
    fn name(&self) -> &'static str {
        "TellValues"
    }

    fn begin(&self) {
        self.told.begin();
    }

    fn add(&self, columns: &[ArrayRef]) -> Result<()> {
        if !self.told.is_awaited() {
            return Ok(());
        }
        let [column] = columns else { return Ok(()) };
        let column = cast(column, &ArrowType::Int64)?;
        self.told.add(|values| {
            values.extend(column.as_primitive::<Int64Type>().iter().flatten());
            values.len() <= VALUES_MAX
        });
        Ok(())
    }

    fn end(&self, is_whole: bool) {
        self.told.end(is_whole);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringArray};
    use tidegate_engine::{Column, ColumnKind, DataType, TableId, TableOptions, TableSchema};

    use super::*;

    /// What streams told that ended, in whole or not.
    fn told(streams: usize, all: &[(&[i64], bool)]) -> Option<Option<Arc<Vec<i64>>>> {
        let told = Told::<Vec<i64>>::new(streams);
        for (values, is_whole) in all {
            told.begin();
            told.add(|all| {
                all.extend(*values);
                all.len() <= 4
            });
            told.end(*is_whole);
        }
        told.wait().now_or_never()
    }

    #[test]
    fn what_is_told_is_known_when_all_streams_have_ended_whole() {
        assert_eq!(told(2, &[(&[1, 2], true)]), None, "a stream is missing");
        assert_eq!(told(2, &[(&[1], true), (&[2], true)]), Some(Some(Arc::new(vec![1, 2]))));
        assert_eq!(told(2, &[(&[1], true), (&[2], false)]), Some(None), "one ended early");
        assert_eq!(told(1, &[(&[1, 2, 3, 4, 5], true)]), Some(None), "there are too many");
        assert_eq!(told(1, &[(&[1], true), (&[1], true)]), Some(None), "one began anew");
    }

    /// `a int, b text | v int`, of which `a` and `b` are the partition key, or `a` alone.
    fn table(key: usize) -> SchemaRef {
        let kind = |position: u16| match usize::from(position) < key {
            true => ColumnKind::PartitionKey { position },
            false => ColumnKind::Regular,
        };
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        Arc::new(TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("a", DataType::Int, kind(0)),
                column("b", DataType::Text, kind(1)),
                column("v", DataType::Int, ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        })
    }

    fn longs(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
        Arc::new(values.into_iter().collect::<Int64Array>())
    }

    /// The keys of `table` that are known when these rows were told in one stream.
    fn keys(table: &SchemaRef, batches: &[Vec<ArrayRef>]) -> Option<Vec<PartitionKey>> {
        let wanted = WantedKeys::new(Arc::clone(table), 1);
        wanted.begin();
        for columns in batches {
            wanted.add(columns).unwrap();
        }
        wanted.end(true);
        let known = wanted.told.wait().now_or_never().expect("all streams have ended");
        known.map(|keys| keys.iter().cloned().collect())
    }

    /// A null, and a number that no partition can have, ask for nothing.
    #[test]
    fn a_row_asks_for_the_partition_that_all_of_its_values_name() {
        let one = table(1);
        let key = |a: i32| PartitionKey::from_values(&one, &[Value::Int(a)]).unwrap();
        let sorted = |mut keys: Vec<PartitionKey>| {
            keys.sort();
            keys
        };
        let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
        let told = [7, least, most, least - 1, most + 1, 7, i64::MAX].map(Some);
        let told = longs(told.into_iter().chain([None]));
        let wanted = sorted([7, i32::MIN, i32::MAX].map(key).to_vec());
        assert_eq!(keys(&one, &[vec![told]]), Some(wanted.clone()));
        // In whatever batches, the empty one too.
        let parts = [longs([Some(7)]), longs([]), longs([Some(least), Some(most)])];
        assert_eq!(keys(&one, &parts.map(|part| vec![part])), Some(wanted));
        assert_eq!(keys(&one, &[]), Some(Vec::new()));
        let two = table(2);
        let key = |a: i32, b: &str| {
            PartitionKey::from_values(&two, &[Value::Int(a), Value::Text(b.into())]).unwrap()
        };
        let texts = StringArray::from(vec![Some("x"), None, Some("y"), Some("x"), Some("")]);
        let texts = Arc::new(texts) as ArrayRef;
        let numbers = longs([Some(1), Some(1), None, Some(2), Some(1)]);
        let wanted = sorted(vec![key(1, "x"), key(2, "x"), key(1, "")]);
        assert_eq!(keys(&two, &[vec![numbers, texts]]), Some(wanted));
    }

    #[test]
    fn as_many_partitions_are_asked_for_as_may_be_and_beyond_all_are_read() {
        let one = table(1);
        let most = KEYS_MAX as i64;
        for (told, found) in [(most, Some(KEYS_MAX)), (most + 1, None)] {
            let batch = longs((0..told).map(Some));
            // What was told before counts once.
            let batches = [vec![longs((0..9).map(Some))], vec![batch]];
            assert_eq!(keys(&one, &batches).map(|keys| keys.len()), found, "{told} keys");
        }
    }

    #[test]
    fn values_are_told_of_columns_that_shards_judge_up_to_their_number() {
        let table = table(1);
        let column = |name: &str| table.find(name).unwrap().0;
        assert!(WantedValues::new(Arc::clone(&table), column("b"), 1).is_none(), "it is a text");
        for (count, is_known) in [(VALUES_MAX, true), (VALUES_MAX + 1, false)] {
            let wanted = WantedValues::new(Arc::clone(&table), column("v"), 1).unwrap();
            assert_eq!(wanted.column_name(), "v");
            wanted.begin();
            // Each row counts, those that are alike too, but for nulls.
            let values = Arc::new(Int64Array::from_value(7, count - 2)) as ArrayRef;
            wanted.add(&[values]).unwrap();
            wanted.add(&[longs([None, Some(8), None, Some(-9)])]).unwrap();
            wanted.end(true);
            let known = wanted.told.wait().now_or_never().expect("all streams have ended");
            assert_eq!(known.is_some(), is_known, "{count} values");
        }
        for (name, is_whole) in [("v", true), ("v", false), ("a", true)] {
            let wanted = WantedValues::new(Arc::clone(&table), column(name), 1).unwrap();
            wanted.begin();
            wanted.add(&[longs([Some(7), None])]).unwrap();
            wanted.end(is_whole);
            // All streams of a scan ask for it.
            for _ in 0..2 {
                let filter = wanted.wait().now_or_never().expect("all streams have ended");
                assert_eq!(filter.is_some(), is_whole, "{name}");
            }
        }
    }
}
