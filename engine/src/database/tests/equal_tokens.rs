//! Partitions with one token: told apart by look-ups and by walks, in memory, in files, and in the
//! row cache.

use std::path::Path;

use super::*;
use crate::commitlog::Durability;
use crate::schema::Token;
use crate::schema::token::key_with_token;

const ROWS: i32 = 3;

fn definition_of_blobs() -> TableSchema {
    let mut definition = definition();
    definition.columns[0].ty = DataType::Blob;
    definition
}

/// Six keys with one token, and some around them; the values of each begin with its place in the
/// ring.
fn keys() -> Vec<PartitionKey> {
    let token = Token(4_242_424_242);
    let same = (0..6).map(|salt| key_with_token(token, salt));
    let others = (0u128..12).map(|number| number.to_be_bytes());
    let mut keys: Vec<_> = same.chain(others).map(PartitionKey::from_bytes).collect();
    keys.sort();
    assert_eq!(keys.iter().filter(|key| key.token() == token).count(), 6);
    keys
}

async fn open(directory: &Path, shards: u32) -> Database {
    let options =
        Options { durability: Durability::None, shards: Some(shards), ..Options::new(directory) };
    Database::open(options).await.unwrap()
}

async fn write(database: &Database, schema: &TableSchema, place: usize, key: &PartitionKey) {
    for at in 0..ROWS {
        let mut mutation = Mutation::new(schema.id, key.clone());
        let value = 10 * place as i64 + i64::from(at);
        let row = Row {
            liveness: Some(Liveness::at(1)),
            cells: vec![(ColumnId(2), Cell::live(1, value.to_be_bytes()))],
            ..Row::default()
        };
        mutation.rows.push((ck(schema, at), row));
        database.apply(mutation).await.unwrap();
    }
}

fn wanted(place: usize) -> Vec<i64> {
    (0..ROWS).map(|at| 10 * place as i64 + i64::from(at)).collect()
}

/// Looks each of the keys in place `there` up, and walks over all.
async fn check(database: &Database, schema: &SchemaRef, there: &[usize], what: &str) {
    let keys = keys();
    let command = |partitions, slice, past_cache| ReadCommand {
        schema: schema.clone(),
        partitions,
        slice,
        columns: vec![ColumnId(2)],
        stamps: Vec::new(),
        row_limit: None,
        partition_limit: None,
        deadline: None,
        level: Default::default(),
        past_cache,
        filter: None,
    };
    let all = || Slice::full(Direction::Forward);
    // Past the cache, and twice through it.
    for past in [true, false, false] {
        for (place, key) in keys.iter().enumerate() {
            let rows = if there.contains(&place) { wanted(place) } else { vec![] };
            let of_key = Partitions::Keys(vec![key.clone()]);
            let found = values(database, command(of_key.clone(), all(), past)).await;
            assert_eq!(found, rows, "{what}: partition {place}, past the cache: {past}");
            let ranges = vec![ClusteringRange::prefix(ck(schema, 1))];
            let one = Slice { ranges, direction: Direction::Forward };
            let found = values(database, command(of_key, one, past)).await;
            let row = rows.get(1).copied();
            assert_eq!(
                found,
                Vec::from_iter(row),
                "{what}: a row of {place}, past the cache: {past}"
            );
        }
        let rows: Vec<i64> = there.iter().flat_map(|place| wanted(*place)).collect();
        let of_keys = Partitions::Keys(keys.clone());
        let found = values(database, command(of_keys, all(), past)).await;
        assert_eq!(found, rows, "{what}: all keys, past the cache: {past}");
        for direction in [Direction::Forward, Direction::Reversed] {
            let mut found = Vec::new();
            for shard in 0..database.shard_count() {
                let scan = command(Partitions::Shard(shard), Slice::full(direction), past);
                found.extend(values(database, scan).await);
            }
            found.sort();
            assert_eq!(found, rows, "{what}: a walk, {direction:?}, past the cache: {past}");
        }
    }
}

#[tokio::test]
async fn partitions_of_one_token_are_found_and_walked_over_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path(), 2).await;
    let schema = database.create_table(definition_of_blobs(), false).await.unwrap();
    let keys = keys();
    let mut there: Vec<usize> = Vec::new();
    // One file after another: each has some of the token, and in memory there are others.
    for turn in 0..3 {
        let new: Vec<usize> = (0..keys.len()).filter(|place| place % 4 == turn).collect();
        for place in &new {
            write(&database, &schema, *place, &keys[*place]).await;
        }
        there.extend(new);
        there.sort();
        check(&database, &schema, &there, &format!("turn {turn}, in memory")).await;
        database.flush(None).await.unwrap();
        check(&database, &schema, &there, &format!("turn {turn}, in a file")).await;
        database.invalidate_cache(None).await.unwrap();
    }
    database.close().await.unwrap();
    for shards in [2, 3, 1] {
        let database = open(directory.path(), shards).await;
        check(&database, &schema, &there, &format!("opened with {shards} shards")).await;
        database.close().await.unwrap();
    }
}
