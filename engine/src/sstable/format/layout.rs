//! How the rows of one SSTable are laid out: the serialization header matched with the schema.
//!
//! The header names the columns that occur, sorted by name, and the bases from which timestamps,
//! deletion times and TTLs are counted. Column ids of the schema and places in the header are
//! translated here, once a file.

use std::path::Path;

use super::coding::{Fault, Input, Parsed, put_vbytes, put_vint};
use super::type_name::{self, Shape};
use crate::error::{Error, Result};
use crate::mutation::Tombstone;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ClusteringOrder, Column, ColumnId, ColumnKind, DataType, TableSchema};

/// From here the header counts its timestamp base (2015-09-22), microseconds.
pub(super) const TIMESTAMP_EPOCH: i64 = 1_442_880_000_000_000;
/// From here the header counts its deletion-time base, seconds.
pub(super) const DELETION_TIME_EPOCH: i32 = 1_442_880_000;

/// Values from which the file's deltas are counted. The smaller the deltas the shorter the file;
/// any base reads back, but other products want bases that are not above any value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bases {
    /// Least timestamp, microseconds.
    pub min_timestamp: i64,
    /// Least deletion time or expiry, seconds.
    pub min_deletion_time: i32,
    /// Least time to live, seconds.
    pub min_ttl: i32,
}

impl Default for Bases {
    fn default() -> Self {
        Bases { min_timestamp: TIMESTAMP_EPOCH, min_deletion_time: DELETION_TIME_EPOCH, min_ttl: 0 }
    }
}

impl Bases {
    /// Bases that are not above those of either.
    pub fn least(self, other: Bases) -> Bases {
        Bases {
            min_timestamp: self.min_timestamp.min(other.min_timestamp),
            min_deletion_time: self.min_deletion_time.min(other.min_deletion_time),
            min_ttl: self.min_ttl.min(other.min_ttl),
        }
    }
}

/// One column of the header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeaderColumn {
    /// `None` for a column that the schema does not have: its cells are skipped.
    pub(crate) id: Option<ColumnId>,
    pub(crate) shape: Shape,
    /// Type of the cells' paths, of a multi-cell column that the schema has.
    pub(crate) path: Option<DataType>,
}

/// The static or the regular columns, in header order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct HeaderColumns {
    pub(crate) list: Vec<HeaderColumn>,
    /// Place in `list` of each column id of the schema.
    place: Vec<Option<u16>>,
    /// Bring the cells of a row that has one of each of these columns from header order, which is
    /// by name, into row order, which is by id: exchanged in this order. Empty where rows have
    /// something else as well.
    exchanges: Vec<(u16, u16)>,
}

impl HeaderColumns {
    fn new(list: Vec<HeaderColumn>, schema: &TableSchema) -> Self {
        let mut place = vec![None; schema.columns.len()];
        for (i, column) in list.iter().enumerate() {
            if let Some(id) = column.id {
                let before = place[usize::from(id.0)].replace(i as u16);
                assert!(before.is_none(), "column {} stands at {before:?} and {i}", id.0);
            }
        }
        let exchanges = exchanges(&list);
        HeaderColumns { list, place, exchanges }
    }

    /// Sorts cells of all columns by the ids of these, if they come in header order.
    pub(crate) fn sort_all<T>(&self, cells: &mut [T]) {
        if cells.len() == self.list.len() {
            self.exchanges.iter().for_each(|(a, b)| cells.swap(usize::from(*a), usize::from(*b)));
        }
    }

    /// Place of the column in the header, if it is one of these.
    pub(crate) fn place(&self, id: ColumnId) -> Option<u16> {
        self.place.get(usize::from(id.0)).copied().flatten()
    }
}

/// See [`HeaderColumns::exchanges`].
fn exchanges(list: &[HeaderColumn]) -> Vec<(u16, u16)> {
    let of_one_cell = |column: &HeaderColumn| column.id.filter(|_| !column.shape.is_multi_cell);
    let Some(mut ids) = list.iter().map(of_one_cell).collect::<Option<Vec<ColumnId>>>() else {
        return Vec::new();
    };
    let mut exchanges = Vec::new();
    for place in 0..ids.len() {
        let least = (place..ids.len()).min_by_key(|at| ids[*at]).expect("it has this place");
        if least != place {
            ids.swap(place, least);
            exchanges.push((place as u16, least as u16));
        }
    }
    assert!(ids.is_sorted(), "exchanges sort what they were made for: {ids:?}");
    exchanges
}

