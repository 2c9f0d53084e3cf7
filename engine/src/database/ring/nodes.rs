//! The nodes of a cluster as one of them sees them: who owns which partitions, and how others are
//! asked for theirs.
//!
//! Invariant: the ranges hold every token once. A node reads and writes its own partitions; what
//! concerns those of another goes to that node, in one hop. There is one copy of a partition.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::admission::{LevelId, Terms};
use crate::batch::RecordBatch;
use crate::database::catalog::Catalog;
use crate::database::shard::{ConditionalWrite, Decision};
use crate::error::{Error, Result};
use crate::mutation::Mutation;
use crate::schema::{PartitionKey, Token};
use crate::table::ReadCommand;

/// A node, by its place among the nodes of its ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// How a write is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// As any write.
    Plain(Terms),
    /// As a part of a batch that is logged elsewhere: no limit refuses it, and it is durable when
    /// it is acknowledged.
    Logged(LevelId),
}

/// Asks other nodes. The catalog is that of this node, for names of tables and service levels:
/// their numbers are each node's own.
///
/// Errors of all calls: those of the node, and `Unavailable` naming it where it does not answer.
pub trait Peers: fmt::Debug + Send + Sync + 'static {
    /// Reads partitions of a node: those of keys that it owns, or all between two tokens on all of
    /// its shards, in any order.
    fn read(
        &self,
        node: NodeId,
        command: ReadCommand,
        catalog: &Catalog,
    ) -> BoxStream<'static, Result<RecordBatch>>;

    /// Applies writes to partitions of a node.
    fn apply(
        &self,
        node: NodeId,
        writes: Vec<Mutation>,
        taking: Taking,
        catalog: &Catalog,
    ) -> BoxFuture<'static, Result<()>>;

    /// Decides a conditional write to a partition of a node.
    fn write_if(
        &self,
        node: NodeId,
        write: ConditionalWrite,
        terms: Terms,
        catalog: &Catalog,
    ) -> BoxFuture<'static, Result<Decision>>;
}

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct Ring {
    names: Vec<Arc<str>>,
    own: NodeId,
    /// The last token of each range and its node, in the order of tokens; the last one is
    /// `Token::MAX`.
    ranges: Vec<(Token, NodeId)>,
    peers: Arc<dyn Peers>,
}

impl Ring {
    /// The ring of the node `own`; each range goes from behind the one before through its token.
    ///
    /// Errors: `Invalid` for ranges that do not rise to the last token, or name no node.
    pub fn new(
        names: Vec<Arc<str>>,
        own: NodeId,
        ranges: Vec<(Token, NodeId)>,
        peers: Arc<dyn Peers>,
    ) -> Result<Ring> {
        let is_node = |node: NodeId| (node.0 as usize) < names.len();
        let rises = ranges.is_sorted_by(|before, after| before.0 < after.0);
        let is_whole = ranges.last().is_some_and(|(through, _)| *through == Token::MAX);
        if !rises || !is_whole {
            return Err(Error::invalid(format!(
                "the ranges of a ring rise to the last token, {}",
                Token::MAX.0
            )));
        }
        if !is_node(own) || !ranges.iter().all(|(_, node)| is_node(*node)) {
            return Err(Error::invalid("a range of the ring names no node of it"));
        }
        Ok(Ring { names, own, ranges, peers })
    }

    /// This node.
    pub fn own(&self) -> NodeId {
        self.own
    }

