//! Rows as Cassandra's `sstabledump -t` prints them.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::*;
use crate::hex::Hex;
use crate::mutation::{Cell, CellState, Liveness, MultiCell, Position, Row, Tombstone, Weight};
use crate::schema::varint::format_varint;
use crate::schema::{Column, DataType, PartitionKey, TableSchema, Value};

/// Checks that `fragments` print as `expected`, the tool's output. Columns that the table lacks are
/// left out of it, positions too: the tool does not print those of partitions right.
pub(crate) fn check_dump(
    name: &str,
    schema: &TableSchema,
    expected: &[u8],
    fragments: &[Fragment],
) {
    let expected: Vec<Json> = serde_json::from_slice(expected).unwrap();
    let columns: BTreeSet<&str> = schema.columns.iter().map(|c| c.name.as_str()).collect();
    let found = dump(schema, fragments);
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, mut wanted) in found.into_iter().zip(expected) {
        wanted.as_object_mut().unwrap().remove("table kind");
        wanted["partition"].as_object_mut().unwrap().remove("position");
        let rows = wanted["rows"].as_array_mut().unwrap();
        for row in rows.iter_mut() {
            row.as_object_mut().unwrap().remove("position");
            if let Some(cells) = row.get_mut("cells") {
                let cells = cells.as_array_mut().unwrap();
                cells.retain(|cell| columns.contains(cell["name"].as_str().unwrap()));
            }
        }
        rows.retain(|row| row["type"] != "static_block" || row["cells"] != json!([]));
        assert!(same(&found, &wanted), "{name}\n found {found}\nwanted {wanted}");
    }
}

/// Equality with numbers compared by value; the tool prints floats its own way.
pub(crate) fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            if a.as_i64().is_some() && b.as_i64().is_some() {
                return a == b;
            }
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            a == b || ((a as f32) == (b as f32) && (a as f32).is_finite())
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// The partitions as sstabledump prints them, without positions.
fn dump(schema: &TableSchema, fragments: &[Fragment]) -> Vec<Json> {
    let mut partitions: Vec<Json> = Vec::new();
    let mut open = None;
    for fragment in fragments {
        let item = match fragment {
            Fragment::PartitionStart { key, deletion } => {
                let mut partition = json!({ "key": dump_key(schema, key) });
                if let Some(deletion) = deletion {
                    partition["deletion_info"] = deletion_info(*deletion);
                }
                partitions.push(json!({ "partition": partition, "rows": [] }));
                continue;
            }
            Fragment::PartitionEnd => continue,
            Fragment::FlatRow(_) => unreachable!("a file gives none"),
            Fragment::StaticRow(row) => {
                let mut item = dump_row(schema, row);
                item["type"] = json!("static_block");
                item
            }
            Fragment::Row { key, row } => {
                let stored = key.stored(schema).unwrap();
                let mut item = dump_row(schema, row);
                if !stored.is_empty() {
                    item["clustering"] = dump_clustering(schema, &stored, false);
                }
                item
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                let before = std::mem::replace(&mut open, *tombstone);
                dump_marker(schema, position, before, *tombstone)
            }
        };
        partitions.last_mut().unwrap()["rows"].as_array_mut().unwrap().push(item);
    }
    partitions
}

fn dump_key(schema: &TableSchema, key: &PartitionKey) -> Vec<String> {
    let components = key.components(schema).unwrap();
    let text = |(column, stored): (&Column, &[u8])| match render(&column.ty, stored) {
        Json::String(text) => text.strip_prefix("0x").unwrap_or(&text).to_owned(),
        other => other.to_string(),
    };
    schema.partition_key().zip(components).map(text).collect()
}

fn deletion_info(tombstone: Tombstone) -> Json {
    json!({
        "marked_deleted": tombstone.timestamp.to_string(),
        "local_delete_time": tombstone.deletion_time.to_string(),
    })
}

fn dump_clustering(schema: &TableSchema, stored: &[Vec<u8>], pad: bool) -> Json {
    let columns = schema.clustering_key().enumerate();
    let values = columns.filter_map(|(i, column)| match stored.get(i) {
        Some(value) => Some(render(&column.ty, value)),
        None => pad.then(|| json!("*")),
    });
    Json::Array(values.collect())
}

