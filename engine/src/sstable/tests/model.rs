//! Partitions in memory, what a read of them must give, and random ones.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::clock::Random;
use crate::mutation::slice::normalise;
use crate::mutation::{
    Cell, CellPath, ClusteringRange, Direction, FlatRow, Fragment, Liveness, MultiCell, PointRead,
    Position, RangeTombstone, RangeTombstoneList, Row, Slice, Tombstone,
};
use crate::schema::table_schema::SchemaRef;
use crate::schema::varint::parse_varint;
use crate::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnKind, DataType, PartitionKey, TableId,
    TableOptions, TableSchema, UserType, Value,
};

pub(crate) const BASE_TIMESTAMP: i64 = 1_700_000_000_000_000;
const BASE_SECONDS: i32 = 1_700_000_000;
/// Times to live with their expiry; the first is for ever.
const TIMES: [(i32, i32); 3] = [(0, i32::MAX), (60, BASE_SECONDS + 60), (90, BASE_SECONDS)];

#[derive(Debug, Clone, Default)]
pub(crate) struct Partition {
    pub(crate) deletion: Option<Tombstone>,
    pub(crate) static_row: Row,
    pub(crate) rows: BTreeMap<ClusteringKey, Row>,
    pub(crate) tombstones: RangeTombstoneList,
}

pub(crate) type Partitions = BTreeMap<PartitionKey, Partition>;

impl Partition {
    fn is_empty(&self) -> bool {
        self.deletion.is_none()
            && self.static_row.is_empty()
            && self.rows.is_empty()
            && self.tombstones.is_empty()
    }

    /// What a read of this partition must give.
    pub(crate) fn fragments(&self, key: &PartitionKey, slice: &Slice) -> Vec<Fragment> {
        let key = Rc::new(key.clone());
        let mut out = vec![Fragment::PartitionStart { key, deletion: self.deletion }];
        if !self.static_row.is_empty() {
            out.push(Fragment::StaticRow(Rc::new(self.static_row.clone())));
        }
        let mut ranges = slice.ranges.clone();
        if slice.direction.is_reversed() {
            ranges.reverse();
        }
        for range in ranges {
            let mut events: BTreeMap<Position, Fragment> = BTreeMap::new();
            let mut pieces = self.tombstones.within(&range);
            if slice.direction.is_reversed() {
                pieces.reverse();
            }
            for piece in pieces {
                let both = [
                    (slice.direction.first(&piece.range), Some(piece.tombstone)),
                    (slice.direction.last(&piece.range), None),
                ];
                for (position, tombstone) in both {
                    let position = position.clone();
                    let change =
                        Fragment::RangeTombstoneChange { position: position.clone(), tombstone };
                    events.insert(position, change);
                }
            }
            for (key, row) in self.rows.iter().filter(|(key, _)| range.contains(key)) {
                let position = Position::at(key.clone());
                let (key, row) = (Rc::new(key.clone()), Rc::new(row.clone()));
                events.insert(position, Fragment::Row { key, row });
            }
            match slice.direction {
                Direction::Forward => out.extend(events.into_values()),
                Direction::Reversed => out.extend(events.into_values().rev()),
            }
        }
        out.push(Fragment::PartitionEnd);
        out
    }
}

impl Partition {
    /// What a read of one row of this partition must give; the row as it is stored.
    pub(crate) fn point(&self, key: &ClusteringKey, wants_front: bool) -> PointRead {
        let within = self.tombstones.within(&ClusteringRange::prefix(key.clone()));
        let has_static = wants_front && !self.static_row.is_empty();
        PointRead {
            deletion: self.deletion,
            static_row: has_static.then(|| Rc::new(self.static_row.clone())),
            tombstone: within.first().map(|range| range.tombstone),
            row: self.rows.get(key).map(|row| FlatRow::row(key.as_ordered(), row)),
        }
    }
}

/// Whether a found row is what was wanted of it; the front counts only where it was asked for.
pub(crate) fn is_same_point(
    mut found: PointRead,
    mut wanted: PointRead,
    wants_front: bool,
) -> bool {
    for point in [&mut found, &mut wanted] {
        if !wants_front {
            (point.deletion, point.static_row) = (None, None);
        }
    }
    found == wanted
}

