//! Results in parts: which queries have them, and that their rows are the result.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::datatypes::{Int32Type, Int64Type};
use arrow_flight::FlightInfo;
use tonic::Code;

use super::*;

/// Rows of a table that is worth a part for each of two shards.
const MANY: i32 = 20_000;

/// A table of so many rows, in half as many partitions.
async fn fill(client: &mut Client, rows: i32) {
    run(client, "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))").await;
    let insert = format!(
        "INSERT INTO t SELECT n / 2, n % 2, n FROM generate_series(0, {}) AS s(n)",
        rows - 1
    );
    assert_eq!(client.execute_update(insert, None).await.unwrap(), i64::from(rows));
}

async fn info(client: &mut Client, text: &str) -> FlightInfo {
    client.execute(text.to_owned(), None).await.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// How often each value of the first column comes, of all endpoints.
async fn values(client: &mut Client, info: FlightInfo) -> BTreeMap<i32, usize> {
    let mut found = BTreeMap::new();
    for endpoint in info.endpoint {
        let rows = client.do_get(endpoint.ticket.unwrap()).await.unwrap();
        for batch in rows.try_collect::<Vec<_>>().await.unwrap() {
            for value in batch.column(0).as_primitive::<Int32Type>().values() {
                *found.entry(*value).or_default() += 1;
            }
        }
    }
    found
}

#[test]
fn every_row_of_a_scan_is_in_one_part() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        fill(&mut client, MANY).await;
        let every = |step: i32| (0..MANY).filter(|n| n % step == 0).map(|n| (n, 1)).collect();
        for flush in [false, true] {
            if flush {
                run(&mut client, "FLUSH t").await;
            }
            for (text, wanted) in [
                ("SELECT v FROM t", every(1)),
                ("SELECT v FROM t WHERE v % 10 = 0", every(10)),
                ("SELECT v FROM (SELECT v, c FROM t) AS s WHERE c = 0", every(2)),
                ("SELECT v FROM t PER PARTITION LIMIT 1", every(2)),
                ("SELECT v FROM t WHERE token(k) <= 9223372036854775807", every(1)),
            ] {
                let info = info(&mut client, text).await;
                assert_eq!((info.endpoint.len(), info.ordered), (2, false), "{text}");
                let expires = info.endpoint.iter().map(|endpoint| endpoint.expiration_time);
                assert!(expires.into_iter().all(|time| time.is_some()), "{text}");
                assert!(values(&mut client, info).await == wanted, "{text}");
            }
        }
        // Two shards have about half each.
        let info = info(&mut client, "SELECT v FROM t").await;
        let part = FlightInfo { endpoint: vec![info.endpoint[0].clone()], ..info };
        let rows = values(&mut client, part).await.len();
        assert!((MANY as usize / 3..=MANY as usize * 2 / 3).contains(&rows), "{rows} rows");
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn what_has_an_order_or_sees_several_rows_has_one_part() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        fill(&mut client, MANY).await;
        for text in [
            "SELECT v FROM t ORDER BY v",
            "SELECT v FROM t LIMIT 5",
            "SELECT DISTINCT v FROM t",
            "SELECT count(*) FROM t",
            "SELECT v, row_number() OVER () FROM t",
            "SELECT a.v FROM t a JOIN t b ON a.v = b.k",
            "SELECT v FROM t UNION ALL SELECT v FROM t",
            "SELECT v FROM t WHERE v IN (SELECT max(k) FROM t)",
            "SELECT v FROM t WHERE v = (SELECT max(k) FROM t)",
            "SELECT v FROM t WHERE k = 5",
            "SELECT v FROM t WHERE k = 5 AND v + 0 > 1",
            "SELECT v FROM t WHERE k IN (1, 2, 3)",
            "SELECT v, now() FROM t",
            "SELECT v, random() FROM t",
            "SELECT v FROM t WHERE false",
            "SELECT name FROM system.metrics",
            "SHOW TABLES",
            "EXPLAIN SELECT v FROM t",
            "SELECT 1",
        ] {
            let info = info(&mut client, text).await;
            assert_eq!((info.endpoint.len(), info.ordered), (1, true), "{text}");
            let rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
            rows.try_collect::<Vec<_>>().await.unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn an_option_says_whether_there_are_parts_and_tickets_of_parts_are_bound_to_their_query() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        fill(&mut client, 10).await;
        let text = "SELECT v FROM t";
        assert_eq!(info(&mut client, text).await.endpoint.len(), 1, "few rows");
        client.set_header("result.endpoints", "shards");
        let parts = info(&mut client, text).await;
        assert_eq!(parts.endpoint.len(), 2);
        assert!(values(&mut client, parts).await == (0..10).map(|n| (n, 1)).collect());

        // A prepared statement, with what is bound to it; several rows of it are one after another.
        let mut prepared =
            client.prepare("SELECT v FROM t WHERE v < ?".to_owned(), None).await.unwrap();
        for (bound, endpoints) in [(vec![4_i64], 2), (vec![4, 2], 1)] {
            let column = std::sync::Arc::new(arrow::array::Int64Array::from(bound)) as _;
            let rows = RecordBatch::try_from_iter([("1", column)]).unwrap();
            prepared.set_parameters(rows).unwrap();
            let parts = prepared.execute().await.unwrap();
            assert_eq!(parts.endpoint.len(), endpoints);
            let found = values(&mut client, parts).await;
            assert_eq!(found.len(), 4);
            assert_eq!(found[&0], 3 - endpoints);
        }

        // Another table of the name: neither part is given.
        let parts = info(&mut client, text).await;
        run(&mut client, "DROP TABLE t").await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v text)").await;
        for endpoint in parts.endpoint {
            let refused = client.do_get(endpoint.ticket.unwrap()).await.err().unwrap();
            let arrow_flight::error::FlightError::Tonic(refused) = refused else {
                panic!("{refused}")
            };
            assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        }
        client.set_header("result.endpoints", "one");
        run(&mut client, "DROP TABLE t").await;
        fill(&mut client, MANY).await;
        assert_eq!(info(&mut client, text).await.endpoint.len(), 1);
        let count = run(&mut client, "SELECT count(*) FROM t").await;
        assert_eq!(count[0].column(0).as_primitive::<Int64Type>().value(0), i64::from(MANY));
    });
    assert_eq!(service.stop().0, Some(0));
}
