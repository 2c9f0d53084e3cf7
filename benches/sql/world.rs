//! A session with tables in it, and what its statements say of themselves.

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use tempfile::TempDir;
use tidegate::query::{Session, SessionOptions};
use tidegate_engine::{Database, Durability, Options};

use crate::frame::wall;

const SCANS_TO_WARM: usize = 8;

/// A database in a directory that goes with it.
pub struct World {
    pub session: Session,
    pub directory: TempDir,
}

impl World {
    /// An empty database of two shards.
    pub async fn new() -> Self {
        World::of_shards(2).await
    }

    /// An empty database.
    pub async fn of_shards(shards: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            shards: Some(shards),
            durability: Durability::Periodic { ms: 10_000 },
            cache_bytes: 8 << 30,
            ..Options::new(directory.path().join("data"))
        };
        let database = Database::open(options).await.unwrap();
        let session = Session::new(database, SessionOptions::default()).unwrap();
        World { session, directory }
    }

    pub async fn run(&self, text: &str) -> Vec<RecordBatch> {
        let outcome = match self.session.execute(text).await {
            Ok(outcome) => outcome.collect().await,
            Err(error) => Err(error),
        };
        outcome.unwrap_or_else(|error| panic!("{}", error.render(text)))
    }

    /// Makes a table `w` of partitions of 1,000 rows, in one SSTable a shard.
    pub async fn fill_wide(&self, rows: usize) {
        self.run("CREATE TABLE w (pk bigint, ck bigint, n bigint, v text, PRIMARY KEY (pk, ck))")
            .await;
        let fill = format!(
            "INSERT INTO w SELECT g / 1000, g % 1000, g % 1000, repeat('v', 20) \
             FROM generate_series(0, {}) AS s(g)",
            rows - 1
        );
        self.run(&fill).await;
        self.run("FLUSH").await;
        self.run("COMPACT w").await;
    }

    /// Scans a table until all of it is in the row cache: each scan brings in a part of what it
    /// reads.
    pub async fn warm(&self, scan: &str) {
        for _ in 0..SCANS_TO_WARM {
            self.run(scan).await;
        }
    }

    /// The shortest of some runs, ms.
    pub async fn best_ms(&self, text: &str, runs: usize) -> f64 {
        let mut best = f64::INFINITY;
        for _ in 0..runs {
            let start = wall();
            self.run(text).await;
            best = best.min((wall() - start).as_secs_f64() * 1e3);
        }
        best
    }

    /// What EXPLAIN says of a query.
    pub async fn plan(&self, text: &str) -> String {
        let told = self.run(&format!("EXPLAIN {text}")).await;
        let told = told.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
        told.map(|(batch, row)| array_value_to_string(batch.column(1), row).unwrap()).collect()
    }

    /// Rows that the scans of a statement read of the storage, by what EXPLAIN ANALYZE says: of all
    /// tables, or of one.
    pub async fn rows_read(&self, text: &str, of: Option<&str>) -> f64 {
        let table = of.map(|name| format!("table=default.{name},"));
        let mut rows = 0.0;
        for batch in self.run(&format!("EXPLAIN ANALYZE {text}")).await {
            for row in 0..batch.num_rows() {
                let plan = array_value_to_string(batch.column(1), row).unwrap();
                let lines = plan.lines().filter(|line| line.contains("table="));
                let lines =
                    lines.filter(|line| table.as_ref().is_none_or(|name| line.contains(name)));
                rows += lines.map(|line| counter(line, "rows_read=")).sum::<f64>();
            }
        }
        rows
    }

    pub async fn close(self) {
        self.session.database().close().await.unwrap();
    }
}

/// The counter of this name in a line of a plan; 0 where it is not shown.
fn counter(line: &str, name: &str) -> f64 {
    let Some(at) = line.find(name) else { return 0.0 };
    let text = &line[at + name.len()..];
    let end = text.find([',', ']']).unwrap_or(text.len());
    let (number, unit) = text[..end].split_once(' ').unwrap_or((&text[..end], ""));
    let factor = match unit {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        other => panic!("a counter of unit {other}: {line}"),
    };
    number.parse::<f64>().unwrap() * factor
}