pub(crate) fn all_fragments<'a>(
    partitions: impl IntoIterator<Item = (&'a PartitionKey, &'a Partition)>,
    slice: &Slice,
) -> Vec<Fragment> {
    partitions.into_iter().flat_map(|(key, partition)| partition.fragments(key, slice)).collect()
}

pub(crate) fn schema_of(columns: Vec<Column>) -> SchemaRef {
    let schema = TableSchema {
        id: TableId(1),
        keyspace: "ks".into(),
        name: "t".into(),
        columns,
        options: TableOptions::default(),
        drops: Vec::new(),
    };
    schema.validate().unwrap();
    Arc::new(schema)
}

/// Types of which columns are; those of keys come first.
fn types() -> (Vec<DataType>, usize) {
    let user = UserType::new(
        "ks",
        "u",
        [("a", DataType::Int), ("b", DataType::set_of(DataType::Text))]
            .map(|(name, ty)| (name.to_owned(), ty)),
    );
    let user = DataType::User(Box::new(user));
    let pairs =
        DataType::map_of(DataType::Text, DataType::tuple_of([DataType::Int, DataType::Inet]));
    let keys = vec![
        DataType::Boolean,
        DataType::TinyInt,
        DataType::SmallInt,
        DataType::Int,
        DataType::BigInt,
        DataType::Float,
        DataType::Double,
        DataType::Decimal { precision: 38, scale: 2 },
        DataType::Varint,
        DataType::Text,
        DataType::Blob,
        DataType::Date,
        DataType::Time,
        DataType::Timestamp,
        DataType::Uuid,
        DataType::TimeUuid,
        DataType::Inet,
        DataType::list_of(DataType::Text).frozen(),
        DataType::set_of(DataType::Int).frozen(),
        pairs.clone().frozen(),
        DataType::tuple_of([DataType::Int, DataType::Text]),
        user.clone().frozen(),
    ];
    let count = keys.len();
    let others = [
        DataType::Duration,
        DataType::Counter,
        DataType::list_of(DataType::Int),
        DataType::set_of(DataType::Double),
        pairs,
        user,
    ];
    (keys.into_iter().chain(others).collect(), count)
}

pub(crate) fn random_schema(random: &mut Random) -> SchemaRef {
    let mut columns: Vec<Column> = Vec::new();
    let (types, key_types) = types();
    let mut add = |random: &mut Random, kind: ColumnKind| {
        let is_key = !matches!(kind, ColumnKind::Static | ColumnKind::Regular);
        let count = if is_key { key_types } else { types.len() };
        let ty = types[random.below(count as u64) as usize].clone();
        // Names are not in the order of ids.
        let name = format!("{}_{}", random.below(90), columns.len());
        columns.push(Column { name, ty, kind });
    };
    for position in 0..1 + random.below(2) as u16 {
        add(random, ColumnKind::PartitionKey { position });
    }
    let clustering = if random.one_in(20) { 35 } else { random.below(4) as u16 };
    let statics = if clustering > 0 { random.below(3) } else { 0 };
    for _ in 0..statics {
        add(random, ColumnKind::Static);
    }
    for position in 0..clustering {
        let order = match random.below(2) {
            0 => ClusteringOrder::Ascending,
            _ => ClusteringOrder::Descending,
        };
        add(random, ColumnKind::ClusteringKey { position, order });
    }
    let regulars = if random.one_in(8) { 60 + random.below(10) } else { random.below(5) };
    for _ in 0..regulars {
        add(random, ColumnKind::Regular);
    }
    schema_of(columns)
}

