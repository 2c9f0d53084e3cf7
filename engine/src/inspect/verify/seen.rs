//! The statistics that the data of a file comes to, to be held against those that it states.
//!
//! Numbers that Cassandra derives from every row are recomputed its way and must be equal; but for
//! the histogram of drop times, which its versions gather in different ways: there a difference is
//! told, and no damage. ScyllaDB counts some of them otherwise; of its files only what readers rely
//! on is checked: that no value lies outside the stated extents.

use std::collections::{BTreeMap, BTreeSet};

use crate::inspect::metadata::{Metadata, Sketch};
use crate::inspect::order::{Prefix, compare_key};
use crate::inspect::rows::{StoredColumn, StoredRow};
use crate::inspect::types::KeyType;
use crate::mutation::Tombstone;
use crate::sstable::format::cardinality::Cardinality;
use crate::sstable::format::component::Version;

/// Deletion times are rounded up to this many seconds.
const DROP_TIME_ROUND: i64 = 60;
/// From this many different ones on they are joined, in an order that cannot be told any more.
const DROP_TIMES_MAX: usize = 100;

/// Who counted, and so what must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// This engine: everything.
    Here,
    ByCassandra,
    ByScylla,
}

/// Something that a file states and its data has otherwise.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    pub(crate) wanted: String,
    pub(super) stated: String,
    /// Products merely do it in different ways.
    pub(super) is_custom: bool,
}

pub(super) struct Seen {
    sizes: Buckets,
    cells: Buckets,
    timestamps: Extent<i64>,
    deletion_times: Extent<i32>,
    ttls: Extent<i32>,
    drop_times: BTreeMap<i64, i64>,
    rows: i64,
    columns: i64,
    partition_cells: i64,
    cardinality: Cardinality,
    sparse_codes: BTreeSet<u32>,
    clustering: Option<(Prefix, Prefix)>,
    /// Something is deleted beyond the rows that are there.
    has_ranges: bool,
}

/// Counts in the buckets that a file has.
struct Buckets {
    offsets: Vec<i64>,
    counts: Vec<i64>,
}

impl Buckets {
    fn of(stored: &[(i64, i64)]) -> Self {
        let offsets: Vec<i64> = stored.iter().skip(1).map(|(offset, _)| *offset).collect();
        Buckets { counts: vec![0; stored.len()], offsets }
    }

    fn add(&mut self, value: i64) {
        let at = self.offsets.partition_point(|offset| *offset < value);
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
    }

    fn equals(&self, stored: &[(i64, i64)]) -> bool {
        self.counts.iter().eq(stored.iter().map(|(_, count)| count))
    }
}

/// Least and greatest of the values seen.
struct Extent<T>(Option<(T, T)>);

impl<T: Ord + Copy> Extent<T> {
    fn add(&mut self, value: T) {
        self.0 = Some(match self.0 {
            Some((min, max)) => (min.min(value), max.max(value)),
            None => (value, value),
        });
    }
}

impl Seen {
    /// Nothing yet, in the buckets of `metadata`.
    pub(crate) fn new(metadata: &Metadata) -> Self {
        Seen {
            sizes: Buckets::of(&metadata.partition_sizes),
            cells: Buckets::of(&metadata.cells_per_partition),
            timestamps: Extent(None),
            deletion_times: Extent(None),
            ttls: Extent(None),
            drop_times: BTreeMap::new(),
            rows: 0,
            columns: 0,
            partition_cells: 0,
            cardinality: Cardinality::new(),
            sparse_codes: BTreeSet::new(),
            clustering: None,
            has_ranges: false,
        }
    }

    pub(crate) fn partition(&mut self, key: &[u8], deletion: Option<Tombstone>) {
        self.cardinality.add(key);
        self.sparse_codes.insert(Cardinality::sparse_code(key));
        self.partition_cells = 0;
        if let Some(deletion) = deletion {
            self.has_ranges = true;
            self.tombstone(deletion);
        }
    }

    pub(crate) fn marker(&mut self, closing: Option<Tombstone>, opening: Option<Tombstone>) {
        self.has_ranges = true;
        [closing, opening].into_iter().flatten().for_each(|tombstone| self.tombstone(tombstone));
    }

    fn tombstone(&mut self, tombstone: Tombstone) {
        self.timestamps.add(tombstone.timestamp);
        self.deletion_time(tombstone.deletion_time);
    }

