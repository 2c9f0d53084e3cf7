//! What one stream of a scan reads.
//!
//! In a cluster all partitions are those of each node. A node leaves out whatever else lies there,
//! say from before a range moved.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;
use tidegate_engine::mutation::ClusteringRange;
use tidegate_engine::schema::{PartitionKey, Token};
use tidegate_engine::{NodeId, Partitions, Ring, TableSchema};

use super::pushdown::{Access, Part};
use crate::query::engine::Engine;

/// Up to so many partition keys are streams of their own, each in clustering order; more keys are
/// one stream a shard.
pub(super) const KEY_STREAMS_MAX: usize = 16;

/// A stream of fewer rows is not worth its while.
const STREAM_ROWS_MIN: u64 = if cfg!(test) { 4 } else { 65_536 };

/// Settings that have it make scans read this shard and no other: one part of a query, see
/// `plan/access/divided.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnlyShard(pub u32);

impl OnlyShard {
    /// What scans under these settings read; `None` for all shards.
    pub fn of(config: &SessionConfig) -> Option<Self> {
        config.get_extension::<OnlyShard>().map(|only| *only)
    }
}

/// What one output partition of the plan reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Of some partitions, one part after the other.
    Parts(Vec<Part>),
    /// Of all partitions of a shard, or of those between two tokens, both included.
    Shard { shard: u32, tokens: Option<(Token, Token)> },
    /// Of all partitions of a node of the cluster, one of so many parts of its shards. Another node
    /// asks for them together, by the first part.
    Node { node: NodeId, part: u32, parts: u32 },
}

/// One of the reads of a source.
pub(super) struct Read {
    /// Who has the partitions; this node where there is none.
    pub node: Option<(NodeId, (Token, Token))>,
    pub partitions: Partitions,
    pub ranges: Vec<ClusteringRange>,
}

impl Source {
    pub(super) fn is_one_partition(&self) -> bool {
        matches!(self, Source::Parts(parts) if matches!(&parts[..], [part] if part.keys.len() == 1))
    }

    /// What is read, one after the other.
    pub(super) fn reads(&self, database: &Engine, access: &Access) -> Vec<Read> {
        let ranges = || access.ranges.clone();
        match self {
            Source::Parts(parts) => {
                let read = |part: &Part| Read {
                    node: None,
                    partitions: Partitions::Keys(part.keys.clone()),
                    ranges: part.ranges.clone(),
                };
                parts.iter().map(read).collect()
            }
            Source::Shard { shard, tokens } => {
                let shard = *shard;
                let stretch = match (access.tokens, *tokens) {
                    (Some(asked), Some(own)) => Some((asked.0.max(own.0), asked.1.min(own.1))),
                    (asked, own) => asked.or(own),
                };
                let partitions = match stretch {
                    Some((min, max)) if min > max => return Vec::new(),
                    Some((min, max)) => Partitions::Tokens { shard, min, max },
                    None => Partitions::Shard(shard),
                };
                vec![Read { node: None, partitions, ranges: ranges() }]
            }
            Source::Node { node, part, parts } => {
                let Some(ring) = database.ring() else { return Vec::new() };
                let (first, last) = access.tokens.unwrap_or((Token::MIN, Token::MAX));
                let wanted = ring.ranges_of(*node).into_iter();
                let wanted = wanted.map(|(min, max)| (min.max(first), max.min(last)));
                let wanted = wanted.filter(|(min, max)| min <= max);
                if *node != ring.own() {
                    let read = |(min, max)| Read {
                        node: Some((*node, (min, max))),
                        partitions: Partitions::Keys(Vec::new()),
                        ranges: ranges(),
                    };
                    return wanted.filter(|_| *part == 0).map(read).collect();
                }
                let shards = || (0..database.shard_count()).filter(|shard| shard % parts == *part);
                if access.tokens.is_none() {
                    let owned: Arc<[_]> = ring.ranges_of(*node).into();
                    let read = |shard| Read {
                        node: None,
                        partitions: Partitions::Owned { shard, ranges: Arc::clone(&owned) },
                        ranges: ranges(),
                    };
                    return shards().map(read).collect();
                }
                let of_range =
                    |(min, max)| shards().map(move |shard| Partitions::Tokens { shard, min, max });
                let read = |partitions| Read { node: None, partitions, ranges: ranges() };
                wanted.flat_map(of_range).map(read).collect()
            }
        }
    }
}

