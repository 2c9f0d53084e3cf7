//! Arrow rows to mutations: the way in of COPY, INSERT … SELECT and Flight ingestion.
//!
//! Not here: how an Arrow value becomes one of a column's type (`value.rs`).

use arrow::array::{Array, RecordBatch};

use super::value::{no_value_of_a_counter, value_at};
use crate::config::{CELL_BYTES_MAX, LOCAL_DELETION_TIME_MAX, TTL_SECONDS_MAX};
use crate::error::{Error, Result};
use crate::mutation::{Cell, CellPath, Liveness, MultiCell, Mutation, Row, Tombstone};
use crate::schema::{
    ClusteringKey, Column, ColumnId, ColumnKind, DataType, PartitionKey, TableSchema, Value,
    counter,
};

/// How rows are written.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions {
    /// Write timestamp of every cell, µs.
    pub timestamp: i64,
    /// Seconds to live; the table's default where absent; 0 = for ever.
    pub ttl: Option<i32>,
    /// Wall clock, seconds: base of expiry and deletion times.
    pub now_seconds: i32,
}

/// Why one row was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// Row within the batch.
    pub row: usize,
    pub column: Option<String>,
    pub message: String,
}

/// How long what is written lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// What was asked for, seconds.
    pub ttl: i32,
    /// When it is gone, seconds since the epoch.
    pub at: i32,
}

/// The expiry that `options` and the table give, if any.
///
/// Errors: `Invalid` for a time to live outside 0..=20 years, and for one that ends after
/// 2038-01-19, which the files cannot say.
pub fn expiry(schema: &TableSchema, options: &WriteOptions) -> Result<Option<Expiry>> {
    let ttl = options.ttl.unwrap_or(schema.options.default_time_to_live);
    if !(0..=TTL_SECONDS_MAX).contains(&ttl) {
        return Err(Error::invalid(format!(
            "a time to live is between 0 and {TTL_SECONDS_MAX} seconds, not {ttl}"
        )));
    }
    if ttl == 0 {
        return Ok(None);
    }
    let at = options.now_seconds.checked_add(ttl);
    match at.filter(|at| *at <= LOCAL_DELETION_TIME_MAX) {
        Some(at) => Ok(Some(Expiry { ttl, at })),
        None => Err(Error::invalid(format!(
            "a time to live of {ttl} seconds ends after 2038-01-19, which the files cannot say: at \
             most {} seconds are possible now",
            LOCAL_DELETION_TIME_MAX.saturating_sub(options.now_seconds)
        ))),
    }
}

/// Turns each row of `batch` into an INSERT. Columns are matched by name; columns that the batch
/// lacks stay unset; a null writes a tombstone, except that a null key refuses the row. A batch of
/// partition keys and static columns alone writes static rows.
///
/// Errors: `Invalid` when the batch lacks a key column or has a column that the table lacks. A row
/// that does not fit is an `Err` in its place.
pub fn mutations(
    schema: &TableSchema,
    batch: &RecordBatch,
    options: &WriteOptions,
) -> Result<Vec<Result<Mutation, RowError>>> {
    let mut sources: Vec<(ColumnId, &dyn Array)> = Vec::new();
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let (id, _) = schema.find(field.name()).ok_or_else(|| Error::NotFound {
            kind: "column",
            name: format!("{}.{}", schema.name, field.name()),
        })?;
        sources.push((id, array.as_ref()));
    }
    let is_static_alone = writes_static_alone(schema, &sources);
    let is_wanted = |column: &&Column| match column.kind {
        ColumnKind::PartitionKey { .. } => true,
        ColumnKind::ClusteringKey { .. } => !is_static_alone,
        ColumnKind::Static | ColumnKind::Regular | ColumnKind::Dropped { .. } => false,
    };
    for column in schema.columns.iter().filter(is_wanted) {
        if !batch.schema_ref().fields().iter().any(|field| *field.name() == column.name) {
            return Err(Error::invalid(format!(
                "key column '{}' of {} is missing",
                column.name,
                schema.full_name()
            )));
        }
    }
    let expiry = expiry(schema, options)?;
    let partition_ids = schema.partition_key_ids();
    let clustering_ids = match is_static_alone {
        true => None,
        false => Some(schema.clustering_key_ids()),
    };
    let insert = Insert { schema, sources: &sources, options, expiry };
    Ok((0..batch.num_rows())
        .map(|row| insert.mutation(row, &partition_ids, clustering_ids.as_deref()))
        .collect())
}

