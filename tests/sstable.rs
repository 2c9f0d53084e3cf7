//! SSTables of Cassandra as people meet them: `tidegate sstable`, ATTACH and IMPORT by the program.
//!
//! What must come out is what Cassandra itself said of these files (`tests/data/sstables`).

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "sstable/answer.rs"]
mod answer;
#[path = "sstable/products.rs"]
mod products;
mod skip;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use answer::*;

#[test]
fn attached_tables_hold_what_cassandra_selects() {
    for table in &tables() {
        let directory = tempfile::tempdir().unwrap();
        let select = format!("SELECT * FROM {table}");
        let found = rows(directory.path(), &[attach("me", table), select]);
        assert_same(found, selected(table), table);
    }
}

#[test]
fn slices_and_reversed_reads_equal_cassandras() {
    let compared = check_queries(|table, statement| {
        let directory = tempfile::tempdir().unwrap();
        // One shard, so that whole tables come in the order of the ring.
        rows_sharded("1", directory.path(), &[attach("me", table), statement])
    });
    assert_eq!(compared, 7);
}

#[test]
fn attached_tables_take_part_in_everything_but_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let explain = rows(
        path,
        &[
            attach("me", "wide_none"),
            "EXPLAIN SELECT ck FROM wide_none WHERE pk = 1 AND ck < 5 ORDER BY ck DESC LIMIT 3"
                .into(),
        ],
    );
    let plan = explain.iter().map(Json::to_string).collect::<String>();
    assert!(
        plan.contains("TideScan") && plan.contains("reversed") && !plan.contains("SortExec"),
        "{plan}"
    );
    let joined = rows(
        path,
        &[attach("me", "simple_lz4"),
          attach("nb", "simple_zstd"),
          "SELECT count(*) AS n FROM simple_lz4 a JOIN simple_zstd b ON a.pk = b.pk AND a.ck = b.ck \
           WHERE a.v = b.v".into()],
    );
    assert_eq!(joined[0]["n"], 3000);
    let copied = rows(
        path,
        &[
            attach("nb", "tombs"),
            "COPY (SELECT * FROM tombs) TO 'tombs.parquet'".into(),
            "CREATE TABLE t (pk int, a int, b int, v text, PRIMARY KEY (pk, a, b))".into(),
            "COPY t FROM 'tombs.parquet'".into(),
            "SELECT * FROM t".into(),
        ],
    );
    assert_same(copied, selected("tombs"), "parquet");
    let tables = rows(path, &[attach("me", "tombs"), "SHOW TABLES".into()]);
    assert!(tables.iter().any(|row| row["table_name"] == "tombs"), "{tables:?}");
    for (statement, named) in [
        ("INSERT INTO tombs VALUES (1, 1, 1, 'x')", "attached"),
        ("DELETE FROM tombs WHERE pk = 1", "attached"),
        ("DROP TABLE tombs", "DETACH"),
        ("CREATE TABLE tombs (a int PRIMARY KEY)", "exists already"),
    ] {
        let output = run_in(path, &["-c", &attach("me", "tombs"), "-c", statement]);
        assert_eq!(output.status.code(), Some(1), "{statement}");
        assert!(err(&output).contains(named), "{statement}: {}", err(&output));
    }
    let output = run_in(
        path,
        &["-c", &attach("me", "tombs"), "-c", "DETACH tombs", "-c", "SELECT * FROM tombs"],
    );
    assert!(err(&output).contains("table 'tombs' does not exist"), "{}", err(&output));
    // Nothing of it outlives the process.
    let output = run_in(path, &["-c", "SELECT * FROM tombs"]);
    assert_eq!(output.status.code(), Some(1));
}

