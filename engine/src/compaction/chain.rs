//! The inputs of a merge as streams: SSTables that do not overlap are one stream, each opened when
//! the one before it has ended. So a merge of runs holds one window of data a run.

use std::collections::VecDeque;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::progress::Progress;
use crate::error::Result;
use crate::mutation::{Direction, Fragment, FragmentSource, PartitionRange, Slice};
use crate::sstable::{ReadPlan, Sstable};

/// Streams that together give everything of these SSTables, past the caches.
pub(super) fn streams(
    mut inputs: Vec<Rc<Sstable>>,
    progress: &Rc<Progress>,
) -> Vec<Box<dyn FragmentSource>> {
    inputs.sort_by(|a, b| a.info().first_key.cmp(&b.info().first_key));
    let mut chains: Vec<VecDeque<Rc<Sstable>>> = Vec::new();
    for input in inputs {
        let goes_on = |chain: &&mut VecDeque<Rc<Sstable>>| {
            chain.back().is_some_and(|last| last.info().last_key < input.info().first_key)
        };
        match chains.iter_mut().find(goes_on) {
            Some(chain) => chain.push_back(input),
            None => chains.push(VecDeque::from([input])),
        }
    }
    let stream = |left| {
        let progress = progress.clone();
        Box::new(Chain { source: None, left, merged: None, progress }) as Box<_>
    };
    chains.into_iter().map(stream).collect()
}

/// One after another; counts what it gives.
struct Chain {
    source: Option<Box<dyn FragmentSource>>,
    left: VecDeque<Rc<Sstable>>,
    /// How many inputs the merge has that this is one of.
    merged: Option<usize>,
    progress: Rc<Progress>,
}

impl Chain {
    async fn fill_some(&mut self, out: &mut VecDeque<Fragment>) -> Result<()> {
        let before = out.len();
        loop {
            if let Some(source) = &mut self.source {
                source.fill(out).await?;
                if out.len() > before {
                    break;
                }
                // Whoever replaced it may have removed its files: now their room is free.
                self.source = None;
            }
            let Some(next) = self.left.pop_front() else { break };
            let (range, slice) = (PartitionRange::full(), Slice::full(Direction::Forward));
            self.source = next.read(&ReadPlan::of(&range, &slice).for_merges());
            if let (Some(source), Some(inputs)) = (&mut self.source, self.merged) {
                source.join_merge(inputs);
            }
        }
        let counts = |fragment: &&Fragment| {
            !matches!(fragment, Fragment::RangeTombstoneChange { .. } | Fragment::PartitionEnd)
        };
        self.progress.add_read(out.range(before..).filter(counts).count() as u64);
        Ok(())
    }
}

impl FragmentSource for Chain {
    fn join_merge(&mut self, inputs: usize) {
        self.merged = Some(inputs);
    }

    fn skip_partition(&mut self) {
        self.source.as_mut().expect("a partition is open").skip_partition();
    }

    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        self.fill_some(out).boxed_local()
    }
}
