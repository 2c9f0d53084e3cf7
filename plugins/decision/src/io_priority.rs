//! World `io-priority-policy`: how the classes of I/O share a disk, ten times a second.

use crate::Setup;

/// What the disk can do, and how the shard's requests fared in it since the last plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskLoad {
    /// Since the last plan.
    pub elapsed_us: u64,
    /// Pages of 4 KiB read and written a second at most; 0 where nobody measured the disk.
    pub read_iops: u64,
    pub write_iops: u64,
    /// Bytes read and written a second at most; 0 where nobody measured the disk.
    pub read_bandwidth: u64,
    pub write_bandwidth: u64,
    /// Requests that the disk has now.
    pub in_disk: u64,
    /// What requests took in the disk; 0 where none ended.
    pub p50_us: u64,
    pub p99_us: u64,
}

impl DiskLoad {
    /// The first words of `plan`; words that are missing are zeros.
    pub fn of_words(words: &[u64]) -> DiskLoad {
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        DiskLoad {
            elapsed_us: word(0),
            read_iops: word(1),
            write_iops: word(2),
            read_bandwidth: word(3),
            write_bandwidth: word(4),
            in_disk: word(5),
            p50_us: word(6),
            p99_us: word(7),
        }
    }
}

/// Whose requests they are. A later host may have more classes behind these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum IoClass {
    /// Reads that somebody waits for.
    Query = 0,
    Commitlog = 1,
    /// Memtables that become SSTables.
    Flush = 2,
    Compaction = 3,
    /// Imports, verification, scans past the cache.
    Maintenance = 4,
}

/// Requests of one class since the last plan, and what there is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassLoad {
    pub arrived: u64,
    /// Given to the disk.
    pub started: u64,
    /// Of those that were given to it.
    pub bytes: u64,
    /// Requests that wait now, and their bytes.
    pub queued: u64,
    pub queued_bytes: u64,
    /// How long those that were given to the disk had waited; 0 where there were none.
    pub p50_us: u64,
    pub p99_us: u64,
    /// The shares in force.
    pub shares: u32,
}

impl ClassLoad {
    /// The last words of `plan` as loads, one a class in the order of [`IoClass`].
    pub fn of_words(words: &[u64]) -> impl Iterator<Item = ClassLoad> + '_ {
        words.as_chunks::<8>().0.iter().map(|words| ClassLoad {
            arrived: words[0],
            started: words[1],
            bytes: words[2],
            queued: words[3],
            queued_bytes: words[4],
            p50_us: words[5],
            p99_us: words[6],
            shares: u32::try_from(words[7]).unwrap_or(u32::MAX),
        })
    }
}

/// A policy of world `io-priority-policy`.
pub trait IoPriorityPolicy: Sized {
    const NAME: &'static str;
    const VERSION: &'static str;

    /// Makes the policy of one shard.
    ///
    /// Errors: a parameter is unknown or out of range, in words for the operator.
    fn new(setup: &Setup) -> Result<Self, String>;

    /// Shares of all classes, in the order of the loads: 1 to 1,000, or 0 for what is set without a
    /// policy. Classes left out keep theirs.
    fn plan(&mut self, now_us: u64, disk: &DiskLoad, classes: &[ClassLoad]) -> Vec<u32>;

    /// Figures for people.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_contract_puts_them() {
        let disk = DiskLoad::of_words(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((disk.elapsed_us, disk.read_iops, disk.write_iops), (1, 2, 3));
        assert_eq!((disk.read_bandwidth, disk.write_bandwidth, disk.in_disk), (4, 5, 6));
        assert_eq!((disk.p50_us, disk.p99_us), (7, 8));
        assert_eq!(DiskLoad::of_words(&[9]), DiskLoad { elapsed_us: 9, ..DiskLoad::default() });
        let classes: Vec<ClassLoad> = ClassLoad::of_words(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).collect();
        let wanted = ClassLoad {
            arrived: 1,
            started: 2,
            bytes: 3,
            queued: 4,
            queued_bytes: 5,
            p50_us: 6,
            p99_us: 7,
            shares: 8,
        };
        assert_eq!(classes, [wanted]);
    }
}
