//! Changes of definitions while there are rows.

use std::path::Path;
use std::rc::Rc;

use tokio::task::LocalSet;

use super::*;
use crate::clock::SimulatedClock;
use crate::disk::SimulatedDisk;
use crate::runtime::{ShardContext, SimulatedTimer};

mod columns;
mod levels;
mod roles;
mod truncate;
mod views;

/// Two shards on the calling thread's `LocalSet`.
async fn open(disk: &SimulatedDisk) -> Database {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let contexts = (0..2).map(|shard| {
        let timer = Rc::new(SimulatedTimer::new(clock.clone()));
        ShardContext::new((shard, 2), disk.shared(), clock.clone(), timer, 5)
    });
    let contexts = contexts.collect();
    let options =
        Options { commitlog_segment_bytes: 1 << 16, clock, ..Options::new(Path::new("/db")) };
    Database::open_local(options, contexts).await.unwrap()
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, work);
}