/// Whether a batch has static columns and none of the rows.
fn writes_static_alone(schema: &TableSchema, sources: &[(ColumnId, &dyn Array)]) -> bool {
    let kinds = || sources.iter().map(|(id, _)| schema.column(*id).kind);
    kinds().any(|kind| kind == ColumnKind::Static)
        && kinds().all(|kind| matches!(kind, ColumnKind::Static | ColumnKind::PartitionKey { .. }))
}

struct Insert<'a> {
    schema: &'a TableSchema,
    sources: &'a [(ColumnId, &'a dyn Array)],
    options: &'a WriteOptions,
    expiry: Option<Expiry>,
}

impl Insert<'_> {
    fn mutation(
        &self,
        row: usize,
        partition_ids: &[ColumnId],
        clustering_ids: Option<&[ColumnId]>,
    ) -> Result<Mutation, RowError> {
        let refuse = |error: Error| RowError { row, column: None, message: error.to_string() };
        let key = PartitionKey::from_values(self.schema, &self.key_values(row, partition_ids)?)
            .map_err(refuse)?;
        let clustering = match clustering_ids {
            Some(ids) => {
                let values = self.key_values(row, ids)?;
                Some(ClusteringKey::from_values(self.schema, &values).map_err(refuse)?)
            }
            None => None,
        };
        let mut mutation = Mutation::new(self.schema.id, key);
        let timestamp = self.options.timestamp;
        let liveness = match self.expiry {
            Some(Expiry { ttl, at }) => Liveness::expiring(timestamp, ttl, at),
            None => Liveness::at(timestamp),
        };
        let mut regular = Row {
            liveness: Some(liveness),
            cells: Vec::with_capacity(self.sources.len()),
            ..Row::default()
        };
        let mut statics = Row::default();
        for (id, array) in self.sources {
            let column = self.schema.column(*id);
            let target = match column.kind {
                ColumnKind::Regular => &mut regular,
                ColumnKind::Static => &mut statics,
                ColumnKind::PartitionKey { .. }
                | ColumnKind::ClusteringKey { .. }
                | ColumnKind::Dropped { .. } => continue,
            };
            let refuse = |error: Error| RowError {
                row,
                column: Some(column.name.clone()),
                message: error.to_string(),
            };
            let value = value_at(*array, row, &column.ty).map_err(refuse)?;
            put_value(target, *id, column, value.as_ref(), self.options, self.expiry)
                .map_err(refuse)?;
        }
        mutation.rows.extend(clustering.map(|clustering| (clustering, regular)));
        if !statics.is_empty() {
            mutation.static_row = Some(statics);
        }
        Ok(mutation)
    }

    fn key_values(&self, row: usize, ids: &[ColumnId]) -> Result<Vec<Value>, RowError> {
        ids.iter()
            .map(|id| {
                let column = self.schema.column(*id);
                let refuse =
                    |message: String| RowError { row, column: Some(column.name.clone()), message };
                let (_, array) = self
                    .sources
                    .iter()
                    .find(|(source, _)| source == id)
                    .expect("all key columns were found before");
                value_at(*array, row, &column.ty)
                    .map_err(|error| refuse(error.to_string()))?
                    .ok_or_else(|| refuse("a key column must not be null".into()))
            })
            .collect()
    }
}

