//! SSTables of Cassandra as people meet them: `tidegate sstable`, ATTACH and IMPORT by the program.
//!
//! What must come out is what Cassandra itself said of these files (`tests/data/sstables`).

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "sstable/answer.rs"]
mod answer;

use std::path::Path;

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
    std::fs::write(files.join("me-2-big-Summary.db"), b"no summary").unwrap();
    let attach = format!("ATTACH SSTABLES '{}' AS t", files.display());
    let output = run_in(path, &["-c", &attach]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("me-2-big-Summary.db"), "{}", err(&output));
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
    std::fs::copy(files.join("me-1-big-Summary.db"), files.join("me-2-big-Summary.db")).unwrap();
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
    assert_eq!(tool(&["verify"]).status.code(), Some(2));
    let help = succeeded(&tool(&["verify", "--help"]));
    assert!(
        help.contains("bloom filter") && help.contains("FILE is any file of an SSTable"),
        "{help}"
    );
}
