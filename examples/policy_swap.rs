//! Draws the hit ratio of a row cache over time while the policy of the live database changes.
//!
//! ```text
//! cargo run --release --example policy_swap -- docs/policy-swap.svg
//! ```
//! Point reads follow a Zipf law over 20,000 rows. After every hundred of them a scan reads 400
//! rows that nobody asks for again soon. The cache holds about two thirds of the hot rows. The
//! program starts with the native LRU, puts the component S3-FIFO in charge, and rolls that back.
//! The data directory is temporary.
//!
//! Time is counted in reads, and a seed chooses them: each run draws the same picture.

use std::error::Error;
use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use tidegate::output::plot::{Chart, Curve, Scale};
use tidegate_engine::batch::RecordBatch;
use tidegate_engine::clock::Random;
use tidegate_engine::{
    Cell, ClusteringKey, ClusteringOrder, ClusteringRange, Column, ColumnId, ColumnKind, DataType,
    Database, Direction, Durability, Liveness, Mutation, Options, PartitionKey, Partitions,
    ReadCommand, Result, Row, SchemaRef, Slice, TableId, TableOptions, TableSchema, Value,
};

const COMPONENT: &str = "plugins/dist/s3_fifo.wasm";
/// Partitions of rows that are read again and again, and the rows of each.
const HOT_PARTITIONS: i64 = 200;
const HOT_ROWS: i64 = 100;
/// Partitions that a scan reads once, and the rows of each.
const SCANNED_PARTITIONS: i64 = 60;
const SCANNED_ROWS: i64 = 400;
const ZIPF: f64 = 0.99;
const VALUE_BYTES: usize = 100;
/// Two thirds of the hot rows, at about 250 bytes each.
const CACHE_BYTES: usize = (HOT_PARTITIONS * HOT_ROWS) as usize * 2 / 3 * 250;
const READS_BETWEEN_SCANS: usize = 100;

/// How long the program watches.
#[derive(Clone, Copy)]
struct Length {
    /// Point reads between two points of the curve.
    reads: usize,
    /// Points of the curve under each policy.
    points: usize,
}

const FULL: Length = Length { reads: 2_000, points: 20 };

