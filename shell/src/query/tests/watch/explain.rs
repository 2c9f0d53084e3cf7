//! EXPLAIN ANALYZE: the storage's counters beside those of DataFusion.

use super::super::World;
use super::cold;

const PAGE: &str = "SELECT ck FROM t WHERE pk = 1 ORDER BY ck DESC LIMIT 10";

/// The metrics of the one read of a statement, by name.
async fn metrics(world: &World, text: &str) -> Vec<(String, String)> {
    let analyzed = world.rows(&format!("EXPLAIN ANALYZE {text}")).await;
    let of_reads = analyzed.split("Tide").skip(1).filter_map(|rest| rest.split_once("metrics=["));
    let of_reads: Vec<&str> = of_reads.filter_map(|(_, rest)| rest.split(']').next()).collect();
    let [of_read] = of_reads[..] else { panic!("one read is wanted: {analyzed}") };
    let named = of_read.split(", ").filter_map(|metric| metric.split_once('='));
    named.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn has(metrics: &[(String, String)], wanted: &[(&str, Option<&str>)]) {
    for (name, value) in wanted {
        let found = metrics.iter().find(|(known, _)| known == name);
        let found = found.map(|(_, value)| value.as_str());
        assert_eq!(found, *value, "{name} in {metrics:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reversed_page_says_where_its_rows_came_from() {
    for short_path in [true, false] {
        let world = cold().await;
        world.run(&format!("SET tidegate.short_path = {short_path}")).await;
        let cold = metrics(&world, PAGE).await;
        has(
            &cold,
            &[
                ("rows_read", Some("10")),
                ("partitions", Some("1")),
                ("cache_misses", Some("1")),
                ("cache_hits", None),
                ("cache_rows", None),
                ("sstable_reads", Some("1")),
                ("memtable_rows", None),
                ("rows_dropped", None),
            ],
        );
        assert!(cold.iter().any(|(name, _)| name == "disk_reads"), "{cold:?}");
        assert!(cold.iter().any(|(name, _)| name == "time_disk"), "{cold:?}");
        let warm = metrics(&world, PAGE).await;
        has(
            &warm,
            &[
                ("rows_read", Some("10")),
                ("cache_hits", Some("1")),
                ("cache_rows", Some("10")),
                ("sstable_rows", None),
                ("disk_reads", None),
                ("gaps_filled", None),
            ],
        );
        let all = metrics(&world, "SELECT ck FROM t WHERE pk = 1").await;
        has(&all, &[("gaps_filled", Some("1")), ("cache_hits", Some("1"))]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_and_memtables_are_counted() {
    let world = cold().await;
    world.run("DELETE FROM t WHERE pk = 1 AND ck <= 40").await;
    world.run("DELETE FROM t WHERE pk = 1 AND ck = 60").await;
    world.run("INSERT INTO t VALUES (1, 10000, 'y')").await;
    let all = metrics(&world, "SELECT ck FROM t WHERE pk = 1 AND ck <= 100").await;
    has(
        &all,
        &[
            ("rows_read", Some("59")),
            ("rows_dropped", Some("41")),
            ("tombstones", Some("2")),
            ("sstable_rows", Some("100")),
            ("memtable_rows", Some("1")),
        ],
    );
    // A scan of all shards: each is a stream of one read.
    let scan = metrics(&world, "SELECT ck FROM t").await;
    has(
        &scan,
        &[("rows_dropped", Some("41")), ("tombstones", Some("2")), ("partitions", Some("1"))],
    );
}

/// The text as people see it, without what differs from run to run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_short_path_tells_what_it_did() {
    let world = cold().await;
    let (cold, warm) = (analyzed(&world, PAGE).await, analyzed(&world, PAGE).await);
    let point = analyzed(&world, "SELECT v FROM t WHERE pk = 1 AND ck = 7").await;
    let planned = analyzed(&world, "SELECT v FROM t WHERE pk = 1 AND ck % 100 = 7").await;
    insta::assert_snapshot!([cold, warm, point, planned].join("\n\n"));
}

async fn analyzed(world: &World, text: &str) -> String {
    let batches = world.run(&format!("EXPLAIN ANALYZE {text}")).await.collect().await.unwrap();
    let mut lines = vec![text.to_owned()];
    for batch in &batches {
        let column = |at| datafusion::common::cast::as_string_array(batch.column(at)).unwrap();
        for row in 0..batch.num_rows() {
            lines.push(format!("{}: {}", column(0).value(row), masked(column(1).value(row))));
        }
    }
    lines.join("\n")
}

/// A text without its times, bytes and numbers of pages: these depend on how close writes came. It
/// has no time of admission.
fn masked(text: &str) -> String {
    let is_steady = |name: &str| {
        let varies = ["time_", "elapsed_", "output_bytes", "disk_", "pages_"];
        !varies.iter().any(|start| name.rsplit('[').next().unwrap_or("").starts_with(start))
    };
    // Whether a read waits depends on how fast its reader is.
    let is_told = |part: &&str| !part.starts_with("time_admission=");
    let parts = text.split(", ").filter(is_told).map(|part| match part.split_once('=') {
        Some((name, _)) if name.contains("metrics=[") || is_steady(name) => part.to_owned(),
        Some((name, value)) => {
            let end = value.find([']', '\n']).map_or("", |end| &value[end..]);
            format!("{name}=…{end}")
        }
        None => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join(", ")
}
