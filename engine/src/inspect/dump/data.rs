//! Rows as Cassandra 5's `sstabledump -t` prints them, to the blank.
//!
//! As that tool does, the position of a partition and of its static row is where its first row
//! starts; positions of rows are their offsets in the uncompressed data. Two things differ: a
//! counter's value is its total (the tool prints the first bytes of the shards), and the text of
//! floats with many digits may be shorter.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::rc::Rc;

use crate::error::{Error, Result};
use crate::inspect::files::Inspector;
use crate::inspect::json::quote;
use crate::inspect::order::Prefix;
use crate::inspect::rows::{
    RowReader, Step, StoredCell, StoredColumn, StoredFront, StoredLayout, StoredLiveness,
    StoredMarker, StoredRow,
};
use crate::inspect::types::StoredType;
use crate::inspect::value::{self, Rendered};
use crate::mutation::Tombstone;
use crate::schema::Scalar;
use crate::sstable::format::component::Component;
use crate::sstable::format::prefix::Bound;

/// The data of one SSTable as JSON, piece by piece: memory does not grow with the file.
pub struct DataDump {
    rows: RowReader,
    layout: Rc<StoredLayout>,
    path: PathBuf,
    now_seconds: i64,
    state: State,
    rows_count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// Between partitions; whether one came before.
    Between {
        is_first: bool,
    },
    /// In the rows of a partition; whether one came before.
    Rows {
        is_first: bool,
    },
    Done,
}

impl DataDump {
    /// A dump as of `now_seconds`, which decides what is expired.
    ///
    /// Errors: `Io`, `Corrupt`; `Invalid` for columns of unknown types.
    pub async fn new(sstable: &Inspector, now_seconds: i64) -> Result<Self> {
        let metadata = sstable.metadata().await?;
        let layout = sstable.layout(&metadata).await?;
        Ok(DataDump {
            rows: sstable.rows(layout.clone()).await?,
            layout,
            path: sstable.path(Component::Data),
            now_seconds,
            state: State::Start,
            rows_count: 0,
        })
    }

    /// Bytes of the uncompressed data that were printed, and of all of it.
    pub fn progress(&self) -> (u64, u64) {
        (self.rows.at(), self.rows.content().size())
    }

    /// Rows printed so far.
    pub fn rows(&self) -> u64 {
        self.rows_count
    }

    /// Appends the next piece to `out`; false at the end.
    ///
    /// Errors: `Io`, `Corrupt`; what was printed before is right.
    pub async fn next(&mut self, out: &mut String) -> Result<bool> {
        match self.state {
            State::Start => {
                out.push('[');
                self.state = State::Between { is_first: true };
            }
            State::Done => return Ok(false),
            State::Between { is_first } => match self.rows.next().await? {
                Step::Partition(front) => {
                    out.push_str(if is_first { "\n" } else { ",\n" });
                    let at = front.at;
                    self.print(at, |dump| dump.front(&front, out))?;
                }
                _ => {
                    out.push_str("\n]");
                    self.state = State::Done;
                }
            },
            State::Rows { is_first } => {
                let step = self.rows.next().await?;
                let separator = if is_first { "\n" } else { ",\n" };
                match step {
                    Step::Row(row) => {
                        out.push_str(separator);
                        self.rows_count += 1;
                        self.print(row.at, |dump| dump.row(&row, out))?;
                        self.state = State::Rows { is_first: false };
                    }
                    Step::Marker(marker) => {
                        out.push_str(separator);
                        self.print(marker.at, |dump| dump.marker(&marker, out))?;
                        self.state = State::Rows { is_first: false };
                    }
                    _ => {
                        out.push_str(if is_first { " ]\n  }" } else { "\n    ]\n  }" });
                        self.state = State::Between { is_first: false };
                    }
                }
            }
        }
        Ok(true)
    }

    /// A value that is none of its type is corruption of what starts at `at`.
    fn print(&mut self, at: u64, print: impl FnOnce(&mut Self) -> Rendered) -> Result<()> {
        print(self).map_err(|found| {
            let wanted = "values of the types that the header names";
            let found = format!("{found} (at byte {at} of the uncompressed data)");
            Error::corrupt(&self.path, at, wanted, found)
        })
    }

