//! One row as it was when it was read, in a form that crosses threads: one piece of memory.
//!
//! ```text
//! row := count x (u32 column, u32 end of its value), values
//! ```
//! Values stand as they are stored; a column of several cells is put together in the form of a
//! frozen one. Columns without a value are left out.

use std::borrow::Cow;

use super::{LiveContent, LiveRows};
use crate::error::{Error, Result};
use crate::mutation::{CellPath, MultiCell, Row};
use crate::schema::order::{decode_component, is_null};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{
    ClusteringKey, Column, ColumnId, ColumnKind, DataType, PartitionKey, TableSchema, Value, frozen,
};

/// Bytes of an entry in front of the values.
const ENTRY_BYTES: usize = 8;

/// Which row of a table: the keys of its partition and of the row in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowKey {
    pub partition: PartitionKey,
    /// Empty in a table without clustering columns.
    pub clustering: ClusteringKey,
}

impl RowKey {
    /// From the values of all key columns: those of the partition key, then the clustering key's.
    ///
    /// Errors: `Invalid` for a wrong number or type of values, or one that is too long.
    pub fn from_values(schema: &TableSchema, values: &[Value]) -> Result<Self> {
        let (partition, clustering) =
            (schema.partition_key().count(), schema.clustering_key().count());
        if values.len() != partition + clustering {
            return Err(Error::invalid(format!(
                "the key of {} has {} columns, {} values given",
                schema.full_name(),
                partition + clustering,
                values.len()
            )));
        }
        let (partition, clustering) = values.split_at(partition);
        Ok(RowKey {
            partition: PartitionKey::from_values(schema, partition)?,
            clustering: ClusteringKey::from_values(schema, clustering)?,
        })
    }
}

impl From<(PartitionKey, ClusteringKey)> for RowKey {
    fn from((partition, clustering): (PartitionKey, ClusteringKey)) -> Self {
        RowKey { partition, clustering }
    }
}

/// See the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct RowValues {
    schema: SchemaRef,
    key: RowKey,
    count: usize,
    content: Box<[u8]>,
}

impl RowValues {
    /// The first of `live`, with the values that a reader at `now_seconds` sees.
    ///
    /// Errors: `Invalid` where stored bytes are no value of their column.
    pub fn of(
        schema: SchemaRef,
        key: RowKey,
        live: LiveRows<'_>,
        now_seconds: i32,
    ) -> Result<RowValues> {
        let (count, content) = match live.content {
            // What most rows are: their values are copied from where they lie.
            LiveContent::Flat([flat, ..]) if live.static_row.is_none() => {
                let values = || {
                    let values = flat.values(now_seconds);
                    values.filter_map(|(column, value)| Some((column, value?)))
                };
                pack(values)
            }
            content => {
                let mut parts = Vec::new();
                let thawed;
                let row = match content {
                    LiveContent::Row { row, .. } => Some(row),
                    LiveContent::Flat(flat) => {
                        thawed = flat.first().map(|flat| flat.thaw());
                        thawed.as_ref()
                    }
                    LiveContent::StaticOnly => None,
                };
                for row in row.into_iter().chain(live.static_row) {
                    take(&schema, row, now_seconds, &mut parts)?;
                }
                parts.sort_by_key(|(column, _)| *column);
                pack(|| parts.iter().map(|(column, value)| (*column, &**value)))
            }
        };
        assert!(count * ENTRY_BYTES <= content.len(), "{count} entries in {} bytes", content.len());
        Ok(RowValues { schema, key, count, content })
    }

