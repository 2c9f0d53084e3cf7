//! What concerns partitions of other nodes goes to them; what they ask for is answered here.

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use super::{NodeId, Ring, Taking};
use crate::admission::Terms;
use crate::database::calls::{BatchStream, Deciding, Writing};
use crate::database::database::Database;
use crate::database::shard::ConditionalWrite;
use crate::error::{Error, Result};
use crate::mutation::Mutation;
use crate::schema::{PartitionKey, Token};
use crate::table::{Partitions, ReadCommand};

impl Database {
    /// The cluster that this database is a node of.
    pub fn ring(&self) -> Option<&Ring> {
        self.inner.options.ring.as_deref()
    }

    /// The other node that owns a partition, where one does, and its ring.
    pub(in crate::database) fn elsewhere(&self, key: &PartitionKey) -> Option<(&Ring, NodeId)> {
        let ring = self.ring()?;
        Some((ring, ring.other_owner(key)?))
    }

    /// Reads all partitions of another node between two tokens, both included, in any order; the
    /// partitions of the command do not count.
    pub fn read_of_node(
        &self,
        node: NodeId,
        (min, max): (Token, Token),
        command: ReadCommand,
    ) -> BatchStream {
        let Some(ring) = self.ring() else {
            let error = Error::invalid("a database without a ring has no other nodes");
            return BatchStream::refused(error);
        };
        let partitions = Partitions::Tokens { shard: 0, min, max };
        let command = ReadCommand { partitions, ..command };
        BatchStream::far(ring.peers().read(node, command, &self.catalog()))
    }

    /// Reads partitions of this node for another one.
    ///
    /// Errors: `Unavailable` where the ring gives a key to another node.
    pub fn read_here(&self, command: ReadCommand) -> Result<Vec<BatchStream>> {
        Ok(match &command.partitions {
            Partitions::Keys(keys) => {
                keys.iter().try_for_each(|key| self.check_own(key))?;
                vec![self.read(command)]
            }
            Partitions::Tokens { min, max, .. } => {
                let (min, max) = (*min, *max);
                let of_shard = |shard| {
                    let partitions = Partitions::Tokens { shard, min, max };
                    self.read(ReadCommand { partitions, ..command.clone() })
                };
                (0..self.shard_count()).map(of_shard).collect()
            }
            Partitions::Shard(_) | Partitions::Owned { .. } => {
                return Err(Error::invalid("no node names another's shards"));
            }
        })
    }

    /// Applies writes to partitions of this node for another one.
    ///
    /// Errors: `Unavailable` where the ring gives a key to another node; those of the writes.
    pub fn apply_here(
        &self,
        writes: Vec<Mutation>,
        taking: Taking,
    ) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        async move {
            writes.iter().try_for_each(|write| database.check_own(&write.key))?;
            match taking {
                Taking::Plain(terms) => database.under(terms).apply_many(writes).await,
                Taking::Logged(level) => database.apply_durably(writes, level).await,
            }
        }
        .boxed()
    }

    /// Decides a conditional write to a partition of this node for another one.
    ///
    /// Errors: as [`apply_here`](Self::apply_here).
    pub fn write_if_here(&self, write: ConditionalWrite, terms: Terms) -> Result<Deciding> {
        self.check_own(&write.mutation.key)?;
        Ok(self.under(terms).write_if(write))
    }

    fn check_own(&self, key: &PartitionKey) -> Result<()> {
        self.ring().map_or(Ok(()), |ring| ring.check_own(key))
    }

    /// Writes of this node, and of each other one.
    pub(in crate::database) fn by_node(
        &self,
        writes: Vec<Mutation>,
    ) -> (Vec<Mutation>, Vec<(NodeId, Vec<Mutation>)>) {
        let Some(ring) = self.ring() else { return (writes, Vec::new()) };
        let mut all = vec![Vec::new(); ring.nodes().count()];
        for write in writes {
            all[ring.owner(write.key.token()).0 as usize].push(write);
        }
        let own = std::mem::take(&mut all[ring.own().0 as usize]);
        let others = ring.nodes().zip(all).filter(|(_, writes)| !writes.is_empty());
        (own, others.collect())
    }

    /// Has other nodes take their writes, side by side. All are tried, also after one that failed.
    pub(in crate::database) async fn apply_far(
        &self,
        writes: Vec<(NodeId, Vec<Mutation>)>,
        taking: Taking,
    ) -> Result<()> {
        let Some(ring) = self.ring() else {
            assert!(writes.is_empty(), "writes for nodes of no ring");
            return Ok(());
        };
        let catalog = self.catalog();
        let ask = |(node, writes)| ring.peers().apply(node, writes, taking, &catalog);
        let asked: Vec<_> = writes.into_iter().map(ask).collect();
        join_all(asked).await.into_iter().collect()
    }

    /// Writes of which some may be other nodes'.
    pub(in crate::database) fn apply_over(&self, writes: Vec<Mutation>, terms: Terms) -> Writing {
        let (own, others) = self.by_node(writes);
        if others.is_empty() {
            return self.under(terms).apply_own(own);
        }
        let database = self.clone();
        let both = async move {
            let far = database.apply_far(others, Taking::Plain(terms));
            let own = database.under(terms).apply_own(own);
            let (own, far) = futures::join!(own, far);
            own.and(far)
        };
        Writing::far(both.boxed())
    }
}
