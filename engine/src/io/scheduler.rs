//! What the shards of one disk share: its tokens, and the settings of the classes.
//!
//! Everything here is read and changed by atomic operations; a setting acts from the next request
//! on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use super::bucket::TokenBucket;
use super::class::Class;
use super::model::{DISK_SECOND, DiskModel};
use super::properties::{DiskProperties, IoProperties, PROPERTIES_FILE};
use crate::error::{Error, Result};
use crate::os;

/// Part of a second whose bytes a class may have at once under its limit.
const BANDWIDTH_BURST_ONE_IN: u64 = 20;

/// One disk. See the head of this file.
#[derive(Debug)]
pub struct Scheduler {
    model: DiskModel,
    /// None where the disk was not measured.
    bucket: Option<TokenBucket>,
    shard_count: u32,
    classes: [Settings; Class::COUNT],
    /// When a query came to the disk or left it last, by the clock of all queues; or [`NEVER`].
    query_ns: AtomicU64,
}

const NEVER: u64 = u64::MAX;

#[derive(Debug)]
struct Settings {
    shares: AtomicU32,
    /// Bytes a second; 0 is no limit.
    bandwidth: AtomicU64,
    /// Bytes that have come, for the limit.
    bytes: TokenBucket,
}

fn properties_of(root: &Path) -> Result<Option<DiskProperties>> {
    let path = root.join(PROPERTIES_FILE);
    let file = path.display();
    let text = match os::read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            tracing::info!(
                %file, "the disk was not measured, its requests go without limits: tidegate iotune"
            );
            return Ok(None);
        }
        Err(error) => return Err(Error::io("read", &path, &error)),
    };
    let properties = IoProperties::parse(&path, &text)?;
    let root = os::canonical(root).map_err(|error| Error::io("find", root, &error))?;
    let disk = properties.disk_of(&root).copied();
    if disk.is_none() {
        let directory = root.display();
        tracing::warn!(%file, %directory, "no mountpoint there is above the data directory");
    }
    Ok(disk)
}

/// What is set of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassSettings {
    /// 1 to 1000.
    pub shares: u32,
    /// Most bytes a second, of all shards.
    pub bandwidth: Option<u64>,
}

impl Scheduler {
    /// The disk of so many shards, as of `now_ns` of the clock that their queues have.
    pub fn new(model: DiskModel, shard_count: u32, now_ns: u64) -> Arc<Self> {
        let bucket = model
            .burst()
            .map(|burst| TokenBucket::new(DISK_SECOND, burst, model.cost_min(), now_ns));
        let classes = Class::ALL.map(|class| Settings {
            shares: AtomicU32::new(class.default_shares()),
            bandwidth: AtomicU64::new(0),
            bytes: TokenBucket::new(1, 0, 1, now_ns),
        });
        let (shard_count, query_ns) = (shard_count.max(1), AtomicU64::new(NEVER));
        Arc::new(Scheduler { model, bucket, shard_count, classes, query_ns })
    }

    /// A query comes to the disk or leaves it.
    pub(super) fn note_query(&self, now_ns: u64) {
        self.query_ns.store(now_ns, Relaxed);
    }

    /// When one did so last.
    pub(super) fn query_ns(&self) -> Option<u64> {
        let at_ns = self.query_ns.load(Relaxed);
        (at_ns != NEVER).then_some(at_ns)
    }

    /// The disk of a data directory, by the figures that stand there in `io-properties.yaml`.
    ///
    /// Errors: `Invalid` naming file and line; `Io`.
    pub fn of_directory(root: &Path, shard_count: u32, now_ns: u64) -> Result<Arc<Self>> {
        let model = match properties_of(root)? {
            Some(disk) => DiskModel::measured(&disk),
            None => DiskModel::unmeasured(),
        };
        Ok(Scheduler::new(model, shard_count, now_ns))
    }

    /// A disk that was not measured.
    pub fn unmeasured(shard_count: u32) -> Arc<Self> {
        Scheduler::new(DiskModel::unmeasured(), shard_count, 0)
    }

    pub fn model(&self) -> &DiskModel {
        &self.model
    }

    /// Whether requests wait for what the disk can do.
    pub fn is_measured(&self) -> bool {
        self.bucket.is_some()
    }

    pub(super) fn bucket(&self) -> Option<&TokenBucket> {
        self.bucket.as_ref()
    }

    /// Cost that one shard reserves ahead at most, of what an idle disk takes.
    pub(super) fn reserve_max(&self) -> u64 {
        self.model.burst().unwrap_or(0) / u64::from(self.shard_count)
    }

    pub fn settings(&self, class: Class) -> ClassSettings {
        let settings = &self.classes[class.index()];
        let bandwidth = settings.bandwidth.load(Relaxed);
        let bandwidth = (bandwidth > 0).then_some(bandwidth);
        ClassSettings { shares: settings.shares.load(Relaxed), bandwidth }
    }

    /// Changes what a class gets from now on.
    pub fn set(&self, class: Class, wanted: ClassSettings) {
        let settings = &self.classes[class.index()];
        settings.shares.store(wanted.shares.max(1), Relaxed);
        let bandwidth = wanted.bandwidth.unwrap_or(0);
        if bandwidth > 0 {
            settings.bytes.set_rate(bandwidth, bandwidth / BANDWIDTH_BURST_ONE_IN);
        }
        settings.bandwidth.store(bandwidth, Relaxed);
    }

    pub(super) fn shares(&self, class: usize) -> u32 {
        self.classes[class].shares.load(Relaxed)
    }

    /// Time until a class may go on under its limit, nanoseconds.
    pub(super) fn held_ns(&self, class: usize, now_ns: u64) -> Option<u64> {
        let settings = &self.classes[class];
        if settings.bandwidth.load(Relaxed) == 0 {
            return None;
        }
        settings.bytes.replenish(now_ns);
        let debt = settings.bytes.debt();
        (debt > 0).then(|| settings.bytes.wait_ns(debt))
    }

    /// Counts bytes against the limit of a class. They may exceed it; then the next ones wait.
    pub(super) fn charge_bytes(&self, class: usize, bytes: usize) {
        let settings = &self.classes[class];
        if settings.bandwidth.load(Relaxed) > 0 {
            let _ = settings.bytes.reserve(bytes as u64);
        }
    }
}
