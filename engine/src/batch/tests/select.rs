//! Cassandra's files from the disk to Arrow: the rows are those that it selects itself.

use futures::executor::block_on;
use serde_json::{Map, Value as Json};

use super::*;
use crate::mutation::{Direction, Filled, PartitionRange, Slice};
use crate::reader::QueryReader;
use crate::sstable::tests::dump::{render_value, same};
use crate::sstable::tests::fixtures::fixture_path;
use crate::sstable::tests::foreign::{fixtures, load, open_named};
use crate::sstable::{ReadPlan, Sstable};

/// After everything was written, before the first time to live ends.
const NOW_SECONDS: i32 = 1_800_000_000;

/// The rows that a query sees, as JSON objects by column name.
fn select(table: &Rc<Sstable>, schema: &SchemaRef, direction: Direction) -> Vec<Json> {
    let (range, slice) = (PartitionRange::full(), Slice::full(direction));
    let source = table.read(&ReadPlan::of(&range, &slice));
    let mut reader = QueryReader::new(source.expect("it has partitions"), NOW_SECONDS, true);
    let columns: Vec<ColumnId> = schema.ids().collect();
    let mut builder = BatchBuilder::new(schema.clone(), &columns, NOW_SECONDS);
    let mut rows = Vec::new();
    loop {
        let wanted = 1000 - builder.rows();
        let pulled = reader.pull(wanted, &mut |rows| builder.push(rows).map(|()| true)).unwrap();
        if builder.rows() == 1000 {
            rows.extend(json_rows(schema, &builder.finish().unwrap()));
        }
        if pulled == Filled::Waits && !block_on(reader.refill()).unwrap() {
            break;
        }
    }
    rows.extend(json_rows(schema, &builder.finish().unwrap()));
    rows
}

fn json_rows(schema: &TableSchema, batch: &RecordBatch) -> Vec<Json> {
    let row = |row: usize| {
        let mut object = Map::new();
        for (column, array) in schema.columns.iter().zip(batch.columns()) {
            // Arrow has a counter's sum, which is a plain number.
            let ty = match &column.ty {
                DataType::Counter => &DataType::BigInt,
                ty => ty,
            };
            let value = value_at(array, row, ty).unwrap();
            let value = value.map_or(Json::Null, |value| render_value(ty, &value));
            object.insert(column.name.clone(), value);
        }
        Json::Object(object)
    };
    (0..batch.num_rows()).map(row).collect()
}

#[test]
fn rows_are_those_that_cassandra_selects() {
    let mut rows = 0;
    for (version, name, schema) in fixtures() {
        // The versions hold the same rows; compressed tables those of their siblings.
        let wanted = match name.as_str() {
            "wide_lz4" => "wide_none",
            "simple_none" | "simple_zstd" => "simple_lz4",
            "tombs_lz4" => "tombs",
            "rawchunks" => continue,
            name => name,
        };
        let path = fixture_path(wanted).join("select.jsonl");
        let wanted = std::fs::read_to_string(path).unwrap();
        let wanted: Vec<Json> =
            wanted.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (disk, file) = load(version, &name);
        let table = open_named(&disk, &file, &schema).unwrap();
        let found = select(&table, &schema, Direction::Forward);
        assert_eq!(found.len(), wanted.len(), "{version} {name}");
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!(same(found, wanted), "{version} {name}\n found {found}\nwanted {wanted}");
        }
        rows += found.len();
        // Rows of a partition come the other way round, partitions in the same order.
        let mut forward: Vec<String> = found.iter().map(Json::to_string).collect();
        let mut backward: Vec<String> =
            select(&table, &schema, Direction::Reversed).iter().map(Json::to_string).collect();
        forward.sort_unstable();
        backward.sort_unstable();
        assert!(forward == backward, "{version} {name}");
    }
    assert!(rows > 60_000, "{rows}");
}
