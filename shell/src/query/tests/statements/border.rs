//! Options at the borders of what they take, one by one.

use tidegate_engine::{CompactionClass, CompactionOptions, Thousandths, WindowUnit};

use crate::query::tests::World;

/// Options of a table, with a value as DESCRIBE shows it.
const OPTIONS: &[(&str, &str)] = &[
    ("column_index_size_in_kb", "1"),
    ("column_index_size_in_kb", "65536"),
    ("comment", "'it''s'"),
    ("comment", "''"),
    ("compaction", "{'class': 'LeveledCompactionStrategy', 'fanout_size': 4}"),
    ("compression", "{'class': 'ZstdCompressor', 'chunk_length_in_kb': 8, 'compression_level': 5}"),
    ("compression", "{'enabled': false}"),
    ("default_time_to_live", "1"),
    ("default_time_to_live", "630720000"),
    ("default_time_to_live", "0"),
    ("gc_grace_seconds", "0"),
    ("gc_grace_seconds", "2147483647"),
    ("large_data", "{'row_bytes': 5, 'partition_rows': 6}"),
    ("large_data", "{}"),
    ("on_corruption", "'skip'"),
    ("on_corruption", "'fail'"),
    ("per_partition_rate_limit", "{'max_reads_per_second': 7, 'max_writes_per_second': 8}"),
    ("per_partition_rate_limit", "{'max_writes_per_second': 9}"),
    ("rate_limit_by", "'k'"),
    ("rate_limit_by", "''"),
];

/// Values that an option does not take.
const REFUSED: &[(&str, &str)] = &[
    ("column_index_size_in_kb", "0"),
    ("column_index_size_in_kb", "65537"),
    ("column_index_size_in_kb", "-1"),
    ("comment", "5"),
    ("compression", "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 0}"),
    ("default_time_to_live", "-1"),
    ("default_time_to_live", "630720001"),
    ("default_time_to_live", "2147483648"),
    ("gc_grace_seconds", "-1"),
    ("gc_grace_seconds", "2147483648"),
    ("large_data", "{'row_bytes': 'many'}"),
    ("on_corruption", "'repair'"),
    ("per_partition_rate_limit", "{'max_reads_per_second': -1}"),
    ("rate_limit_by", "'v'"),
    ("rate_limit_by", "'nosuch'"),
];

/// Names and values of the options that DESCRIBE shows of table t.
async fn options(world: &World) -> Vec<(String, String)> {
    let shown = world.rows("DESCRIBE t").await;
    let rows = shown.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let options = rows.filter(|cells| cells.get(3) == Some(&"option"));
    options.map(|cells| (cells[1].to_owned(), cells[2].to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_option_of_a_table_is_changed_alone_and_not_beyond_its_border() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))").await;
    let mut wanted = options(&world).await;
    assert_eq!(wanted.len(), 10, "{wanted:?}");
    for (name, value) in OPTIONS {
        world.run(&format!("ALTER TABLE t WITH {name} = {value}")).await;
        let place = wanted.iter().position(|(known, _)| known == name).unwrap();
        wanted[place].1 = (*value).to_owned();
        assert_eq!(options(&world).await, wanted, "{name} = {value}");
    }
    for (name, value) in REFUSED {
        // Nor is what stands before it.
        let text = format!("ALTER TABLE t WITH comment = 'new' AND {name} = {value}");
        let error = world.error(&text).await;
        assert!(error.span.is_some(), "{text}: {error}");
        assert_eq!(options(&world).await, wanted, "{text}");
        let create = format!("CREATE TABLE u (k int PRIMARY KEY, v int) WITH {name} = {value}");
        world.error(&create).await;
        assert!(world.session.database().catalog().table("default", "u").is_none(), "{create}");
    }
    // Another table has its own.
    world.run("CREATE TABLE u (k int PRIMARY KEY)").await;
    world.run("ALTER TABLE u WITH comment = 'of u' AND gc_grace_seconds = 5").await;
    assert_eq!(options(&world).await, wanted);
}

/// An entry of `compaction`, a value as DESCRIBE shows it, and what the engine keeps of it.
type Entry = (&'static str, &'static str, fn(&mut CompactionOptions));

const COMPACTION: [Entry; 13] = [
    ("enabled", "false", |options| options.is_enabled = false),
    ("min_threshold", "3", |options| options.min_threshold = 3),
    ("max_threshold", "33", |options| options.max_threshold = 33),
    ("bucket_low", "0.25", |options| options.bucket_low = Thousandths(250)),
    ("bucket_high", "1.75", |options| options.bucket_high = Thousandths(1750)),
    ("min_sstable_size", "7", |options| options.min_sstable_bytes = 7),
    ("sstable_size_in_mb", "9", |options| options.sstable_bytes = 9 << 20),
    ("fanout_size", "5", |options| options.fanout = 5),
    ("space_amplification_goal", "1.5", |options| {
        options.space_amplification_goal = Some(Thousandths(1500));
    }),
    ("compaction_window_unit", "'HOURS'", |options| options.window_unit = WindowUnit::Hours),
    ("compaction_window_size", "6", |options| options.window_size = 6),
    ("tombstone_threshold", "0.4", |options| options.tombstone_threshold = Thousandths(400)),
    ("tombstone_compaction_interval", "60", |options| options.tombstone_interval_seconds = 60),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_entry_of_compaction_is_kept_by_itself_with_the_usual_ones_of_its_strategy() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY)").await;
    for class in [CompactionClass::SizeTiered, CompactionClass::Incremental] {
        for (name, value, change) in COMPACTION {
            let mut wanted = CompactionOptions::of_class(class);
            change(&mut wanted);
            let (class, quoted) = (class.class(), value.replace('\'', ""));
            let as_shown = format!("{{'class': '{class}', '{name}': {value}}}");
            let as_in_cql = format!("{{'{name}': '{quoted}', 'class': '{class}'}}");
            for text in [&as_shown, &as_in_cql] {
                world.run("ALTER TABLE t WITH compaction = {'class': 'TWCS'}").await;
                world.run(&format!("ALTER TABLE t WITH compaction = {text}")).await;
                let catalog = world.session.database().catalog();
                let found = catalog.table("default", "t").unwrap().options.compaction;
                assert_eq!(found, wanted, "{text}");
                let shown = options(&world).await;
                let shown = shown.into_iter().find(|(name, _)| name == "compaction");
                assert_eq!(shown.unwrap().1, as_shown, "{text}");
            }
        }
    }
}