fn copy_fixture(version: &str, table: &str, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(fixture(version, table)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn damaged_files_fail_or_are_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let files = path.join("simple_none");
    copy_fixture("me", "simple_none", &files);
    // A second SSTable of the same table, damaged where it is opened.
    for entry in std::fs::read_dir(fixture("me", "simple_none")).unwrap() {
        let from = entry.unwrap().path();
        let name = from.file_name().unwrap().to_string_lossy().replace("me-1-", "me-2-");
        std::fs::copy(&from, files.join(name)).unwrap();
    }
    std::fs::write(files.join("me-2-big-Statistics.db"), b"no statistics").unwrap();
    let attach = format!("ATTACH SSTABLES '{}' AS t", files.display());
    let output = run_in(path, &["-c", &attach]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("me-2-big-Statistics.db"), "{}", err(&output));
    let skip = format!("{attach} WITH (ON_CORRUPTION = 'skip')");
    let output = run_in(path, &["--mode", "csv", "-c", &skip, "-c", "SELECT count(*) AS n FROM t"]);
    let text = succeeded(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].contains("me-1-big-Data.db,attached,"), "{text}");
    assert!(
        lines[2].contains("me-2-big-Data.db,left out,") && lines[2].contains("offset"),
        "{text}"
    );
    assert_eq!(lines[3..], ["n", "3000"]);

    // Damage that is met while reading.
    let statistics = |number: u32| files.join(format!("me-{number}-big-Statistics.db"));
    std::fs::copy(statistics(1), statistics(2)).unwrap();
    // One that only the shards find out when they open it: it is told once, and left out by all.
    let index = |number: u32| files.join(format!("me-{number}-big-Index.db"));
    std::fs::write(index(2), b"no index").unwrap();
    let output = run_in(path, &["--mode", "csv", "-c", &skip, "-c", "SELECT count(*) AS n FROM t"]);
    let text = succeeded(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].contains("me-2-big-Data.db,left out,"), "{text}");
    assert_eq!(lines[3..], ["n", "3000"]);
    std::fs::copy(index(1), index(2)).unwrap();
    // What the index tells is taken from it.
    std::fs::write(files.join("me-2-big-Summary.db"), b"no summary").unwrap();
    let corruption = "SELECT DISTINCT file, rebuilt FROM system.corruption";
    let output = run_in(path, &["--mode", "csv", "-c", &attach, "-c", corruption]);
    let text = succeeded(&output);
    assert!(text.ends_with("me-2-big-Summary.db,1\n"), "{text}");
    assert!(err(&output).contains("me-2-big-Summary.db is damaged and left out"));
    std::fs::remove_file(files.join("me-2-big-Summary.db")).unwrap();
    let data = files.join("me-2-big-Data.db");
    let mut content = std::fs::read(&data).unwrap();
    content[70_000] ^= 0xff;
    std::fs::write(&data, content).unwrap();
    let select = "SELECT count(*) AS n FROM t";
    let output = run_in(path, &["-c", &attach, "-c", select]);
    assert_eq!(output.status.code(), Some(1));
    let message = err(&output);
    assert!(message.contains("me-2-big-Data.db") && message.contains("CRC"), "{message}");
    // Every row is in the other file.
    let output = run_in(path, &["--mode", "csv", "-c", &skip, "-c", select]);
    assert!(succeeded(&output).ends_with("n\n3000\n"), "{}", out(&output));
}

