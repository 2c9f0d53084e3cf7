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
