//! COPY FROM and COPY TO.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::query::ErrorKind;
use crate::query::tests::{SessionOptions, World};

const TABLE: &str = "CREATE TABLE w (origin text, time_hour timestamp, temp double, gust double, \
                     PRIMARY KEY (origin, time_hour))";

async fn world_with(file: &str) -> (World, String) {
    let world = World::new().await;
    world.run(TABLE).await;
    let path = world.path("w.csv");
    std::fs::write(&path, file).unwrap();
    (world, path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_matched_by_its_header() {
    let (world, path) = world_with(
        "temp,Origin,gust,time_hour\n39.5,EWR,NA,2013-01-01T06:00:00Z\n\
         -1,JFK,3.25,2013-01-01 07:00:00\n",
    )
    .await;
    assert_eq!(world.count(&format!("COPY w FROM '{path}' WITH (FORMAT csv, NULL 'NA')")).await, 2);
    insta::assert_snapshot!(world.rows("SELECT * FROM w ORDER BY origin").await, @"
    +--------+----------------------+------+------+
    | origin | time_hour            | temp | gust |
    +--------+----------------------+------+------+
    | EWR    | 2013-01-01T06:00:00Z | 39.5 |      |
    | JFK    | 2013-01-01T07:00:00Z | -1.0 | 3.25 |
    +--------+----------------------+------+------+
    ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_checked_against_the_table() {
    let (world, path) = world_with("origin,time_hour,tmep\n").await;
    let error = world.error(&format!("COPY w FROM '{path}'")).await;
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert_eq!(error.help.as_deref(), Some("did you mean 'temp'?"));
    std::fs::write(&path, "origin,temp\nEWR,1\n").unwrap();
    let error = world.error(&format!("COPY w FROM '{path}'")).await;
    assert!(error.message.contains("lacks key column 'time_hour'"), "{error}");
    std::fs::write(&path, "origin,other,time_hour\nEWR,zzz,2013-01-01\n").unwrap();
    let columns = format!("COPY w (origin, time_hour) FROM '{path}'");
    assert_eq!(world.count(&columns).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listed_columns_that_the_table_lacks_are_named_whatever_the_file_has() {
    let (world, csv) = world_with("origin,time_hour,tmep\nEWR,2013-01-01,1\n").await;
    let (parquet, absent) = (world.path("w.parquet"), world.path("absent.csv"));
    let rows = "SELECT 'EWR' AS origin, TIMESTAMP '2013-01-01 00:00:00' AS time_hour";
    world.run(&format!("COPY ({rows}) TO '{parquet}'")).await;
    for path in [&csv, &parquet, &absent] {
        let text = format!("COPY w (origin, time_hour, tmep) FROM '{path}'");
        let error = world.error(&text).await;
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert!(error.message.contains("column 'tmep' does not exist"), "{error}");
        assert_eq!(error.help.as_deref(), Some("did you mean 'temp'?"));
        assert_eq!(error.span.unwrap().column, 28, "{text}");
    }
    assert_eq!(world.column("SELECT count(*) FROM w").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_bad_line_stops_the_load_and_says_so() {
    let mut file = "origin,time_hour,temp\n".to_owned();
    for day in 1..=28 {
        file.push_str(&format!("EWR,2013-02-{day:02},{day}\n"));
    }
    file.push_str("EWR,2013-03-01,warm\nEWR,2013-03-02,5\n");
    let (world, path) = world_with(&file).await;
    let error = world.error(&format!("COPY w FROM '{path}'")).await;
    assert_eq!(error.message, format!("{path}, line 30: column 'temp': 'warm' is no double"));
    assert!(error.help.as_deref().unwrap().starts_with("28 rows had been loaded"), "{error}");
    assert_eq!(world.column("SELECT count(*) FROM w").await, ["28"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_lines_can_be_set_aside() {
    let (world, path) = world_with(
        "origin,time_hour,temp\nEWR,2013-01-01,1\nEWR,noon,\"2\"\n,2013-01-02,3\nEWR,2013-01-03\n\
         EWR,2013-01-04,4\n",
    )
    .await;
    let outcome = world.run(&format!("COPY w FROM '{path}' (ON_ERROR skip)")).await;
    let rejected = format!("{path}.rejected");
    assert_eq!(outcome.note, Some(format!("3 lines were rejected, see {rejected}")));
    assert_eq!(world.column("SELECT temp FROM w WHERE origin = 'EWR'").await, ["1.0", "4.0"]);
    assert_eq!(
        std::fs::read_to_string(rejected).unwrap(),
        "# line 3: column 'time_hour': 'noon' is no timestamp\nEWR,noon,\"2\"\n\
         # line 4: column 'origin': a key column must not be null\n,2013-01-02,3\n\
         # line 5: 2 fields instead of 3\nEWR,2013-01-03\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_go_out_and_come_back() {
    let told = Arc::new(AtomicU64::new(0));
    let progress = Arc::clone(&told);
    let world = World::with(SessionOptions {
        progress: Some(Arc::new(move |at| {
            // How much a query gives is not known.
            assert!(at.bytes_max == 0 || at.bytes <= at.bytes_max);
            progress.store(at.rows, Ordering::Relaxed);
        })),
        ..SessionOptions::default()
    })
    .await;
    world
        .run("CREATE TABLE a (pk int, ck int, v text, d decimal(9, 2), PRIMARY KEY (pk, ck))")
        .await;
    let filled = "INSERT INTO a SELECT value % 7, value, concat('v,', CAST(value AS text)), \
                  CAST(value AS decimal(9, 2)) / 4 FROM generate_series(1, 10000) AS s(value)";
    assert_eq!(world.count(filled).await, 10_000);
    let sums = "SELECT count(*), sum(ck), sum(d), max(v) FROM";
    let wanted = world.rows(&format!("{sums} a")).await;
    for (n, name) in ["a.csv", "a.parquet"].into_iter().enumerate() {
        let path = world.path(name);
        assert_eq!(world.count(&format!("COPY a TO '{path}'")).await, 10_000);
        assert_eq!(told.swap(0, Ordering::Relaxed), 10_000, "rows told of while they are written");
        world
            .run(&format!(
                "CREATE TABLE b{n} (pk int, ck int, v text, d decimal(9, 2), PRIMARY KEY (pk, ck))"
            ))
            .await;
        assert_eq!(world.count(&format!("COPY b{n} FROM '{path}'")).await, 10_000, "{name}");
        assert_eq!(told.swap(0, Ordering::Relaxed), 10_000, "{name}");
        assert_eq!(world.rows(&format!("{sums} b{n} AS a")).await, wanted, "{name}");
    }
    let path = world.path("few.csv");
    world.run(&format!("COPY (SELECT ck, v FROM a WHERE pk = 1 AND ck < 10 ORDER BY ck DESC) TO '{path}' (DELIMITER ';')")).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "ck;v\n8;v,8\n1;v,1\n");
    world.run(&format!("COPY (SELECT ck, v FROM a WHERE pk = 99) TO '{path}'")).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "ck,v\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_rows_with_one_key_come_in_order_and_nulls_leave_what_is_there() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v int, w int)").await;
    let path = world.path("t.parquet");
    let rows = "SELECT * FROM (VALUES (1, 9, 1), (1, 1, 9), (2, NULL, 5)) AS r(k, v, w)";
    world.run(&format!("COPY ({rows}) TO '{path}'")).await;
    world.run("INSERT INTO t VALUES (2, 7, 7)").await;
    assert_eq!(world.count(&format!("COPY t FROM '{path}'")).await, 3);
    let all = "SELECT concat_ws(',', v, w) FROM t ORDER BY k";
    assert_eq!(world.column(all).await, ["1,9", "7,5"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_lines_with_one_key_the_later_wins_whole_and_nulls_leave_what_is_there() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v int, w int)").await;
    world.run("INSERT INTO t VALUES (0, 7, 7)").await;
    // Each key comes again behind all the others, in another batch of writes, with a lesser v.
    let mut file = "k,v,w\n0,,5\n".to_owned();
    for values in ["9,1", "1,9"] {
        (1..=3000).for_each(|k| file.push_str(&format!("{k},{values}\n")));
    }
    let path = world.path("t.csv");
    std::fs::write(&path, file).unwrap();
    assert_eq!(world.count(&format!("COPY t FROM '{path}'")).await, 6001);
    let all = "SELECT concat_ws(',', v, w, count(*)) FROM t GROUP BY v, w ORDER BY v";
    assert_eq!(world.column(all).await, ["1,9,3000", "7,5,1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_header_fields_stand_as_the_list_or_the_table_has_them() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, v text, w int)").await;
    let path = world.path("t.csv");
    for (columns, lines) in
        [("", "1,a,10\n2,b,20\n"), ("(w, v, k)", "30,c,3\n"), ("(k, w)", "4,40\n")]
    {
        std::fs::write(&path, lines).unwrap();
        let copy = format!("COPY t {columns} FROM '{path}' WITH (HEADER false)");
        assert_eq!(world.count(&copy).await, lines.lines().count() as u64, "{copy}");
    }
    let rows = "SELECT * FROM t ORDER BY k";
    world.run(&format!("COPY ({rows}) TO '{path}' WITH (HEADER false)")).await;
    let wanted = "1,a,10\n2,b,20\n3,c,30\n4,,40\n";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), wanted);
    for (columns, file, says) in [
        ("", "k,v,V\n5,a,b\n", "names column 'V' twice"),
        ("(k, v)", "k,w\n5,50\n", "lacks column 'v'"),
    ] {
        std::fs::write(&path, file).unwrap();
        let error = world.error(&format!("COPY t {columns} FROM '{path}'")).await;
        assert!(error.message.contains(says), "{error}");
    }
    assert_eq!(world.column("SELECT count(*) FROM t").await, ["4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_any_characters_come_back_from_a_file() {
    let texts = ["a\"b", "\"", "a,b;c", "two\nlines", "cr\rlf\r\n", " spaces ", "\t", "äöü €", "#"];
    let world = World::new().await;
    let rows = texts.iter().enumerate().map(|(k, text)| format!("({k}, '{text}')"));
    let rows = rows.collect::<Vec<_>>().join(", ");
    world.run("CREATE TABLE a (k int PRIMARY KEY, v text)").await;
    world.run(&format!("INSERT INTO a VALUES {rows}")).await;
    assert_eq!(world.column("SELECT v FROM a ORDER BY k").await, texts);
    for (n, delimiter) in [",", ";", "\\t"].into_iter().enumerate() {
        let path = world.path("a.csv");
        world.run(&format!("COPY a TO '{path}' (DELIMITER '{delimiter}')")).await;
        world.run(&format!("CREATE TABLE b{n} (k int PRIMARY KEY, v text)")).await;
        world.run(&format!("COPY b{n} FROM '{path}' (DELIMITER '{delimiter}')")).await;
        let back = world.column(&format!("SELECT v FROM b{n} ORDER BY k")).await;
        assert_eq!(back, texts, "delimiter {delimiter}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_text_that_begins_with_a_byte_order_mark_comes_back() {
    let world = World::new().await;
    world.run("CREATE TABLE a (v text PRIMARY KEY)").await;
    world.run("INSERT INTO a VALUES ('\u{feff}x')").await;
    let path = world.path("a.csv");
    world.run(&format!("COPY a TO '{path}' WITH (HEADER false)")).await;
    world.run("CREATE TABLE b (v text PRIMARY KEY)").await;
    world.run(&format!("COPY b FROM '{path}' WITH (HEADER false)")).await;
    assert_eq!(world.column("SELECT v FROM b").await, ["\u{feff}x"]);
}

/// Rows are read while those before them are written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_row_far_into_a_parquet_file_is_named_and_what_stands_before_it_stays() {
    let world = World::new().await;
    let path = world.path("bad.parquet");
    let rows =
        "SELECT nullif(value, 5001) AS k, value AS v FROM generate_series(1, 9000) AS s(value)";
    world.run(&format!("COPY ({rows} ORDER BY value) TO '{path}'")).await;
    for (table, option) in [("a", ""), ("b", " (ON_ERROR skip)")] {
        world.run(&format!("CREATE TABLE {table} (k bigint PRIMARY KEY, v bigint)")).await;
        let copy = format!("COPY {table} FROM '{path}'{option}");
        let count = format!("SELECT count(*) FROM {table}");
        if option.is_empty() {
            let error = world.error(&copy).await;
            assert!(error.message.contains("row 5001: column 'k'"), "{error}");
            let help =
                "5000 rows had been loaded before and stay; ON_ERROR skip sets bad rows aside";
            assert_eq!(error.help.as_deref(), Some(help));
            assert_eq!(world.column(&count).await, ["5000"]);
        } else {
            let outcome = world.run(&copy).await;
            let note = format!("1 row was rejected, see {path}.rejected");
            assert_eq!(outcome.note, Some(note));
            assert_eq!(world.column(&count).await, ["8999"]);
            let rejected = std::fs::read_to_string(format!("{path}.rejected")).unwrap();
            assert!(rejected.starts_with("# row 5001: column 'k'"), "{rejected}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_of_a_parquet_file_leave_collections_that_are_there() {
    let world = World::new().await;
    for table in ["t", "f"] {
        world.run(&format!("CREATE TABLE {table} (k int PRIMARY KEY, l list<int>, v int)")).await;
    }
    world.run("INSERT INTO t VALUES (1, [1, 2], 3), (2, [4], 5)").await;
    world.run("INSERT INTO f VALUES (1, NULL, 7), (2, [6], NULL)").await;
    let path = world.path("f.parquet");
    world.run(&format!("COPY (SELECT k, l, v FROM f) TO '{path}'")).await;
    assert_eq!(world.count(&format!("COPY t FROM '{path}'")).await, 2);
    let all = "SELECT concat_ws(',', l[1], l[2], v) FROM t ORDER BY k";
    assert_eq!(world.column(all).await, ["1,2,7", "6,5"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_text_and_null_come_back_as_they_were() {
    let world = World::new().await;
    world.run("CREATE TABLE a (k int PRIMARY KEY, v text, w text)").await;
    world.run("INSERT INTO a VALUES (1, '', NULL), (2, 'NA', ''), (3, NULL, 'x')").await;
    let all = "SELECT k, v IS NULL, v, w IS NULL, w FROM";
    let wanted = world.rows(&format!("{all} a ORDER BY k")).await;
    for (table, null, text) in [
        ("b", "", "k,v,w\n1,\"\",\n2,NA,\"\"\n3,,x\n"),
        ("c", "NA", "k,v,w\n1,\"\",NA\n2,\"NA\",\"\"\n3,NA,x\n"),
    ] {
        let path = world.path(&format!("{table}.csv"));
        let select = "SELECT * FROM a ORDER BY k";
        world.run(&format!("COPY ({select}) TO '{path}' (NULL '{null}')")).await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        world.run(&format!("CREATE TABLE {table} (k int PRIMARY KEY, v text, w text)")).await;
        assert_eq!(world.count(&format!("COPY {table} FROM '{path}' (NULL '{null}')")).await, 3);
        assert_eq!(world.rows(&format!("{all} {table} AS a ORDER BY k")).await, wanted, "{null}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejects_keep_the_line_and_the_input() {
    let (world, path) = world_with("origin\ttime_hour\ttemp\n\t2013-01-01\t1\n").await;
    let load = |options: &str| format!("COPY w FROM '{path}' (DELIMITER '\\t'{options})");
    world.run(&load(", ON_ERROR skip")).await;
    let rejected = std::fs::read_to_string(format!("{path}.rejected")).unwrap();
    assert!(rejected.ends_with("not be null\n\t2013-01-01\t1\n"), "{rejected}");
    let before = std::fs::read(&path).unwrap();
    let link = world.path("link.csv");
    std::fs::hard_link(&path, &link).unwrap();
    let error = world.error(&load(&format!(", ON_ERROR skip, REJECT_FILE '{link}'"))).await;
    assert!(error.message.contains("is the file that is read"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quote_that_is_never_closed_is_named() {
    let (world, path) =
        world_with("origin,time_hour\nEWR,2013-01-01\nEWR,\"2013-01-02\nEWR,2013-01-03\n").await;
    for options in ["", " (ON_ERROR skip)"] {
        let error = world.error(&format!("COPY w FROM '{path}'{options}")).await;
        assert!(error.message.contains("line 3: a quote is opened"), "{error}");
        assert!(error.help.as_deref().unwrap().starts_with("1 rows"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_no_parquet_is_named() {
    let (world, path) = world_with("origin,time_hour\n").await;
    let error = world.error(&format!("COPY w FROM '{path}' (FORMAT parquet)")).await;
    assert!(error.message.starts_with(&format!("cannot read '{path}': ")), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn static_columns_alone_need_no_clustering_key() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, a int, st int STATIC, v int, PRIMARY KEY (pk, a))").await;
    world.run("INSERT INTO t (pk, a, v) VALUES (1, 1, 5)").await;
    let path = world.path("st.csv");
    std::fs::write(&path, "pk,st\n1,7\n2,8\n3,\n").unwrap();
    assert_eq!(world.count(&format!("COPY t (pk, st) FROM '{path}'")).await, 3);
    let rows = "SELECT concat_ws(',', pk, a, st, v) FROM t ORDER BY pk";
    assert_eq!(world.column(rows).await, ["1,1,7,5", "2,8"]);
    std::fs::write(&path, "pk,v\n1,7\n").unwrap();
    let error = world.error(&format!("COPY t (pk, v) FROM '{path}'")).await;
    assert!(error.message.contains("lacks key column 'a'"), "{error}");
}
