//! Sets, maps, lists and rows as constants in conditions; floats within them.

use crate::query::tests::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_and_maps_are_compared_as_such() {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (pk int, ck frozen<set<int>>, s set<text>, m map<text, int>, \
             n frozen<map<int, frozen<set<uuid>>>>, l list<float>, PRIMARY KEY (pk, ck))",
        )
        .await;
    let id = "0b000000-0000-4000-8000-00000000000a";
    world
        .run(&format!(
            "INSERT INTO t VALUES (1, {{3, 1, 2}}, {{'b', 'a'}}, {{'y': 2, 'x': 1}}, \
             {{7: {{'{id}'}}}}, [0.25, 0.5])"
        ))
        .await;
    world.run("INSERT INTO t (pk, ck) VALUES (1, {9})").await;
    let upper = id.to_uppercase();
    let all = [
        "s = {'a', 'b'}",
        "s = {'b', 'a', 'b'}",
        "{'b', 'a'} = s",
        "s = ['b', 'a']",
        "s <> {'a'}",
        "s <> {}",
        "s IN ({'a'}, {'b', 'a'})",
        "s IS NOT DISTINCT FROM {'b', 'a'}",
        "CASE s WHEN {'b', 'a'} THEN true ELSE false END",
        "m = {'x': 1, 'y': 2}",
        "m = {'y': 2, 'x': 1}",
        "m <> {}",
        "m IN ({'x': 1}, {'y': 2, 'x': 1})",
        "l = [0.25, 0.5]",
        "n = {7: {'ID'}}",
        "pk = 1 AND ck = {2, 1, 3}",
        "pk = 1 AND ck IN ({2}, {3, 2, 1})",
        "EXISTS (SELECT 1 FROM t u WHERE u.pk = t.pk AND t.s = {'b', 'a'})",
    ];
    for condition in all {
        let query = format!("SELECT ck FROM t WHERE {condition}").replace("ID", &upper);
        assert_eq!(world.column(&query).await, ["[1, 2, 3]"], "{query}");
    }
    for condition in ["s = {'a'}", "m = {'x': 2, 'y': 2}", "m = {}", "s = {}", "ck = {1.5}"] {
        let query = format!("SELECT ck FROM t WHERE {condition}");
        assert_eq!(world.column(&query).await.len(), 0, "{query}");
    }
    let plan = world.plan("SELECT * FROM t WHERE pk = 1 AND ck = {3, 1, 2}").await;
    assert!(plan.contains("slices=[{1, 2, 3}]") && !plan.contains("filter="), "{plan}");
    let error = world.error("SELECT ck FROM t WHERE m = {'x': 1.5}").await;
    assert!(error.message.contains("int"), "{error}");
    world.run("UPDATE t SET s = {'z'} WHERE pk = 1 AND ck = {2, 3, 1}").await;
    assert_eq!(world.column("SELECT s FROM t WHERE s = {'z'}").await, ["[z]"]);
    world.run("DELETE FROM t WHERE pk = 1 AND ck IN ({9}, {3, 2, 1})").await;
    assert_eq!(world.column("SELECT count(*) FROM t").await, ["0"]);

    world.run("CREATE TABLE k (k frozen<map<text, int>> PRIMARY KEY, v int)").await;
    world.run("INSERT INTO k VALUES ({'b': 1, 'a': 2}, 1)").await;
    world.run("UPDATE k SET v = 2 WHERE k = {'a': 2, 'b': 1}").await;
    assert_eq!(world.column("SELECT v FROM k WHERE k = {'b': 1, 'a': 2}").await, ["2"]);
    world.run("DELETE FROM k WHERE k = {'b': 1, 'a': 2}").await;
    assert_eq!(world.column("SELECT v FROM k").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_are_sets_as_well() {
    use datafusion::arrow::array::{ArrayRef, Int64Builder, ListBuilder, RecordBatch};
    let world = World::new().await;
    world.run("CREATE TABLE t (pk frozen<set<int>> PRIMARY KEY, v int)").await;
    world.run("INSERT INTO t VALUES ({1, 2}, 7)").await;
    let mut list = ListBuilder::new(Int64Builder::new());
    list.append_value([Some(2), Some(1)]);
    let column: ArrayRef = std::sync::Arc::new(list.finish());
    let batch = RecordBatch::try_from_iter([("$1", column)]).unwrap();
    let statement = crate::query::split("SELECT v FROM t WHERE pk = ?").unwrap().remove(0);
    let found = world.session.run_with(&statement, &batch).await.unwrap().collect().await.unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_within_values_are_equal() {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE z (pk int, ck frozen<list<double>>, v int, l list<float>, \
             m map<text, double>, PRIMARY KEY (pk, ck))",
        )
        .await;
    let rows = "(1, [0.0, 1.0], 1, [0.0], {'a': 0.0}), (1, [-0.0, 1.0], 2, [-0.0], {'a': -0.0}), \
                (1, [2.0], 3, [2.0], {'a': 2.0})";
    world.run(&format!("INSERT INTO z VALUES {rows}")).await;
    for (query, wanted) in [
        ("SELECT v FROM z WHERE pk = 1 AND ck = [0.0, 1.0] ORDER BY v", "1 2"),
        ("SELECT v FROM z WHERE pk = 1 AND ck = [-0.0, 1.0] ORDER BY v", "1 2"),
        ("SELECT v FROM z WHERE ck IN ([-0.0, 1.0], [3.0]) ORDER BY v", "1 2"),
        ("SELECT v FROM z WHERE ck NOT IN ([-0.0, 1.0], [3.0]) ORDER BY v", "3"),
        ("SELECT v FROM z WHERE l <> [0.0]", "3"),
        ("SELECT v FROM z WHERE m = {'a': 0.0} ORDER BY v", "1 2"),
        ("SELECT count(*) AS n FROM z GROUP BY ck ORDER BY n", "1 2"),
        ("SELECT count(*) AS n FROM z GROUP BY l, pk ORDER BY n", "1 2"),
        ("SELECT count(DISTINCT ck) FROM z", "2"),
        ("SELECT count(*) FROM (SELECT DISTINCT ck FROM z)", "2"),
        ("SELECT count(*) FROM (SELECT ck FROM z UNION SELECT ck FROM z)", "2"),
        ("SELECT count(*) FROM z a JOIN z b ON a.ck = b.ck", "5"),
        ("SELECT v FROM z ORDER BY ck, v DESC", "2 1 3"),
        ("SELECT v FROM z WHERE array_has(l, -0.0e0) ORDER BY v", "1 2"),
        ("SELECT array_position(l, 0.0e0) FROM z ORDER BY v", "1 1 "),
        ("SELECT v FROM z WHERE array_has(ck, 1.0) ORDER BY v", "1 2"),
        ("SELECT v FROM z WHERE list_contains(ck, 2)", "3"),
        ("SELECT [0.0e0] = [-0.0e0]", "true"),
        ("SELECT dense_rank() OVER (ORDER BY ck) FROM z ORDER BY v", "1 1 2"),
    ] {
        assert_eq!(world.column(query).await.join(" "), wanted, "{query}");
    }
    // A write is to the row that it names.
    world.run("UPDATE z SET v = 9 WHERE pk = 1 AND ck = [-0.0, 1.0]").await;
    assert_eq!(world.column("SELECT v FROM z ORDER BY v").await.join(" "), "1 3 9");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_within_values_keep_all_their_digits() {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE d (pk int PRIMARY KEY, l list<decimal(20, 2)>, s set<decimal(20, 2)>, \
             m map<text, decimal(20, 2)>, t tuple<decimal(20, 2), int>, f list<double>)",
        )
        .await;
    let number = "12345678901234567.89";
    let values = format!(
        "(1, [{number}, 1], {{{number}}}, {{'a': {number}}}, ({number}, 1), [-0.0, {number}])"
    );
    world.run(&format!("INSERT INTO d VALUES {values}")).await;
    for column in ["l", "s", "m", "t"] {
        let found = world.column(&format!("SELECT {column} FROM d")).await;
        assert!(found[0].contains(number), "{column}: {found:?}");
    }
    assert_eq!(world.column("SELECT f FROM d").await, ["[-0.0, 1.2345678901234568e16]"]);
    for condition in [
        format!("l = [{number}, 1]"),
        format!("s = {{{number}}}"),
        format!("m = {{'a': {number}}}"),
        format!("array_has(l, {number})"),
        "array_has(f, 0.0)".to_owned(),
        "array_has([0.5, 1], 0.5)".to_owned(),
    ] {
        let query = format!("SELECT pk FROM d WHERE {condition}");
        assert_eq!(world.column(&query).await, ["1"], "{query}");
    }
    world.run(&format!("UPDATE d SET l = l + [{number}], s = s + {{5.5}} WHERE pk = 1")).await;
    assert_eq!(world.column("SELECT l FROM d").await, [format!("[{number}, 1.00, {number}]")]);
}