    fn deletion_time(&mut self, second: i32) {
        self.deletion_times.add(second);
        if second == i32::MAX {
            return;
        }
        let second = i64::from(second);
        let rounded = second.div_euclid(DROP_TIME_ROUND) * DROP_TIME_ROUND;
        let rounded = if rounded == second { rounded } else { rounded + DROP_TIME_ROUND };
        // One more is enough to know that there are too many.
        if self.drop_times.len() <= DROP_TIMES_MAX || self.drop_times.contains_key(&rounded) {
            *self.drop_times.entry(rounded).or_default() += 1;
        }
    }

    /// A static row, or with the types of its key a clustering row.
    pub(crate) fn row(
        &mut self,
        row: &StoredRow,
        columns: &[StoredColumn],
        keys: Option<&[KeyType]>,
    ) {
        if let Some(keys) = keys {
            match &mut self.clustering {
                None => self.clustering = Some((row.prefix.clone(), row.prefix.clone())),
                Some((min, max)) => {
                    if row.prefix.compare(min, keys).is_lt() {
                        *min = row.prefix.clone();
                    } else if row.prefix.compare(max, keys).is_gt() {
                        *max = row.prefix.clone();
                    }
                }
            }
        }
        self.rows += 1;
        if let Some(live) = row.liveness {
            self.timestamps.add(live.timestamp);
            self.ttls.add(live.ttl);
            self.deletion_time(live.expiry);
        }
        for deletion in row.deletion.into_iter().chain(row.shadowable) {
            self.tombstone(deletion);
        }
        for stored in &row.columns {
            if let Some(deletion) = stored.deletion {
                self.tombstone(deletion);
            }
            if !stored.cells.is_empty() || !columns[stored.column].ty.is_multi_cell() {
                self.columns += 1;
            }
            self.partition_cells += stored.cells.len() as i64;
            for cell in &stored.cells {
                self.timestamps.add(cell.timestamp);
                self.ttls.add(cell.ttl);
                self.deletion_time(cell.deletion_time);
            }
        }
    }

    pub(super) fn partition_end(&mut self, size: u64) {
        self.sizes.add(size as i64);
        self.cells.add(self.partition_cells);
    }

    /// What the data has and what the file states, for all that differs.
    pub(super) fn differences(
        &self,
        stated: &Metadata,
        version: Version,
        counted: Counted,
    ) -> Vec<Difference> {
        let is_exact = counted != Counted::ByScylla;
        let mut out = Vec::new();
        let differs =
            |wanted: String, stated: String| Difference { wanted, stated, is_custom: false };
        let mut extent = |name: &str, seen: Option<(i64, i64)>, stated: (i64, i64)| {
            let fits = match seen {
                Some(seen) if is_exact => seen == stated,
                Some(seen) => stated.0 <= seen.0 && seen.1 <= stated.1,
                None => true,
            };
            if let Some((min, max)) = seen.filter(|_| !fits) {
                let wanted = format!("{name} from {min} to {max}, as in the data");
                out.push(differs(wanted, format!("{} to {}", stated.0, stated.1)));
            }
        };
        let wide = |seen: Option<(i32, i32)>| seen.map(|(a, b)| (i64::from(a), i64::from(b)));
        let stated_times = (stated.min_deletion_time.into(), stated.max_deletion_time.into());
        let stated_ttls = (stated.min_ttl.into(), stated.max_ttl.into());
        extent("timestamps", self.timestamps.0, (stated.min_timestamp, stated.max_timestamp));
        extent("local deletion times", wide(self.deletion_times.0), stated_times);
        extent("times to live", wide(self.ttls.0), stated_ttls);
        self.clustering_difference(stated, version, &mut out);
        if !is_exact {
            return out;
        }
        let mut number = |name: &str, seen: i64, stated: i64| {
            if seen != stated {
                out.push(differs(format!("{seen} {name}, as in the data"), stated.to_string()));
            }
        };
        number("rows", self.rows, stated.rows_count);
        number("columns set", self.columns, stated.columns_count);
        let mut check = |is_equal: bool, name: &str, is_custom: bool| {
            if !is_equal {
                let (wanted, stated) = (format!("the {name} of the data"), "another".to_owned());
                out.push(Difference { wanted, stated, is_custom });
            }
        };
        check(self.sizes.equals(&stated.partition_sizes), "histogram of partition sizes", false);
        check(
            self.cells.equals(&stated.cells_per_partition),
            "histogram of cells a partition",
            false,
        );
        let drop_times = self.drop_times.iter().map(|(second, count)| (*second as f64, *count));
        let is_known = self.drop_times.len() < DROP_TIMES_MAX;
        let is_equal = drop_times.eq(stated.drop_times.iter().copied());
        check(!is_known || is_equal, "drop times", counted != Counted::Here);
        let is_sketch_right = match &stated.sketch {
            Sketch::Registers(registers) => *registers == self.cardinality.registers(),
            Sketch::Sparse(codes) => {
                codes.iter().copied().collect::<BTreeSet<u32>>() == self.sparse_codes
            }
            // What there is to say of these was said.
            Sketch::Other { .. } | Sketch::Damaged { .. } => true,
        };
        check(is_sketch_right, "estimate of the number of keys", false);
        out
    }