fn dump_row(schema: &TableSchema, row: &Row) -> Json {
    let mut item = Map::new();
    item.insert("type".into(), json!("row"));
    if let Some(live) = row.liveness {
        let mut info = json!({ "tstamp": live.timestamp.to_string() });
        if live.ttl != 0 {
            put_ttl(&mut info, live.ttl, live.expiry);
        }
        item.insert("liveness_info".into(), info);
    }
    if let Some(deletion) = row.deletion {
        item.insert("deletion_info".into(), deletion_info(deletion));
    }
    let cells = row.cells.iter().map(|(id, cell)| {
        let column = schema.column(*id);
        let item = json!({ "name": column.name });
        dump_cell(item, |value| dump_value(column, value), cell, row.liveness)
    });
    let multi = row
        .multi
        .iter()
        .flat_map(|(id, multi)| dump_multi_cell(schema.column(*id), multi, row.liveness));
    item.insert("cells".into(), cells.chain(multi).collect());
    Json::Object(item)
}

/// A multi-cell column: its deletion, then each element with its path.
fn dump_multi_cell(column: &Column, multi: &MultiCell, live: Option<Liveness>) -> Vec<Json> {
    let path_type = column.ty.path_type().unwrap();
    let mut items = Vec::new();
    if let Some(deletion) = multi.deletion {
        items.push(json!({ "name": column.name, "deletion_info": deletion_info(deletion) }));
    }
    for (path, cell) in &multi.cells {
        let stored = path.stored(&path_type).unwrap();
        let (path, ty) = match &column.ty {
            DataType::User(user) => {
                let number = u16::from_be_bytes(stored.try_into().unwrap());
                let (name, ty) = &user.fields[usize::from(number)];
                (json!(name), ty.clone())
            }
            DataType::Map(_, value) => (render(&path_type, &stored), (**value).clone()),
            DataType::List(element) => (render(&path_type, &stored), (**element).clone()),
            // An element is its own path, and its value is empty.
            _ => (render(&path_type, &stored), DataType::Text),
        };
        let path = match path {
            Json::String(text) => text,
            other => other.to_string(),
        };
        let item = json!({ "name": column.name, "path": [path] });
        items.push(dump_cell(item, |value| render(&ty, value), cell, live));
    }
    items
}

fn put_ttl(item: &mut Json, ttl: i32, expiry: i32) {
    item["ttl"] = json!(ttl);
    item["expires_at"] = json!(expiry.to_string());
    // When the tool ran.
    item["expired"] = json!(false);
}

fn dump_cell(
    mut item: Json,
    render: impl FnOnce(&[u8]) -> Json,
    cell: &Cell,
    live: Option<Liveness>,
) -> Json {
    match &cell.state {
        CellState::Live { value } | CellState::Expiring { value, .. } => {
            item["value"] = render(value);
        }
        // The tool takes the front of the shards for the count.
        CellState::Counter { context } => {
            item["value"] = json!(i64::from_be_bytes(context[..8].try_into().unwrap()));
        }
        CellState::Deleted { deletion_time } => {
            item["deletion_info"] = json!({ "local_delete_time": deletion_time.to_string() });
        }
    }
    if live.is_none_or(|live| live.timestamp != cell.timestamp) {
        item["tstamp"] = json!(cell.timestamp.to_string());
    }
    if let CellState::Expiring { ttl, expiry, .. } = &cell.state
        && live.is_none_or(|live| live.ttl != *ttl)
    {
        put_ttl(&mut item, *ttl, *expiry);
    }
    item
}

/// A column may be a blob in the table where the file has another type: then its name says which.
fn dump_value(column: &Column, value: &[u8]) -> Json {
    match (column.name.as_str(), &column.ty) {
        ("fl", DataType::Blob) => render(&DataType::list_of(DataType::Int), value),
        ("c_varint", DataType::Blob) => render(&DataType::Varint, value),
        ("c_duration", DataType::Blob) => render(&DataType::Duration, value),
        _ => render(&column.ty, value),
    }
}

/// A duration as the tool prints it.
fn duration(numbers: [i64; 3]) -> String {
    let mut out = String::new();
    if numbers.iter().any(|number| *number < 0) {
        out.push('-');
    }
    let [months, days, mut left] = numbers.map(i64::unsigned_abs);
    let mut put = |number: u64, unit: &str| {
        if number > 0 {
            out.push_str(&format!("{number}{unit}"));
        }
    };
    put(months / 12, "y");
    put(months % 12, "mo");
    put(days, "d");
    for (unit, ns) in [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ] {
        put(left / ns, unit);
        left %= ns;
    }
    out
}