/// A value out of few, so that keys share prefixes and collide.
pub(crate) fn random_value(random: &mut Random, ty: &DataType) -> Value {
    let n = random.below(7) as i64 - 3;
    let uuid = |version: u8| {
        let mut bytes = [n as u8; 16];
        bytes[6] = version << 4 | (n as u8 & 15);
        bytes
    };
    match ty {
        DataType::Boolean => Value::Boolean(n > 0),
        DataType::TinyInt => Value::TinyInt(n as i8),
        DataType::SmallInt => Value::SmallInt(n as i16 * 300),
        DataType::Int => Value::Int(n as i32 * 70_000),
        DataType::BigInt => Value::BigInt(n << 40),
        DataType::Float => Value::Float(n as f32 / 3.0),
        DataType::Double => Value::Double(n as f64 / 3.0),
        DataType::Decimal { .. } => Value::Decimal { unscaled: i128::from(n * 3), scale: n as i32 },
        DataType::Text => Value::Text("ab\0é".chars().cycle().take((n + 3) as usize).collect()),
        DataType::Blob => Value::Blob(vec![n as u8; (n + 3) as usize]),
        DataType::Date => Value::Date(n as i32 * 1000),
        DataType::Time => Value::Time((n + 3) * 1_000_003),
        DataType::Timestamp => Value::Timestamp(n * 1_000_003),
        DataType::Uuid => Value::Uuid(uuid(if n > 0 { 1 } else { 4 })),
        DataType::TimeUuid => Value::TimeUuid(uuid(1)),
        DataType::Inet if n > 0 => Value::Inet([10, 0, 0, n as u8].into()),
        DataType::Inet => Value::Inet([0, 0, 0, 0, 0, 0, 0, (n + 9) as u16].into()),
        DataType::Varint => Value::Varint(parse_varint(&(n * 77).to_string()).unwrap()),
        DataType::Duration => Value::Duration { months: n as i32, days: 3, nanoseconds: n << 40 },
        DataType::Counter => unreachable!("counters have cells of their own"),
        DataType::Frozen(inner) => random_value(random, inner),
        DataType::List(element) => Value::List(random_values(random, element)),
        DataType::Set(element) => Value::set_of(element, random_values(random, element)).unwrap(),
        DataType::Map(key, value) => {
            let keys = random_values(random, key);
            let entries = keys.into_iter().map(|key| (key, random_value(random, value))).collect();
            Value::map_of(key, entries).unwrap()
        }
        DataType::Tuple(types) => {
            let field = |ty| (!random.one_in(3)).then(|| random_value(random, ty));
            Value::Tuple(types.iter().map(field).collect())
        }
        DataType::User(user) => {
            let field = |(_, ty): &(String, DataType)| {
                (!random.one_in(3)).then(|| random_value(random, ty))
            };
            Value::Tuple(user.fields.iter().map(field).collect())
        }
    }
}

fn random_values(random: &mut Random, ty: &DataType) -> Vec<Value> {
    (0..random.below(4)).map(|_| random_value(random, ty)).collect()
}

fn random_cell(random: &mut Random, timestamp: i64, value: Vec<u8>) -> Cell {
    match random.below(4) {
        0 => Cell::deleted(timestamp, BASE_SECONDS + random.below(99) as i32),
        1 => {
            let (ttl, expiry) = TIMES[1 + random.below(2) as usize];
            Cell::expiring(timestamp, value, ttl, expiry)
        }
        _ => Cell::live(timestamp, value),
    }
}

/// Cells of a multi-cell column, its deletion, both or nothing.
fn random_multi_cell(random: &mut Random, ty: &DataType, timestamp: i64) -> MultiCell {
    let deletion = random.one_in(3).then(|| Tombstone {
        // Not above the cells, which are kept as they come.
        timestamp: BASE_TIMESTAMP - 1 - random.below(3) as i64,
        deletion_time: BASE_SECONDS + random.below(99) as i32,
    });
    let mut multi = MultiCell { deletion, cells: Vec::new() };
    let path_type = ty.path_type().unwrap();
    for number in 0..random.below(4) {
        let path = match ty {
            DataType::User(_) => Value::SmallInt((number % 2) as i16),
            _ => random_value(random, &path_type),
        };
        let value = match ty {
            DataType::List(element) => random_value(random, element).to_bytes(),
            DataType::Map(_, value) => random_value(random, value).to_bytes(),
            DataType::User(user) => {
                random_value(random, &user.fields[number as usize % 2].1).to_bytes()
            }
            _ => Vec::new(),
        };
        let path = CellPath::from_stored(&path_type, &path.to_bytes()).unwrap();
        let timestamp = if random.one_in(2) { timestamp } else { random_timestamp(random) };
        multi.put(path, random_cell(random, timestamp, value));
    }
    multi
}

fn random_timestamp(random: &mut Random) -> i64 {
    match random.below(40) {
        0 => i64::MAX,
        // The least one stands for "live" in a deletion.
        1 => i64::MIN + 1,
        _ => BASE_TIMESTAMP + random.below(50) as i64,
    }
}