    /// A row of these values, as another node has read it.
    pub fn of_stored(schema: SchemaRef, key: RowKey, values: &[(ColumnId, Vec<u8>)]) -> Self {
        let (count, content) =
            pack(|| values.iter().map(|(column, value)| (*column, value.as_slice())));
        RowValues { schema, key, count, content }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub fn key(&self) -> &RowKey {
        &self.key
    }

    /// The value of a regular or static column as it is stored, big-endian; `None` for null.
    pub fn stored(&self, column: ColumnId) -> Option<&[u8]> {
        let mut start = self.count * ENTRY_BYTES;
        for entry in self.content[..start].chunks_exact(ENTRY_BYTES) {
            let number = |at: usize| {
                u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
            };
            let end = number(4) as usize;
            debug_assert!(
                start <= end && end <= self.content.len(),
                "an entry ends before it begins"
            );
            if number(0) == u32::from(column.0) {
                return Some(&self.content[start..end]);
            }
            start = end;
        }
        None
    }

    /// The value of a column by its name; `None` for null.
    ///
    /// Errors: `NotFound`; `Invalid` where stored bytes are no value of the column's type.
    pub fn value(&self, column: &str) -> Result<Option<Value>> {
        let Some((id, column)) = self.schema.find(column) else {
            let name = format!("{}.{column}", self.schema.name);
            return Err(Error::NotFound { kind: "column", name });
        };
        self.value_of(id, column)
    }

    /// Names and values of all columns, in the order of the table.
    ///
    /// Errors: `Invalid` where stored bytes are no value of their column's type.
    pub fn values(&self) -> Result<Vec<(&str, Option<Value>)>> {
        let ids = self.schema.ids();
        let named = ids.map(|id| {
            let column = self.schema.column(id);
            Ok((column.name.as_str(), self.value_of(id, column)?))
        });
        named.collect()
    }

    fn value_of(&self, id: ColumnId, column: &Column) -> Result<Option<Value>> {
        let stored = self.stored_of(id)?;
        stored.map(|stored| Value::decode(&column.ty, &stored)).transpose()
    }

    /// The value of any column of the table, key columns included, as it is stored; `None` for
    /// null.
    ///
    /// Errors: `Invalid` where the key is none of the table.
    pub fn stored_of(&self, id: ColumnId) -> Result<Option<Cow<'_, [u8]>>> {
        let column = self.schema.column(id);
        match column.kind {
            ColumnKind::Regular | ColumnKind::Static => {
                let stored = self.stored(id).filter(|stored| has_value(&column.ty, stored));
                Ok(stored.map(Cow::Borrowed))
            }
            ColumnKind::PartitionKey { position } => {
                let components = self.key.partition.components(&self.schema)?;
                Ok(components.get(usize::from(position)).map(|stored| Cow::Borrowed(*stored)))
            }
            ColumnKind::ClusteringKey { position, .. } => {
                Ok(self.clustering(position)?.map(Cow::Owned))
            }
            ColumnKind::Dropped { .. } => Ok(None),
        }
    }

