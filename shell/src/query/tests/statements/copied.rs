//! COPY of every type that a file holds.

use crate::query::tests::World;

/// Types that both a CSV and a Parquet file hold, with values at
/// both ends of most of them.
const TYPES: &[(&str, [&str; 3])] = &[
    ("boolean", ["false", "true", "false"]),
    ("tinyint", ["-128", "127", "0"]),
    ("smallint", ["-32768", "32767", "-1"]),
    ("int", ["-2147483648", "2147483647", "0"]),
    ("bigint", ["-9223372036854775807", "9223372036854775807", "-1"]),
    ("float", ["-1.5", "3.25", "0"]),
    ("double", ["-98765.4321", "123456789.125", "0.1"]),
    ("decimal(9, 2)", ["-9999999.99", "9999999.99", "0.05"]),
    ("decimal(38, 10)", ["-0.0000000001", "1234567890123456789.0123456789", "5"]),
    ("text", ["''", "'NULL'", "'a,b \"c\"'"]),
    ("blob", ["X''", "X'00FF'", "X'2C22'"]),
    ("date", ["'1969-12-31'", "'2024-02-29'", "'1970-01-01'"]),
    ("time", ["'00:00:00'", "'23:59:59.999999999'", "'12:30:00.5'"]),
    (
        "timestamp",
        ["'1969-12-31T23:59:59.999Z'", "'2024-02-29T12:30:00Z'", "'1970-01-01T00:00:00Z'"],
    ),
    (
        "uuid",
        [
            "'00000000-0000-0000-0000-000000000000'",
            "'ffffffff-ffff-4fff-bfff-ffffffffffff'",
            "'123e4567-e89b-12d3-a456-426614174000'",
        ],
    ),
    ("inet", ["'0.0.0.0'", "'::1'", "'10.0.0.1'"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_every_type_comes_back_from_a_file_and_null_stays_null() {
    let world = World::new().await;
    let columns: Vec<String> =
        TYPES.iter().enumerate().map(|(n, (ty, _))| format!("c{n} {ty}")).collect();
    let columns = columns.join(", ");
    for table in ["a", "b", "c"] {
        world.run(&format!("CREATE TABLE {table} (k int PRIMARY KEY, {columns})")).await;
    }
    for row in 0..3 {
        let values: Vec<&str> = TYPES.iter().map(|(_, values)| values[row]).collect();
        world.run(&format!("INSERT INTO a VALUES ({row}, {})", values.join(", "))).await;
    }
    world.run("INSERT INTO a (k) VALUES (3)").await;
    for (table, file) in [("b", "all.csv"), ("c", "all.parquet")] {
        let path = world.path(file);
        assert_eq!(world.count(&format!("COPY a TO '{path}'")).await, 4, "{file}");
        assert_eq!(world.count(&format!("COPY {table} FROM '{path}'")).await, 4, "{file}");
        for (n, (ty, _)) in TYPES.iter().enumerate() {
            let of = |table: &str| {
                format!("SELECT c{n}, c{n} IS NULL AS absent FROM {table} ORDER BY k")
            };
            let (wanted, found) = (world.rows(&of("a")).await, world.rows(&of(table)).await);
            assert_eq!(found, wanted, "{ty} of {file}");
            assert_eq!(found.matches("true").count() - wanted_truths(ty), 1, "{ty}: {found}");
        }
    }
}

/// How often a column itself says `true`.
fn wanted_truths(ty: &str) -> usize {
    usize::from(ty == "boolean")
}
