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

    /// Takes back what was counted for a request that the disk never had.
    pub(super) fn refund_bytes(&self, class: usize, bytes: usize) {
        let settings = &self.classes[class];
        if settings.bandwidth.load(Relaxed) > 0 {
            settings.bytes.give_back(bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: &str = "
disks:
  - mountpoint: MOUNT
    read_iops: 1000
    read_bandwidth: 100M
    write_iops: 500
    write_bandwidth: 50M
";

    #[test]
    fn a_disk_has_the_figures_that_stand_in_its_directory_if_any_do() {
        let folder = tempfile::tempdir().unwrap();
        let (root, alias) = (folder.path().join("data"), folder.path().join("alias"));
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&root, &alias).unwrap();
        let own = os::canonical(&root).unwrap().display().to_string();
        let file = root.join(PROPERTIES_FILE);
        let of = |root: &Path| Scheduler::of_directory(root, 2, 0);
        assert!(!of(&root).unwrap().is_measured(), "nobody measured it");
        for (mount, is_measured) in [("/", true), (own.as_str(), true), ("/no/such/disk", false)] {
            std::fs::write(&file, FIGURES.replace("MOUNT", mount)).unwrap();
            // By whatever name the directory is called.
            for root in [&root, &alias] {
                let scheduler = of(root).unwrap();
                let figures = scheduler.model().measured_figures();
                let figures = figures.map(|disk| (disk.read_iops, disk.write_bandwidth));
                assert_eq!(figures, is_measured.then_some((1000, 50 << 20)), "{mount}");
                assert_eq!(scheduler.is_measured(), is_measured, "{mount}");
            }
        }
        let wrong = FIGURES.replace("MOUNT", "/").replace("1000", "none");
        std::fs::write(&file, wrong).unwrap();
        let refused = of(&root).unwrap_err().to_string();
        let wanted = format!("{}, line 4: read_iops is to be a number", file.display());
        assert!(refused.starts_with(&wanted), "{refused}, and not: {wanted}");
        // What is there and cannot be read is not taken for nothing.
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        let refused = of(&root).unwrap_err();
        assert!(matches!(refused, Error::Io { operation: "read", .. }), "{refused}");
    }

    #[test]
    fn what_is_set_of_a_class_is_its_own_until_it_is_set_again() {
        let scheduler = Scheduler::unmeasured(2);
        let usual =
            |class: Class| ClassSettings { shares: class.default_shares(), bandwidth: None };
        for class in Class::ALL {
            for (shares, bandwidth) in [(0, Some(1000)), (700, None), (1, Some(1)), (9, Some(0))] {
                scheduler.set(class, ClassSettings { shares, bandwidth });
                let bandwidth = bandwidth.filter(|bandwidth| *bandwidth > 0);
                let wanted = ClassSettings { shares: shares.max(1), bandwidth };
                assert_eq!(scheduler.settings(class), wanted, "{class:?}");
                assert_eq!(scheduler.shares(class.index()), wanted.shares, "{class:?}");
                // Far more than the limit lets through at once.
                scheduler.charge_bytes(class.index(), 1 << 20);
                let is_held = scheduler.held_ns(class.index(), 0).is_some();
                assert_eq!(is_held, bandwidth.is_some(), "{class:?}");
                for other in Class::ALL.into_iter().filter(|other| *other != class) {
                    assert_eq!(scheduler.settings(other), usual(other), "{other:?}");
                    assert_eq!(scheduler.held_ns(other.index(), 0), None, "{other:?}");
                }
            }
            scheduler.set(class, usual(class));
        }
    }

    #[test]
    fn each_shard_reserves_its_part_of_what_an_idle_disk_takes() {
        let model = || DiskModel::measured(&DiskProperties::new((1000, 1 << 26), (500, 1 << 25)));
        let burst = model().burst().unwrap();
        for (shards, parts) in [(0, 1), (1, 1), (2, 2), (7, 7)] {
            let scheduler = Scheduler::new(model(), shards, 0);
            assert_eq!(scheduler.reserve_max(), burst / parts, "{shards} shards");
        }
        assert_eq!(Scheduler::unmeasured(2).reserve_max(), 0);
    }
}
