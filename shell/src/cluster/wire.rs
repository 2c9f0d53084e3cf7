//! Reads and writes as messages between nodes.
//!
//! Tables and service levels go by their names, for their numbers are each node's own; keys,
//! values and mutations go in the engine's own forms. What comes is checked against the table.

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::batch::{Stamp, StampKind};
use tidegate_engine::clock::Clock;
use tidegate_engine::mutation::{Weight, codec};
use tidegate_engine::schema::Token;
use tidegate_engine::{
    Catalog, ClusteringKey, ClusteringRange, ColumnId, Comparator, Comparison, Condition,
    ConditionalWrite, Deadline, Decision, Direction, Error, Mutation, PartitionKey, Partitions,
    Position, ReadCommand, Result, RowCondition, RowKey, RowValues, SchemaRef, Slice, TableId,
    TableSchema, Taking, Terms, Value,
};

use super::digest;

/// Header with the key of a node.
pub(crate) const KEY_HEADER: &str = "x-tidegate-node";
/// Header with the version of the ring.
pub(crate) const VERSION_HEADER: &str = "x-tidegate-ring";
pub(crate) const SERVICE: &str = "tidegate.Node";
pub(crate) const READ: &str = "/tidegate.Node/Read";
pub(crate) const WRITE: &str = "/tidegate.Node/Write";
pub(crate) const DECIDE: &str = "/tidegate.Node/Decide";
pub(crate) const PING: &str = "/tidegate.Node/Ping";
pub(crate) const DEFINE: &str = "/tidegate.Node/Define";

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Table {
    #[prost(string, tag = "1")]
    pub keyspace: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(bytes = "vec", tag = "3")]
    pub digest: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Conditions {
    /// Service level, and milliseconds until it is too late.
    #[prost(string, tag = "1")]
    pub level: String,
    #[prost(uint64, optional, tag = "2")]
    pub left_ms: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Range {
    #[prost(bytes = "vec", tag = "1")]
    pub start: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub start_weight: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub end: Vec<u8>,
    #[prost(int32, tag = "4")]
    pub end_weight: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ReadRequest {
    #[prost(message, optional, tag = "1")]
    pub table: Option<Table>,
    #[prost(message, optional, tag = "2")]
    pub terms: Option<Conditions>,
    /// None: all between two tokens.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub keys: Vec<Vec<u8>>,
    #[prost(sint64, tag = "4")]
    pub min: i64,
    #[prost(sint64, tag = "5")]
    pub max: i64,
    #[prost(message, repeated, tag = "6")]
    pub ranges: Vec<Range>,
    #[prost(bool, tag = "7")]
    pub is_reversed: bool,
    #[prost(uint32, repeated, tag = "8")]
    pub columns: Vec<u32>,
    /// Columns whose write times, and whose times to live are read.
    #[prost(message, repeated, tag = "9")]
    pub stamps: Vec<StampEntry>,
    #[prost(uint64, optional, tag = "10")]
    pub row_limit: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub partition_limit: Option<u64>,
    #[prost(bool, tag = "12")]
    pub past_cache: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StampEntry {
    #[prost(uint32, tag = "1")]
    pub column: u32,
    #[prost(bool, tag = "2")]
    pub is_time_to_live: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    pub tables: Vec<Table>,
    #[prost(message, optional, tag = "2")]
    pub terms: Option<Conditions>,
    /// Mutations, with places among the tables for numbers of tables.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub writes: Vec<Vec<u8>>,
    #[prost(bool, tag = "4")]
    pub is_logged: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WriteReply {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DecideRequest {
    #[prost(message, optional, tag = "1")]
    pub write: Option<WriteRequest>,
    #[prost(message, repeated, tag = "2")]
    pub conditions: Vec<ConditionEntry>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ConditionEntry {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub row: Option<Vec<u8>>,
    /// Of `KINDS`.
    #[prost(uint32, tag = "2")]
    pub kind: u32,
    #[prost(message, repeated, tag = "3")]
    pub comparisons: Vec<ComparisonEntry>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ComparisonEntry {
    #[prost(uint32, tag = "1")]
    pub column: u32,
    #[prost(uint32, tag = "2")]
    pub comparator: u32,
    #[prost(message, repeated, tag = "3")]
    pub values: Vec<ValueEntry>,
}

/// A value as it is stored; null where there is none.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ValueEntry {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub stored: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DecideReply {
    #[prost(sint64, optional, tag = "1")]
    pub applied_at_us: Option<i64>,
    #[prost(message, repeated, tag = "2")]
    pub rows: Vec<RowEntry>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RowEntry {
    #[prost(bool, tag = "1")]
    pub is_there: bool,
    #[prost(bytes = "vec", tag = "2")]
    pub clustering: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    pub values: Vec<ColumnValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ColumnValue {
    #[prost(uint32, tag = "1")]
    pub column: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub stored: Vec<u8>,
}

/// A step of a statement that all nodes run.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DefineRequest {
    /// Who changes definitions: nobody else may meanwhile.
    #[prost(bytes = "vec", tag = "1")]
    pub lease: Vec<u8>,
    /// The statement; none where the lease begins or ends.
    #[prost(string, optional, tag = "2")]
    pub text: Option<String>,
    #[prost(string, tag = "3")]
    pub keyspace: String,
    /// The lease ends with this.
    #[prost(bool, tag = "4")]
    pub is_last: bool,
    /// With whose rights; none is the owner's.
    #[prost(string, optional, tag = "5")]
    pub role: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DefineReply {
    /// Of all definitions.
    #[prost(bytes = "vec", tag = "1")]
    pub digest: Vec<u8>,
}

const NOT_EXISTS: u32 = 1;
const EXISTS: u32 = 2;
const ALL: u32 = 3;

fn broken(what: &str) -> Error {
    Error::invalid(format!("a message of another node is broken: {what}"))
}

impl Table {
    pub fn of(table: &TableSchema) -> Self {
        let digest = digest::of_table(table).to_vec();
        Table { keyspace: table.keyspace.clone(), name: table.name.clone(), digest }
    }

    /// The same table here.
    ///
    /// Errors: `Unavailable` where it is not there, or has other columns.
    pub fn find(&self, catalog: &Catalog) -> Result<SchemaRef> {
        let (keyspace, name) = (&self.keyspace, &self.name);
        let found = catalog.table(keyspace, name).ok_or_else(|| {
            Error::Unavailable(format!(
                "table {keyspace}.{name} is not here: the definitions of the nodes differ"
            ))
        })?;
        match digest::of_table(found) == *self.digest {
            true => Ok(Arc::clone(found)),
            false => Err(Error::Unavailable(format!(
                "table {keyspace}.{name} has other columns here: the definitions of the nodes \
                 differ, or are about to change"
            ))),
        }
    }
}

impl Conditions {
    pub fn of(terms: Terms, catalog: &Catalog, clock: &dyn Clock) -> Self {
        let mut levels = catalog.service_levels();
        let level = levels.find(|(_, level)| level.id == terms.level).map(|(name, _)| name);
        let left_ms = terms.deadline.map(|deadline| deadline.left(clock).as_millis() as u64);
        Conditions { level: level.unwrap_or_default().to_owned(), left_ms }
    }

    pub fn terms(&self, catalog: &Catalog, clock: &dyn Clock) -> Terms {
        let level = catalog.service_level(&self.level).unwrap_or_default().id;
        let after = |ms| Deadline::after(Duration::from_millis(ms), clock);
        Terms { level, deadline: self.left_ms.map(after) }
    }
}

fn weight(weight: Weight) -> i32 {
    match weight {
        Weight::Before => -1,
        Weight::At => 0,
        Weight::After => 1,
    }
}

fn position(prefix: &[u8], weight: i32) -> Result<Position> {
    let weight = match weight {
        -1 => Weight::Before,
        0 => Weight::At,
        1 => Weight::After,
        _ => return Err(broken("a position without a weight")),
    };
    Ok(Position { prefix: ClusteringKey::from_ordered(prefix), weight })
}

impl Range {
    pub fn of(range: &ClusteringRange) -> Self {
        Range {
            start: range.start.prefix.as_ordered().to_vec(),
            start_weight: weight(range.start.weight),
            end: range.end.prefix.as_ordered().to_vec(),
            end_weight: weight(range.end.weight),
        }
    }

    pub fn range(&self) -> Result<ClusteringRange> {
        let start = position(&self.start, self.start_weight)?;
        Ok(ClusteringRange { start, end: position(&self.end, self.end_weight)? })
    }
}

/// A column of a table.
pub(crate) fn column(table: &TableSchema, number: u32) -> Result<ColumnId> {
    let id = u16::try_from(number).ok().filter(|id| usize::from(*id) < table.columns.len());
    id.map(ColumnId).ok_or_else(|| broken("a column that the table does not have"))
}

impl StampEntry {
    pub fn of(stamp: &Stamp) -> Self {
        let is_time_to_live = stamp.kind == StampKind::TimeToLive;
        StampEntry { column: u32::from(stamp.column.0), is_time_to_live }
    }

    /// The stamp of a table.
    ///
    /// Errors: `Invalid` for a column that has none.
    pub fn stamp(&self, table: &TableSchema) -> Result<Stamp> {
        let kind = match self.is_time_to_live {
            true => StampKind::TimeToLive,
            false => StampKind::WriteTime,
        };
        let stamp = Stamp { column: column(table, self.column)?, kind };
        stamp.check(table).map(|()| stamp)
    }
}

impl ReadRequest {
    pub fn of(command: &ReadCommand, catalog: &Catalog, clock: &dyn Clock) -> Self {
        let terms = Terms { level: command.level, deadline: command.deadline };
        let (keys, (min, max)) = match &command.partitions {
            Partitions::Keys(keys) => {
                (keys.iter().map(|key| key.as_bytes().to_vec()).collect(), (0, 0))
            }
            Partitions::Tokens { min, max, .. } => (Vec::new(), (min.0, max.0)),
            Partitions::Shard(_) | Partitions::Owned { .. } => {
                unreachable!("no node names another's shards")
            }
        };
        ReadRequest {
            table: Some(Table::of(&command.schema)),
            terms: Some(Conditions::of(terms, catalog, clock)),
            keys,
            min,
            max,
            ranges: command.slice.ranges.iter().map(Range::of).collect(),
            is_reversed: command.slice.direction.is_reversed(),
            columns: command.columns.iter().map(|column| u32::from(column.0)).collect(),
            stamps: command.stamps.iter().map(StampEntry::of).collect(),
            row_limit: command.row_limit.map(|rows| rows as u64),
            partition_limit: command.partition_limit.map(|rows| rows as u64),
            past_cache: command.past_cache,
        }
    }

    /// The read as the engine takes it.
    ///
    /// Errors: `Unavailable` for a table that differs here; `Invalid` for a message that is broken.
    pub fn command(&self, catalog: &Catalog, clock: &dyn Clock) -> Result<ReadCommand> {
        let table = self.table.as_ref().ok_or_else(|| broken("no table"))?.find(catalog)?;
        let terms = self.terms.clone().unwrap_or_default().terms(catalog, clock);
        let columns = self.columns.iter().map(|number| column(&table, *number));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let stamps = self.stamps.iter().map(|entry| entry.stamp(&table));
        let stamps = stamps.collect::<Result<Vec<_>>>()?;
        let ranges = self.ranges.iter().map(Range::range).collect::<Result<Vec<_>>>()?;
        let partitions = match self.keys.is_empty() {
            false => Partitions::Keys(self.keys.iter().map(PartitionKey::from_bytes).collect()),
            true => Partitions::Tokens { shard: 0, min: Token(self.min), max: Token(self.max) },
        };
        let direction = if self.is_reversed { Direction::Reversed } else { Direction::Forward };
        Ok(ReadCommand {
            partitions,
            slice: Slice { ranges, direction },
            columns,
            stamps,
            row_limit: self.row_limit.map(|rows| rows as usize),
            partition_limit: self.partition_limit.map(|rows| rows as usize),
            deadline: terms.deadline,
            level: terms.level,
            past_cache: self.past_cache,
            filter: None,
            schema: table,
        })
    }
}

impl WriteRequest {
    /// Writes as a message. Those of tables that are gone are left out.
    pub fn of(writes: Vec<Mutation>, taking: Taking, catalog: &Catalog, clock: &dyn Clock) -> Self {
        let (terms, is_logged) = match taking {
            Taking::Plain(terms) => (terms, false),
            Taking::Logged(level) => (Terms { level, deadline: None }, true),
        };
        let mut ids: Vec<TableId> = Vec::new();
        let (mut tables, mut encoded) = (Vec::new(), Vec::with_capacity(writes.len()));
        for mut write in writes {
            let known = ids.iter().position(|id| *id == write.table);
            let place = match known {
                Some(place) => place,
                None => {
                    let mut all = catalog.all_tables();
                    let Some(table) = all.find(|table| table.id == write.table) else { continue };
                    ids.push(write.table);
                    tables.push(Table::of(table));
                    ids.len() - 1
                }
            };
            write.table = TableId(place as u128);
            let mut bytes = Vec::new();
            codec::encode(&write, &mut bytes);
            encoded.push(bytes);
        }
        let terms = Some(Conditions::of(terms, catalog, clock));
        WriteRequest { tables, terms, writes: encoded, is_logged }
    }

    /// The writes as the engine takes them.
    ///
    /// Errors: `Unavailable` for a table that differs here; `Invalid` for a message that is broken.
    pub fn writes(&self, catalog: &Catalog, clock: &dyn Clock) -> Result<(Vec<Mutation>, Taking)> {
        let tables = self.tables.iter().map(|table| Ok(table.find(catalog)?.id));
        let tables = tables.collect::<Result<Vec<TableId>>>()?;
        let write = |bytes: &Vec<u8>| {
            let mut write = codec::decode(bytes)?;
            let place = usize::try_from(write.table.0).ok();
            let table = place.and_then(|place| tables.get(place));
            write.table = *table.ok_or_else(|| broken("a write to no table"))?;
            Ok(write)
        };
        let writes = self.writes.iter().map(write).collect::<Result<Vec<_>>>()?;
        let terms = self.terms.clone().unwrap_or_default().terms(catalog, clock);
        let taking = match self.is_logged {
            true => Taking::Logged(terms.level),
            false => Taking::Plain(terms),
        };
        Ok((writes, taking))
    }
}

fn stored(value: Option<&Value>) -> ValueEntry {
    ValueEntry { stored: value.map(Value::to_bytes) }
}

impl ComparisonEntry {
    fn of(comparison: &Comparison) -> Self {
        let (comparator, values) = match &comparison.comparator {
            Comparator::Equal(value) => (1, vec![stored(value.as_ref())]),
            Comparator::NotEqual(value) => (2, vec![stored(value.as_ref())]),
            Comparator::Less(value) => (3, vec![stored(Some(value))]),
            Comparator::LessOrEqual(value) => (4, vec![stored(Some(value))]),
            Comparator::Greater(value) => (5, vec![stored(Some(value))]),
            Comparator::GreaterOrEqual(value) => (6, vec![stored(Some(value))]),
            Comparator::In(values) => (7, values.iter().map(|one| stored(one.as_ref())).collect()),
        };
        ComparisonEntry { column: u32::from(comparison.column.0), comparator, values }
    }

    fn comparison(&self, table: &TableSchema) -> Result<Comparison> {
        let column = column(table, self.column)?;
        let ty = &table.column(column).ty;
        let value = |entry: &ValueEntry| {
            entry.stored.as_ref().map(|stored| Value::decode(ty, stored)).transpose()
        };
        let mut values = self.values.iter().map(value).collect::<Result<Vec<_>>>()?;
        if self.comparator == 7 {
            return Ok(Comparison { column, comparator: Comparator::In(values) });
        }
        let only = values.pop().filter(|_| values.is_empty());
        let only = only.ok_or_else(|| broken("a comparison without its value"))?;
        let there = || only.clone().ok_or_else(|| broken("an order that takes null"));
        let comparator = match self.comparator {
            1 => Comparator::Equal(only),
            2 => Comparator::NotEqual(only),
            3 => Comparator::Less(there()?),
            4 => Comparator::LessOrEqual(there()?),
            5 => Comparator::Greater(there()?),
            6 => Comparator::GreaterOrEqual(there()?),
            _ => return Err(broken("an unknown comparison")),
        };
        Ok(Comparison { column, comparator })
    }
}

impl ConditionEntry {
    fn of(condition: &RowCondition) -> Self {
        let (kind, comparisons) = match &condition.condition {
            Condition::NotExists => (NOT_EXISTS, Vec::new()),
            Condition::Exists => (EXISTS, Vec::new()),
            Condition::All(all) => (ALL, all.iter().map(ComparisonEntry::of).collect()),
        };
        let row = condition.row.as_ref().map(|row| row.as_ordered().to_vec());
        ConditionEntry { row, kind, comparisons }
    }

    fn condition(&self, table: &TableSchema) -> Result<RowCondition> {
        let comparison = |entry: &ComparisonEntry| entry.comparison(table);
        let condition = match self.kind {
            NOT_EXISTS => Condition::NotExists,
            EXISTS => Condition::Exists,
            ALL => Condition::All(self.comparisons.iter().map(comparison).collect::<Result<_>>()?),
            _ => return Err(broken("an unknown condition")),
        };
        let row = self.row.as_ref().map(ClusteringKey::from_ordered);
        Ok(RowCondition { row, condition })
    }
}

impl DecideRequest {
    pub fn of(write: ConditionalWrite, terms: Terms, catalog: &Catalog, clock: &dyn Clock) -> Self {
        let ConditionalWrite { mutation, conditions } = write;
        let taking = Taking::Plain(terms);
        DecideRequest {
            write: Some(WriteRequest::of(vec![mutation], taking, catalog, clock)),
            conditions: conditions.iter().map(ConditionEntry::of).collect(),
        }
    }

    /// The write as the engine takes it.
    ///
    /// Errors: as those of [`WriteRequest::writes`].
    pub fn write(&self, catalog: &Catalog, clock: &dyn Clock) -> Result<(ConditionalWrite, Terms)> {
        let request = self.write.as_ref().ok_or_else(|| broken("no write"))?;
        let (mut writes, taking) = request.writes(catalog, clock)?;
        let (Some(mutation), true, Taking::Plain(terms)) =
            (writes.pop(), writes.is_empty(), taking)
        else {
            return Err(broken("a conditional write of several partitions"));
        };
        let table = request.tables[0].find(catalog)?;
        let conditions = self.conditions.iter().map(|entry| entry.condition(&table));
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        Ok((ConditionalWrite { mutation, conditions }, terms))
    }
}

impl DecideReply {
    pub fn of(decision: &Decision) -> Self {
        let row = |row: &Option<RowValues>| {
            let Some(row) = row else { return RowEntry::default() };
            let value = |column: ColumnId| {
                let stored = row.stored(column)?.to_vec();
                Some(ColumnValue { column: u32::from(column.0), stored })
            };
            RowEntry {
                is_there: true,
                clustering: row.key().clustering.as_ordered().to_vec(),
                values: row.schema().ids().filter_map(value).collect(),
            }
        };
        let rows = decision.rows.iter().map(row).collect();
        DecideReply { applied_at_us: decision.applied_at_us, rows }
    }

    /// The decision about a partition of a table of this node.
    pub fn decision(self, table: &SchemaRef, key: &PartitionKey) -> Result<Decision> {
        let row = |entry: RowEntry| {
            if !entry.is_there {
                return Ok(None);
            }
            let clustering = ClusteringKey::from_ordered(&entry.clustering);
            let key = RowKey { partition: key.clone(), clustering };
            let values = entry.values.into_iter();
            let values = values.map(|value| Ok((column(table, value.column)?, value.stored)));
            let values = values.collect::<Result<Vec<_>>>()?;
            Ok(Some(RowValues::of_stored(Arc::clone(table), key, &values)))
        };
        let rows = self.rows.into_iter().map(row).collect::<Result<_>>()?;
        Ok(Decision { applied_at_us: self.applied_at_us, rows })
    }
}

#[cfg(test)]
mod tests {
    mod writes;

    use prost::Message;
    use tidegate_engine::clock::SimulatedClock;
    use tidegate_engine::schema::ClusteringOrder;
    use tidegate_engine::{
        Column, ColumnKind, DataType, Database, LevelOptions, Options, TableOptions,
    };

    use super::*;

    /// `pk | a | v, s static`, all of them int.
    fn table() -> SchemaRef {
        let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
        let order = ClusteringOrder::Ascending;
        Arc::new(TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("pk", ColumnKind::PartitionKey { position: 0 }),
                column("a", ColumnKind::ClusteringKey { position: 0, order }),
                column("v", ColumnKind::Regular),
                column("s", ColumnKind::Static),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        })
    }

    #[test]
    fn a_decision_comes_with_the_rows_that_were_there_and_no_others() {
        let table = table();
        let partition = PartitionKey::from_values(&table, &[Value::Int(1)]).unwrap();
        let clustering = ClusteringKey::from_values(&table, &[Value::Int(2)]).unwrap();
        let key = RowKey { partition: partition.clone(), clustering };
        let values = [(2, 7), (3, 8)];
        let values = values.map(|(id, value)| (ColumnId(id), Value::Int(value).to_bytes()));
        let row = |values: &[(ColumnId, Vec<u8>)]| {
            Some(RowValues::of_stored(Arc::clone(&table), key.clone(), values))
        };
        for (applied_at_us, rows) in [
            (Some(5), vec![None, row(&values)]),
            (Some(0), vec![None]),
            (None, vec![row(&values), row(&values[1..]), row(&[]), None]),
            (None, Vec::new()),
        ] {
            let decision = Decision { applied_at_us, rows };
            let sent = DecideReply::of(&decision).encode_to_vec();
            let came = DecideReply::decode(sent.as_slice()).unwrap();
            assert_eq!(came.decision(&table, &partition).unwrap(), decision);
        }
        let decision = Decision { applied_at_us: None, rows: vec![row(&values)] };
        let mut broken = DecideReply::of(&decision);
        broken.rows[0].values[0].column = 4;
        assert!(broken.decision(&table, &partition).is_err());
    }

    #[test]
    fn conditions_are_those_that_were_sent() {
        let table = table();
        let row = ClusteringKey::from_values(&table, &[Value::Int(2)]).unwrap();
        let (null, number) = (None, Value::Int(-7));
        let comparators = [
            Comparator::Equal(Some(number.clone())),
            Comparator::Equal(null.clone()),
            Comparator::NotEqual(Some(number.clone())),
            Comparator::NotEqual(null.clone()),
            Comparator::Less(number.clone()),
            Comparator::LessOrEqual(number.clone()),
            Comparator::Greater(number.clone()),
            Comparator::GreaterOrEqual(number.clone()),
            Comparator::In(vec![Some(number), null]),
            Comparator::In(Vec::new()),
        ];
        let comparison = |comparator| Comparison { column: ColumnId(2), comparator };
        let all = Condition::All(comparators.into_iter().map(comparison).collect());
        for condition in [Condition::NotExists, Condition::Exists, all] {
            for row in [Some(row.clone()), None] {
                let condition = RowCondition { row, condition: condition.clone() };
                let sent = ConditionEntry::of(&condition).encode_to_vec();
                let came = ConditionEntry::decode(sent.as_slice()).unwrap();
                assert_eq!(came.condition(&table).unwrap(), condition);
            }
        }
        // A comparison with no value, with two, or with null where there is an order, is none.
        let entry = |comparator, values| ComparisonEntry { column: 2, comparator, values };
        let one = || stored(Some(&Value::Int(1)));
        for (comparator, values) in [
            (1, vec![]),
            (1, vec![one(), one()]),
            (3, vec![stored(None)]),
            (0, vec![one()]),
            (8, vec![one()]),
        ] {
            assert!(entry(comparator, values).comparison(&table).is_err(), "{comparator}");
        }
    }

    /// Two nodes have no clock in common.
    #[tokio::test]
    async fn the_level_and_what_is_left_of_a_deadline_go_to_another_node() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path())).await.unwrap();
        database.create_service_level("gold", LevelOptions::default(), false).await.unwrap();
        let catalog = database.catalog();
        let level = catalog.service_level("gold").unwrap().id;
        let (here, there) = (SimulatedClock::new(1_000_000), SimulatedClock::new(9_000_000_000));
        let sent = |deadline| {
            let sent = Conditions::of(Terms { level, deadline }, &catalog, &*here);
            let came = Conditions::decode(sent.encode_to_vec().as_slice()).unwrap();
            came.terms(&catalog, &*there)
        };
        let deadline = Deadline::after(Duration::from_millis(250), &*here);
        here.advance(Duration::from_millis(50));
        let came = sent(Some(deadline));
        assert_eq!(came.level, level);
        let deadline = came.deadline.unwrap();
        assert_eq!(deadline.left(&*there), Duration::from_millis(200));
        there.advance(Duration::from_millis(201));
        assert!(deadline.has_passed(&*there));
        assert!(sent(None).deadline.is_none());
        database.close().await.unwrap();
    }

    /// A table of a database, which gives it its number.
    async fn stored_table(database: &Database) -> SchemaRef {
        let schema = TableSchema { keyspace: "default".into(), ..(*table()).clone() };
        database.create_table(schema, false).await.unwrap()
    }

    fn read_of(table: &SchemaRef, partitions: Partitions, slice: Slice) -> ReadCommand {
        let stamp = |column, kind| Stamp { column: ColumnId(column), kind };
        ReadCommand {
            schema: Arc::clone(table),
            partitions,
            slice,
            columns: vec![ColumnId(3), ColumnId(0)],
            stamps: vec![stamp(3, StampKind::TimeToLive), stamp(2, StampKind::WriteTime)],
            row_limit: None,
            partition_limit: None,
            deadline: None,
            level: Terms::default().level,
            past_cache: false,
            filter: None,
        }
    }

    #[tokio::test]
    async fn a_read_is_the_one_that_was_sent_and_a_broken_one_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path())).await.unwrap();
        let table = stored_table(&database).await;
        database.create_service_level("gold", LevelOptions::default(), false).await.unwrap();
        let (catalog, clock) = (database.catalog(), SimulatedClock::new(0));
        let key = |n| PartitionKey::from_values(&table, &[Value::Int(n)]).unwrap();
        let row = |n| ClusteringKey::from_values(&table, &[Value::Int(n)]).unwrap();
        let ranges = vec![
            ClusteringRange { start: Position::after(row(1)), end: Position::before(row(3)) },
            ClusteringRange { start: Position::before(row(5)), end: Position::after(row(7)) },
            ClusteringRange { start: Position::after(row(9)), end: Position::end() },
        ];
        let reversed = Slice { ranges, direction: Direction::Reversed };
        let full = || Slice::full(Direction::Forward);
        let tokens = |min, max| Partitions::Tokens { shard: 0, min: Token(min), max: Token(max) };
        let keys = Partitions::Keys(vec![key(3), key(-1), key(2)]);
        let limited = read_of(&table, tokens(-5, i64::MAX), full());
        let level = catalog.service_level("gold").unwrap().id;
        let deadline = Some(Deadline::after(Duration::from_millis(250), &*clock));
        let sent = [
            read_of(&table, keys, reversed),
            read_of(&table, tokens(i64::MIN, -1), full()),
            ReadCommand { row_limit: Some(7), past_cache: true, ..limited.clone() },
            ReadCommand { level, deadline, ..limited.clone() },
            ReadCommand { level, ..limited.clone() },
            ReadCommand { partition_limit: Some(2), columns: Vec::new(), ..limited },
        ];
        for command in &sent {
            let request = ReadRequest::of(command, &catalog, &*clock).encode_to_vec();
            let request = ReadRequest::decode(request.as_slice()).unwrap();
            let came = request.command(&catalog, &*clock).unwrap();
            assert_eq!(format!("{came:?}"), format!("{command:?}"));
        }
        let whole = || ReadRequest::of(&sent[0], &catalog, &*clock);
        let mut broken = [(); 5].map(|()| whole());
        broken[0].table = None;
        broken[1].columns.push(4);
        broken[2].stamps[0].column = 4;
        broken[3].stamps[0].column = 1;
        broken[4].ranges[2].end_weight = 2;
        for (number, request) in broken.iter().enumerate() {
            let refused = request.command(&catalog, &*clock);
            assert!(matches!(refused, Err(Error::Invalid(_))), "{number}: {refused:?}");
        }
        let mut other = whole();
        other.table.as_mut().unwrap().digest[0] ^= 1;
        let refused = other.command(&catalog, &*clock);
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        database.close().await.unwrap();
    }
}