/// Everything needed to read or write the rows of one SSTable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    pub(crate) bases: Bases,
    pub(crate) clustering: Vec<(DataType, ClusteringOrder)>,
    pub(crate) statics: HeaderColumns,
    pub(crate) regulars: HeaderColumns,
}

/// The header as stored: names of columns and types.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Header {
    pub(crate) bases: Bases,
    pub(crate) partition_key: String,
    pub(crate) clustering: Vec<String>,
    pub(crate) statics: Vec<(Vec<u8>, String)>,
    pub(crate) regulars: Vec<(Vec<u8>, String)>,
}

impl Header {
    /// The header of a new file with all columns of `schema`.
    pub(crate) fn of_schema(schema: &TableSchema, bases: Bases) -> Self {
        let columns = |wanted: ColumnKind| {
            let mut columns: Vec<&Column> =
                schema.columns.iter().filter(|column| column.kind == wanted).collect();
            // Columns of one cell first, then those of many.
            columns.sort_by_key(|column| (column.ty.is_multi_cell(), column.name.as_bytes()));
            let named = columns.into_iter();
            named.map(|c| (c.name.clone().into_bytes(), type_name::marshal_name(c))).collect()
        };
        Header {
            bases,
            partition_key: type_name::of_partition_key(schema),
            clustering: schema.clustering_key().map(type_name::marshal_name).collect(),
            statics: columns(ColumnKind::Static),
            regulars: columns(ColumnKind::Regular),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_vint(out, self.bases.min_timestamp.wrapping_sub(TIMESTAMP_EPOCH) as u64);
        let deletion_time =
            i64::from(self.bases.min_deletion_time) - i64::from(DELETION_TIME_EPOCH);
        put_vint(out, deletion_time as u64);
        put_vint(out, self.bases.min_ttl as u64);
        put_vbytes(out, self.partition_key.as_bytes());
        put_vint(out, self.clustering.len() as u64);
        for name in &self.clustering {
            put_vbytes(out, name.as_bytes());
        }
        for columns in [&self.statics, &self.regulars] {
            put_vint(out, columns.len() as u64);
            for (name, ty) in columns {
                put_vbytes(out, name);
                put_vbytes(out, ty.as_bytes());
            }
        }
    }

    pub(crate) fn decode(input: &mut Input<'_>) -> Parsed<Self> {
        let min_timestamp = (input.vint()? as i64).wrapping_add(TIMESTAMP_EPOCH);
        let min_deletion_time = (input.vint()? as i32).wrapping_add(DELETION_TIME_EPOCH);
        let min_ttl = input.vint()? as i32;
        let partition_key = text(input)?;
        let count = input.vint()?;
        let clustering = input.items(count, 1, text)?;
        let columns = |input: &mut Input<'_>| {
            let count = input.vint()?;
            input.items(count, 2, |input| Ok((input.vbytes()?.to_vec(), text(input)?)))
        };
        let statics = columns(input)?;
        let regulars = columns(input)?;
        Ok(Header {
            bases: Bases { min_timestamp, min_deletion_time, min_ttl },
            partition_key,
            clustering,
            statics,
            regulars,
        })
    }