/// One stream a shard, or one a key where keys are few; in a cluster also one a node.
pub(super) fn sources(database: &Engine, table: &TableSchema, access: &Access) -> Vec<Source> {
    let Some(keys) = &access.keys else {
        // Files that are attached are those of this node.
        let is_shared = |_: &&Ring| !database.catalog().is_attached(&table.keyspace, &table.name);
        return match database.ring().filter(is_shared) {
            None => {
                let of_shard = |shard| Source::Shard { shard, tokens: None };
                (0..database.shard_count()).map(of_shard).collect()
            }
            Some(ring) => of_nodes(database, ring),
        };
    };
    let parts = access.parts();
    if keys.len() <= KEY_STREAMS_MAX {
        let alone = |part: Part| {
            let keys = part.keys.clone();
            keys.into_iter().map(move |key| Source::Parts(vec![part.of(vec![key])]))
        };
        return parts.into_iter().flat_map(alone).collect();
    }
    let mut by_shard: BTreeMap<u32, Vec<Part>> = BTreeMap::new();
    for part in parts {
        let mut of_shards: BTreeMap<u32, Vec<PartitionKey>> = BTreeMap::new();
        for key in &part.keys {
            of_shards.entry(database.shard_of(key)).or_default().push(key.clone());
        }
        for (shard, keys) in of_shards {
            by_shard.entry(shard).or_default().push(part.of(keys));
        }
    }
    by_shard.into_values().map(Source::Parts).collect()
}

/// Streams of pieces of the ring, all of one length: `count` of them or a few more, where there are
/// `rows` enough for each. `None` where as many as the shards are enough.
pub(super) fn divided(sources: &[Source], count: usize, rows: u64) -> Option<Vec<Source>> {
    let is_shard = |source: &Source| matches!(source, Source::Shard { tokens: None, .. });
    if sources.is_empty() || !sources.iter().all(is_shard) {
        return None;
    }
    let rows = rows / STREAM_ROWS_MIN;
    let count = count.min(usize::try_from(rows).unwrap_or(usize::MAX));
    let pieces = count.div_ceil(sources.len()) as i128;
    if pieces < 2 {
        return None;
    }
    let (first, ring) = (i128::from(i64::MIN), 1_i128 << 64);
    let start = |piece: i128| first + ring * piece / pieces;
    let token = |at: i128| Token(i64::try_from(at).expect("a piece lies on the ring"));
    let of_shard = |source: &Source| {
        let Source::Shard { shard, .. } = *source else { unreachable!("all are shards") };
        let piece = move |piece| Some((token(start(piece)), token(start(piece + 1) - 1)));
        (0..pieces).map(move |at| Source::Shard { shard, tokens: piece(at) })
    };
    Some(sources.iter().flat_map(of_shard).collect())
}

/// The shards of this node, and each other node as a whole.
fn of_nodes(database: &Engine, ring: &Ring) -> Vec<Source> {
    let parts = database.shard_count();
    let own = (0..parts).map(|part| Source::Node { node: ring.own(), part, parts });
    let others = ring.nodes().filter(|node| *node != ring.own());
    own.chain(others.map(|node| Source::Node { node, part: 0, parts: 1 })).collect()
}

