//! Two databases that are nodes of a cluster, and ask each other without a network.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use futures::stream::{self, BoxStream, select_all};
use futures::{FutureExt, StreamExt};

use crate::admission::Terms;
use crate::batch::value_at;
use crate::database::tests::*;
use crate::database::{
    Catalog, ConditionalWrite, Decision, NodeId, Peers, Ring, Scan, Taking, WriteBatch,
};
use crate::error::{Error, Result};
use crate::reader::{Condition, RowCondition, RowKey};
use crate::schema::Token;

/// Hands calls to the databases themselves.
#[derive(Default)]
struct Direct {
    nodes: OnceLock<Vec<Database>>,
    are_down: AtomicBool,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Direct")
    }
}

impl Direct {
    fn node(&self, node: NodeId) -> Result<Database> {
        match self.are_down.load(Ordering::Relaxed) {
            true => Err(Error::Unavailable(format!("node {} is down", node.0))),
            false => match self.nodes.get() {
                Some(nodes) => Ok(nodes[node.0 as usize].clone()),
                None => Err(Error::Unavailable("nobody is there yet".to_owned())),
            },
        }
    }
}

/// The one table there is, under the number that it has there.
fn table_of(database: &Database) -> SchemaRef {
    database.catalog().table("default", "t").unwrap().clone()
}