    fn front(&mut self, front: &StoredFront, out: &mut String) -> Rendered {
        out.push_str(
            "  {\n    \"table kind\" : \"REGULAR\",\n    \"partition\" : {\n      \"key\" : [ ",
        );
        for (i, text) in key_texts(&self.layout.partition_key, &front.key)?.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            quote(text, out);
        }
        let _ = write!(out, " ],\n      \"position\" : {}", front.body);
        if let Some(deletion) = front.deletion {
            out.push_str(",\n      ");
            deletion_info(deletion, out);
        }
        out.push_str("\n    },\n    \"rows\" : [");
        let mut is_first = true;
        if let Some(row) = front.static_row.as_ref().filter(|row| !row.columns.is_empty()) {
            let position = front.body;
            let _ = write!(
                out,
                "\n      {{\n        \"type\" : \"static_block\",\n        \"position\" : {position},\n"
            );
            let layout = self.layout.clone();
            self.cells(row, &layout.statics, out)?;
            out.push_str("\n      }");
            is_first = false;
        }
        self.state = State::Rows { is_first };
        Ok(())
    }

    fn row(&mut self, row: &StoredRow, out: &mut String) -> Rendered {
        let _ = write!(
            out,
            "      {{\n        \"type\" : \"row\",\n        \"position\" : {},\n",
            row.at
        );
        if !row.prefix.values.is_empty() {
            out.push_str("        ");
            self.clustering(&row.prefix, out)?;
            out.push_str(",\n");
        }
        if let Some(live) = row.liveness {
            let _ =
                write!(out, "        \"liveness_info\" : {{ \"tstamp\" : \"{}\"", live.timestamp);
            if live.ttl != 0 {
                self.expiry(live.ttl, live.expiry, out);
            }
            out.push_str(" },\n");
        }
        let deletions =
            [("deletion_info", row.deletion), ("shadowable_deletion_info", row.shadowable)];
        for (name, deletion) in deletions {
            let Some(deletion) = deletion else { continue };
            out.push_str("        ");
            named_deletion(name, deletion, out);
            out.push_str(",\n");
        }
        let layout = self.layout.clone();
        self.cells(row, &layout.regulars, out)?;
        out.push_str("\n      }");
        Ok(())
    }

    fn expiry(&self, ttl: i32, expiry: i32, out: &mut String) {
        let is_expired = self.now_seconds > i64::from(expiry);
        let _ = write!(
            out,
            ", \"ttl\" : {ttl}, \"expires_at\" : \"{expiry}\", \"expired\" : {is_expired}"
        );
    }

    fn clustering(&self, prefix: &Prefix, out: &mut String) -> Rendered {
        out.push_str("\"clustering\" : [ ");
        for (i, key) in self.layout.clustering.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            match prefix.values.get(i) {
                Some(Some(value)) => value::json(&key.ty, value, out)?,
                Some(None) => out.push_str("null"),
                None => out.push_str("\"*\""),
            }
        }
        out.push_str(" ]");
        Ok(())
    }

    fn cells(&self, row: &StoredRow, columns: &[StoredColumn], out: &mut String) -> Rendered {
        out.push_str("        \"cells\" : [");
        let mut is_empty = true;
        let mut separate = |out: &mut String| {
            out.push_str(if is_empty { "\n          " } else { ",\n          " });
            is_empty = false;
        };
        for stored in &row.columns {
            let column = &columns[stored.column];
            if let Some(deletion) = stored.deletion {
                separate(out);
                out.push_str("{ \"name\" : ");
                quote(&column.name, out);
                out.push_str(", ");
                deletion_info(deletion, out);
                out.push_str(" }");
            }
            for cell in &stored.cells {
                separate(out);
                self.cell(column, cell, row.liveness, out)?;
            }
        }
        out.push_str(if is_empty { " ]" } else { "\n        ]" });
        Ok(())
    }

    fn cell(
        &self,
        column: &StoredColumn,
        cell: &StoredCell,
        live: Option<StoredLiveness>,
        out: &mut String,
    ) -> Rendered {
        out.push_str("{ \"name\" : ");
        quote(&column.name, out);
        if let Some(path) = &cell.path {
            out.push_str(", \"path\" : [ ");
            quote(&path_text(&column.ty, path)?, out);
            out.push_str(" ]");
        }
        let has_own_timestamp = live.is_none_or(|live| live.timestamp != cell.timestamp);
        if cell.is_deleted {
            let _ = write!(
                out,
                ", \"deletion_info\" : {{ \"local_delete_time\" : \"{}\" }}",
                cell.deletion_time
            );
            if has_own_timestamp {
                let _ = write!(out, ",\n            \"tstamp\" : \"{}\"", cell.timestamp);
            }
            // Where the tool breaks the line.
            out.push_str("\n          }");
            return Ok(());
        }
        out.push_str(", \"value\" : ");
        value::json(&value_type(&column.ty, cell)?, &cell.value, out)?;
        if has_own_timestamp {
            let _ = write!(out, ", \"tstamp\" : \"{}\"", cell.timestamp);
        }
        if cell.ttl != 0 && live.is_none_or(|live| live.ttl != cell.ttl) {
            self.expiry(cell.ttl, cell.deletion_time, out);
        }
        out.push_str(" }");
        Ok(())
    }

    fn marker(&self, marker: &StoredMarker, out: &mut String) -> Rendered {
        let is_boundary = marker.closing.is_some() && marker.opening.is_some();
        let kind = if is_boundary { "boundary" } else { "bound" };
        let _ = write!(out, "      {{\n        \"type\" : \"range_tombstone_{kind}\"");
        let is_before = Bound::from_kind(marker.prefix.kind)
            .is_some_and(|bound| bound.weight() == crate::mutation::Weight::Before);
        let ends = [("start", marker.opening, is_before), ("end", marker.closing, !is_before)];
        for (name, tombstone, is_inclusive) in ends {
            let Some(tombstone) = tombstone else { continue };
            let kind = if is_inclusive { "inclusive" } else { "exclusive" };
            let _ = write!(
                out,
                ",\n        \"{name}\" : {{\n          \"type\" : \"{kind}\",\n          "
            );
            if !marker.prefix.values.is_empty() {
                self.clustering(&marker.prefix, out)?;
                out.push_str(",\n          ");
            }
            deletion_info(tombstone, out);
            out.push_str("\n        }");
        }
        out.push_str("\n      }");
        Ok(())
    }
}