/// Options that are maps, with a value as it may be written and as DESCRIBE shows it.
const MAPS: &[(&str, &str, &str)] = &[
    ("large_data", "{'partition_bytes': 5}", "{'partition_bytes': 5}"),
    ("large_data", "{'row_bytes': '5'}", "{'row_bytes': 5}"),
    ("large_data", "{cell_bytes: 5}", "{'cell_bytes': 5}"),
    ("large_data", "{'partition_rows': 5}", "{'partition_rows': 5}"),
    ("large_data", "{'collection_elements': 5}", "{'collection_elements': 5}"),
    ("per_partition_rate_limit", "{'max_reads_per_second': 5}", "{'max_reads_per_second': 5}"),
    ("per_partition_rate_limit", "{'max_writes_per_second': 5}", "{'max_writes_per_second': 5}"),
    (
        "compression",
        "{'sstable_compression': 'SnappyCompressor', 'chunk_length_kb': 32}",
        "{'class': 'SnappyCompressor', 'chunk_length_in_kb': 32}",
    ),
    (
        "compression",
        "{'class': 'org.apache.cassandra.io.compress.DeflateCompressor'}",
        "{'class': 'DeflateCompressor', 'chunk_length_in_kb': 16}",
    ),
    (
        "compression",
        "{'enabled': 'true', 'class': 'LZ4Compressor'}",
        "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}",
    ),
    (
        "compression",
        "{'class': 'ZstdCompressor', 'compression_level': 22}",
        "{'class': 'ZstdCompressor', 'chunk_length_in_kb': 16, 'compression_level': 22}",
    ),
    ("compression", "{'class': 'LZ4Compressor', 'enabled': false}", "{'enabled': false}"),
    ("compression", "{'sstable_compression': ''}", "{'enabled': false}"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_entry_of_a_map_is_kept_under_its_own_name_in_whatever_form_it_is_written() {
    let world = World::new().await;
    for (number, (name, written, wanted)) in MAPS.iter().enumerate() {
        world.run(&format!("CREATE TABLE t (k int PRIMARY KEY) WITH {name} = {written}")).await;
        let made = options(&world).await;
        world.run("DROP TABLE t").await;
        world.run("CREATE TABLE t (k int PRIMARY KEY)").await;
        world.run(&format!("ALTER TABLE t WITH {name} = {written}")).await;
        assert_eq!(options(&world).await, made, "{number}: {written}");
        world.run("DROP TABLE t").await;
        let shown = made.into_iter().find(|(known, _)| known == name);
        assert_eq!(shown.unwrap().1, *wanted, "{number}: {written}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_and_timeouts_are_taken_up_to_their_borders_alone() {
    let world = World::new().await;
    world.run("CREATE SERVICE LEVEL gold WITH shares = 7 AND timeout = 9ms").await;
    let gold = "SELECT concat_ws(' ', shares, timeout_ms) FROM system.service_levels \
                WHERE name = 'gold'";
    let class = "SELECT DISTINCT shares FROM system.io WHERE class = 'flush'";
    world.run("ALTER IO CLASS flush SET SHARES = 7").await;
    let mut of_class = "7".to_owned();
    for (number, is_taken) in [("0", false), ("1", true), ("1000", true), ("1001", false)] {
        let texts = [
            format!("CREATE SERVICE LEVEL l{number} WITH shares = {number}"),
            format!("ALTER SERVICE LEVEL gold WITH shares = {number}"),
            format!("ALTER IO CLASS flush SET SHARES = {number}"),
        ];
        for text in &texts {
            match is_taken {
                true => drop(world.run(text).await),
                false => drop(world.error(text).await),
            }
        }
        if is_taken {
            number.clone_into(&mut of_class);
        }
        assert_eq!(world.column(gold).await, [format!("{of_class} 9")], "{number}");
        assert_eq!(world.column(class).await, [&*of_class], "{number}");
        let made = format!("SELECT count(*) FROM system.service_levels WHERE name = 'l{number}'");
        assert_eq!(world.column(&made).await, [u8::from(is_taken).to_string()], "{number}");
    }
    let mut timeout = "9".to_owned();
    for (text, ms) in [
        ("0ms", None),
        ("0s", None),
        ("999us", None),
        ("1ms", Some("1")),
        ("1500us", None),
        ("2000us", Some("2")),
        ("1s1ms", Some("1001")),
        ("1d", Some("86400000")),
    ] {
        let alter = format!("ALTER SERVICE LEVEL gold WITH timeout = {text}");
        match ms {
            Some(ms) => {
                world.run(&alter).await;
                ms.clone_into(&mut timeout);
            }
            None => drop(world.error(&alter).await),
        }
        assert_eq!(world.column(gold).await, [format!("1000 {timeout}")], "{text}");
    }
}