/// Files of versions that are not read: ATTACH leaves them out and says so, IMPORT refuses to copy
/// a part.
#[test]
fn files_of_other_versions_are_left_out_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let files = path.join("simple_none");
    copy_fixture("me", "simple_none", &files);
    for other in ["oa-2-big-Data.db", "da-3-bti-Data.db", "mt-4-big-Data.db", "ks-t-ka-5-Data.db"] {
        std::fs::write(files.join(other), b"of another version").unwrap();
    }
    let files = files.to_str().unwrap();
    let count = "SELECT count(*) AS n FROM t";
    let attach = format!("ATTACH SSTABLES '{files}' AS t");
    let output = run_in(path, &["--mode", "csv", "-c", &attach, "-c", count]);
    let text = succeeded(&output);
    assert!(text.contains("me-1-big-Data.db,attached,") && text.ends_with("n\n3000\n"), "{text}");
    for told in ["oa (Cassandra 5)", "da (Cassandra 5)", "mt (ScyllaDB", "ka (Cassandra 2.1)"] {
        let line = text.lines().find(|line| line.contains(told)).unwrap();
        assert!(line.contains(",left out,") && line.contains("is not supported"), "{line}");
    }
    assert!(err(&output).contains("note: 4 SSTables are left out"), "{}", err(&output));
    let fail = format!("{attach} WITH (ON_UNKNOWN = 'fail', ON_CORRUPTION = 'skip')");
    let output = run_in(path, &["-c", &fail]);
    assert_eq!(output.status.code(), Some(1));
    let message = err(&output);
    let named = ["4 of 5 SSTables", "is not supported", "ON_UNKNOWN = 'skip'"];
    assert!(named.iter().all(|part| message.contains(part)), "{message}");

    let create = "CREATE TABLE t (pk text, ck int, v text, PRIMARY KEY (pk, ck))";
    let import = format!("IMPORT SSTABLES '{files}' INTO t");
    let output = run_in(path, &["-c", create, "-c", &import]);
    assert_eq!(output.status.code(), Some(1));
    assert!(named.iter().all(|part| err(&output).contains(part)), "{}", err(&output));
    let skip = format!("{import} WITH (ON_UNKNOWN = 'skip')");
    let output = run_in(path, &["--mode", "csv", "-c", count, "-c", &skip, "-c", count]);
    let text = succeeded(&output);
    assert!(text.starts_with("n\n0\n") && text.ends_with("n\n3000\n"), "{text}");

    let query =
        ["sstable", "query", "--mode", "csv", "SELECT count(*) AS n FROM simple_none", files];
    let output = run_in(path, &query);
    assert_eq!(succeeded(&output), "n\n3000\n");
    assert!(err(&output).contains("version oa (Cassandra 5) is not supported"), "{}", err(&output));
    let output = run_in(path, &["sstable", "verify", files]);
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains(": sound ("), "{}", out(&output));
    assert!(err(&output).contains("version oa (Cassandra 5) is not supported"), "{}", err(&output));
}

/// A row of two clustering columns and a value of type int, the second clustering value missing or
/// not.
fn compact_row(previous: u8, (a, b): (i32, Option<i32>), value: i32) -> Vec<u8> {
    // All columns, and what follows of the key: two bits a column, 2 for null.
    let mut row = vec![0x20, if b.is_some() { 0 } else { 0b10_00 }];
    row.extend(a.to_be_bytes());
    row.extend(b.into_iter().flat_map(i32::to_be_bytes));
    // Size of the body; a cell with a timestamp of its own.
    row.extend([7, previous, 0, 0]);
    row.extend(value.to_be_bytes());
    row
}