/// Puts into `row` what an INSERT or UPDATE of a column writes; `None` is null. The old elements of
/// a multi-cell column are deleted just before the new ones are written.
///
/// Errors: `Invalid` for a value that is too long or does not fit the column, and for a counter.
pub fn put_value(
    row: &mut Row,
    id: ColumnId,
    column: &Column,
    value: Option<&Value>,
    options: &WriteOptions,
    expiry: Option<Expiry>,
) -> Result<()> {
    if column.ty == DataType::Counter {
        return Err(no_value_of_a_counter());
    }
    if let Some(value) = value
        && !value.fits(&column.ty)
    {
        let (wanted, found) = (column.ty.sql_name(), value.type_name());
        return Err(Error::invalid(format!("wanted {wanted}, found {found}")));
    }
    let timestamp = options.timestamp;
    let Some(path_type) = column.ty.path_type() else {
        let cell = match value {
            Some(value) => written(value.to_bytes(), options, expiry)?,
            None => Cell::deleted(timestamp, options.now_seconds),
        };
        row.put(id, cell);
        return Ok(());
    };
    let deletion =
        Tombstone { timestamp: timestamp.saturating_sub(1), deletion_time: options.now_seconds };
    let mut multi = MultiCell::deleted(deletion);
    for (path, value) in value.map(elements).transpose()?.unwrap_or_default() {
        let path = match path {
            Path::Place(place) => list_path(timestamp, place, WHOLE_LIST)?.to_vec(),
            Path::Value(bytes) => bytes,
        };
        multi.put(CellPath::from_stored(&path_type, &path)?, written(value, options, expiry)?);
    }
    row.put_multi(id, multi);
    Ok(())
}

/// A change of elements of a multi-cell column that leaves the others as they are.
#[derive(Debug, Clone, PartialEq)]
pub enum ElementChange {
    /// Elements of a set, entries of a map, the fields of a user type that are not null; a list
    /// gets them at its end.
    Add(Value),
    /// Elements of a list that come before those that are there.
    Prepend(Value),
    /// Elements of a set, keys of a map, or numbers of fields (`SmallInt`).
    Remove(Vec<Value>),
    /// A step of a counter, which `Database::count` takes.
    Count(i64),
}

/// Puts into `row` what a write of single elements of a column writes. `place_us` is the moment
/// that says where elements of a list come, µs: after all that were added before it.
///
/// Errors: `Invalid` for a column that has no cells of its own for its elements, and for values
/// that do not fit it.
pub fn change_elements(
    row: &mut Row,
    id: ColumnId,
    column: &Column,
    change: &ElementChange,
    options: &WriteOptions,
    expiry: Option<Expiry>,
    place_us: i64,
) -> Result<()> {
    let ty = &column.ty;
    if let (ElementChange::Count(by), DataType::Counter) = (change, ty) {
        row.put(id, Cell::counter(options.timestamp, counter::step(*by)));
        return Ok(());
    }
    let Some(path_type) = ty.path_type() else {
        let message = format!("{} has no elements that are written one by one", ty.sql_name());
        return Err(Error::invalid(message));
    };
    let misfit = |value: &Value, ty: &DataType| {
        Error::invalid(format!("wanted {}, found {}", ty.sql_name(), value.type_name()))
    };
    let mut multi = MultiCell::default();
    let (value, moment, place_kind) = match change {
        ElementChange::Add(value) => (value, place_us, ADDED),
        ElementChange::Prepend(value) if matches!(ty, DataType::List(_)) => {
            // As Cassandra has it: the later an element is put in front, the earlier its time.
            (value, PREPEND_MIRROR_US.wrapping_sub(place_us), ADDED)
        }
        ElementChange::Prepend(_) => {
            return Err(Error::invalid(format!("{} has no front", ty.sql_name())));
        }
        ElementChange::Count(_) => {
            return Err(Error::invalid(format!("{} does not count", ty.sql_name())));
        }
        ElementChange::Remove(paths) => {
            if matches!(ty, DataType::List(_)) {
                return Err(Error::invalid("which elements a list has is not known to a write"));
            }
            for path in paths {
                if !path.fits(&path_type) {
                    return Err(misfit(path, &path_type));
                }
                let path = CellPath::from_stored(&path_type, &path.to_bytes())?;
                multi.put(path, Cell::deleted(options.timestamp, options.now_seconds));
            }
            row.put_multi(id, multi);
            return Ok(());
        }
    };
    if !value.fits(ty) {
        return Err(misfit(value, ty));
    }
    for (path, value) in elements(value)? {
        let path = match path {
            Path::Place(place) => list_path(moment, place, place_kind)?.to_vec(),
            Path::Value(bytes) => bytes,
        };
        multi.put(CellPath::from_stored(&path_type, &path)?, written(value, options, expiry)?);
    }
    row.put_multi(id, multi);
    Ok(())
}