fn dump_marker(
    schema: &TableSchema,
    position: &Position,
    closing: Option<Tombstone>,
    opening: Option<Tombstone>,
) -> Json {
    let stored = position.prefix.stored(schema).unwrap();
    let is_before = position.weight == Weight::Before;
    let bound = |tombstone: Tombstone, is_inclusive: bool| {
        let mut bound = json!({
            "type": if is_inclusive { "inclusive" } else { "exclusive" },
            "deletion_info": deletion_info(tombstone),
        });
        if !stored.is_empty() {
            bound["clustering"] = dump_clustering(schema, &stored, true);
        }
        bound
    };
    let mut item = Map::new();
    let both = closing.is_some() && opening.is_some();
    let kind = if both { "range_tombstone_boundary" } else { "range_tombstone_bound" };
    item.insert("type".into(), json!(kind));
    if let Some(opening) = opening {
        item.insert("start".into(), bound(opening, is_before));
    }
    if let Some(closing) = closing {
        item.insert("end".into(), bound(closing, !is_before));
    }
    Json::Object(item)
}

/// A stored value as the tool prints it.
fn render(ty: &DataType, stored: &[u8]) -> Json {
    render_value(ty, &Value::decode(ty, stored).unwrap())
}

fn clock(seconds: i64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Day since 1970-01-01 as a date, counted by years and months: `inspect` reckons it.
fn civil(days: i64) -> String {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    // Years repeat after 400.
    let (mut year, mut days) = (1970 + 400 * days.div_euclid(146_097), days.rem_euclid(146_097));
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let sign = match year {
        ..0 => "-",
        10_000.. => "+",
        _ => "",
    };
    format!("{sign}{:04}-{month:02}-{:02}", year.abs(), days + 1)
}

/// A value as Cassandra prints it.
pub(crate) fn render_value(ty: &DataType, value: &Value) -> Json {
    let all = |ty: &DataType, values: &[Value]| -> Json {
        values.iter().map(|value| render_value(ty, value)).collect()
    };
    let field = |ty: &DataType, value: &Option<Value>| match value {
        Some(value) => render_value(ty, value),
        None => Json::Null,
    };
    match (ty.unfrozen(), value) {
        (DataType::List(element), Value::List(values))
        | (DataType::Set(element), Value::Set(values)) => return all(element, values),
        (DataType::Map(key_type, value_type), Value::Map(entries)) => {
            let entry = |(key, value): &(Value, Value)| {
                let key = match render_value(key_type, key) {
                    Json::String(text) => text,
                    other => other.to_string(),
                };
                (key, render_value(value_type, value))
            };
            return Json::Object(entries.iter().map(entry).collect());
        }
        (DataType::Tuple(types), Value::Tuple(values)) => {
            return types.iter().zip(values).map(|(ty, value)| field(ty, value)).collect();
        }
        (DataType::User(user), Value::Tuple(values)) => {
            let fields = user.fields.iter().zip(values);
            let fields = fields.map(|((name, ty), value)| (name.clone(), field(ty, value)));
            return Json::Object(fields.collect());
        }
        _ => {}
    }
    match value.clone() {
        Value::Boolean(v) => json!(v),
        Value::TinyInt(v) => json!(v),
        Value::SmallInt(v) => json!(v),
        Value::Int(v) => json!(v),
        Value::BigInt(v) => json!(v),
        Value::Float(v) => json!(v),
        Value::Double(v) => json!(v),
        Value::Decimal { unscaled, scale } => {
            let number: f64 = format!("{unscaled}e{}", -i64::from(scale)).parse().unwrap();
            json!(number)
        }
        Value::Text(v) => json!(v),
        Value::Blob(v) => json!(format!("0x{}", Hex(&v))),
        Value::Date(days) => json!(civil(i64::from(days))),
        Value::Time(ns) => {
            json!(format!("{}.{:09}", clock(ns / 1_000_000_000), ns % 1_000_000_000))
        }
        Value::Timestamp(ms) => {
            let (day, ms) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
            json!(format!("{} {}.{:03}Z", civil(day), clock(ms / 1000), ms % 1000))
        }
        Value::Uuid(v) | Value::TimeUuid(v) => json!(crate::schema::value::format_uuid(&v)),
        Value::Inet(std::net::IpAddr::V4(v)) => json!(v.to_string()),
        Value::Inet(std::net::IpAddr::V6(v)) => {
            json!(v.segments().map(|segment| format!("{segment:x}")).join(":"))
        }
        Value::Varint(v) => {
            let digits: f64 = format_varint(&v).parse().unwrap();
            json!(digits)
        }
        Value::Duration { months, days, nanoseconds } => {
            json!(duration([i64::from(months), i64::from(days), nanoseconds]))
        }
        Value::Counter(v) => json!(v),
        other => panic!("{other} is no {}", ty.sql_name()),
    }
}