/// Rows of tables WITH COMPACT STORAGE may lack the last values of their key: those are null.
#[test]
fn rows_that_lack_a_clustering_value_show_null() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let create = "CREATE TABLE own (pk int, a int, b int, v int, PRIMARY KEY (pk, a, b))";
    // The bounds that the statistics state hold for the rows below as well.
    let insert = "INSERT INTO own VALUES (1, 0, 0, 1), (1, 9, 9, 1)";
    rows_sharded("1", path, &[create.into(), insert.into()]);
    // The header of a table of ours, over data as Cassandra writes it.
    let statistics = own_files(path, "own", "-Statistics.db").remove(0);
    let files = path.join("compact");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::copy(statistics, files.join("me-1-big-Statistics.db")).unwrap();
    let key = [0, 4, 0, 0, 0, 1];
    let mut data = key.to_vec();
    data.extend([0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]);
    let mut previous = data.len() as u8;
    let keys = [(1, None), (1, Some(5)), (2, None), (2, Some(7))];
    for (i, key) in keys.into_iter().enumerate() {
        let row = compact_row(previous, key, 10 * (1 + i as i32));
        previous = row.len() as u8;
        data.extend(row);
    }
    data.push(1);
    std::fs::write(files.join("me-1-big-Data.db"), data).unwrap();
    std::fs::write(files.join("me-1-big-Index.db"), [&key[..], &[0, 0]].concat()).unwrap();

    let attach = format!("ATTACH SSTABLES '{}' AS t", files.display());
    let values = |select: &str| -> Vec<i64> {
        let found = rows(path, &[attach.clone(), select.to_owned()]);
        found.iter().map(|row| row["v"].as_i64().unwrap()).collect()
    };
    let all = rows(path, &[attach.clone(), "SELECT ck1, ck2, v FROM t".into()]);
    let wanted = [(1, None, 10), (1, Some(5), 20), (2, None, 30), (2, Some(7), 40)];
    let row = |(a, b, v): (i32, Option<i32>, i32)| {
        let b = b.map_or(Json::Null, Json::from);
        serde_json::json!({ "ck1": a, "ck2": b, "v": v })
    };
    assert_eq!(all, wanted.map(row));
    for (condition, wanted) in [
        ("ck2 IS NULL", &[10, 30][..]),
        ("ck2 IS NOT NULL", &[20, 40]),
        ("pk = 1 AND ck1 = 1 AND ck2 < 6", &[20]),
        ("pk = 1 AND ck1 = 2 AND ck2 > 6", &[40]),
        ("pk = 1 AND ck1 = 1 AND ck2 = 5", &[20]),
        ("pk = 1 AND ck1 > 1", &[30, 40]),
        ("pk = 1 AND ck1 = 2", &[30, 40]),
    ] {
        let select = format!("SELECT v FROM t WHERE {condition} ORDER BY v");
        assert_eq!(values(&select), wanted, "{condition}");
    }
    for (order, wanted) in [
        ("ck1, ck2", [20, 10, 40, 30]),
        ("ck1, ck2 NULLS FIRST", [10, 20, 30, 40]),
        ("ck1 DESC, ck2 DESC", [30, 40, 10, 20]),
        ("ck1 DESC, ck2 DESC NULLS LAST", [40, 30, 20, 10]),
    ] {
        let select = format!("SELECT v FROM t WHERE pk = 1 ORDER BY {order}");
        assert_eq!(values(&select), wanted, "{order}");
    }
    let create = create.replace(" a ", " ck1 ").replace(" b ", " ck2 ");
    let create = create.replace("pk, a, b", "pk, ck1, ck2").replace("own", "copy");
    let import = format!("IMPORT SSTABLES '{}' INTO copy", files.display());
    let output = run_in(path, &["-c", &create, "-c", &import]);
    assert_eq!(output.status.code(), Some(1));
    let message = err(&output);
    let named = ["without a value of clustering column 'ck2'", "COMPACT", "ATTACH"];
    assert!(named.iter().all(|part| message.contains(part)), "{message}");
}

#[test]
fn imported_tables_hold_what_cassandra_selects() {
    for table in &tables() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let schema =
            run_in(path, &["sstable", "dump-schema", fixture("me", table).to_str().unwrap()]);
        // Keyspaces are made by their own statement.
        let create = succeeded(&schema).replace("fx.", "").replace(" ascii", " text");
        // As wide as those of the files.
        let create = create.replace(" decimal", " decimal(76, 38)");
        let import = format!("IMPORT SSTABLES '{}' INTO {table}", fixture("me", table).display());
        let select = format!("SELECT * FROM {table}");
        let found = rows(path, &[create, import, select.clone()]);
        assert_same(found, selected(table), table);
        // As another number of shards has it after a restart.
        let output = run_sharded("1", path, &["--mode", "json", "-c", &select]);
        let found = succeeded(&output);
        let found = found.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_same(found, selected(table), table);
    }
}

#[test]
fn an_import_keeps_timestamps_and_tombstones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let create = "CREATE TABLE tombs (pk int, a int, b int, v text, PRIMARY KEY (pk, a, b))";
    let import = format!("IMPORT SSTABLES '{}' INTO tombs", fixture("me", "tombs").display());
    // Older than the tombstones of the files: it must not show. Newer: it must.
    let old = "INSERT INTO tombs VALUES (2, 5, 5, 'old') USING TIMESTAMP 1600000000000000";
    let new = "INSERT INTO tombs VALUES (2, 6, 6, 'new')";
    let select = "SELECT v FROM tombs WHERE pk = 2 AND a IN (5, 6)";
    let found = rows(path, &[create, &import, old, new, select].map(str::to_owned));
    assert_eq!(found, [serde_json::json!({ "v": "new" })]);
    // The flushed files say the same as the first ones, deletions included.
    let dump = |files: &Path| -> Json {
        let output = run_in(path, &["sstable", "dump-data", files.to_str().unwrap()]);
        serde_json::from_str(&succeeded(&output)).unwrap()
    };
    let partition = |dump: &Json, key: &str| -> Json {
        let all = dump.as_array().unwrap().iter();
        let mut found =
            all.filter(|p| p["partition"]["key"][0] == key).cloned().collect::<Vec<_>>();
        let mut found = found.pop().unwrap();
        found["partition"].as_object_mut().unwrap().remove("position");
        for row in found["rows"].as_array_mut().unwrap() {
            row.as_object_mut().unwrap().remove("position");
        }
        found
    };
    let theirs = dump(&fixture("me", "tombs"));
    let data = std::fs::read_dir(path.join("data/data/default")).unwrap().next().unwrap().unwrap();
    let mut compared = 0;
    for entry in std::fs::read_dir(data.path()).unwrap() {
        let file = entry.unwrap().path();
        if !file.to_string_lossy().ends_with("-Data.db") {
            continue;
        }
        let ours = dump(&file);
        for key in ["1", "4", "5", "8"] {
            let is_here = ours.as_array().unwrap().iter().any(|p| p["partition"]["key"][0] == key);
            if is_here {
                assert_eq!(partition(&ours, key), partition(&theirs, key), "partition {key}");
                compared += 1;
            }
        }
        let verified = run_in(path, &["sstable", "verify", file.to_str().unwrap()]);
        assert!(succeeded(&verified).contains(": sound ("), "{}", out(&verified));
    }
    assert_eq!(compared, 4);
}