/// A cell with a value, which lives as long as `expiry` says.
///
/// Errors: `Invalid` for a value that is too long.
fn written(bytes: Vec<u8>, options: &WriteOptions, expiry: Option<Expiry>) -> Result<Cell> {
    if bytes.len() > CELL_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the value takes {} bytes, at most {CELL_BYTES_MAX} are possible",
            bytes.len()
        )));
    }
    Ok(match expiry {
        Some(Expiry { ttl, at }) => Cell::expiring(options.timestamp, bytes, ttl, at),
        None => Cell::live(options.timestamp, bytes),
    })
}

/// Which element a cell is, before it is known where.
enum Path {
    /// Place in a list.
    Place(u64),
    /// Stored element of a set, key of a map or number of a field.
    Value(Vec<u8>),
}

/// The cells of a value of a multi-cell column.
fn elements(value: &Value) -> Result<Vec<(Path, Vec<u8>)>> {
    Ok(match value {
        Value::List(values) => {
            (0..).zip(values).map(|(place, v)| (Path::Place(place), v.to_bytes())).collect()
        }
        Value::Set(values) => {
            values.iter().map(|value| (Path::Value(value.to_bytes()), Vec::new())).collect()
        }
        Value::Map(entries) => entries
            .iter()
            .map(|(key, value)| (Path::Value(key.to_bytes()), value.to_bytes()))
            .collect(),
        Value::Tuple(fields) => (0i16..)
            .zip(fields)
            .filter_map(|(number, field)| {
                Some((Path::Value(number.to_be_bytes().to_vec()), field.as_ref()?.to_bytes()))
            })
            .collect(),
        other => return Err(Error::invalid(format!("a {} has no elements", other.type_name()))),
    })
}

/// From 1582-10-15, where version 1 UUIDs begin, to 1970, in their unit of 100 ns.
const UUID_EPOCH: i64 = 0x01b2_1dd2_1381_4000;
/// The moment around which times of elements put in front are mirrored, twice: 2010-01-01.
const PREPEND_MIRROR_US: i64 = 2 * 1_262_304_000_000_000;
/// First bytes of a node that is no network card's: the lowest bit of the first is set. A whole
/// list and elements that are added have different ones, so that they never meet in one path.
const WHOLE_LIST: [u8; 4] = *b"\x01tid";
const ADDED: [u8; 4] = *b"\x03tid";
/// Bits of the place of an element in its list.
const PLACE_BITS: u32 = 27;

/// The path of element `place` of a list written at `moment` (µs): a version 1 UUID that follows
/// from both, so that the same write gives the same cells whenever it is made. The place stands in
/// the bits behind the time that order as they read: the bytes there are compared with a sign.
///
/// Errors: `Invalid` for a list that is too long.
fn list_path(moment: i64, place: u64, node: [u8; 4]) -> Result<[u8; 16]> {
    if place >> PLACE_BITS != 0 {
        return Err(Error::invalid("the list has too many elements"));
    }
    let time = (moment.wrapping_mul(10).wrapping_add(UUID_EPOCH) as u64).to_be_bytes();
    let mut uuid = [0; 16];
    uuid[..4].copy_from_slice(&time[4..]);
    uuid[4..6].copy_from_slice(&time[2..4]);
    uuid[6..8].copy_from_slice(&time[..2]);
    uuid[6] = uuid[6] & 0x0f | 0x10;
    uuid[8] = 0x80 | (place >> 21) as u8 & 0x3f;
    uuid[9] = (place >> 14) as u8 & 0x7f;
    uuid[10..14].copy_from_slice(&node);
    uuid[14] = (place >> 7) as u8 & 0x7f;
    uuid[15] = place as u8 & 0x7f;
    Ok(uuid)
}