    pub fn name(&self, node: NodeId) -> &Arc<str> {
        &self.names[node.0 as usize]
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.names.len() as u32).map(NodeId)
    }

    /// The node that owns a token.
    pub fn owner(&self, token: Token) -> NodeId {
        let place = self.ranges.partition_point(|(through, _)| *through < token);
        self.ranges[place].1
    }

    /// The node that owns a partition, if it is another one.
    pub fn other_owner(&self, key: &PartitionKey) -> Option<NodeId> {
        Some(self.owner(key.token())).filter(|owner| *owner != self.own)
    }

    /// What a node owns: first and last tokens, in their order. Neighbours are one.
    pub fn ranges_of(&self, node: NodeId) -> Vec<(Token, Token)> {
        let mut owned: Vec<(Token, Token)> = Vec::new();
        let mut first = Token::MIN;
        for (through, owner) in &self.ranges {
            if *owner == node {
                match owned.last_mut() {
                    Some((_, last)) if last.0.checked_add(1) == Some(first.0) => *last = *through,
                    _ => owned.push((first, *through)),
                }
            }
            first = Token(through.0.saturating_add(1));
        }
        owned
    }

    pub(in crate::database) fn peers(&self) -> &Arc<dyn Peers> {
        &self.peers
    }

    /// Errors: `Unavailable` where another node owns the partition by this ring.
    pub(super) fn check_own(&self, key: &PartitionKey) -> Result<()> {
        let Some(owner) = self.other_owner(key) else { return Ok(()) };
        Err(Error::Unavailable(format!(
            "node '{}' is asked for token {}, which its ring gives to node '{}': the ring files of \
             the nodes differ; give all the same file and start them again",
            self.name(self.own),
            key.token().0,
            self.name(owner),
        )))
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl Peers for Nobody {
        fn read(
            &self,
            _: NodeId,
            _: ReadCommand,
            _: &Catalog,
        ) -> BoxStream<'static, Result<RecordBatch>> {
            futures::stream::iter([Err(Error::Closed)]).boxed()
        }

        fn apply(
            &self,
            _: NodeId,
            _: Vec<Mutation>,
            _: Taking,
            _: &Catalog,
        ) -> BoxFuture<'static, Result<()>> {
            futures::future::ready(Err(Error::Closed)).boxed()
        }

        fn write_if(
            &self,
            _: NodeId,
            _: ConditionalWrite,
            _: Terms,
            _: &Catalog,
        ) -> BoxFuture<'static, Result<Decision>> {
            futures::future::ready(Err(Error::Closed)).boxed()
        }
    }

    fn ring(ranges: &[(i64, u32)]) -> Result<Ring> {
        let names = ["a", "b", "c"].map(Arc::from).to_vec();
        let ranges = ranges.iter().map(|(through, node)| (Token(*through), NodeId(*node)));
        Ring::new(names, NodeId(1), ranges.collect(), Arc::new(Nobody))
    }

    #[test]
    fn each_token_has_one_owner() {
        let ring = ring(&[(-10, 0), (0, 1), (5, 1), (7, 2), (i64::MAX, 1)]).unwrap();
        let owner = |token| ring.owner(Token(token)).0;
        let tokens = [i64::MIN, -11, -10, -9, 0, 1, 5, 6, 7, 8, i64::MAX];
        assert_eq!(tokens.map(owner), [0, 0, 0, 1, 1, 1, 1, 2, 2, 1, 1]);
        let owned = |node| {
            let ranges = ring.ranges_of(NodeId(node)).into_iter();
            ranges.map(|(first, last)| (first.0, last.0)).collect::<Vec<_>>()
        };
        assert_eq!(owned(0), [(i64::MIN, -10)]);
        assert_eq!(owned(1), [(-9, 5), (8, i64::MAX)], "neighbours are one");
        assert_eq!(owned(2), [(6, 7)]);
        let own = ring.check_own(&PartitionKey::first_of(Token(1)));
        assert!(own.is_ok(), "{own:?}");
    }

    #[test]
    fn ranges_with_gaps_and_strangers_are_refused() {
        for (ranges, says) in [
            (&[][..], "rise to the last token"),
            (&[(0, 0)], "rise to the last token"),
            (&[(5, 0), (5, 1), (i64::MAX, 0)], "rise to the last token"),
            (&[(7, 0), (5, 1), (i64::MAX, 0)], "rise to the last token"),
            (&[(5, 3), (i64::MAX, 0)], "names no node"),
        ] {
            let error = ring(ranges).unwrap_err().to_string();
            assert!(error.contains(says), "{ranges:?}: {error}");
        }
    }
}