#[test]
fn an_import_that_would_lose_something_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let files = fixture("me", "simple_none");
    for (columns, named) in [
        ("pk text, ck int, PRIMARY KEY (pk, ck)", "column 'v'"),
        ("pk text, ck int, v int, PRIMARY KEY (pk, ck)", "column 'v'"),
        ("pk text, ck bigint, v text, PRIMARY KEY (pk, ck)", "clustering key"),
        ("ck int, pk text, v text, PRIMARY KEY (ck, pk)", "key"),
    ] {
        let create = format!("CREATE TABLE t ({columns})");
        let import = format!("IMPORT SSTABLES '{}' INTO t", files.display());
        let output = run_in(path, &["-c", &create, "-c", &import]);
        assert_eq!(output.status.code(), Some(1), "{columns}");
        assert!(err(&output).contains(named), "{columns}: {}", err(&output));
        let count = run_in(
            path,
            &["--mode", "csv", "-c", "SELECT count(*) AS n FROM t", "-c", "DROP TABLE t"],
        );
        assert!(succeeded(&count).starts_with("n\n0\n"), "{}", out(&count));
    }
}

#[test]
fn the_tool_dumps_verifies_and_queries() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let tombs = fixture("nb", "tombs");
    let data = tombs.join("nb-1-big-Data.db");
    let tool = |arguments: &[&str]| {
        let all: Vec<&str> = ["sstable"].iter().chain(arguments).copied().collect();
        run_in(path, &all)
    };
    let dumped = succeeded(&tool(&["dump-data", data.to_str().unwrap()]));
    let wanted = std::fs::read_to_string(tombs.join("expected.json")).unwrap();
    assert_eq!(dumped, format!("{wanted}\n"));
    let index = succeeded(&tool(&["dump-index", tombs.to_str().unwrap()]));
    assert!(serde_json::from_str::<Json>(&index).unwrap().is_array());
    let statistics = succeeded(&tool(&["dump-statistics", data.to_str().unwrap()]));
    assert!(statistics.contains("\ntotalRows: "), "{statistics}");
    assert_eq!(succeeded(&tool(&["dump-scylla-metadata", data.to_str().unwrap()])), "null\n");
    let verified =
        tool(&["verify", tombs.to_str().unwrap(), fixture("me", "types").to_str().unwrap()]);
    assert_eq!(succeeded(&verified).matches(": sound (").count(), 2);
    let counted = tool(&[
        "query",
        "--mode",
        "csv",
        "SELECT count(*) AS n FROM tombs",
        tombs.to_str().unwrap(),
    ]);
    assert_eq!(succeeded(&counted), format!("n\n{}\n", selected("tombs").len()));
    assert!(!path.join("data").exists(), "the tools make no data directory");

    // Each failure is told, the rest is done, and the exit code says so.
    let files = path.join("bad");
    copy_fixture("nb", "tombs", &files);
    std::fs::write(files.join("nb-1-big-Digest.crc32"), b"1").unwrap();
    let verified =
        tool(&["verify", files.to_str().unwrap(), "none-Data.db", tombs.to_str().unwrap()]);
    assert_eq!(verified.status.code(), Some(1));
    let (text, message) = (out(&verified), err(&verified));
    assert!(
        text.contains("DAMAGED, 1 problem (") && text.contains("nb-1-big-Digest.crc32 at offset 0"),
        "{text}"
    );
    assert!(text.contains(": sound (") && message.contains("'none-Data.db'"), "{message}");
    // A sound one behind it or before it changes nothing.
    let (bad, sound) = (files.to_str().unwrap(), tombs.to_str().unwrap());
    for all in [[bad, sound], [sound, bad]] {
        let verified = tool(&["verify", all[0], all[1]]);
        assert_eq!(verified.status.code(), Some(1), "{all:?}");
        assert_eq!(out(&verified).matches(": sound (").count(), 1, "{all:?}");
    }
    assert_eq!(tool(&["verify"]).status.code(), Some(2));
    let help = succeeded(&tool(&["verify", "--help"]));
    assert!(
        help.contains("bloom filter") && help.contains("FILE is any file of an SSTable"),
        "{help}"
    );
}