fn definition() -> TableSchema {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    TableSchema {
        id: TableId(0),
        keyspace: "default".into(),
        name: "reading".into(),
        columns: vec![
            column("sensor", DataType::BigInt, ColumnKind::PartitionKey { position: 0 }),
            column("at", DataType::BigInt, ColumnKind::ClusteringKey { position: 0, order }),
            column("value", DataType::Blob, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    }
}

/// The database with what reads it.
struct Load {
    database: Database,
    schema: SchemaRef,
    /// Sums of the weights of the hot rows, the most popular first.
    sums: Vec<f64>,
    random: Random,
    scanned: i64,
}

impl Load {
    async fn open(directory: &Path) -> Result<Load> {
        let mut options = Options::new(directory);
        options.shards = Some(1);
        options.durability = Durability::None;
        options.cache_bytes = CACHE_BYTES;
        let database = Database::open(options).await?;
        let schema = database.create_table(definition(), false).await?;
        for sensor in 0..HOT_PARTITIONS + SCANNED_PARTITIONS {
            let rows = if sensor < HOT_PARTITIONS { HOT_ROWS } else { SCANNED_ROWS };
            let timestamp = database.timestamp_us();
            let writes = (0..rows).map(|at| insert(&schema, (sensor, at), timestamp));
            database.apply_many(writes.collect::<Result<_>>()?).await?;
        }
        database.flush(None).await?;
        let mut sum = 0.0;
        let weights = (1..=HOT_PARTITIONS * HOT_ROWS).map(|rank| {
            sum += (rank as f64).powf(-ZIPF);
            sum
        });
        Ok(Load { sums: weights.collect(), database, schema, random: Random::new(4), scanned: 0 })
    }

    async fn read(&self, sensor: i64, ranges: Vec<ClusteringRange>) -> Result<()> {
        let command = ReadCommand {
            schema: self.schema.clone(),
            partitions: Partitions::Keys(vec![partition(&self.schema, sensor)?]),
            slice: Slice { ranges, direction: Direction::Forward },
            columns: vec![ColumnId(2)],
            stamps: Vec::new(),
            row_limit: None,
            partition_limit: None,
            deadline: None,
            level: Default::default(),
            past_cache: false,
            filter: None,
        };
        let _: Vec<RecordBatch> = self.database.read(command).try_collect().await?;
        Ok(())
    }

    async fn row_hits(&self) -> Result<u64> {
        let reports = self.database.row_cache_report().await?;
        Ok(reports.iter().map(|report| report.stats.row_hits).sum())
    }

    /// Makes the reads of one point of the curve: the share that came from memory.
    async fn hit_ratio(&mut self, reads: usize) -> Result<f64> {
        let total = self.sums.last().copied().unwrap_or_default();
        let mut hits = 0;
        for _ in 0..reads / READS_BETWEEN_SCANS {
            let before = self.row_hits().await?;
            for _ in 0..READS_BETWEEN_SCANS {
                let at = self.random.below(1 << 53) as f64 / (1_u64 << 53) as f64 * total;
                let rank = self.sums.partition_point(|sum| *sum < at) as i64;
                // Neighbours in rank are no neighbours on disk.
                let place = rank * 7_919 % (HOT_PARTITIONS * HOT_ROWS);
                let row = clustering(&self.schema, place / HOT_PARTITIONS)?;
                self.read(place % HOT_PARTITIONS, vec![ClusteringRange::prefix(row)]).await?;
            }
            hits += self.row_hits().await? - before;
            let sensor = HOT_PARTITIONS + self.scanned % SCANNED_PARTITIONS;
            self.read(sensor, vec![ClusteringRange::full()]).await?;
            self.scanned += 1;
        }
        Ok(hits as f64 / reads as f64)
    }
}

fn partition(schema: &TableSchema, sensor: i64) -> Result<PartitionKey> {
    PartitionKey::from_values(schema, &[Value::BigInt(sensor)])
}

fn clustering(schema: &TableSchema, at: i64) -> Result<ClusteringKey> {
    ClusteringKey::from_values(schema, &[Value::BigInt(at)])
}

fn insert(schema: &TableSchema, (sensor, at): (i64, i64), timestamp: i64) -> Result<Mutation> {
    let mut mutation = Mutation::new(schema.id, partition(schema, sensor)?);
    let row = Row {
        liveness: Some(Liveness::at(timestamp)),
        cells: vec![(ColumnId(2), Cell::live(timestamp, vec![b'v'; VALUE_BYTES]))],
        ..Row::default()
    };
    mutation.rows.push((clustering(schema, at)?, row));
    Ok(mutation)
}

/// Measures and draws; `told` gets a line for each policy.
async fn run(
    length: Length,
    mut told: impl FnMut(&str),
) -> std::result::Result<Chart, Box<dyn Error>> {
    let Length { reads, points: count } = length;
    let directory = tempfile::tempdir()?;
    let mut load = Load::open(directory.path()).await?;
    let component = std::fs::read(COMPONENT)
        .map_err(|error| format!("{COMPONENT}: {error}; start at the root of the checkout"))?;
    load.database.create_policy("s3_fifo", component, Vec::new(), None).await?;
    // What is read first only fills the cache.
    for _ in 0..count {
        load.hit_ratio(reads).await?;
    }
    let (mut points, mut events) = (Vec::new(), Vec::new());
    for policy in [None, Some("s3_fifo"), None] {
        match policy {
            Some(name) => load.database.set_cache_policy(Some(name)).await?,
            None if points.is_empty() => {}
            None => drop(load.database.roll_back_cache_policy().await?),
        }
        if !points.is_empty() {
            let what = policy.map_or("ROLLBACK POLICY".into(), |name| format!("POLICY = {name}"));
            events.push(((points.len() * reads) as f64, what));
        }
        for _ in 0..count {
            let ratio = load.hit_ratio(reads).await?;
            points.push(((points.len() * reads + reads) as f64, ratio));
        }
        let last = points.last().map_or(0.0, |point| point.1 * 100.0);
        told(&format!("{}: {last:.1} % of the last reads were hits", policy.unwrap_or("lru")));
    }
    load.database.close().await?;
    Ok(Chart {
        title: "Hit ratio of a live database: LRU, S3-FIFO, LRU".into(),
        unit: "point reads".into(),
        scale: Scale::Linear,
        curves: vec![Curve { name: "row cache".into(), points }],
        events,
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err("name the SVG file that the picture goes to".into());
    };
    let chart = run(FULL, |line| eprintln!("{line}")).await?;
    std::fs::write(&path, chart.svg()).map_err(|error| format!("{}: {error}", path.display()))?;
    print!("{}", chart.text());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Length = Length { reads: 2_000, points: 6 };
    const TINY: Length = Length { reads: 500, points: 2 };
    /// What the README shows.
    const PICTURE: &str = "docs/policy-swap.svg";

    fn chart(length: Length) -> Chart {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let chart = runtime.expect("a runtime").block_on(run(length, |_| ()));
        chart.expect("a run at the root of the checkout")
    }

    #[test]
    fn the_component_gains_and_the_rollback_takes_the_gain_back() {
        let chart = chart(SHORT);
        let ratios: Vec<f64> = chart.curves[0].points.iter().map(|point| point.1).collect();
        let [lru, component, back] = [1, 2, 3].map(|n| ratios[n * SHORT.points - 1]);
        assert!(component > lru + 0.02 && component > back + 0.02, "{ratios:?}");
        let first = SHORT.reads * SHORT.points;
        let events = [(first, "POLICY = s3_fifo"), (2 * first, "ROLLBACK POLICY")];
        assert_eq!(chart.events, events.map(|(at, what)| (at as f64, what.to_owned())));
        let svg = chart.svg();
        assert_eq!(svg.matches("<circle").count(), 3 * SHORT.points);
        assert!(svg.ends_with("</svg>\n") && svg.contains(">ROLLBACK POLICY</text>"), "{svg}");
    }

    #[test]
    fn a_seed_decides_the_whole_picture() {
        assert_eq!(chart(TINY).svg(), chart(TINY).svg());
    }

    #[test]
    fn the_picture_in_the_documents_is_one_of_these() {
        let picture = std::fs::read_to_string(PICTURE).expect("the picture of the README");
        assert_eq!(picture.matches("<circle").count(), 3 * FULL.points);
        for part in ["POLICY = s3_fifo</text>", "ROLLBACK POLICY</text>", ">row cache</text>"] {
            assert!(picture.contains(part), "{part}");
        }
    }
}