    /// Where bounds are stated, every row lies within; without range tombstones they are those of
    /// the rows. `mc` has them for each column by itself.
    fn clustering_difference(
        &self,
        stated: &Metadata,
        version: Version,
        out: &mut Vec<Difference>,
    ) {
        let Some((min, max)) = &self.clustering else { return };
        if version == Version::Mc {
            return;
        }
        let keys: Vec<KeyType> =
            stated.header.clustering.iter().map(|name| KeyType::parse(name)).collect();
        let compare = |stated: &[Vec<u8>], seen: &Prefix| {
            let mut pairs = stated.iter().zip(&seen.values).zip(&keys);
            let differ = pairs.find_map(|((stated, seen), key)| {
                // A list of values has no nulls.
                let seen = seen.as_deref().unwrap_or_default();
                let order = compare_key(key, Some(stated), Some(seen));
                order.is_ne().then_some(order)
            });
            differ.unwrap_or(std::cmp::Ordering::Equal)
        };
        let ends = [
            ("least", &stated.min_clustering, compare(&stated.min_clustering, min)),
            ("greatest", &stated.max_clustering, compare(&stated.max_clustering, max).reverse()),
        ];
        for (name, values, order) in ends {
            if values.is_empty() {
                continue;
            }
            let is_whole = values.len() == keys.len();
            let is_wrong = order.is_gt() || (order.is_lt() && !self.has_ranges && is_whole);
            if is_wrong {
                let wanted = format!("a {name} clustering key as in the data");
                let stated = format!("{values:02x?}");
                out.push(Difference { wanted, stated, is_custom: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::rows::{StoredCell, StoredCells, StoredLiveness};
    use crate::inspect::types::StoredType;
    use crate::schema::Scalar;
    use crate::sstable::format::layout::{Bases, Header};
    use crate::sstable::format::prefix::KIND_ROW;

    const ALL: [Counted; 3] = [Counted::Here, Counted::ByCassandra, Counted::ByScylla];
    const KEY: &[u8] = b"key";

    /// What the partition of [`one_partition`] comes to.
    fn stated() -> Metadata {
        Metadata {
            partitioner: String::new(),
            bloom_fp_chance: 0.01,
            sketch: Sketch::Sparse(vec![Cardinality::sparse_code(KEY)]),
            partition_sizes: vec![(10, 0), (10, 1), (20, 0)],
            cells_per_partition: vec![(1, 1), (1, 0), (2, 0)],
            log_upper: (0, 0),
            log_lower: (0, 0),
            log_intervals: Vec::new(),
            min_timestamp: 10,
            max_timestamp: 20,
            min_deletion_time: 1000,
            max_deletion_time: 2000,
            min_ttl: 60,
            max_ttl: 90,
            compression_ratio: -1.0,
            drop_times_max: 100,
            drop_times: vec![(1020.0, 1), (2040.0, 1)],
            level: 0,
            repaired_at: 0,
            min_clustering: vec![5_i32.to_be_bytes().to_vec()],
            max_clustering: vec![5_i32.to_be_bytes().to_vec()],
            has_legacy_counters: false,
            columns_count: 1,
            rows_count: 1,
            pending_repair: None,
            is_transient: false,
            host: None,
            header: Header {
                bases: Bases { min_timestamp: 0, min_deletion_time: 0, min_ttl: 0 },
                partition_key: "BytesType".into(),
                clustering: vec!["Int32Type".into()],
                statics: Vec::new(),
                regulars: Vec::new(),
            },
            statistics_at: 0,
        }
    }

    fn row(ck: i32) -> StoredRow {
        StoredRow {
            at: 0,
            end: 0,
            previous: 0,
            prefix: Prefix { kind: KIND_ROW, values: vec![Some(ck.to_be_bytes().to_vec())] },
            liveness: None,
            deletion: None,
            shadowable: None,
            columns: Vec::new(),
        }
    }

    /// Twenty bytes with row 5, which has a marker and a cell.
    fn one_partition() -> Seen {
        let cell = StoredCell {
            path: None,
            timestamp: 20,
            ttl: 90,
            deletion_time: 2000,
            is_deleted: false,
            value: Vec::new(),
        };
        let liveness = Some(StoredLiveness { timestamp: 10, ttl: 60, expiry: 1000 });
        let columns = vec![StoredCells { column: 0, deletion: None, cells: vec![cell] }];
        let of_v = StoredColumn { name: "v".into(), ty: StoredType::Scalar(Scalar::Blob) };
        let mut seen = Seen::new(&stated());
        seen.partition(KEY, None);
        let keys = [KeyType::parse("Int32Type")];
        seen.row(&StoredRow { liveness, columns, ..row(5) }, &[of_v], Some(&keys));
        seen.partition_end(20);
        seen
    }

    #[test]
    fn an_extent_that_is_too_wide_is_no_fault_of_scylladb_and_one_too_narrow_is() {
        let seen = one_partition();
        for counted in ALL {
            assert_eq!(seen.differences(&stated(), Version::Me, counted), [], "{counted:?}");
        }
        type Change = fn(&mut Metadata, i32);
        // Which number is changed, whether it is a least one, and what the difference is called.
        let changes: [(Change, bool, &str); 6] = [
            (|of, by| of.min_timestamp += i64::from(by), true, "timestamps from 10 to 20,"),
            (|of, by| of.max_timestamp += i64::from(by), false, "timestamps from 10 to 20,"),
            (|of, by| of.min_deletion_time += by, true, "local deletion times from 1000 to 2000,"),
            (|of, by| of.max_deletion_time += by, false, "local deletion times from 1000 to 2000,"),
            (|of, by| of.min_ttl += by, true, "times to live from 60 to 90,"),
            (|of, by| of.max_ttl += by, false, "times to live from 60 to 90,"),
        ];
        for (change, is_least, name) in changes {
            for (by, counted) in [-1, 1].into_iter().flat_map(|by| ALL.map(|counted| (by, counted)))
            {
                let mut other = stated();
                change(&mut other, by);
                let found = seen.differences(&other, Version::Me, counted);
                let is_wide = is_least == (by < 0);
                let is_told = counted != Counted::ByScylla || !is_wide;
                assert_eq!(found.len(), usize::from(is_told), "{name} {by} {counted:?}: {found:?}");
                let named = |found: &Difference| found.wanted.starts_with(name) && !found.is_custom;
                assert!(found.iter().all(named), "{name} {by} {counted:?}: {found:?}");
            }
        }
    }

    #[test]
    fn every_number_that_is_counted_is_held_against_its_own() {
        type Change = fn(&mut Metadata);
        let changes: [(Change, &str); 7] = [
            (|of| of.rows_count += 1, "1 rows, as in the data"),
            (|of| of.columns_count -= 1, "1 columns set, as in the data"),
            (
                |of| of.partition_sizes = vec![(10, 1), (10, 0), (20, 0)],
                "the histogram of partition sizes of the data",
            ),
            (
                |of| of.cells_per_partition = vec![(1, 0), (1, 1), (2, 0)],
                "the histogram of cells a partition of the data",
            ),
            (|of| of.drop_times[1].0 = 2100.0, "the drop times of the data"),
            (|of| of.drop_times[0].1 = 2, "the drop times of the data"),
            (
                |of| of.sketch = Sketch::Sparse(Vec::new()),
                "the estimate of the number of keys of the data",
            ),
        ];
        let seen = one_partition();
        for (change, wanted) in changes {
            let mut other = stated();
            change(&mut other);
            for counted in ALL {
                let found = seen.differences(&other, Version::Me, counted);
                // ScyllaDB counts otherwise, and Cassandra's versions gather drop times otherwise.
                let is_custom = counted == Counted::ByCassandra && wanted.contains("drop times");
                let told: Vec<(&str, bool)> =
                    found.iter().map(|found| (&*found.wanted, found.is_custom)).collect();
                let all = [(wanted, is_custom)];
                let all = if counted == Counted::ByScylla { &all[..0] } else { &all[..] };
                assert_eq!(told, all, "{counted:?}");
            }
        }
    }

    /// Rows 5 and 7; the stated bounds, and what is wrong with them, without and with a range
    /// tombstone, which may delete more than the rows that are there.
    #[test]
    fn stated_bounds_have_every_row_between_them_and_none_to_spare_without_range_tombstones() {
        let (least, greatest) = ("a least clustering key", "a greatest clustering key");
        type Case<'a> = (&'a str, [Option<i32>; 2], [Option<&'a str>; 2]);
        let cases: [Case<'_>; 11] = [
            ("Int32Type", [Some(5), Some(7)], [None, None]),
            ("Int32Type", [Some(6), Some(7)], [Some(least), Some(least)]),
            ("Int32Type", [Some(4), Some(7)], [Some(least), None]),
            ("Int32Type", [Some(5), Some(6)], [Some(greatest), Some(greatest)]),
            ("Int32Type", [Some(5), Some(8)], [Some(greatest), None]),
            ("Int32Type", [None, None], [None, None]),
            ("Int32Type", [None, Some(6)], [Some(greatest), Some(greatest)]),
            ("ReversedType(Int32Type)", [Some(7), Some(5)], [None, None]),
            ("ReversedType(Int32Type)", [Some(6), Some(5)], [Some(least), Some(least)]),
            ("ReversedType(Int32Type)", [Some(8), Some(5)], [Some(least), None]),
            ("ReversedType(Int32Type)", [Some(7), Some(4)], [Some(greatest), None]),
        ];
        let bound = |ck: Option<i32>| Vec::from_iter(ck.map(|ck| ck.to_be_bytes().to_vec()));
        for (class, ends, wanted) in cases {
            let mut other = stated();
            other.header.clustering = vec![class.to_owned()];
            [other.min_clustering, other.max_clustering] = ends.map(bound);
            for (has_range, wanted) in [false, true].into_iter().zip(wanted) {
                let mut seen = Seen::new(&other);
                let keys = [KeyType::parse(class)];
                [7, 5].into_iter().for_each(|ck| seen.row(&row(ck), &[], Some(&keys)));
                if has_range {
                    seen.marker(None, None);
                }
                let found = seen.differences(&other, Version::Md, Counted::ByScylla);
                assert_eq!(found.len(), usize::from(wanted.is_some()), "{class} {ends:?}");
                let named = |found: &Difference| found.wanted.starts_with(wanted.unwrap_or(" "));
                assert!(found.iter().all(named), "{class} {ends:?}: {found:?}");
                // `mc` states them in another way.
                assert_eq!(seen.differences(&other, Version::Mc, Counted::ByScylla), []);
            }
        }
    }

    #[test]
    fn times_of_deletion_are_rounded_up_to_a_minute_and_compared_while_they_are_few() {
        for (second, rounded) in [
            (0, Some(0)),
            (1, Some(60)),
            (59, Some(60)),
            (60, Some(60)),
            (61, Some(120)),
            (-1, Some(0)),
            (-60, Some(-60)),
            (-61, Some(-60)),
            (i32::MAX - 1, Some(2_147_483_700)),
            (i32::MAX, None),
        ] {
            let mut seen = Seen::new(&stated());
            seen.deletion_time(second);
            let found: Vec<(i64, i64)> = seen.drop_times.into_iter().collect();
            let wanted: Vec<(i64, i64)> = rounded.map(|second| (second, 1)).into_iter().collect();
            assert_eq!(found, wanted, "{second}");
        }
        for (count, is_told) in [(99, true), (100, false), (200, false)] {
            let mut seen = Seen::new(&stated());
            (0..count).for_each(|number| seen.deletion_time(60 * number));
            let found = seen.differences(&stated(), Version::Me, Counted::Here);
            let told = found.iter().any(|found| found.wanted == "the drop times of the data");
            assert_eq!(told, is_told, "{count} different ones");
        }
    }
}
