//! Tables that are made with their rows, by a query or by an ingest: on all nodes or on none.

use std::sync::Arc;

use arrow::array::Int64Array;
use arrow_flight::sql::{
    CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};

use super::*;

/// What each node says of a table: its definition, and how many rows all nodes have of it.
async fn seen(cluster: &Cluster, table: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for client in &mut cluster.clients().await {
        let definition = run(client, &format!("DESCRIBE TABLE {table}")).await.concat();
        let count = run(client, &format!("SELECT count(*) FROM {table}")).await.concat();
        all.push((definition, count));
    }
    all
}

#[test]
fn a_query_makes_its_table_on_all_nodes_and_fills_it_once() {
    let cluster = Cluster::start(3);
    threads().block_on(async {
        let mut clients = cluster.clients().await;
        for text in [
            "CREATE TYPE point (x int, y int)",
            "CREATE TABLE t (k int PRIMARY KEY, \"V w\" int, p frozen<point>)",
            "INSERT INTO t (k, \"V w\") SELECT g, g % 7 FROM generate_series(1, 300) AS s(g)",
        ] {
            run(&mut clients[0], text).await;
        }
        let make = "CREATE TABLE IF NOT EXISTS w (PRIMARY KEY (\"V w\", k)) \
                    WITH CLUSTERING ORDER BY (k DESC) AND comment = 'it''s' \
                    AS SELECT * FROM t WHERE k > 100";
        // The second time it is there.
        for place in [1, 0] {
            run(&mut clients[place], make).await;
            let seen = seen(&cluster, "w").await;
            assert!(seen.iter().all(|one| *one == seen[0] && one.1 == "200|"), "{seen:?}");
            assert!(seen[0].0.contains("CLUSTERING ORDER BY (k DESC)"), "{seen:?}");
            assert!(seen[0].0.contains("p frozen<default.point>"), "{seen:?}");
        }
        let sum = "SELECT sum(k), sum(\"V w\") FROM w";
        let wanted = "SELECT sum(k), sum(\"V w\") FROM t WHERE k > 100";
        let wanted = run(&mut clients[2], wanted).await;
        assert_eq!(run(&mut clients[2], sum).await, wanted);
        // A row that fails takes the table along, everywhere.
        let fails = "CREATE TABLE x (PRIMARY KEY (k)) AS SELECT k, 1 / (k - 250) AS v FROM t";
        let error = refused(&mut clients[1], fails).await;
        assert!(error.contains("table default.x is not made"), "{error}");
        for client in &mut clients {
            let error = refused(client, "SELECT * FROM x").await;
            assert!(error.contains("does not exist"), "{error}");
        }
        run(&mut clients[2], "CREATE TABLE x (k int PRIMARY KEY)").await;
    });
}

#[test]
fn an_ingest_makes_and_replaces_its_table_on_all_nodes() {
    let cluster = Cluster::start(2);
    threads().block_on(async {
        let mut clients = cluster.clients().await;
        let rows = |count: i64| {
            let keys = Arc::new(Int64Array::from_iter_values(0..count)) as _;
            let values = Arc::new(Int64Array::from_iter_values((0..count).map(|k| k * k))) as _;
            RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap()
        };
        for (place, count, if_exists) in [
            (0, 100, TableExistsOption::Fail),
            (1, 40, TableExistsOption::Replace),
            (0, 60, TableExistsOption::Append),
        ] {
            let options = TableDefinitionOptions {
                if_not_exist: TableNotExistOption::Create.into(),
                if_exists: if_exists.into(),
            };
            let command = CommandStatementIngest {
                table: "made".to_owned(),
                table_definition_options: Some(options),
                options: [("primary_key".to_owned(), "k".to_owned())].into(),
                ..CommandStatementIngest::default()
            };
            let batches = futures::stream::iter([Ok(rows(count))]);
            let written = clients[place].execute_ingest(command, batches).await.unwrap();
            assert_eq!(written, count);
            let wanted = if place == 1 { "40|" } else { "100|" };
            let wanted = if if_exists == TableExistsOption::Append { "60|" } else { wanted };
            let seen = seen(&cluster, "made").await;
            assert!(seen.iter().all(|one| *one == seen[0] && one.1 == wanted), "{seen:?}");
        }
    });
}

/// One node lacks a right that the other one knows of.
#[test]
fn a_table_that_another_node_cannot_make_is_on_none() {
    let cluster = Cluster::start(2);
    threads().block_on(async {
        let mut client = cluster.client(0).await;
        for text in [
            "CREATE TABLE t (k int PRIMARY KEY, v int)",
            "INSERT INTO t SELECT g, g FROM generate_series(1, 20) AS s(g)",
            "CREATE ROLE ann WITH PASSWORD = 'a'",
            "GRANT SELECT ON t TO ann",
            "SET tidegate.this_node_alone = true",
            "GRANT CREATE ON KEYSPACE default TO ann",
            "SET tidegate.this_node_alone = false",
        ] {
            run(&mut client, text).await;
        }
        // One call: the next one needs a name.
        let root = "CREATE ROLE root WITH PASSWORD = 'r' AND SUPERUSER = true AND LOGIN = true";
        client.execute_update(root.to_owned(), None).await.unwrap();
        client.handshake("root", "r").await.unwrap();
        run(&mut client, "ALTER ROLE ann WITH LOGIN = true").await;
        let mut ann = cluster.client(0).await;
        ann.handshake("ann", "a").await.unwrap();
        let make = "CREATE TABLE w (PRIMARY KEY (k)) AS SELECT k, v FROM t";
        let error = refused(&mut ann, make).await;
        assert!(error.contains("table default.w is not made"), "{error}");
        assert!(error.contains("node 'b'"), "{error}");
        for place in 0..2 {
            let mut client = cluster.client(place).await;
            client.handshake("root", "r").await.unwrap();
            let error = refused(&mut client, "SELECT * FROM w").await;
            assert!(error.contains("does not exist"), "{error}");
        }
        // Definitions are alike, so the next one is made.
        run(&mut client, "GRANT CREATE ON KEYSPACE default TO ann").await;
        run(&mut ann, make).await;
        assert_eq!(run(&mut ann, "SELECT count(*) FROM w").await, ["20|"]);
    });
}
