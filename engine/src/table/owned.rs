//! Leaves out partitions that belong to other shards: for SSTables written under another shard
//! count.

use std::collections::VecDeque;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use crate::error::Result;
use crate::mutation::{Fragment, FragmentSource};

pub(super) struct OwnedSource {
    source: Box<dyn FragmentSource>,
    shard: u32,
    shard_count: u32,
    is_owned: bool,
    buffer: VecDeque<Fragment>,
}

impl OwnedSource {
    pub(super) fn new(source: Box<dyn FragmentSource>, shard: u32, shard_count: u32) -> Self {
        OwnedSource { source, shard, shard_count, is_owned: false, buffer: VecDeque::new() }
    }
}

impl FragmentSource for OwnedSource {
    fn join_merge(&mut self, inputs: usize) {
        self.source.join_merge(inputs);
    }

    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let before = out.len();
            while out.len() == before {
                self.source.fill(&mut self.buffer).await?;
                if self.buffer.is_empty() {
                    break;
                }
                for fragment in self.buffer.drain(..) {
                    if let Fragment::PartitionStart { key, .. } = &fragment {
                        self.is_owned = key.token().shard(self.shard_count) == self.shard;
                    }
                    if self.is_owned {
                        out.push_back(fragment);
                    }
                }
                crate::runtime::maybe_yield().await;
            }
            Ok(())
        }
        .boxed_local()
    }
}