/// Whatever a tool prints: of what it cannot look at it says so, and it does the rest.
#[test]
fn every_tool_goes_on_behind_a_file_that_is_not_there_and_the_exit_code_tells() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let data = fixture("nb", "tombs").join("nb-1-big-Data.db");
    let (sound, absent) = (data.to_str().unwrap(), "me-9-big-Data.db");
    for action in [
        &["dump-data"][..],
        &["dump-index"],
        &["dump-summary"],
        &["dump-statistics"],
        &["dump-statistics", "--json"],
        &["dump-scylla-metadata"],
        &["dump-schema"],
        &["verify"],
    ] {
        let run = |files: &[&str]| run_in(path, &[&["sstable"][..], action, files].concat());
        let alone = succeeded(&run(&[sound]));
        assert!(!alone.is_empty(), "{action:?}");
        for files in [[absent, sound], [sound, absent]] {
            let output = run(&files);
            assert_eq!(output.status.code(), Some(1), "{action:?} {files:?}");
            assert_eq!(out(&output), alone, "{action:?} {files:?}");
            let told = format!("error: {absent}: no such file");
            assert!(err(&output).contains(&told), "{action:?}: {}", err(&output));
        }
    }
    // A statement over a part of what was named would give a wrong answer.
    let count = "SELECT count(*) AS n FROM tombs";
    let output = run_in(path, &["sstable", "query", "--mode", "csv", count, sound, absent]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), ""));
    assert!(err(&output).contains(absent), "{}", err(&output));
}

#[test]
fn a_verification_is_one_object_a_line_where_json_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let files = path.join("bad");
    copy_fixture("nb", "tombs", &files);
    std::fs::write(files.join("nb-1-big-Digest.crc32"), b"1").unwrap();
    let (bad, sound) = (files, fixture("nb", "tombs"));
    for (all, statuses) in
        [([&bad, &sound], ["damaged", "sound"]), ([&sound, &bad], ["sound", "damaged"])]
    {
        let [first, second] = all.map(|path| path.to_str().unwrap());
        let output = run_in(path, &["sstable", "verify", "--mode", "json", first, second]);
        assert_eq!(output.status.code(), Some(1), "{all:?}");
        let text = out(&output);
        let lines: Vec<Json> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        for ((line, status), path) in lines.iter().zip(statuses).zip(all) {
            assert_eq!(line["status"], status, "{line}");
            assert_eq!(line["sstable"], path.join("nb-1-big").to_str().unwrap(), "{line}");
            let count = u64::from(status == "damaged");
            assert_eq!(line["problem_count"], count, "{line}");
            assert_eq!(line["problems"].as_array().unwrap().len() as u64, count, "{line}");
            assert_eq!(line["partitions"], 8, "{line}");
        }
    }
}

