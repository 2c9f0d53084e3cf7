//! Facts about an SSTable that need no read of its data; a manifest records them as well.

use serde::{Deserialize, Serialize};

use super::integrity::Integrity;
use super::layout::{Bases, DELETION_TIME_EPOCH};
use super::statistics::Statistics;
use crate::commitlog::ReplayPosition;
use crate::schema::PartitionKey;

/// Size, extent and counts of one SSTable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SstableInfo {
    /// 0 for a file of another product that is named by a UUID.
    pub generation: u64,
    /// Bytes of row data, as stored, and of the partition index.
    pub data_bytes: u64,
    pub index_bytes: u64,
    pub partitions: u64,
    /// Rows, static ones included.
    pub rows: u64,
    /// Tombstones of all kinds; `None` when another product wrote the file.
    pub tombstones: Option<u64>,
    /// Least and greatest partition key, in ring order.
    #[serde(with = "key_hex")]
    pub first_key: PartitionKey,
    #[serde(with = "key_hex")]
    pub last_key: PartitionKey,
    /// Of all data and tombstones, microseconds.
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// Deletion times and expiries, seconds; `i32::MAX` stands for data that stays.
    pub min_deletion_time: i32,
    pub max_deletion_time: i32,
    pub min_ttl: i32,
    pub max_ttl: i32,
    /// Commitlog positions between which the writes lie.
    pub replay: Option<(ReplayPosition, ReplayPosition)>,
    /// Level in a leveled table; 0 after a flush.
    #[serde(default)]
    pub level: u32,
}

impl SstableInfo {
    pub(crate) fn new(
        generation: u64,
        keys: (&PartitionKey, &PartitionKey),
        statistics: &Statistics,
        integrity: &Integrity,
    ) -> Self {
        let sizes = (integrity.data.size, integrity.index.size);
        let mut info = SstableInfo::of_foreign(generation, keys, statistics, sizes);
        info.partitions = integrity.partitions;
        info.rows = integrity.rows;
        info.tombstones = Some(integrity.tombstones);
        info
    }

    /// For a file without `Tidegate.db`.
    pub(crate) fn of_foreign(
        generation: u64,
        keys: (&PartitionKey, &PartitionKey),
        statistics: &Statistics,
        (data_bytes, index_bytes): (u64, u64),
    ) -> Self {
        SstableInfo {
            partitions: statistics.partition_sizes.count(),
            rows: statistics.rows_count.max(0) as u64,
            min_timestamp: statistics.min_timestamp,
            max_timestamp: statistics.max_timestamp,
            min_deletion_time: statistics.min_deletion_time,
            max_deletion_time: statistics.max_deletion_time,
            min_ttl: statistics.min_ttl,
            max_ttl: statistics.max_ttl,
            replay: statistics.replay,
            level: statistics.level,
            ..Self::without_statistics(generation, keys, None, (data_bytes, index_bytes))
        }
    }

    /// For a file whose statistics are lost: extents are as wide as they can be.
    pub(crate) fn without_statistics(
        generation: u64,
        keys: (&PartitionKey, &PartitionKey),
        integrity: Option<&Integrity>,
        (data_bytes, index_bytes): (u64, u64),
    ) -> Self {
        SstableInfo {
            generation,
            data_bytes,
            index_bytes,
            partitions: integrity.map_or(0, |integrity| integrity.partitions),
            rows: integrity.map_or(0, |integrity| integrity.rows),
            tombstones: integrity.map(|integrity| integrity.tombstones),
            first_key: keys.0.clone(),
            last_key: keys.1.clone(),
            min_timestamp: i64::MIN,
            max_timestamp: i64::MAX,
            min_deletion_time: i32::MIN,
            max_deletion_time: i32::MAX,
            min_ttl: 0,
            max_ttl: i32::MAX,
            replay: None,
            level: 0,
        }
    }

    /// Bases for a file that is written from this one's data; see [`Bases::least`] for several.
    pub fn bases(&self) -> Bases {
        let has_times = self.min_deletion_time != i32::MAX;
        Bases {
            min_timestamp: self.min_timestamp,
            min_deletion_time: if has_times { self.min_deletion_time } else { DELETION_TIME_EPOCH },
            min_ttl: self.min_ttl,
        }
    }
}

/// A partition key as hex digits.
mod key_hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::hex::{Hex, unhex};
    use crate::schema::PartitionKey;

    pub(super) fn serialize<S: Serializer>(key: &PartitionKey, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&Hex(key.as_bytes()))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<PartitionKey, D::Error> {
        let hex = String::deserialize(from)?;
        let wrong = || D::Error::custom("a partition key is an even number of hex digits");
        Ok(PartitionKey::from_bytes(unhex(&hex).ok_or_else(wrong)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_statistics() -> SstableInfo {
        let keys = [[0x0a_u8, 0xff], [0x61, 0x00]].map(PartitionKey::from_bytes);
        SstableInfo::without_statistics(7, (&keys[0], &keys[1]), None, (900, 80))
    }

    /// A read would pass it over, or a compaction purge too much, by an extent that is too narrow.
    #[test]
    fn a_file_whose_statistics_are_lost_may_hold_anything() {
        let lost = without_statistics();
        assert_eq!((lost.min_timestamp, lost.max_timestamp), (i64::MIN, i64::MAX));
        assert_eq!((lost.min_deletion_time, lost.max_deletion_time), (i32::MIN, i32::MAX));
        assert_eq!((lost.min_ttl, lost.max_ttl, lost.level), (0, i32::MAX, 0));
        assert_eq!((lost.generation, lost.data_bytes, lost.index_bytes), (7, 900, 80));
        assert_eq!((lost.partitions, lost.rows, lost.tombstones), (0, 0, None));
        assert_eq!(lost.replay, None, "no commitlog may go for it");
    }

    #[test]
    fn new_files_count_from_the_least_that_is_in_the_old_ones() {
        let of = |min_timestamp, min_deletion_time, min_ttl| {
            let info =
                SstableInfo { min_timestamp, min_deletion_time, min_ttl, ..without_statistics() };
            info.bases()
        };
        let bases = |min_timestamp, min_deletion_time, min_ttl| Bases {
            min_timestamp,
            min_deletion_time,
            min_ttl,
        };
        assert_eq!(of(-5, 1000, 60), bases(-5, 1000, 60));
        // Nothing in it was deleted, and nothing ends.
        assert_eq!(of(-5, i32::MAX, 0), bases(-5, DELETION_TIME_EPOCH, 0));
        let (one, other) = (bases(3, 2000, 1), bases(4, 1000, 2));
        assert_eq!([one.least(other), other.least(one)], [bases(3, 1000, 1); 2]);
    }

    #[test]
    fn a_manifest_says_of_a_file_what_was_known_and_older_ones_had_no_level() {
        let info = SstableInfo { level: 3, tombstones: Some(4), ..without_statistics() };
        let json = serde_json::to_string(&info).unwrap();
        assert!(json.contains("\"0aff\"") && json.contains("\"6100\""), "{json}");
        assert_eq!(serde_json::from_str::<SstableInfo>(&json).unwrap(), info);
        let older = json.replace(",\"level\":3", "");
        assert_ne!(older, json);
        let read: SstableInfo = serde_json::from_str(&older).unwrap();
        assert_eq!(read, SstableInfo { level: 0, ..info });
        let odd = json.replace("\"0aff\"", "\"0af\"");
        assert!(serde_json::from_str::<SstableInfo>(&odd).is_err());
    }
}