impl Peers for Direct {
    fn read(
        &self,
        node: NodeId,
        command: ReadCommand,
        _: &Catalog,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let begin = || {
            let database = self.node(node)?;
            database.read_here(ReadCommand { schema: table_of(&database), ..command })
        };
        match begin() {
            Ok(batches) => select_all(batches).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn apply(
        &self,
        node: NodeId,
        mut writes: Vec<Mutation>,
        taking: Taking,
        _: &Catalog,
    ) -> BoxFuture<'static, Result<()>> {
        match self.node(node) {
            Ok(database) => {
                let table = table_of(&database).id;
                writes.iter_mut().for_each(|write| write.table = table);
                database.apply_here(writes, taking)
            }
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn write_if(
        &self,
        node: NodeId,
        mut write: ConditionalWrite,
        terms: Terms,
        _: &Catalog,
    ) -> BoxFuture<'static, Result<Decision>> {
        let begin = || {
            let database = self.node(node)?;
            write.mutation.table = table_of(&database).id;
            database.write_if_here(write, terms)
        };
        match begin() {
            Ok(deciding) => deciding.boxed(),
            Err(error) => ready(Err(error)).boxed(),
        }
    }
}

struct World {
    directory: tempfile::TempDir,
    peers: Arc<Direct>,
    nodes: Vec<(Database, SchemaRef)>,
}

/// Opens both nodes: tokens up to `through` are the first one's.
async fn open(directory: tempfile::TempDir, through: i64, is_new: bool) -> World {
    let peers = Arc::<Direct>::default();
    let mut nodes = Vec::new();
    for own in 0..2 {
        let names = ["a", "b"].map(Arc::from).to_vec();
        let ranges = vec![(Token(through), NodeId(0)), (Token::MAX, NodeId(1))];
        let asked = Arc::clone(&peers) as Arc<dyn Peers>;
        let ring = Ring::new(names, NodeId(own), ranges, asked).unwrap();
        let options = Options {
            shards: Some(2),
            ring: Some(Arc::new(ring)),
            ..Options::new(directory.path().join(own.to_string()))
        };
        let database = Database::open(options).await.unwrap();
        if is_new {
            database.create_table(definition(), false).await.unwrap();
        }
        let table = table_of(&database);
        nodes.push((database, table));
    }
    let databases = nodes.iter().map(|(database, _)| database.clone()).collect();
    assert!(peers.nodes.set(databases).is_ok());
    World { directory, peers, nodes }
}

impl World {
    async fn close(self) -> tempfile::TempDir {
        for (database, _) in &self.nodes {
            database.close().await.unwrap();
        }
        self.directory
    }

    /// Partitions of the first node, and of the second.
    fn by_owner(&self, count: usize) -> [Vec<String>; 2] {
        let (database, table) = &self.nodes[0];
        let names = (0..count).map(|number| number.to_string());
        let is_own =
            |name: &String| database.ring().unwrap().other_owner(&key(table, name)).is_none();
        let (own, other) = names.partition(is_own);
        [own, other]
    }
}

/// All values of a scan of the whole table, sorted.
async fn all(database: &Database, table: &SchemaRef) -> Vec<i64> {
    let mut batches = database.scan(Scan::new(table).columns(&["v"]).unwrap());
    let mut values = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch.unwrap();
        for row in 0..batch.num_rows() {
            match value_at(batch.column(0), row, &DataType::BigInt).unwrap() {
                Some(Value::BigInt(value)) => values.push(value),
                other => panic!("no bigint: {other:?}"),
            }
        }
    }
    values.sort_unstable();
    values
}

#[tokio::test]
async fn each_node_reads_and_writes_what_the_other_owns() {
    let world = open(tempfile::tempdir().unwrap(), 0, true).await;
    let [own, other] = world.by_owner(40);
    assert!(own.len() > 8 && other.len() > 8, "{own:?} {other:?}");
    let (a, table) = &world.nodes[0];
    let (b, other_table) = &world.nodes[1];
    // Alone, and several at once.
    for (at, pk) in own.iter().chain(&other).enumerate() {
        let write = insert(table, pk, at as i32, at as i64, 1);
        match at % 3 {
            0 => a.apply(write).await.unwrap(),
            1 => a.apply_many(vec![write.clone(), write]).await.unwrap(),
            _ => b.apply(insert(other_table, pk, at as i32, at as i64, 1)).await.unwrap(),
        }
    }
    let wanted: Vec<i64> = (0..40).collect();
    assert_eq!(all(a, table).await, wanted);
    assert_eq!(all(b, other_table).await, wanted);
    // Each has stored its own alone.
    for (database, names) in [(a, &own), (b, &other)] {
        let report = database.table_report().await.unwrap();
        let rows: u64 = report.iter().map(|row| row.memtable_rows).sum();
        assert_eq!(rows, names.len() as u64);
    }
    // Keys of both in one read, and a page of the other's.
    let keys = own.iter().take(2).chain(other.iter().take(2)).map(|pk| key(table, pk));
    let partitions = Partitions::Keys(keys.collect());
    let full = || Slice::full(Direction::Forward);
    let command = ReadCommand { partitions, ..read_of(table, &own[0], full(), None) };
    let mut found = values(a, command).await;
    found.sort_unstable();
    let first = own.len() as i64;
    assert_eq!(found, [0, 1, first, first + 1]);
    assert_eq!(values(a, read_of(table, &other[0], full(), Some(1))).await, [first]);
    // What one message to a shard answers is for rows of this node.
    let foreign = RowKey { partition: key(table, &other[0]), clustering: ck(table, 0) };
    let refused = a.get(table, foreign.clone()).await;
    assert!(matches!(&refused, Err(Error::Unavailable(why)) if why.contains("'b'")), "{refused:?}");
    assert!(a.get_many(table, vec![foreign]).await.is_err());
    // A node refuses what its own ring gives to another.
    let strange =
        b.apply_here(vec![insert(other_table, &own[0], 1, 1, 1)], Taking::Plain(Terms::default()));
    let strange = strange.await.unwrap_err().to_string();
    assert!(strange.contains("node 'b' is asked for token"), "{strange}");
    world.close().await;
}

/// Whichever node refuses its part, and wherever that stands among the writes.
#[tokio::test]
async fn a_write_over_both_nodes_fails_where_either_part_of_it_does() {
    let world = open(tempfile::tempdir().unwrap(), 0, true).await;
    let [own, other] = world.by_owner(40);
    let (a, table) = &world.nodes[0];
    let (b, other_table) = &world.nodes[1];
    let fit = |pk: &str| insert(table, pk, 1, 7, 1);
    let unfit = |pk: &str| {
        let cells = vec![(ColumnId(2), Cell::live(1, *b"123"))];
        let mut write = Mutation::new(table.id, key(table, pk));
        write.rows.push((ck(table, 1), Row { cells, ..Row::default() }));
        write
    };
    for (at, mut writes) in [
        vec![unfit(&own[0]), fit(&other[0])],
        vec![fit(&own[0]), unfit(&other[0])],
        vec![unfit(&own[0]), unfit(&other[0])],
        vec![fit(&own[0]), unfit(&own[1]), fit(&other[0]), fit(&other[1])],
        vec![fit(&own[0]), fit(&own[1]), unfit(&other[0]), fit(&other[1])],
    ]
    .into_iter()
    .enumerate()
    {
        for is_reversed in [false, true] {
            for is_grouped in [false, true] {
                let writing = match is_grouped {
                    true => a.apply_by_partition(writes.clone()),
                    false => a.apply_many(writes.clone()),
                };
                let told = writing.await;
                let is_told = matches!(told, Err(Error::Invalid(_)));
                assert!(is_told, "writes {at}, reversed {is_reversed}, {is_grouped}: {told:?}");
            }
            writes.reverse();
        }
    }
    let both = |at: usize| vec![fit(&own[at]), fit(&other[at])];
    world.peers.are_down.store(true, Ordering::Relaxed);
    let told = a.apply_many(both(2)).await.unwrap_err().to_string();
    assert!(told.contains("node 1 is down"), "{told}");
    assert_eq!(all_of(a, table, &own[2..3]).await, 1, "its own part does not need the other node");
    a.apply_many(vec![fit(&own[3]), fit(&own[4])]).await.unwrap();
    world.peers.are_down.store(false, Ordering::Relaxed);
    assert_eq!(all_of(b, other_table, &other[2..3]).await, 0);
    a.apply_many(both(2)).await.unwrap();
    assert_eq!(all_of(b, other_table, &other[2..3]).await, 1);
    world.close().await;
}

/// Where rings differ, rows of another node are not taken for none.
#[tokio::test]
async fn a_node_refuses_to_read_what_its_own_ring_gives_to_another() {
    let world = open(tempfile::tempdir().unwrap(), 0, true).await;
    let [own, other] = world.by_owner(40);
    let (b, table) = &world.nodes[1];
    let read = |names: &[&String]| {
        let partitions = Partitions::Keys(names.iter().map(|pk| key(table, pk)).collect());
        let slice = Slice::full(Direction::Forward);
        b.read_here(ReadCommand { partitions, ..read_of(table, &own[0], slice, None) })
    };
    assert!(read(&[&other[0], &other[1]]).is_ok());
    let refused = read(&[&other[0], &own[0]]).err().unwrap().to_string();
    assert!(refused.contains("node 'b' is asked for token"), "{refused}");
    world.close().await;
}

#[tokio::test]
async fn conditions_are_judged_where_the_partition_is() {
    let world = open(tempfile::tempdir().unwrap(), 0, true).await;
    let [_, other] = world.by_owner(10);
    let (a, table) = &world.nodes[0];
    let write = |value| {
        let mut batch = WriteBatch::new(1);
        let row = RowKey { partition: key(table, &other[0]), clustering: ck(table, 1) };
        batch.insert(table, row, &[("v", Some(Value::BigInt(value)))]).unwrap();
        let absent = RowCondition { row: Some(ck(table, 1)), condition: Condition::NotExists };
        ConditionalWrite::new(batch, vec![absent]).unwrap()
    };
    assert!(a.write_if(write(5)).await.unwrap().is_applied());
    let second = a.write_if(write(6)).await.unwrap();
    assert!(!second.is_applied());
    let row = second.rows[0].as_ref().unwrap();
    assert_eq!(row.value("v").unwrap(), Some(Value::BigInt(5)));
    world.close().await;
}

#[tokio::test]
async fn a_logged_batch_is_whole_after_a_node_was_down_and_both_were_opened_again() {
    let world = open(tempfile::tempdir().unwrap(), 0, true).await;
    let [own, other] = world.by_owner(30);
    let (a, table) = &world.nodes[0];
    world.peers.are_down.store(true, Ordering::Relaxed);
    let parts = own.iter().chain(&other).map(|pk| insert(table, pk, 0, 7, 1));
    let error = a.apply_logged(parts.collect()).await.unwrap_err().to_string();
    assert!(error.contains("the batch is logged") && error.contains("node 1 is down"), "{error}");
    assert_eq!(all_of(a, table, &own).await, own.len(), "its own part is there");
    let directory = world.close().await;
    // It is tried when the node is opened, and nobody is there yet; then it comes.
    let world = open(directory, 0, false).await;
    let (b, table) = &world.nodes[1];
    while all_of(b, table, &other).await < other.len() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (a, table) = &world.nodes[0];
    assert_eq!(all_of(a, table, &own).await, own.len());
    world.close().await;
}

/// How many rows these partitions have.
async fn all_of(database: &Database, table: &SchemaRef, names: &[String]) -> usize {
    let mut count = 0;
    for pk in names {
        let full = Slice::full(Direction::Forward);
        count += values(database, read_of(table, pk, full, None)).await.len();
    }
    count
}

#[tokio::test]
async fn what_a_node_no_longer_owns_is_seen_by_nobody() {
    let world = open(tempfile::tempdir().unwrap(), 0, true).await;
    let [own, other] = world.by_owner(40);
    let (a, table) = &world.nodes[0];
    for (at, pk) in own.iter().chain(&other).enumerate() {
        a.apply(insert(table, pk, 0, at as i64, 1)).await.unwrap();
    }
    for (database, _) in &world.nodes {
        database.flush(None).await.unwrap();
    }
    let directory = world.close().await;
    // All tokens up to a half are the first one's now: it does not have those between.
    let world = open(directory, i64::MAX / 2, false).await;
    let [now_own, now_other] = world.by_owner(40);
    assert!(now_own.len() > own.len());
    let (a, table) = &world.nodes[0];
    let (b, other_table) = &world.nodes[1];
    for _ in 0..2 {
        // From disk, then from the row cache.
        assert_eq!(all(b, other_table).await.len(), own.len() + now_other.len());
        assert_eq!(all(a, table).await.len(), own.len() + now_other.len());
    }
    world.close().await;
}

/// Where rings differ, nothing is written at a place where nobody would look for it.
#[tokio::test]
async fn a_node_refuses_to_write_what_its_own_ring_gives_to_another() {
    let world = open(tempfile::tempdir().unwrap(), 0, true).await;
    let [own, other] = world.by_owner(40);
    let (b, table) = &world.nodes[1];
    let write = |pk: &str, value| insert(table, pk, 1, value, 1);
    let wanted = "node 'b' is asked for token";
    for taking in [Taking::Plain(Terms::default()), Taking::Logged(Default::default())] {
        // Nothing of its own partitions is written either.
        for names in [[&own[0], &own[1]], [&other[0], &own[0]], [&own[0], &other[0]]] {
            let writes = names.map(|pk| write(pk, 1)).to_vec();
            let refused = b.apply_here(writes, taking).await.unwrap_err();
            assert!(matches!(refused, Error::Unavailable(_)), "{taking:?}: {refused}");
            assert!(refused.to_string().contains(wanted), "{taking:?}: {refused}");
        }
    }
    let write_if = |pk: &str| {
        let absent = RowCondition { row: Some(ck(table, 1)), condition: Condition::NotExists };
        let write = ConditionalWrite { mutation: write(pk, 5), conditions: vec![absent] };
        b.write_if_here(write, Terms::default())
    };
    let refused = write_if(&own[0]).err().unwrap().to_string();
    assert!(refused.contains(wanted), "{refused}");
    assert!(all(b, table).await.is_empty());
    assert!(write_if(&other[0]).unwrap().await.unwrap().is_applied());
    for (taking, pk, value) in [
        (Taking::Plain(Terms::default()), &other[1], 6),
        (Taking::Logged(Default::default()), &other[2], 7),
    ] {
        b.apply_here(vec![write(pk, value)], taking).await.unwrap();
    }
    assert_eq!(all(b, table).await, [5, 6, 7]);
    world.close().await;
}

#[tokio::test]
async fn nodes_are_asked_for_keys_and_tokens_and_only_where_there_is_a_ring() {
    let world = open(tempfile::tempdir().unwrap(), 0, true).await;
    let (b, table) = &world.nodes[1];
    let ranges = Arc::from(vec![(Token::MIN, Token::MAX)]);
    for partitions in [Partitions::Shard(0), Partitions::Owned { shard: 0, ranges }] {
        let refused = b.read_here(ReadCommand { partitions, ..scan_of(table, 0) });
        assert!(matches!(refused.err(), Some(Error::Invalid(_))), "shards are each node's own");
    }
    let [_, other] = world.by_owner(40);
    b.apply(insert(table, &other[0], 1, 5, 1)).await.unwrap();
    let partitions = Partitions::Tokens { shard: 0, min: Token::MIN, max: Token::MAX };
    let columns = vec![ColumnId(2)];
    let everything = ReadCommand { partitions, columns, ..scan_of(table, 0) };
    let mut rows = 0;
    for mut batches in b.read_here(everything).unwrap() {
        while let Some(batch) = batches.next().await {
            rows += batch.unwrap().num_rows();
        }
    }
    assert_eq!(rows, 1, "every shard is asked");
    world.close().await;
    let directory = tempfile::tempdir().unwrap();
    let alone = Database::open(Options { shards: Some(1), ..Options::new(directory.path()) });
    let alone = alone.await.unwrap();
    let table = alone.create_table(definition(), false).await.unwrap();
    let tokens = (Token::MIN, Token::MAX);
    let mut refused = alone.read_of_node(NodeId(0), tokens, scan_of(&table, 0));
    assert!(matches!(refused.next().await, Some(Err(Error::Invalid(_)))));
    assert!(refused.next().await.is_none(), "it is over");
    alone.close().await.unwrap();
}