    /// Matches the header of `file` with the schema.
    ///
    /// Errors: `Invalid` naming the key or column whose type is another than in the schema or
    /// unknown, `Corrupt` for a column that is named twice.
    pub(crate) fn layout(&self, schema: &SchemaRef, file: &Path) -> Result<Layout> {
        let refuse = |what: &str, stored: &str| {
            Error::invalid(format!(
                "{} holds {what} of type {stored}, which is not what table {} has",
                file.display(),
                schema.full_name()
            ))
        };
        if !type_name::fits_partition_key(&self.partition_key, schema) {
            return Err(refuse("a partition key", &self.partition_key));
        }
        let key: Vec<_> = schema.clustering_key().collect();
        let fits = key.len() == self.clustering.len()
            && key.iter().zip(&self.clustering).all(|(c, name)| type_name::fits_column(name, c));
        if !fits {
            return Err(refuse("a clustering key", &self.clustering.join(", ")));
        }
        let columns = |stored: &[(Vec<u8>, String)], kind: ColumnKind| -> Result<HeaderColumns> {
            let mut list = Vec::with_capacity(stored.len());
            for (name, ty) in stored {
                let shape = type_name::shape(ty).ok_or_else(|| {
                    Error::invalid(format!(
                        "{} holds column '{}' of type {ty}, which is unknown",
                        file.display(),
                        String::from_utf8_lossy(name)
                    ))
                })?;
                list.push((shape, name, ty));
            }
            // Some writers list columns out of order over ordered data: multi-cell ones come last.
            list.sort_by_key(|(shape, name, _)| (shape.is_multi_cell, *name));
            let mut names: Vec<_> = list.iter().map(|(_, name, _)| *name).collect();
            names.sort();
            if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                let name = String::from_utf8_lossy(pair[0]);
                return Err(Error::corrupt(file, 0, "each column once", format!("'{name}' twice")));
            }
            let column = |(shape, name, ty): (Shape, &Vec<u8>, &String)| {
                let name = std::str::from_utf8(name).ok();
                // Also of one that was dropped: it may come back while the file is open.
                match name.and_then(|name| schema.find_also_dropped(name)) {
                    None => Ok(HeaderColumn { id: None, shape, path: None }),
                    Some((id, column))
                        if is_of(column, kind) && type_name::fits_column(ty, column) =>
                    {
                        Ok(HeaderColumn { id: Some(id), shape, path: column.ty.path_type() })
                    }
                    Some((_, column)) => {
                        let cells = match (shape.is_multi_cell, shape.is_counter) {
                            (true, _) => "multi-cell ",
                            (_, true) => "counter ",
                            _ => "",
                        };
                        Err(refuse(&format!("{cells}column '{}'", column.name), ty))
                    }
                }
            };
            let list = list.into_iter().map(column).collect::<Result<_>>()?;
            Ok(HeaderColumns::new(list, schema))
        };
        Ok(Layout {
            bases: self.bases,
            clustering: key.iter().map(|c| (c.ty.clone(), c.clustering_order())).collect(),
            statics: columns(&self.statics, ColumnKind::Static)?,
            regulars: columns(&self.regulars, ColumnKind::Regular)?,
        })
    }
}

/// Whether a file may have a column among those of a kind.
fn is_of(column: &Column, kind: ColumnKind) -> bool {
    match column.kind {
        ColumnKind::Dropped { was_static: true } => kind == ColumnKind::Static,
        ColumnKind::Dropped { was_static: false } => kind == ColumnKind::Regular,
        other => other == kind,
    }
}

fn text(input: &mut Input<'_>) -> Parsed<String> {
    let at = input.at();
    let bytes = input.vbytes()?;
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Fault::bad(at, "a type name", "bytes that are no UTF-8"))
}

/// Appends a deletion time in its fixed form; `None` is "live".
pub(crate) fn put_deletion(out: &mut Vec<u8>, deletion: Option<Tombstone>) {
    let (time, timestamp) = match deletion {
        Some(tombstone) => (tombstone.deletion_time, tombstone.timestamp),
        None => (i32::MAX, i64::MIN),
    };
    out.extend_from_slice(&time.to_be_bytes());
    out.extend_from_slice(&timestamp.to_be_bytes());
}

/// Bytes of a deletion time in its fixed form.
pub(crate) const DELETION_BYTES: u64 = 12;

/// Reads the fixed form.
pub(crate) fn deletion(input: &mut Input<'_>) -> Parsed<Option<Tombstone>> {
    let deletion_time = input.i32()?;
    let timestamp = input.i64()?;
    Ok((timestamp != i64::MIN).then_some(Tombstone { timestamp, deletion_time }))
}