/// The sources of each of `count` tasks, where there is one task a node: they read on their own
/// node. With another number of tasks the first reads everything. All tasks have as many streams.
pub(super) fn of_tasks(
    database: &Engine,
    sources: &Arc<[Source]>,
    count: usize,
) -> Vec<Vec<Source>> {
    let Some(ring) = database.ring().filter(|ring| ring.nodes().count() == count) else {
        let nothing = || vec![Source::Parts(Vec::new()); sources.len()];
        let mut tasks: Vec<Vec<Source>> = (0..count).map(|_| nothing()).collect();
        if let Some(first) = tasks.first_mut() {
            *first = sources.to_vec();
        }
        return tasks;
    };
    let is_of_all = sources.iter().any(|source| !matches!(source, Source::Parts(_)));
    if is_of_all {
        let parts = database.shard_count();
        let of_node = |node| (0..parts).map(|part| Source::Node { node, part, parts }).collect();
        return ring.nodes().map(of_node).collect();
    }
    let of_node = |node: NodeId| {
        let own = |part: &Part| {
            let keys = part.keys.iter().filter(|key| ring.owner(key.token()) == node);
            Some(part.of(keys.cloned().collect())).filter(|part| !part.keys.is_empty())
        };
        let of_source = |source: &Source| match source {
            Source::Parts(parts) => Source::Parts(parts.iter().filter_map(own).collect()),
            other => other.clone(),
        };
        sources.iter().map(of_source).collect()
    };
    ring.nodes().map(of_node).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use tidegate_engine::{Column, ColumnKind, DataType, Database, Options, TableId, TableOptions};

    use super::*;
    use crate::cluster::{Cluster, RingFile};
    use crate::query::watch::journal::Journal;

    /// The first of two nodes, with three shards: the tokens below zero are its own.
    async fn engine(directory: &Path) -> Engine {
        let nodes = ["a=grpc://127.0.0.1:9001", "b=grpc://127.0.0.1:9002"].map(str::to_owned);
        let file = directory.join("ring.json");
        std::fs::write(&file, RingFile::even(&nodes).unwrap().to_text()).unwrap();
        let mut options = Options::new(directory.join("data"));
        let plan = RingFile::load(&file).unwrap();
        let cluster = Cluster::new(plan, "a", Arc::clone(&options.clock)).unwrap();
        options.shards = Some(3);
        options.ring = Some(Arc::new(cluster.ring().unwrap()));
        Engine::new(Database::open(options).await.unwrap(), Journal::new(), Arc::default())
    }

    fn source(node: u32, part: u32, parts: u32) -> Source {
        Source::Node { node: NodeId(node), part, parts }
    }

    /// Who reads what, with the first and the last token.
    fn told(engine: &Engine, source: &Source, access: &Access) -> Vec<(String, i64, i64)> {
        let of_read = |read: Read| match (read.node, read.partitions) {
            (Some((node, (first, last))), _) => (format!("node {}", node.0), first.0, last.0),
            (None, Partitions::Owned { shard, ranges }) => {
                let [(first, last)] = ranges[..] else { panic!("it owns {ranges:?}") };
                (format!("shard {shard}"), first.0, last.0)
            }
            (None, Partitions::Tokens { shard, min, max }) => {
                (format!("shard {shard}"), min.0, max.0)
            }
            (None, other) => panic!("{other:?} is read"),
        };
        source.reads(engine, access).into_iter().map(of_read).collect()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_parts_of_a_node_have_each_of_its_shards_once() {
        let directory = tempfile::tempdir().unwrap();
        let engine = engine(directory.path()).await;
        for (tokens, own, of_other) in [
            (None, Some((i64::MIN, -1)), Some((0, i64::MAX))),
            (Some((-5, 5)), Some((-5, -1)), Some((0, 5))),
            (Some((-9, -5)), Some((-9, -5)), None),
            (Some((7, 7)), None, Some((7, 7))),
        ] {
            let tokens = tokens.map(|(min, max)| (Token(min), Token(max)));
            let access = Access { tokens, ..Access::full() };
            for (part, parts, shards) in [
                (0, 1, &[0, 1, 2][..]),
                (0, 2, &[0, 2]),
                (1, 2, &[1]),
                (0, 3, &[0]),
                (1, 3, &[1]),
                (2, 3, &[2]),
                (3, 4, &[]),
            ] {
                let read = |shard: &u32| own.map(|(min, max)| (format!("shard {shard}"), min, max));
                let wanted: Vec<_> = shards.iter().filter_map(read).collect();
                let found = told(&engine, &source(0, part, parts), &access);
                assert_eq!(found, wanted, "part {part} of {parts}, {tokens:?}");
                // Another node reads all of its shards for the first part.
                let read = of_other.filter(|_| part == 0);
                let read = read.map(|(min, max)| ("node 1".to_owned(), min, max));
                let found = told(&engine, &source(1, part, parts), &access);
                assert_eq!(found, Vec::from_iter(read), "part {part} of {parts}, {tokens:?}");
            }
        }
        engine.close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_node_reads_its_own_where_there_is_one_task_a_node() {
        let directory = tempfile::tempdir().unwrap();
        let engine = engine(directory.path()).await;
        let alone = of_nodes(&engine, engine.ring().unwrap());
        assert_eq!(alone, [source(0, 0, 3), source(0, 1, 3), source(0, 2, 3), source(1, 0, 1)]);
        let alone: Arc<[Source]> = alone.into();
        let of_node = |node| (0..3).map(|part| source(node, part, 3)).collect::<Vec<_>>();
        assert_eq!(of_tasks(&engine, &alone, 2), [of_node(0), of_node(1)]);
        let nothing = vec![Source::Parts(Vec::new()); 4];
        assert_eq!(of_tasks(&engine, &alone, 3), [alone.to_vec(), nothing.clone(), nothing]);
        engine.close().await.unwrap();
    }

    /// Each piece of the ring is in one stream of each shard.
    #[test]
    fn a_divided_scan_reads_all_of_the_ring_once_in_pieces_of_one_length() {
        let many = 1000 * STREAM_ROWS_MIN;
        for (shards, wanted, rows, found) in [
            (1, 3, many, Some(3)),
            (2, 3, many, Some(4)),
            (2, 7, many, Some(8)),
            (2, 8, many, Some(8)),
            (3, 7, many, Some(9)),
            // The shards are enough.
            (2, 2, many, None),
            (4, 3, many, None),
            (2, 0, many, None),
            (0, 8, many, None),
            // There are too few rows for more.
            (1, 8, 0, None),
            (1, 8, 2 * STREAM_ROWS_MIN - 1, None),
            (1, 8, 2 * STREAM_ROWS_MIN, Some(2)),
            (1, 8, 3 * STREAM_ROWS_MIN - 1, Some(2)),
            (2, 8, 2 * STREAM_ROWS_MIN, None),
            (2, 8, 3 * STREAM_ROWS_MIN, Some(4)),
        ] {
            let whole = |shard| Source::Shard { shard, tokens: None };
            let sources: Vec<Source> = (0..shards).map(whole).collect();
            let sources = divided(&sources, wanted, rows);
            let what = format!("{shards} shards, {wanted} streams of {rows} rows");
            assert_eq!(sources.as_ref().map(Vec::len), found, "{what}");
            for shard in 0..shards {
                let of_shard = |source: &Source| match source {
                    Source::Shard { shard: own, tokens } if *own == shard => *tokens,
                    _ => None,
                };
                let pieces = sources.iter().flatten().filter_map(of_shard);
                let pieces: Vec<(i64, i64)> = pieces.map(|(min, max)| (min.0, max.0)).collect();
                let Some(found) = found else {
                    assert!(pieces.is_empty(), "{what}");
                    continue;
                };
                assert_eq!(pieces.len() * shards as usize, found, "{what}");
                assert_eq!(pieces[0].0, i64::MIN, "{what}");
                assert_eq!(pieces[pieces.len() - 1].1, i64::MAX, "{what}");
                assert!(pieces.windows(2).all(|two| two[1].0 - 1 == two[0].1), "{what}");
                let lengths = pieces.iter().map(|(min, max)| i128::from(*max) - i128::from(*min));
                let (least, most) = (lengths.clone().min(), lengths.max());
                assert!(most.unwrap() - least.unwrap() <= 1, "{what}");
            }
        }
        // What is divided or named already is not divided again.
        let piece = Source::Shard { shard: 0, tokens: Some((Token(0), Token(9))) };
        let whole = Source::Shard { shard: 1, tokens: None };
        assert_eq!(divided(&[whole.clone(), piece], 8, many), None);
        assert_eq!(divided(&[whole, Source::Parts(Vec::new())], 8, many), None);
        assert_eq!(divided(&[source(0, 0, 1)], 8, many), None);
    }

    async fn alone(directory: &Path) -> Engine {
        let mut options = Options::new(directory.join("data"));
        options.shards = Some(3);
        Engine::new(Database::open(options).await.unwrap(), Journal::new(), Arc::default())
    }

    fn table() -> TableSchema {
        let kind = ColumnKind::PartitionKey { position: 0 };
        TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![Column { name: "pk".into(), ty: DataType::Int, kind }],
            options: TableOptions::default(),
            drops: Vec::new(),
        }
    }

    fn keys(count: usize) -> Vec<PartitionKey> {
        let key = |number: usize| PartitionKey::from_bytes([number as u8]);
        let mut keys: Vec<PartitionKey> = (0..count).map(key).collect();
        keys.sort();
        keys
    }

    /// The keys of a source, and whether the slice of each names rows.
    fn named(source: &Source) -> Vec<(PartitionKey, bool)> {
        let Source::Parts(parts) = source else { panic!("{source:?} names no partitions") };
        let of_part = |part: &Part| {
            let names_rows = part.rows.is_some();
            part.keys.iter().map(|key| (key.clone(), names_rows)).collect::<Vec<_>>()
        };
        parts.iter().flat_map(of_part).collect()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn few_keys_have_a_stream_each_and_many_one_a_shard_with_the_slice_of_each() {
        let directory = tempfile::tempdir().unwrap();
        let engine = alone(directory.path()).await;
        for count in [0, 1, 2, KEY_STREAMS_MAX, KEY_STREAMS_MAX + 1, 60] {
            let keys = keys(count);
            let part = |at: usize| Part {
                keys: keys.iter().skip(at).step_by(2).cloned().collect(),
                ranges: Access::full().ranges,
                rows: (at == 1).then(Vec::new),
            };
            for apart in [None, Some(vec![part(0), part(1)])] {
                let is_apart = apart.is_some();
                let access = Access { keys: Some(keys.clone()), apart, ..Access::full() };
                let found = sources(&engine, &table(), &access);
                let mut read: Vec<_> = found.iter().flat_map(named).collect();
                read.sort();
                let wanted = keys.iter().enumerate();
                let mut wanted: Vec<_> =
                    wanted.map(|(at, key)| (key.clone(), is_apart && at % 2 == 1)).collect();
                wanted.sort();
                assert_eq!(read, wanted, "{count} keys, apart: {is_apart}");
                let shards = |keys: Vec<(PartitionKey, bool)>| {
                    keys.iter().map(|(key, _)| engine.shard_of(key)).collect::<BTreeSet<u32>>()
                };
                let streams = match count <= KEY_STREAMS_MAX {
                    true => count,
                    false => shards(wanted).len(),
                };
                assert_eq!(found.len(), streams, "{count} keys, apart: {is_apart}");
                let is_of_one = |source: &Source| shards(named(source)).len() == 1;
                assert!(found.iter().all(is_of_one), "{count} keys, apart: {is_apart}");
            }
        }
        engine.close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_piece_of_a_shard_is_read_as_far_as_it_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let engine = alone(directory.path()).await;
        for (asked, own, wanted) in [
            (None, None, Some(None)),
            (Some((-5, 5)), None, Some(Some((-5, 5)))),
            (Some((5, 4)), None, None),
            (None, Some((0, 9)), Some(Some((0, 9)))),
            (Some((i64::MIN, i64::MAX)), Some((0, 9)), Some(Some((0, 9)))),
            (Some((-5, 5)), Some((0, 9)), Some(Some((0, 5)))),
            (Some((3, 4)), Some((0, 9)), Some(Some((3, 4)))),
            (Some((5, 15)), Some((0, 9)), Some(Some((5, 9)))),
            // The borders are part of both.
            (Some((-5, 0)), Some((0, 9)), Some(Some((0, 0)))),
            (Some((9, 15)), Some((0, 9)), Some(Some((9, 9)))),
            (Some((-5, -1)), Some((0, 9)), None),
            (Some((10, 15)), Some((0, 9)), None),
        ] {
            let tokens =
                |stretch: Option<(i64, i64)>| stretch.map(|(min, max)| (Token(min), Token(max)));
            let access = Access { tokens: tokens(asked), ..Access::full() };
            let reads = Source::Shard { shard: 2, tokens: tokens(own) }.reads(&engine, &access);
            let of_read = |read: Read| match read.partitions {
                Partitions::Shard(2) => None,
                Partitions::Tokens { shard: 2, min, max } => Some((min.0, max.0)),
                other => panic!("{other:?} is read"),
            };
            let found: Vec<Option<(i64, i64)>> = reads.into_iter().map(of_read).collect();
            assert_eq!(found, Vec::from_iter(wanted), "{asked:?} of {own:?}");
        }
        engine.close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_node_reads_the_keys_that_are_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let engine = engine(directory.path()).await;
        for count in [1, KEY_STREAMS_MAX, 60] {
            let keys = keys(count);
            let access = Access { keys: Some(keys.clone()), ..Access::full() };
            let all: Arc<[Source]> = sources(&engine, &table(), &access).into();
            let tasks = of_tasks(&engine, &all, 2);
            assert_eq!(tasks.len(), 2);
            for (node, task) in tasks.iter().enumerate() {
                assert_eq!(task.len(), all.len(), "all tasks have as many streams");
                let mut read: Vec<_> = task.iter().flat_map(named).map(|(key, _)| key).collect();
                read.sort();
                let is_own = |key: &&PartitionKey| (key.token().0 < 0) == (node == 0);
                let own: Vec<PartitionKey> = keys.iter().filter(is_own).cloned().collect();
                assert_eq!(read, own, "node {node} of {count} keys");
            }
        }
        engine.close().await.unwrap();
    }
}