fn random_tombstone(random: &mut Random) -> Tombstone {
    let deletion_time = BASE_SECONDS + random.below(10_000) as i32;
    Tombstone { timestamp: random_timestamp(random), deletion_time }
}

fn random_row(random: &mut Random, schema: &TableSchema, kind: ColumnKind) -> Row {
    let mut row = Row::default();
    if kind == ColumnKind::Regular && !random.one_in(3) {
        let timestamp = random_timestamp(random);
        let (ttl, expiry) = TIMES[random.below(3) as usize];
        row.liveness = Some(Liveness { timestamp, ttl, expiry });
    }
    if kind == ColumnKind::Regular && random.one_in(6) {
        row.deletion = Some(random_tombstone(random));
    }
    let sparse = 1 + random.below(4);
    for id in schema.ids().filter(|id| schema.column(*id).kind == kind) {
        if !random.one_in(sparse) {
            continue;
        }
        let timestamp = match row.liveness {
            Some(live) if random.one_in(2) => live.timestamp,
            _ => random_timestamp(random),
        };
        let ty = &schema.column(id).ty;
        if ty.is_multi_cell() {
            row.put_multi(id, random_multi_cell(random, ty, timestamp));
            continue;
        }
        let cell = match ty {
            DataType::Counter if random.one_in(4) => Cell::deleted(timestamp, BASE_SECONDS),
            DataType::Counter => Cell::counter(timestamp, vec![7; random.below(40) as usize]),
            ty => {
                let value = random_value(random, ty).to_bytes();
                random_cell(random, timestamp, value)
            }
        };
        row.put(id, cell);
    }
    row
}

pub(crate) fn random_prefix(
    random: &mut Random,
    schema: &TableSchema,
    columns: u64,
) -> ClusteringKey {
    let types = schema.clustering_key().map(|column| &column.ty).take(columns as usize);
    let values: Vec<Value> = types.map(|ty| random_value(random, ty)).collect();
    ClusteringKey::from_values(schema, &values).unwrap()
}

fn random_bound(random: &mut Random, schema: &TableSchema) -> Position {
    let columns = random.below(schema.clustering_key().count() as u64 + 1);
    let prefix = random_prefix(random, schema, columns);
    if random.one_in(2) { Position::before(prefix) } else { Position::after(prefix) }
}

fn random_range(random: &mut Random, schema: &TableSchema) -> ClusteringRange {
    let (a, b) = (random_bound(random, schema), random_bound(random, schema));
    ClusteringRange { start: a.clone().min(b.clone()), end: a.max(b) }
}

pub(crate) fn random_slice(random: &mut Random, schema: &TableSchema) -> Slice {
    let direction = if random.one_in(2) { Direction::Forward } else { Direction::Reversed };
    let ranges = (0..random.below(5)).map(|_| random_range(random, schema)).collect();
    Slice { ranges: normalise(ranges), direction }
}

pub(crate) fn random_key(random: &mut Random, schema: &TableSchema) -> PartitionKey {
    loop {
        let types = schema.partition_key().map(|column| &column.ty);
        let values: Vec<Value> = types.map(|ty| random_value(random, ty)).collect();
        if let Ok(key) = PartitionKey::from_values(schema, &values) {
            return key;
        }
    }
}

pub(crate) fn random_partitions(random: &mut Random, schema: &TableSchema) -> Partitions {
    let mut partitions = Partitions::new();
    let columns = schema.clustering_key().count() as u64;
    for _ in 0..1 + random.below(8) {
        let partition = partitions.entry(random_key(random, schema)).or_default();
        if random.one_in(4) {
            partition.deletion = Some(random_tombstone(random));
        }
        partition.static_row = random_row(random, schema, ColumnKind::Static);
        for _ in 0..random.below(60) {
            let row = random_row(random, schema, ColumnKind::Regular);
            if !row.is_empty() {
                partition.rows.insert(random_prefix(random, schema, columns), row);
            }
        }
        // A partition without clustering columns has one row and no ranges.
        for _ in 0..if columns == 0 { 0 } else { random.below(8) } {
            let range = random_range(random, schema);
            partition.tombstones.add(RangeTombstone { range, tombstone: random_tombstone(random) });
        }
    }
    partitions.retain(|_, partition| !partition.is_empty());
    partitions
}
