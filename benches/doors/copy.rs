//! COPY of files into a table, and INSERT of what a query gives, durable at their end.

use tidegate::query::{Session, SessionOptions};
use tidegate_engine::{Database, Options};

use crate::frame::{Arguments, Row, Target, wall};

const TABLE: &str = "(pk bigint, ck bigint, v text, PRIMARY KEY (pk, ck))";

pub async fn print(arguments: &Arguments) {
    let directory = tempfile::tempdir().unwrap();
    // Each write is synced: what a statement has answered is durable.
    let options = Options::new(directory.path().join("data"));
    let database = Database::open(options).await.unwrap();
    let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
    let count = arguments.scale(200_000, 5_000_000);
    let file = |ending: &str| directory.path().join(format!("rows.{ending}")).display().to_string();
    let (parquet, csv) = (file("parquet"), file("csv"));
    session.execute(&format!("CREATE TABLE source {TABLE}")).await.unwrap();
    let rows = format!(
        "INSERT INTO source SELECT n / 100, n % 100, repeat('v', 92) || lpad(n::text, 8, '0') \
         FROM generate_series(0, {}) AS s(n)",
        count - 1
    );
    session.execute(&rows).await.unwrap();
    for file in [&parquet, &csv] {
        session.execute(&format!("COPY source TO '{file}'")).await.unwrap();
    }
    let mut copied = 0.0;
    for (what, file, bound) in [("Parquet", parquet, 500_000.0), ("CSV", csv, 350_000.0)] {
        let table = format!("of_{}", what.to_lowercase());
        session.execute(&format!("CREATE TABLE {table} {TABLE}")).await.unwrap();
        let start = wall();
        session.execute(&format!("COPY {table} FROM '{file}'")).await.unwrap();
        let figure = count as f64 / (wall() - start).as_secs_f64();
        let name = format!("COPY from {what}, rows of 100 bytes, synced");
        let target = Target::AtLeast(bound);
        Row { name: &name, unit: "rows/s", figure, baseline: None, target }.print(arguments);
        copied = figure;
    }
    // The same rows from a table, beside the last COPY.
    session.execute(&format!("CREATE TABLE of_query {TABLE}")).await.unwrap();
    let start = wall();
    session.execute("INSERT INTO of_query SELECT * FROM source").await.unwrap();
    let figure = count as f64 / (wall() - start).as_secs_f64();
    let name = "INSERT … SELECT, rows of 100 bytes, synced";
    let (baseline, target) = (Some(("COPY from CSV", copied)), Target::None);
    Row { name, unit: "rows/s", figure, baseline, target }.print(arguments);
    database.close().await.unwrap();
}