    fn clustering(&self, wanted: u16) -> Result<Option<Vec<u8>>> {
        let mut rest = self.key.clustering.as_ordered();
        let mut stored = Vec::new();
        for (position, column) in (0..).zip(self.schema.clustering_key()) {
            if rest.is_empty() {
                break;
            }
            let order = column.clustering_order();
            stored.clear();
            let is_null = is_null(order, rest);
            let taken = decode_component(&column.ty, order, rest, &mut stored)?;
            rest = &rest[taken..];
            if position == wanted && !is_null {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }
}

/// Nothing is a value of text and blobs only.
pub(super) fn has_value(ty: &DataType, stored: &[u8]) -> bool {
    !stored.is_empty() || matches!(ty, DataType::Text | DataType::Blob)
}

/// The number of the values and the row of them.
fn pack<'v, I>(values: impl Fn() -> I) -> (usize, Box<[u8]>)
where
    I: Iterator<Item = (ColumnId, &'v [u8])>,
{
    let (count, bytes) =
        values().fold((0, 0), |(count, bytes), (_, value)| (count + 1, bytes + value.len()));
    let mut end = count * ENTRY_BYTES;
    let mut content = Vec::with_capacity(end + bytes);
    for (column, value) in values() {
        end += value.len();
        content.extend_from_slice(&u32::from(column.0).to_le_bytes());
        let end = u32::try_from(end).expect("a row is far shorter than 4 GiB");
        content.extend_from_slice(&end.to_le_bytes());
    }
    values().for_each(|(_, value)| content.extend_from_slice(value));
    debug_assert_eq!(content.len(), end, "values end elsewhere than their entries say");
    (count, content.into_boxed_slice())
}

/// Adds the values of a row's columns.
fn take<'r>(
    schema: &TableSchema,
    row: &'r Row,
    now_seconds: i32,
    parts: &mut Vec<(ColumnId, Cow<'r, [u8]>)>,
) -> Result<()> {
    for (column, cell) in &row.cells {
        let value = cell.value_at(now_seconds);
        parts.extend(value.map(|value| (*column, Cow::Borrowed(value))));
    }
    for (id, multi) in &row.multi {
        // It may have been added since `schema`.
        let Some(column) = schema.columns.get(usize::from(id.0)) else { continue };
        let frozen = frozen_form(&column.ty, multi, now_seconds).map_err(|wanted| {
            let (table, ty) = (schema.full_name(), column.ty.sql_name());
            Error::invalid(format!(
                "a stored value of {table}.{} is no {ty}: {wanted}",
                column.name
            ))
        })?;
        parts.extend(frozen.map(|frozen| (*id, Cow::Owned(frozen))));
    }
    Ok(())
}

/// The live cells of a column as its frozen form has them; `None` where there are none.
fn frozen_form(
    ty: &DataType,
    multi: &MultiCell,
    now_seconds: i32,
) -> std::result::Result<Option<Vec<u8>>, &'static str> {
    let stored = |path: &CellPath, ty: &DataType| path.stored(ty).map_err(|_| "the path of a cell");
    let cells: Vec<(&CellPath, &[u8])> = multi.live_cells(now_seconds).collect();
    if cells.is_empty() {
        return Ok(None);
    }
    let mut out = Vec::new();
    match ty {
        DataType::List(_) => {
            frozen::put_all(cells.len(), cells.iter().map(|(_, value)| Some(*value)), &mut out);
        }
        DataType::Set(element) => {
            let paths = cells.iter().map(|(path, _)| stored(path, element));
            let paths: Vec<Vec<u8>> = paths.collect::<std::result::Result<_, _>>()?;
            frozen::put_all(paths.len(), paths.iter().map(|path| Some(path.as_slice())), &mut out);
        }
        DataType::Map(key, _) => {
            let keys = cells.iter().map(|(path, _)| stored(path, key));
            let keys: Vec<Vec<u8>> = keys.collect::<std::result::Result<_, _>>()?;
            let entries = keys.iter().zip(&cells);
            let entries =
                entries.flat_map(|(key, (_, value))| [Some(key.as_slice()), Some(*value)]);
            frozen::put_all(cells.len(), entries, &mut out);
        }
        DataType::User(user) => {
            let mut fields = vec![None; user.fields.len()];
            for (path, value) in &cells {
                let number = stored(path, &DataType::SmallInt)?;
                let number = i16::from_be_bytes(number.try_into().map_err(|_| "a field's number")?);
                let field = usize::try_from(number).ok().and_then(|number| fields.get_mut(number));
                *field.ok_or("it has a field that the type lacks")? = Some(*value);
            }
            fields.into_iter().for_each(|field| frozen::put(field, &mut out));
        }
        _ => return Err("it has several cells"),
    }
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;

    use super::*;
    use crate::mutation::{Cell, FlatRow, Liveness};
    use crate::schema::{ClusteringOrder, TableId, TableOptions, UserType};

    const NOW_SECONDS: i32 = 50;

    /// `pk int, ck text, s text static, t text, b blob, n int, tags set<int>, u` a user type.
    fn schema() -> SchemaRef {
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let order = ClusteringOrder::Descending;
        let fields = [("x".to_owned(), DataType::Int), ("y".to_owned(), DataType::Text)];
        let user = DataType::User(Box::new(UserType::new("ks", "u", fields)));
        let columns = vec![
            column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("ck", DataType::Text, ColumnKind::ClusteringKey { position: 0, order }),
            column("s", DataType::Text, ColumnKind::Static),
            column("t", DataType::Text, ColumnKind::Regular),
            column("b", DataType::Blob, ColumnKind::Regular),
            column("n", DataType::Int, ColumnKind::Regular),
            column("tags", DataType::set_of(DataType::Int), ColumnKind::Regular),
            column("u", user, ColumnKind::Regular),
        ];
        Arc::new(TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns,
            options: TableOptions::default(),
            drops: Vec::new(),
        })
    }

    fn text(text: &str) -> Option<Value> {
        Some(Value::Text(text.into()))
    }

    fn key(schema: &TableSchema) -> RowKey {
        RowKey::from_values(schema, &[Value::Int(1), Value::Text("c".into())]).unwrap()
    }

    fn read(schema: &SchemaRef, content: LiveContent<'_>, static_row: Option<&Row>) -> RowValues {
        let key = key(schema);
        let partition = Rc::new(key.partition.clone());
        let live = LiveRows { partition: &partition, content, static_row };
        RowValues::of(schema.clone(), key, live, NOW_SECONDS).unwrap()
    }

    /// A text that ends after now, a blob that ends now, and a number that was deleted.
    fn row() -> Row {
        let mut row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        row.put(ColumnId(3), Cell::expiring(1, *b"ends", 10, NOW_SECONDS + 1));
        row.put(ColumnId(4), Cell::expiring(1, *b"ended", 10, NOW_SECONDS));
        row.put(ColumnId(5), Cell::deleted(1, 9));
        row
    }

    #[test]
    fn no_bytes_are_a_value_of_texts_and_blobs_alone() {
        let schema = schema();
        let mut row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        for column in 3..6 {
            row.put(ColumnId(column), Cell::live(1, *b""));
        }
        let statics = Row { cells: vec![(ColumnId(2), Cell::live(1, *b""))], ..Row::default() };
        let flat = FlatRow::row(b"c", &row);
        let (flats, clustering) = ([&flat], key(&schema).clustering);
        let contents =
            [LiveContent::Flat(&flats), LiveContent::Row { key: &clustering, row: &row }];
        for content in contents {
            for static_row in [None, Some(&statics)] {
                let found = read(&schema, content, static_row);
                let value = |name: &str| found.value(name).unwrap();
                assert_eq!((value("t"), value("n")), (text(""), None), "{content:?}");
                assert_eq!(value("b"), Some(Value::Blob(Vec::new())), "{content:?}");
                assert_eq!(value("s"), static_row.and_then(|_| text("")), "{content:?}");
            }
        }
        let nothing = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        let content = LiveContent::Row { key: &clustering, row: &nothing };
        for column in ["s", "t", "b", "n", "tags", "u"] {
            assert_eq!(read(&schema, content, None).value(column).unwrap(), None, "{column}");
        }
    }

    #[test]
    fn a_row_has_what_is_seen_now_of_all_its_columns_and_of_its_partition() {
        let schema = schema();
        let path =
            |ty: DataType, value: Value| CellPath::from_stored(&ty, &value.to_bytes()).unwrap();
        let mut row = row();
        let mut tags = MultiCell::default();
        for (number, cell) in [
            (3, Cell::live(1, *b"")),
            (-1, Cell::live(1, *b"")),
            (7, Cell::deleted(1, 9)),
            (8, Cell::expiring(1, *b"", 10, NOW_SECONDS)),
        ] {
            tags.put(path(DataType::Int, Value::Int(number)), cell);
        }
        row.put_multi(ColumnId(6), tags);
        let second = path(DataType::SmallInt, Value::SmallInt(1));
        let fields = MultiCell { deletion: None, cells: vec![(second, Cell::live(1, *b"y"))] };
        row.put_multi(ColumnId(7), fields);
        let statics = Row { cells: vec![(ColumnId(2), Cell::live(1, *b"all"))], ..Row::default() };
        let clustering = key(&schema).clustering;
        let content = LiveContent::Row { key: &clustering, row: &row };
        let wanted = [
            ("pk", Some(Value::Int(1))),
            ("ck", text("c")),
            ("s", text("all")),
            ("t", text("ends")),
            ("b", None),
            ("n", None),
            ("tags", Some(Value::Set(vec![Value::Int(-1), Value::Int(3)]))),
            ("u", Some(Value::Tuple(vec![None, text("y")]))),
        ];
        assert_eq!(read(&schema, content, Some(&statics)).values().unwrap(), wanted);
    }

    /// `a int, b text` the partition key, `c int` descending and `d text` the clustering key, and
    /// `l list<text>, m map<text, int>`.
    fn long_key_schema() -> SchemaRef {
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let clustering = |position, order| ColumnKind::ClusteringKey { position, order };
        let (ascending, descending) = (ClusteringOrder::Ascending, ClusteringOrder::Descending);
        let map = DataType::map_of(DataType::Text, DataType::Int);
        let columns = vec![
            column("a", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("b", DataType::Text, ColumnKind::PartitionKey { position: 1 }),
            column("c", DataType::Int, clustering(0, descending)),
            column("d", DataType::Text, clustering(1, ascending)),
            column("l", DataType::list_of(DataType::Text), ColumnKind::Regular),
            column("m", map, ColumnKind::Regular),
        ];
        Arc::new(TableSchema { columns, ..(*schema()).clone() })
    }

    #[test]
    fn a_row_has_each_part_of_its_key_and_a_key_has_as_many_values_as_columns() {
        let (schema, string) = (long_key_schema(), |text: &str| Value::Text(text.into()));
        for (a, c) in [(1, -7), (-1, 7), (i32::MIN, i32::MAX), (0, 0)] {
            for (b, d) in [("x", "y"), ("y", ""), ("long text", "a\0b")] {
                let wanted = [Value::Int(a), string(b), Value::Int(c), string(d)];
                let key = RowKey::from_values(&schema, &wanted).unwrap();
                let row = RowValues::of_stored(schema.clone(), key.clone(), &[]);
                assert_eq!(row.key(), &key);
                for (name, wanted) in ["a", "b", "c", "d"].into_iter().zip(wanted) {
                    assert_eq!(row.value(name).unwrap(), Some(wanted), "{name} of {key:?}");
                }
                // That of a partition without rows.
                let alone = RowKey { clustering: ClusteringKey::empty(), ..key };
                let row = RowValues::of_stored(schema.clone(), alone, &[]);
                let value = |name: &str| row.value(name).unwrap();
                assert_eq!((value("a"), value("b")), (Some(Value::Int(a)), text(b)));
                assert_eq!((value("c"), value("d"), value("l")), (None, None, None));
                let unknown = row.value("e").unwrap_err();
                assert!(matches!(unknown, Error::NotFound { kind: "column", .. }), "{unknown}");
            }
        }
        let values = [1, 2, 3, 4, 5].map(Value::Int);
        for count in [0, 1, 2, 3, 5] {
            let error = RowKey::from_values(&schema, &values[..count]).unwrap_err();
            assert!(error.to_string().contains(&format!("{count} values given")), "{error}");
        }
    }

    #[test]
    fn lists_and_maps_have_the_elements_that_live_now_and_are_null_without_any() {
        let schema = long_key_schema();
        let [list, map] = [ColumnId(4), ColumnId(5)];
        let entry = |name: &[u8]| CellPath::from_stored(&DataType::Text, name).unwrap();
        let number = |number: i32| Cell::live(1, Value::Int(number).to_bytes());
        let ended = || Cell::expiring(1, *b"ended", 10, NOW_SECONDS);
        let mut row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        let (mut elements, mut entries) = (MultiCell::default(), MultiCell::default());
        elements.put(CellPath::from_ordered([1; 16]), Cell::live(1, *b"z"));
        elements.put(CellPath::from_ordered([2; 16]), ended());
        elements.put(CellPath::from_ordered([3; 16]), Cell::live(1, *b""));
        elements.put(CellPath::from_ordered([4; 16]), Cell::deleted(1, 9));
        elements.put(CellPath::from_ordered([5; 16]), Cell::live(1, *b"a"));
        entries.put(entry(b"k"), number(5));
        entries.put(entry(b""), number(-1));
        entries.put(entry(b"gone"), Cell::deleted(1, 9));
        row.put_multi(list, elements);
        row.put_multi(map, entries);
        let mut dead = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        for column in [list, map] {
            let mut multi = MultiCell::default();
            multi.put(entry(b"gone"), Cell::deleted(1, 9));
            dead.put_multi(column, multi);
        }
        let string = |text: &str| Value::Text(text.into());
        let values = [Value::Int(1), string("b"), Value::Int(3), string("d")];
        let key = RowKey::from_values(&schema, &values).unwrap();
        let read = |row: &Row| {
            let partition = Rc::new(key.partition.clone());
            let content = LiveContent::Row { key: &key.clustering, row };
            let live = LiveRows { partition: &partition, content, static_row: None };
            let values = RowValues::of(schema.clone(), key.clone(), live, NOW_SECONDS).unwrap();
            ["l", "m"].map(|name| values.value(name).unwrap())
        };
        let texts = ["z", "", "a"].map(string);
        let pairs = [("", -1), ("k", 5)].map(|(key, value)| (string(key), Value::Int(value)));
        let wanted = [Value::List(texts.to_vec()), Value::Map(pairs.to_vec())];
        assert_eq!(read(&row), wanted.map(Some));
        assert_eq!(read(&dead), [None, None]);
    }
}