/// The table `wide` in files of its own: 2,000 rows of one partition, compressed, in blocks of 1
/// KiB.
fn wide_statements() -> Vec<String> {
    [
        "CREATE TABLE wide (pk int, ck int, v text, tags set<int>, PRIMARY KEY (pk, ck)) WITH \
         compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4} \
         AND column_index_size_in_kb = 1 \
         AND large_data = {'partition_rows': 1000, 'row_bytes': 150, 'cell_bytes': 300, \
         'collection_elements': 2}",
        "INSERT INTO wide (pk, ck, v) SELECT 1, value, concat('v', value, repeat('x', 60)) \
         FROM generate_series(1, 2000) AS s(value)",
        "INSERT INTO wide (pk, ck, v) VALUES (1, 2001, repeat('y', 400))",
        "INSERT INTO wide (pk, ck, tags) VALUES (2, 1, [1, 2, 3])",
        "FLUSH wide",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Files of an own table whose names end so.
fn own_files(directory: &Path, table: &str, end: &str) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(directory.join("data/data/default")).unwrap();
    let mut found = Vec::new();
    for folder in folders.map(|entry| entry.unwrap().path()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with(&format!("{table}-")) {
            continue;
        }
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        found.extend(files.filter(|path| path.to_string_lossy().ends_with(end)));
    }
    found
}

#[test]
fn large_data_is_warned_of_and_shown_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut arguments = Vec::new();
    let statements = wide_statements();
    for statement in &statements {
        arguments.extend(["-c", statement.as_str()]);
    }
    let output = run_in(path, &arguments);
    let warned = err(&output);
    succeeded(&output);
    let files = own_files(path, "wide", "-Data.db");
    let warnings = warned.matches("large data written").count();
    assert_eq!(warnings, files.len(), "one for each file:\n{warned}");
    assert!(warned.contains("rows_in_partition") && warned.contains("default.wide"), "{warned}");

    let shown = |columns: &str, table: &str| {
        let select = format!("SELECT {columns} FROM system.{table} ORDER BY kind, partition_key");
        rows(path, &[select])
    };
    let partitions = shown(
        "table_name, kind, partition_key, rows, threshold, above_threshold",
        "large_partitions",
    );
    let wanted = serde_json::json!({
        "table_name": "wide", "kind": "rows_in_partition", "partition_key": "1", "rows": 2001,
        "threshold": 1000, "above_threshold": 1,
    });
    assert_eq!(partitions, [wanted]);
    let large =
        shown("kind, partition_key, clustering_key, row_size > 400 AS is_long", "large_rows");
    let wanted = serde_json::json!({
        "kind": "row", "partition_key": "1", "clustering_key": "2001", "is_long": true,
    });
    assert_eq!(large, [wanted]);
    let columns =
        "kind, partition_key, clustering_key, column_name, cell_size, collection_elements";
    let cell = serde_json::json!({
        "kind": "cell", "partition_key": "1", "clustering_key": "2001", "column_name": "v",
        "cell_size": 400, "collection_elements": 0,
    });
    let set = shown(columns, "large_cells");
    assert_eq!(set[0], cell);
    assert_eq!(
        (&set[1]["kind"], &set[1]["collection_elements"]),
        (&"elements_in_collection".into(), &3.into())
    );
    assert_eq!(set.len(), 2);

    for file in &files {
        let file = file.to_str().unwrap();
        let dumped = succeeded(&run_in(path, &["sstable", "dump-scylla-metadata", file]));
        let dumped: Json = serde_json::from_str(&dumped).unwrap();
        assert_eq!(dumped["sstable_origin"], "memtable");
        assert_eq!(dumped["large_data_stats"].as_array().unwrap().len(), 5);
        assert!(!dumped["large_data_records"].as_array().unwrap().is_empty());
        let verified = run_in(path, &["sstable", "verify", file]);
        assert!(succeeded(&verified).contains(": sound ("), "{}", out(&verified));
        let statistics = succeeded(&run_in(path, &["sstable", "dump-statistics", file]));
        assert!(statistics.contains(".compress.LZ4Compressor\n"), "{statistics}");
        assert!(statistics.contains("Partition Size:") && statistics.contains("Column Count:"));
    }
    let folder = files[0].parent().unwrap().to_str().unwrap();
    let counted = ["sstable", "query", "--mode", "csv", "SELECT count(*) AS n FROM wide", folder];
    assert_eq!(succeeded(&run_in(path, &counted)), "n\n2002\n");
}

