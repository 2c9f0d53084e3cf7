//! Collections, tuples and user types in SQL.

use crate::query::tests::World;

async fn table() -> World {
    let world = World::new().await;
    world.run("CREATE TYPE addr (street text, zip int, tags frozen<set<text>>)").await;
    world
        .run(
            "CREATE TABLE t (pk int, ck frozen<list<int>>, s set<int> STATIC, l list<int>, \
             m map<text, int>, u addr, f frozen<addr>, p tuple<int, text>, n varint, \
             d duration, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC)",
        )
        .await;
    world
}

const ROW: &str = "SELECT l, m, u, f, p, n FROM t WHERE pk = 1 AND ck = [1, 2]";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_written_read_and_replaced() {
    let world = table().await;
    world
        .run(
            "INSERT INTO t (pk, ck, s, l, m, u, p, n, d) VALUES (1, [1, 2], [3, 1, 3], [1, 2], \
             MAP {'b': 2, 'a': 1}, {street: 's', zip: 7, tags: ['y', 'x']}, struct(1, 'x'), \
             123456789012345678901234567890, INTERVAL '1 month 2 days')",
        )
        .await;
    world.run("INSERT INTO t (pk, ck, l) VALUES (1, [5], [9])").await;
    insta::assert_snapshot!(world.rows(ROW).await, @r"
    +--------+--------------+-----------------------------------+---+----------------+--------------------------------+
    | l      | m            | u                                 | f | p              | n                              |
    +--------+--------------+-----------------------------------+---+----------------+--------------------------------+
    | [1, 2] | {a: 1, b: 2} | {street: s, zip: 7, tags: [x, y]} |   | {c0: 1, c1: x} | 123456789012345678901234567890 |
    +--------+--------------+-----------------------------------+---+----------------+--------------------------------+
    ");
    // The old elements go with the new ones, before and after a flush.
    world.run("UPDATE t SET l = [7], m = NULL, p = NULL WHERE pk = 1 AND ck = [1, 2]").await;
    world.run("FLUSH t").await;
    world
        .run("INSERT INTO t (pk, ck, u) VALUES (1, [1, 2], {street: 't', zip: 8, tags: ['z']})")
        .await;
    insta::assert_snapshot!(world.rows(ROW).await, @r"
    +-----+---+--------------------------------+---+---+--------------------------------+
    | l   | m | u                              | f | p | n                              |
    +-----+---+--------------------------------+---+---+--------------------------------+
    | [7] |   | {street: t, zip: 8, tags: [z]} |   |   | 123456789012345678901234567890 |
    +-----+---+--------------------------------+---+---+--------------------------------+
    ");
    let plan = world.rows(&format!("EXPLAIN {ROW}")).await;
    assert!(plan.contains("slices=[[1, 2]]") && !plan.contains("filter="), "{plan}");
    let keys = "SELECT ck FROM t WHERE pk = 1";
    assert_eq!(world.column(keys).await, ["[5]", "[1, 2]"]);
    assert_eq!(world.column("SELECT s FROM t WHERE pk = 1 LIMIT 1").await, ["[1, 3]"]);
    world.run("DELETE l FROM t WHERE pk = 1 AND ck = [5]").await;
    assert_eq!(world.column("SELECT l FROM t WHERE pk = 1 AND ck = [5]").await, [""]);
    assert_eq!(world.column("SELECT d FROM t WHERE d IS NOT NULL").await, ["1 mons 2 days"]);
    assert_eq!(
        world.column("SELECT n FROM t WHERE n > 5").await,
        ["123456789012345678901234567890"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_with_its_place() {
    let world = table().await;
    let error = world.error("CREATE TABLE x (a list<int> PRIMARY KEY)").await;
    assert!(error.message.contains("key column 'a' cannot be list<int>: freeze it"), "{error}");
    let error = world.error("CREATE TABLE x (a int PRIMARY KEY, b adr)").await;
    assert_eq!(error.help.as_deref(), Some("did you mean 'addr'?"));
    assert_eq!(error.span.unwrap().column, 38);
    let error = world.error("DROP TYPE addr").await;
    assert!(error.message.contains("is used by table default.t"), "{error}");
    let error = world.error("CREATE TYPE addr (a int)").await;
    assert!(error.message.contains("exists already"), "{error}");
    world.run("CREATE TYPE IF NOT EXISTS addr (a int)").await;
    // Wherever it is used: within collections and tuples too.
    for (n, ty) in ["list<frozen<addr>>", "map<int, frozen<addr>>", "tuple<int, frozen<addr>>"]
        .iter()
        .enumerate()
    {
        world.run(&format!("CREATE TYPE apart{n} (a int)")).await;
        let ty = ty.replace("addr", &format!("apart{n}"));
        world.run(&format!("CREATE TABLE uses{n} (k int PRIMARY KEY, v {ty})")).await;
        let error = world.error(&format!("DROP TYPE apart{n}")).await;
        assert!(error.message.contains(&format!("is used by table default.uses{n}")), "{error}");
        world.run(&format!("DROP TABLE uses{n}; DROP TYPE apart{n}")).await;
    }
    world.run("CREATE TYPE outer_type (inner_type frozen<addr>)").await;
    let error = world.error("CREATE TYPE bad (a int, a int)").await;
    assert!(error.message.contains("'a' is there twice"), "{error}");
    let error = world.error("INSERT INTO t (pk, ck, l) VALUES (1, [1], [1, NULL])").await;
    assert!(error.message.contains("a collection holds no nulls"), "{error}");

    // A field that the type does not have is a mistake, and not nothing.
    for value in ["{street: 's', nope: 1}", "named_struct('street', 's', 'nope', 1)"] {
        for text in [
            format!("INSERT INTO t (pk, ck, u) VALUES (1, [1], {value})"),
            format!("INSERT INTO t (pk, ck, u) SELECT 1, [1], {value}"),
            format!("UPDATE t SET u = {value} WHERE pk = 1 AND ck = [1]"),
        ] {
            let error = world.error(&text).await;
            assert!(error.message.contains("nope"), "{text}: {error}");
        }
    }

    world.run("CREATE TABLE c (pk int PRIMARY KEY, n counter)").await;
    for text in ["INSERT INTO c (pk, n) VALUES (1, 1)", "UPDATE c SET n = 1 WHERE pk = 1"] {
        let error = world.error(text).await;
        assert!(error.message.contains("a counter takes steps"), "{error}");
    }
    world.run("DROP TABLE t").await;
    let error = world.error("DROP TYPE addr").await;
    assert!(error.message.contains("is used by type default.outer_type"), "{error}");
    world.run("DROP TYPE outer_type").await;
    world.run("DROP TYPE addr").await;
    world.run("DROP TYPE IF EXISTS addr").await;
}

const WHERE: &str = "WHERE pk = 1 AND ck = [1, 2]";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_elements_are_written_and_deleted() {
    let world = table().await;
    let column = async |name: &str| {
        world.column(&format!("SELECT {name} FROM t WHERE pk = 1 AND ck = [1, 2]")).await
    };
    // Of a row that is not there yet, more than ten at once: their order is that of the text.
    let many: Vec<String> = (0..300).map(|i| i.to_string()).collect();
    let all = format!("[{}]", many.join(", "));
    world.run(&format!("UPDATE t SET l = {all} {WHERE}")).await;
    world.run(&format!("UPDATE t SET l = l + {all} {WHERE}")).await;
    let twice = format!("[{}, {}]", many.join(", "), many.join(", "));
    assert_eq!(column("l").await, [twice]);
    for flushes in [false, true] {
        world.run(&format!("UPDATE t SET l = [5], s = NULL, m = NULL, u = NULL {WHERE}")).await;
        if flushes {
            world.run("FLUSH t").await;
        }
        world.run(&format!("UPDATE t SET l = l + [6, 7] {WHERE}")).await;
        world.run(&format!("UPDATE t SET l = [3, 4] + l, u.zip = 1 + 98 {WHERE}")).await;
        world.run(&format!("UPDATE t SET l = [2] + l, l = l + [8] {WHERE}")).await;
        assert_eq!(column("l").await, ["[2, 3, 4, 5, 6, 7, 8]"]);
        assert_eq!(column("u").await, ["{street: , zip: 99, tags: }"]);
        world
            .run(&format!("UPDATE t SET m['z'] = 26, m['y'] = 25, t.p = struct(1, 'x') {WHERE}"))
            .await;
        world.run(&format!("UPDATE t SET m = m + MAP {{'x': 24, 'y': 2}} {WHERE}")).await;
        assert_eq!(column("m").await, ["{x: 24, y: 2, z: 26}"]);
        world.run(&format!("UPDATE t SET m = m - ['x'], m['z'] = NULL {WHERE}")).await;
        assert_eq!(column("m").await, ["{y: 2}"]);
        world.run(&format!("DELETE m['y'], u.zip, p FROM t {WHERE}")).await;
        assert_eq!(column("m").await, [""]);
        assert_eq!(column("u").await, [""]);
        world.run("UPDATE t SET s = s + [3, 1, 3, 2] WHERE pk = 1").await;
        world.run("UPDATE t SET s = s - [2, 9] WHERE pk = 1").await;
        world.run("DELETE s[3] FROM t WHERE pk = 1").await;
        assert_eq!(column("s").await, ["[1]"]);
    }
    let plan = world.plan(&format!("UPDATE t SET m['a'] = 1, l = [1] + l, p = NULL {WHERE}")).await;
    assert!(plan.contains("p=null, m + {'a': 1}, l + before [1]"), "{plan}");
    let plan = world.plan(&format!("DELETE m['a'], u.zip FROM t {WHERE}")).await;
    assert!(plan.contains("writes=cells") && plan.contains("m - a, u - 1"), "{plan}");
    // Older than what stands there: not seen. With a time to live: gone when that is over.
    world.run(&format!("UPDATE t USING TIMESTAMP 5 SET m['old'] = 1 {WHERE}")).await;
    world.run(&format!("UPDATE t USING TTL 1000 SET m['new'] = 1 {WHERE}")).await;
    assert_eq!(column("m").await, ["{new: 1}"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elements_that_cannot_be_written_are_refused() {
    let world = table().await;
    for (assignments, named) in [
        ("l[0] = 1", "is not known to a write"),
        ("l = l - [1]", "is not known to a write"),
        ("m[NULL] = 1", "null is no element"),
        ("m['k'] = 'x'", "x"),
        ("m['k'] = pk", "pk"),
        ("m[] = 1", "Expected: =, found: ["),
        ("m['k'] =", "expected a value, found the end of the statement"),
        ("m['k'] = 1, m = NULL", "assigned twice"),
        ("s[1] = 1", "has no such elements"),
        ("m = MAP {'k': 1} + m", "has no such elements"),
        ("u = u + [1]", "has no such elements"),
        ("u.zap = 1", "field of default.addr 'zap' does not exist"),
        ("f.zip = 1", "its parts are not written one by one"),
        ("p = p + 1", "not a constant"),
        ("ck = ck + [1]", "not a constant"),
        ("x['k'] = 1", "column 'x' does not exist"),
    ] {
        let error = world.error(&format!("UPDATE t SET {assignments} {WHERE}")).await;
        assert!(error.message.contains(named), "{assignments}: {error}");
        assert!(error.span.is_some(), "{assignments}: {error}");
    }
    for (deleted, named) in [
        ("l[0]", "is not known to a write"),
        ("m[", "expected a key and ']'"),
        ("u.zap", "does not exist"),
        ("pk[1]", "its parts are not written"),
    ] {
        let error = world.error(&format!("DELETE {deleted} FROM t {WHERE}")).await;
        assert!(error.message.contains(named), "{deleted}: {error}");
    }
    let error = world.error("UPDATE t SET m['k'] = 1 WHERE pk = 1").await;
    assert!(error.message.contains("whole primary key"), "{error}");
    let error = world.error("UPDATE t SET m['k'] = 1").await;
    assert!(error.message.contains("whole partition key"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elements_take_parameters() {
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    let world = table().await;
    let text = "UPDATE t SET m[?] = ?, u.zip = ? WHERE pk = ? AND ck = [1, 2]";
    let statement = crate::query::split(text).unwrap().remove(0);
    let description = world.session.describe(&statement).await.unwrap();
    let types: Vec<String> =
        description.parameters.fields().iter().map(|f| f.data_type().to_string()).collect();
    assert_eq!(types, ["Utf8", "Int32", "Int32", "Int32"]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("$1", std::sync::Arc::new(StringArray::from(vec!["a", "b"]))),
        ("$2", std::sync::Arc::new(Int64Array::from(vec![1, 2]))),
        ("$3", std::sync::Arc::new(Int64Array::from(vec![Some(3), None]))),
        ("$4", std::sync::Arc::new(Int64Array::from(vec![1, 1]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    );
    world.session.run_with(&statement, &batch.unwrap()).await.unwrap();
    assert_eq!(world.column("SELECT m FROM t").await, ["{a: 1, b: 2}"]);
    assert_eq!(world.column("SELECT u FROM t").await, [""]);
}
