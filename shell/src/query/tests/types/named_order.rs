//! UUIDs and addresses: ordered, compared and sliced as keys are.

use crate::query::tests::World;

/// UUIDs and addresses in their order, which is not that of their texts.
const ROWS: [(&str, &str); 5] = [
    ("ffffffff-0000-1000-8000-000000000000", "0.0.0.1"),
    ("00000000-0001-1000-8000-000000000000", "9.0.0.1"),
    ("00000000-0000-4000-8000-000000000000", "909:909::"),
    ("a0000000-0000-4000-8000-000000000000", "10.0.0.1"),
    ("0b000000-0000-5000-8000-000000000000", "200.0.0.1"),
];

async fn world() -> World {
    let world = World::new().await;
    for (table, key) in [("u", "id uuid, other inet"), ("i", "id inet, other uuid")] {
        world
            .run(&format!("CREATE TABLE {table} (pk int, {key}, v int, PRIMARY KEY (pk, id))"))
            .await;
    }
    for (v, (uuid, inet)) in ROWS.iter().enumerate().rev() {
        world.run(&format!("INSERT INTO u VALUES (1, '{uuid}', '{inet}', {v})")).await;
        world.run(&format!("INSERT INTO i VALUES (1, '{inet}', '{uuid}', {v})")).await;
    }
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorts_slices_and_extremes_agree() {
    let world = world().await;
    for (table, at) in [("u", ROWS[1].0.to_uppercase()), ("i", ROWS[1].1.to_owned())] {
        for (query, wanted, is_pushed) in [
            ("SELECT v FROM T WHERE pk = 1 ORDER BY id".to_owned(), "0 1 2 3 4", true),
            ("SELECT v FROM T WHERE pk = 1 ORDER BY id DESC LIMIT 2".to_owned(), "4 3", true),
            ("SELECT v FROM T ORDER BY other DESC".to_owned(), "4 3 2 1 0", false),
            (format!("SELECT v FROM T WHERE pk = 1 AND id > '{at}' ORDER BY id"), "2 3 4", true),
            (format!("SELECT v FROM T WHERE pk = 1 AND id <= '{at}' ORDER BY id"), "0 1", true),
            (format!("SELECT v FROM T WHERE NOT id > '{at}' ORDER BY v"), "0 1", false),
            (format!("SELECT v FROM T WHERE id BETWEEN '{at}' AND '{at}'"), "1", true),
        ] {
            let query = query.replace("FROM T", &format!("FROM {table}"));
            let plan = world.plan(&query).await;
            assert_eq!(world.column(&query).await.join(" "), wanted, "{query}\n{plan}");
            if is_pushed {
                assert!(!plan.contains("SortExec") && !plan.contains("filter="), "{plan}");
            }
        }
    }
    let (first, last) = (ROWS[0], ROWS[4]);
    for (query, wanted) in [
        ("SELECT min(id) FROM u", first.0),
        ("SELECT max(id) FROM u", last.0),
        ("SELECT max(other) FROM u GROUP BY pk", last.1),
        ("SELECT min(id) FROM i", first.1),
        (
            "SELECT min(id) OVER (ORDER BY v DESC ROWS 1 PRECEDING) FROM i ORDER BY v LIMIT 1",
            first.1,
        ),
        ("SELECT greatest(u.id, i.other) FROM u, i WHERE u.v = 0 AND i.v = 4", last.0),
        ("SELECT least(id, NULL, '9.0.0.1') FROM i WHERE v = 2", "9.0.0.1"),
        ("SELECT id FROM i WHERE id >= ALL (SELECT id FROM i)", last.1),
    ] {
        assert_eq!(world.column(query).await, [wanted], "{query}");
    }
    world.run(&format!("DELETE FROM u WHERE pk = 1 AND id < '{}'", ROWS[2].0)).await;
    assert_eq!(world.column("SELECT v FROM u ORDER BY v").await, ["2", "3", "4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_names_nothing_has_no_order() {
    let world = world().await;
    let text = "SELECT v FROM i WHERE id > 'abc'";
    let error = world.error(text).await;
    assert!(error.message.contains("'abc' is no inet"), "{error}");
    assert_eq!(error.span.unwrap().column, 28);
    // Where it is computed it stands behind all others.
    let query = "SELECT nullif(coalesce(nullif(id, '9.0.0.1'), 'none'), '0.0.0.1') AS c FROM i \
                 WHERE v < 2 ORDER BY coalesce(nullif(id, '9.0.0.1'), 'none')";
    assert_eq!(world.column(query).await, ["", "none"]);
    for (function, wanted) in [("greatest", "none"), ("least", "10.0.0.1")] {
        let chosen = "coalesce(nullif(id, '9.0.0.1'), 'none')";
        let query = format!("SELECT {function}({chosen}, '10.0.0.1') FROM i WHERE v = 1");
        assert_eq!(world.column(&query).await, [wanted], "{query}");
    }
}