fn deletion_info(tombstone: Tombstone, out: &mut String) {
    named_deletion("deletion_info", tombstone, out);
}

fn named_deletion(name: &str, tombstone: Tombstone, out: &mut String) {
    let _ = write!(
        out,
        "\"{name}\" : {{ \"marked_deleted\" : \"{}\", \"local_delete_time\" : \"{}\" }}",
        tombstone.timestamp, tombstone.deletion_time
    );
}

/// The values of a partition key's columns as text.
pub(crate) fn key_texts(types: &[StoredType], key: &[u8]) -> Rendered<Vec<String>> {
    let values = key_values(types, key)?;
    types.iter().zip(values).map(|(ty, value)| value::text(ty, value)).collect()
}

/// The stored values of a partition key's columns.
pub(crate) fn key_values<'a>(types: &[StoredType], key: &'a [u8]) -> Rendered<Vec<&'a [u8]>> {
    if types.len() == 1 {
        return Ok(vec![key]);
    }
    let mut rest = key;
    let mut values = Vec::with_capacity(types.len());
    while let Some((length, tail)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let (value, tail) = tail.split_at_checked(length).ok_or("a key that ends too early")?;
        values.push(value);
        rest = tail.get(1..).ok_or("a key that ends too early")?;
    }
    if values.len() == types.len() && rest.is_empty() {
        return Ok(values);
    }
    Err(format!("a key of {} values for {} columns", values.len(), types.len()))
}

/// The path of a cell of a multi-cell column as text.
fn path_text(ty: &StoredType, path: &[u8]) -> Rendered<String> {
    if let StoredType::User(user) = ty {
        let index: [u8; 2] = path.try_into().map_err(|_| "a path that is no field's place")?;
        let field = user.fields.get(usize::from(u16::from_be_bytes(index)));
        return field.map(|(name, _)| name.clone()).ok_or_else(|| "no such field".to_owned());
    }
    value::text(&ty.path_type(), path)
}

/// The type of a cell's value.
pub(crate) fn value_type(ty: &StoredType, cell: &StoredCell) -> Rendered<StoredType> {
    Ok(match (ty, &cell.path) {
        (StoredType::List(element), Some(_)) => (**element).clone(),
        (StoredType::Set(_), Some(_)) => StoredType::Scalar(Scalar::Empty),
        (StoredType::Map(_, value), Some(_)) => (**value).clone(),
        (StoredType::User(user), Some(path)) => {
            let index: [u8; 2] =
                path.as_slice().try_into().map_err(|_| "a path that is no field's place")?;
            let field = user.fields.get(usize::from(u16::from_be_bytes(index)));
            field.map(|(_, ty)| ty.clone()).ok_or("no such field")?
        }
        _ => ty.clone(),
    })
}
