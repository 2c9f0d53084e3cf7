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
    use std::path::Path;

    use tidegate_engine::{Database, Options};

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
        Engine::new(Database::open(options).await.unwrap(), Journal::new())
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
}
