//! Time UUIDs: ordered, compared and sliced by their time.

use crate::query::tests::World;

/// Seconds of 2013, and UUIDs that sort otherwise as text; the first fields of later ones are less.
const IDS: [&str; 4] = [
    "f0000000-53a9-11e2-8080-808080808080",
    "a0000000-53aa-11e2-8080-808080808080",
    "50000000-53ab-11e2-8080-80808080807f",
    "00000000-53ac-11e2-8080-808080808080",
];

async fn events() -> World {
    let world = World::new().await;
    world
        .run("CREATE TABLE e (pk int, tu timeuuid, r timeuuid, v int, PRIMARY KEY (pk, tu))")
        .await;
    for (n, id) in IDS.iter().enumerate() {
        world.run(&format!("INSERT INTO e VALUES (1, '{id}', '{id}', {n})")).await;
    }
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_uuids_are_ordered_by_time_and_read_as_pages() {
    let world = events().await;
    for (query, wanted, is_pushed) in [
        ("SELECT v FROM e WHERE pk = 1 ORDER BY tu DESC LIMIT 1", "3", true),
        ("SELECT v FROM e WHERE pk = 1 ORDER BY tu LIMIT 2", "0 1", true),
        ("SELECT v FROM e WHERE pk = 1 ORDER BY r DESC", "3 2 1 0", false),
        ("SELECT v FROM e WHERE pk IN (1, 2) ORDER BY tu DESC LIMIT 2", "3 2", true),
        ("SELECT v FROM (SELECT tu AS x, v FROM e) ORDER BY x", "0 1 2 3", false),
        ("SELECT row_number() OVER (ORDER BY r DESC) FROM e ORDER BY tu", "4 3 2 1", false),
        ("SELECT first_value(v ORDER BY r DESC) FROM e", "3", false),
    ] {
        let plan = world.plan(query).await;
        assert_eq!(world.column(query).await.join(" "), wanted, "{query}\n{plan}");
        assert_eq!(!plan.contains("SortExec"), is_pushed || query.contains("first"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_of_each_is_the_newest_by_time() {
    let world = events().await;
    world.run(&format!("INSERT INTO e VALUES (2, '{0}', '{0}', 9)", IDS[1])).await;
    for (query, wanted) in [
        ("SELECT DISTINCT ON (pk) v FROM e ORDER BY pk, r DESC", "3 9"),
        ("SELECT DISTINCT ON (pk) v FROM e ORDER BY pk DESC, tu", "9 0"),
        ("SELECT DISTINCT ON (r) v FROM e ORDER BY r DESC, pk DESC", "3 2 9 0"),
        ("SELECT DISTINCT ON (r) v FROM e ORDER BY r, pk", "0 1 2 3"),
        ("SELECT max(v) FROM (SELECT DISTINCT ON (r) * FROM e ORDER BY r, pk)", "3"),
    ] {
        assert_eq!(world.column(query).await.join(" "), wanted, "{query}");
    }
    assert_eq!(world.column("SELECT DISTINCT ON (r) pk FROM e").await.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_of_a_moving_frame_follows_it() {
    let world = events().await;
    let other = "10000000-53ac-11e2-8080-808080808080";
    world.run(&format!("INSERT INTO e VALUES (1, '{other}', '{}', 4)", IDS[0])).await;
    world
        .run("UPDATE e SET r = NULL WHERE pk = 1 AND tu = '50000000-53ab-11e2-8080-80808080807f'")
        .await;
    let frame = "OVER (ORDER BY tu ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM e ORDER BY tu";
    let found = world.column(&format!("SELECT min(r) {frame}")).await;
    assert_eq!(found, [IDS[0], IDS[0], IDS[1], IDS[3], IDS[0]]);
    let found = world.column(&format!("SELECT max(r) {frame}")).await;
    assert_eq!(found, [IDS[0], IDS[1], IDS[1], IDS[3], IDS[3]]);
    let ends = "OVER (ORDER BY tu ROWS BETWEEN 3 PRECEDING AND 3 PRECEDING) FROM e ORDER BY tu";
    let found = world.column(&format!("SELECT max(r) {ends}")).await;
    assert_eq!(found, ["", "", "", IDS[0], IDS[1]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_uuids_are_compared_by_time() {
    let world = events().await;
    let second = IDS[1];
    let upper = second.to_uppercase();
    for (condition, wanted) in [
        (format!("> '{second}'"), "2 3"),
        (format!(">= '{upper}'"), "1 2 3"),
        (format!("< '{second}'"), "0"),
        (format!("<= '{second}'"), "0 1"),
        (format!("= '{upper}'"), "1"),
        (format!("<> '{upper}'"), "0 2 3"),
        (format!("BETWEEN '{second}' AND '{}'", IDS[2]), "1 2"),
        (format!("IN ('{upper}', '{}')", IDS[3]), "1 3"),
        ("> maxTimeuuid('1960-01-01')".to_owned(), "0 1 2 3"),
    ] {
        for column in ["tu", "r"] {
            let query = format!("SELECT v FROM e WHERE pk = 1 AND {column} {condition} ORDER BY v");
            assert_eq!(world.column(&query).await.join(" "), wanted, "{query}");
        }
    }
    let range = format!("SELECT v FROM e WHERE pk = 1 AND tu > '{second}' ORDER BY tu DESC");
    let plan = world.plan(&range).await;
    assert!(plan.contains("slices=(") && plan.contains("direction=reversed"), "{plan}");
    assert!(!plan.contains("filter=") && !plan.contains("SortExec"), "{plan}");
    world.run(&format!("DELETE FROM e WHERE pk = 1 AND tu <= '{second}'")).await;
    assert_eq!(world.column("SELECT v FROM e ORDER BY v").await, ["2", "3"]);
    let error = world.error("SELECT v FROM e WHERE pk = 1 AND tu > 'x'").await;
    assert!(error.message.contains("'x' is no timeuuid"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_of_time_uuids() {
    let world = World::new().await;
    world.run("CREATE TABLE e (pk int, tu timeuuid, PRIMARY KEY (pk, tu))").await;
    for at in ["2013-01-01T00:00:00.000Z", "2013-01-01T00:00:00.001Z"] {
        world.run(&format!("INSERT INTO e VALUES (1, minTimeuuid('{at}'))")).await;
        world.run(&format!("INSERT INTO e VALUES (1, maxTimeuuid('{at}'))")).await;
    }
    for (query, wanted) in [
        ("SELECT minTimeuuid('1970-01-01')", "13814000-1dd2-11b2-8080-808080808080"),
        ("SELECT maxTimeuuid('1970-01-01')", "1381670f-1dd2-11b2-7f7f-7f7f7f7f7f7f"),
        ("SELECT min_timeuuid(DATE '1970-01-01')", "13814000-1dd2-11b2-8080-808080808080"),
        ("SELECT toTimestamp(tu) FROM e ORDER BY tu DESC LIMIT 1", "2013-01-01T00:00:00.001Z"),
        ("SELECT toTimestamp(DATE '2013-01-01')", "2013-01-01T00:00:00Z"),
        ("SELECT count(*) FROM e WHERE tu > maxTimeuuid('2013-01-01')", "2"),
        ("SELECT count(*) FROM e WHERE tu >= maxTimeuuid('2013-01-01')", "3"),
        ("SELECT count(*) FROM e WHERE tu < minTimeuuid('2013-01-01 00:00:00.001')", "2"),
        ("SELECT count(*) FROM e WHERE pk = 1 AND tu > TIMESTAMP '2013-01-01'", "2"),
        ("SELECT count(*) FROM e WHERE pk = 1 AND tu >= TIMESTAMP '2013-01-01'", "4"),
        ("SELECT count(*) FROM e WHERE pk = 1 AND tu <= TIMESTAMP '2013-01-01'", "2"),
        ("SELECT count(*) FROM e WHERE tu < now()", "4"),
        ("SELECT toTimestamp(now()) > TIMESTAMP '2013-01-01'", "true"),
        ("SELECT toTimestamp(currentTimeuuid()) > TIMESTAMP '2013-01-01'", "true"),
        ("SELECT count(DISTINCT currentTimeuuid()) FROM e", "4"),
        ("SELECT minTimeuuid(NULL::timestamp) IS NULL", "true"),
    ] {
        assert_eq!(world.column(query).await, [wanted], "{query}");
    }
    let plan = world
        .plan("SELECT * FROM e WHERE pk = 1 AND tu > maxTimeuuid('2013-01-01') ORDER BY tu")
        .await;
    assert!(plan.contains("slices=(") && !plan.contains("filter="), "{plan}");
    for query in ["SELECT minTimeuuid('x')", "SELECT toTimestamp('x')", "SELECT minTimeuuid(1)"] {
        let error = world.error(query).await;
        assert!(error.message.contains("is no "), "{query}: {error}");
    }
}

/// A literal that is chosen among UUIDs is written as they are, wherever it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn literals_among_uuids_take_their_form() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, u uuid)").await;
    let (own, other) =
        ("6b0e9b36-6f2f-4c0e-9c57-9a3d5a3e3c11", "0f8fad5b-d9cb-469f-a165-70867728950e");
    world.run(&format!("INSERT INTO t VALUES (1, '{own}')")).await;
    world.run("INSERT INTO t (k) VALUES (2)").await;
    let literal = other.to_uppercase();
    for chosen in [
        format!("CASE WHEN k = 1 THEN u ELSE '{literal}' END"),
        format!("CASE WHEN k = 2 THEN '{literal}' ELSE u END"),
        format!("coalesce(u, '{literal}')"),
        format!("CASE k WHEN 1 THEN u WHEN 2 THEN '{literal}' END"),
    ] {
        let found = world.column(&format!("SELECT {chosen} FROM t ORDER BY k")).await;
        assert_eq!(found, [own, other], "{chosen}");
    }
}

/// All UUIDs of a millisecond are of that instant, on whichever side it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_uuids_are_compared_with_instants_from_either_side() {
    let world = World::new().await;
    world.run("CREATE TABLE e (pk int, tu timeuuid, r timeuuid, PRIMARY KEY (pk, tu))").await;
    for at in ["2013-01-01T00:00:00.000Z", "2013-01-01T00:00:00.001Z"] {
        for end in ["minTimeuuid", "maxTimeuuid"] {
            world.run(&format!("INSERT INTO e VALUES (1, {end}('{at}'), {end}('{at}'))")).await;
        }
    }
    let (first, second) =
        ("TIMESTAMP '2013-01-01 00:00:00.000'", "TIMESTAMP '2013-01-01 00:00:00.001'");
    for column in ["tu", "r"] {
        for (condition, wanted) in [
            (format!("{column} < {first}"), 0),
            (format!("{column} < {second}"), 2),
            (format!("{column} <= {first}"), 2),
            (format!("{column} <= {second}"), 4),
            (format!("{column} > {first}"), 2),
            (format!("{column} > {second}"), 0),
            (format!("{column} >= {first}"), 4),
            (format!("{column} >= {second}"), 2),
            (format!("{first} < {column}"), 2),
            (format!("{second} < {column}"), 0),
            (format!("{first} <= {column}"), 4),
            (format!("{second} <= {column}"), 2),
            (format!("{first} > {column}"), 0),
            (format!("{second} > {column}"), 2),
            (format!("{first} >= {column}"), 2),
            (format!("{second} >= {column}"), 4),
            (format!("{column} BETWEEN {first} AND {first}"), 2),
            (format!("{column} BETWEEN {first} AND {second}"), 4),
            (format!("{column} NOT BETWEEN {first} AND {first}"), 2),
        ] {
            let query = format!("SELECT count(*) FROM e WHERE pk = 1 AND {condition}");
            assert_eq!(world.column(&query).await, [wanted.to_string()], "{query}");
        }
    }
}

/// Functions by their other names, and instants before 1970.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_of_time_uuids_have_other_names_and_reach_behind_1970() {
    let world = World::new().await;
    for (query, wanted) in [
        ("SELECT max_timeuuid(DATE '1970-01-01')", "1381670f-1dd2-11b2-7f7f-7f7f7f7f7f7f"),
        ("SELECT dateOf(minTimeuuid('2013-01-01'))", "2013-01-01T00:00:00Z"),
        ("SELECT dateOf(maxTimeuuid('2013-01-01'))", "2013-01-01T00:00:00Z"),
        ("SELECT count(DISTINCT current_timeuuid()) FROM range(3)", "3"),
        ("SELECT toTimestamp(minTimeuuid('1969-12-31 23:59:59.999'))", "1969-12-31T23:59:59.999Z"),
        ("SELECT toTimestamp(maxTimeuuid('1969-12-31 23:59:59.999'))", "1969-12-31T23:59:59.999Z"),
        ("SELECT toTimestamp(maxTimeuuid('1969-12-31 23:59:59.9995'))", "1969-12-31T23:59:59.999Z"),
        ("SELECT toTimestamp(minTimeuuid('1970-01-01 00:00:00.0009'))", "1970-01-01T00:00:00Z"),
    ] {
        assert_eq!(world.column(query).await, [wanted], "{query}");
    }
    let version_4 = "SELECT toTimestamp('00000000-0000-4000-8000-000000000000')";
    let error = world.error(version_4).await;
    assert!(error.message.contains("is no timeuuid"), "{error}");
}

/// A timestamp may be finer than the milliseconds of a time UUID, and may have none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timestamp_is_in_the_millisecond_that_it_falls_into_or_beyond_all_time_uuids() {
    let world = World::new().await;
    for text in ["1969-12-31 23:59:59.9995", "1969-12-31 23:59:59.999", "1970-01-01 00:00:00.0005"]
    {
        for function in ["minTimeuuid", "maxTimeuuid"] {
            let same = format!("SELECT {function}(TIMESTAMP '{text}') = {function}('{text}')");
            assert_eq!(world.column(&same).await, ["true"], "{same}");
            let micros = format!(
                "SELECT {function}(arrow_cast('{text}', 'Timestamp(µs)')) = {function}('{text}')"
            );
            assert_eq!(world.column(&micros).await, ["true"], "{micros}");
        }
    }
    // Of 1582-10-15 and of the last milliseconds of 60 bits.
    for (ms, is_one) in [
        (-12_219_292_800_000_i64, true),
        (-12_219_292_800_001, false),
        (103_072_857_660_683, true),
        (103_072_857_660_684, false),
    ] {
        let text = format!("SELECT minTimeuuid(to_timestamp_millis({ms}))");
        match is_one {
            true => assert_eq!(world.column(&text).await.len(), 1, "{text}"),
            false => {
                let error = world.error(&text).await;
                assert!(error.message.contains("no timeuuid is as far away"), "{text}: {error}");
            }
        }
    }
}
