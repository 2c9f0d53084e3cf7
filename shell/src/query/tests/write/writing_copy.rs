//! COPY: texts with odd characters, names, files that fail, and how far a load has come.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::query::tests::{SessionOptions, World};
use crate::query::{ErrorKind, Progress};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_carriage_return_within_a_text_ends_no_line_of_a_file() {
    let texts = ["cr\rcr", "\r", "end\r", "\rstart"];
    let world = World::new().await;
    world.run("CREATE TABLE a (k int PRIMARY KEY, v text)").await;
    for (k, text) in texts.iter().enumerate() {
        world.run(&format!("INSERT INTO a VALUES ({k}, '{text}')")).await;
    }
    for (table, columns) in [("b", "k, v"), ("c", "v, k")] {
        let path = world.path(&format!("{table}.csv"));
        world.run(&format!("CREATE TABLE {table} (k int PRIMARY KEY, v text)")).await;
        let copy = format!("COPY (SELECT {columns} FROM a) TO '{path}'");
        assert_eq!(world.count(&copy).await, 4, "{columns}");
        assert_eq!(world.count(&format!("COPY {table} FROM '{path}'")).await, 4, "{columns}");
        let back = world.column(&format!("SELECT v FROM {table} ORDER BY k")).await;
        assert_eq!(back, texts, "{columns}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_option_makes_a_file_that_cannot_be_read_back() {
    let world = World::new().await;
    world.run("CREATE TABLE a (k int PRIMARY KEY, v text)").await;
    let path = world.path("a.csv");
    for (options, says) in [
        ("DELIMITER '\"'", "no quote and ends no line"),
        ("DELIMITER '\n'", "no quote and ends no line"),
        ("DELIMITER '\r'", "no quote and ends no line"),
        ("NULL 'n,a'", "'n,a', holds the delimiter"),
        ("NULL 'n;a', DELIMITER ';'", "'n;a', holds the delimiter"),
        ("NULL '\"'", "a quote or a line end"),
    ] {
        for direction in ["TO", "FROM"] {
            let error = world.error(&format!("COPY a {direction} '{path}' ({options})")).await;
            assert_eq!(error.kind, ErrorKind::Invalid, "{options}: {error}");
            assert!(error.message.contains(says), "{options}: {error}");
        }
    }
    world.run(&format!("COPY a TO '{path}' (NULL 'n,a', DELIMITER ';')")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listed_columns_are_copied_by_their_names_from_and_to_another_keyspace() {
    let world = World::new().await;
    let columns = "(\"K\" int PRIMARY KEY, v text, \"W x\" int)";
    world.run("CREATE KEYSPACE other").await;
    world.run(&format!("CREATE TABLE other.\"T\" {columns}")).await;
    world.run(&format!("CREATE TABLE other.u {columns}")).await;
    world.run("INSERT INTO other.\"T\" VALUES (7, 'a', 70)").await;
    let (csv, parquet) = (world.path("t.csv"), world.path("t.parquet"));
    world.run(&format!("COPY other.\"T\" (\"W x\", \"K\") TO '{csv}'")).await;
    assert_eq!(std::fs::read_to_string(&csv).unwrap(), "W x,K\n70,7\n");
    world.run(&format!("COPY other.\"T\" TO '{parquet}'")).await;
    let rows = "SELECT concat_ws('|', \"K\", coalesce(v, '-'), \
                coalesce(CAST(\"W x\" AS text), '-')) FROM other.u";
    for (file, columns, wanted) in [
        (&csv, "", "7|-|70"),
        (&csv, "(\"K\")", "7|-|-"),
        (&parquet, "", "7|a|70"),
        (&parquet, "(v, \"K\")", "7|a|-"),
    ] {
        let copy = format!("COPY other.u {columns} FROM '{file}'");
        assert_eq!(world.count(&copy).await, 1, "{copy}");
        assert_eq!(world.column(rows).await, [wanted], "{copy}");
        world.run("TRUNCATE other.u").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_loaded_is_named_with_the_line() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v text)").await;
    let file = world.path("t.csv");
    for (content, what) in [
        (b"k,\"v\n1,a\n".to_vec(), "line 1: a quote is opened and never closed"),
        (b"k,v\n1,ok\n2,\xff\n".to_vec(), "line 3: column 'v': not UTF-8"),
        (b"k,v\n1,ok\n2,a,b\n".to_vec(), "line 3: 3 fields instead of 2"),
        (b"k,v\n1,ok\nx,a\n".to_vec(), "line 3: column 'k': 'x' is no int"),
    ] {
        std::fs::write(&file, content).unwrap();
        let error = world.error(&format!("COPY t FROM '{file}'")).await;
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert_eq!(error.message, format!("{file}, {what}"));
        assert!(error.span.is_some(), "{error}");
    }
    // What is set aside keeps its bytes, whatever they are.
    std::fs::write(&file, b"k,v\n2,\xff\n3,c\n").unwrap();
    let outcome = world.run(&format!("COPY t FROM '{file}' (ON_ERROR skip)")).await;
    assert_eq!(outcome.note, Some(format!("1 line was rejected, see {file}.rejected")));
    let rejected = std::fs::read(format!("{file}.rejected")).unwrap();
    assert!(rejected.ends_with(b"not UTF-8\n2,\xff\n"), "{rejected:?}");
    assert_eq!(world.column("SELECT v FROM t ORDER BY k").await, ["ok", "c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_without_a_file_is_named_and_a_wrong_query_makes_none() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v text)").await;
    for name in ["absent/t.csv", "absent/t.parquet"] {
        let path = world.path(name);
        for (text, says) in [
            (format!("COPY t FROM '{path}'"), format!("cannot read '{path}': ")),
            (format!("COPY t TO '{path}'"), format!("cannot write '{path}': ")),
        ] {
            let error = world.error(&text).await;
            assert_eq!(error.kind, ErrorKind::Io, "{text}: {error}");
            assert!(error.message.starts_with(&says), "{text}: {error}");
            assert!(error.span.is_some(), "{text}: {error}");
        }
    }
    let path = world.path("wrong.csv");
    let error = world.error(&format!("COPY (SELECT nosuch FROM t) TO '{path}'")).await;
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(!Path::new(&path).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_tells_how_far_it_is_up_to_the_end_of_its_file() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let progress = Arc::clone(&told);
    let world = World::with(SessionOptions {
        progress: Some(Arc::new(move |at: Progress| progress.lock().unwrap().push(at))),
        ..SessionOptions::default()
    })
    .await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v text)").await;
    let mut file = "k,v\n".to_owned();
    (0..5000).for_each(|k| file.push_str(&format!("{k},text\n")));
    let path = world.path("t.csv");
    std::fs::write(&path, &file).unwrap();
    assert_eq!(world.count(&format!("COPY t FROM '{path}'")).await, 5000);
    let told = std::mem::take(&mut *told.lock().unwrap());
    let bytes = file.len() as u64;
    assert_eq!(told.last(), Some(&Progress { rows: 5000, bytes, bytes_max: bytes }));
    assert!(told.len() > 1, "{told:?}");
    assert!(told.is_sorted_by_key(|at| (at.rows, at.bytes)), "{told:?}");
    assert!(told.iter().all(|at| at.bytes > 0 && at.bytes_max == bytes), "{told:?}");
}