#[test]
fn own_tables_go_on_behind_damage_when_they_are_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    rows(path, &wide_statements());
    // The longer file holds partition 1.
    let size = |path: &PathBuf| std::fs::metadata(path).unwrap().len();
    let data = own_files(path, "wide", "-Data.db").into_iter().max_by_key(size).unwrap();
    let mut content = std::fs::read(&data).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(&data, &content).unwrap();

    let select = "SELECT ck FROM wide WHERE pk = 1 ORDER BY ck";
    let output = run_in(path, &["-c", select]);
    assert_eq!(output.status.code(), Some(1));
    let message = err(&output);
    let named = ["-Data.db at offset ", "wanted CRC ", "found CRC "];
    assert!(named.iter().all(|part| message.contains(part)), "{message}");
    let alter = "ALTER TABLE wide WITH on_corruption = 'skip'".to_owned();
    let forward = rows(path, &[alter, select.into()]);
    let reversed = rows(path, &[format!("{select} DESC")]);
    for found in [&forward, &reversed] {
        let lost = 2001 - found.len();
        assert!((1..700).contains(&lost), "{lost} rows are lost");
        // Both ends are there.
        let numbers: Vec<i64> = found.iter().map(|row| row["ck"].as_i64().unwrap()).collect();
        assert!(numbers.contains(&1) && numbers.contains(&2001));
    }
    let shown = rows(path, &["SELECT count(*) AS n FROM wide".into(), "SHOW CORRUPTION".into()]);
    let [_, shown] = &shown[..] else { panic!("{shown:?}") };
    assert_eq!(shown["file"], data.to_str().unwrap());
    assert_eq!((&shown["table_name"], &shown["skipped"]), (&"wide".into(), &shown["times"]));
    assert!(shown["wanted"].as_str().unwrap().starts_with("CRC "), "{shown}");
    assert_eq!(std::fs::read(&data).unwrap(), content, "nothing is changed");
    content[middle] ^= 1;
    std::fs::write(&data, &content).unwrap();
    assert_eq!(rows(path, &[select.into()]).len(), 2001);
}

#[test]
fn attached_tables_go_on_behind_damage_when_they_are_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for table in ["wide_none", "wide_lz4"] {
        let files = path.join(table);
        copy_fixture("me", table, &files);
        let data = files.join("me-1-big-Data.db");
        let mut content = std::fs::read(&data).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        std::fs::write(&data, content).unwrap();
        let attach = format!("ATTACH SSTABLES '{}' AS t", files.display());
        let skip = format!("{attach} WITH (ON_CORRUPTION = 'skip')");
        let whole = rows(path, &[self::attach("me", table), format!("SELECT * FROM {table}")]);
        let known: BTreeSet<String> = whole.iter().map(Json::to_string).collect();
        let select = "SELECT * FROM t ORDER BY pk, ck";
        let output = run_in(path, &["-c", &attach, "-c", select]);
        assert_eq!(output.status.code(), Some(1));
        assert!(err(&output).contains("me-1-big-Data.db at offset "), "{}", err(&output));
        for pk in [1, 2] {
            let of_partition = whole.iter().filter(|row| row["pk"] == pk).count();
            for order in ["ASC", "DESC"] {
                let slice = format!("SELECT * FROM t WHERE pk = {pk} ORDER BY ck {order}");
                let found = rows(path, &[skip.clone(), slice]);
                // 64 KiB have one checksum where the file is not compressed.
                let lost = of_partition - found.len();
                assert!(
                    lost < 2000,
                    "{table} {pk} {order}: {lost} of {of_partition} rows are lost"
                );
                assert!(found.iter().all(|row| known.contains(&row.to_string())));
            }
        }
        let shown =
            rows(path, &[skip, "SELECT count(*) AS n FROM t".into(), "SHOW CORRUPTION".into()]);
        // Every shard reads the file.
        let [count, shown @ ..] = &shown[..] else { panic!("{shown:?}") };
        let lost = whole.len() as u64 - count["n"].as_u64().unwrap();
        assert!((1..2000).contains(&lost), "{table}: {lost} rows");
        assert!(!shown.is_empty(), "{table}");
        for place in shown {
            assert_eq!(
                (&place["table_name"], &place["file"]),
                (&"t".into(), &data.to_str().into())
            );
        }
    }
}
