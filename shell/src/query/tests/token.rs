//! `token(…)`: places on the ring, as the engine has them.

use tidegate_engine::{PartitionKey, Value};

use super::World;

/// A table with a key of one int, and one with a key of text and timestamp.
async fn world() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE one (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    world.run("CREATE TABLE two (a text, b timestamp, v int, PRIMARY KEY ((a, b)))").await;
    for pk in 0..40 {
        world.run(&format!("INSERT INTO one VALUES ({pk}, 1, 'x'), ({pk}, 2, 'y')")).await;
        let text =
            format!("INSERT INTO two VALUES ('k{pk}', '2020-01-01T00:00:00.0{pk:02}Z', {pk})");
        world.run(&text).await;
    }
    world
}

fn token_of(values: &[Value]) -> i64 {
    PartitionKey::of_values(values).unwrap().token().0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_the_place_of_the_partition() {
    let world = world().await;
    for (read, place) in [("memory", ""), ("files", "FLUSH"), ("cache", "SELECT * FROM one")] {
        if !place.is_empty() {
            world.run(place).await.collect().await.unwrap();
        }
        for pk in [0, 7, 39] {
            let wanted = token_of(&[Value::Int(pk)]).to_string();
            let text = format!("SELECT token(pk), ck FROM one WHERE pk = {pk} ORDER BY ck");
            assert_eq!(world.column(&text).await, [wanted.clone(), wanted], "{read}");
        }
        let millis = 1_577_836_800_007;
        let wanted = token_of(&[Value::Text("k7".into()), Value::Timestamp(millis)]).to_string();
        assert_eq!(world.column("SELECT token(a, b) FROM two WHERE v = 7").await, [wanted]);
    }
    // Partitions come in the order of their tokens.
    let scanned = world.column("SELECT token(pk) FROM one").await;
    let sorted = world.column("SELECT token(pk) FROM one ORDER BY token(pk)").await;
    assert_eq!(scanned.len(), 80);
    let (mut a, mut b) = (scanned, sorted.clone());
    a.sort_unstable();
    b.sort_unstable();
    assert_eq!(a, b);
    let numbers: Vec<i64> = sorted.iter().map(|token| token.parse().unwrap()).collect();
    assert!(numbers.is_sorted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_of_tokens_part_a_table() {
    let world = world().await;
    let all = world.column("SELECT DISTINCT token(pk) AS t FROM one ORDER BY t").await;
    let middle = &all[17];
    let left = format!("SELECT pk FROM one WHERE token(pk) <= {middle}");
    let right = format!("SELECT pk FROM one WHERE token(pk) > {middle}");
    assert_eq!(world.column(&left).await.len(), 2 * 18);
    assert_eq!(world.column(&right).await.len(), 2 * 22);
    let between = format!(
        "SELECT count(*) FROM one x WHERE token(x.pk) > {} AND token(x.pk) <= {}",
        all[3], all[5]
    );
    assert_eq!(world.column(&between).await, ["4"]);
    // Values are of the types of the columns: 7 is an int here.
    let behind = "SELECT count(*) FROM one WHERE token(pk) > token(7)";
    let at = all.iter().position(|token| *token == token_of(&[Value::Int(7)]).to_string()).unwrap();
    assert_eq!(world.column(behind).await, [(2 * (39 - at)).to_string()]);
    let from = "SELECT v FROM two WHERE token(a, b) = token('k9', '2020-01-01T00:00:00.009Z')";
    assert_eq!(world.column(from).await, ["9"]);
    let some = "SELECT pk FROM one WHERE token(pk) BETWEEN token(7) AND token(7)";
    assert_eq!(world.column(some).await, ["7", "7"]);
    let inner = "SELECT count(*) FROM (SELECT token(pk) AS t FROM one) WHERE t = token(7)";
    let told = world.error(inner).await.to_string();
    assert!(told.contains("partition key"), "{told}");
}

/// Conditions on tokens are no filter: the scan reads that stretch of the ring.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_of_tokens_is_all_that_is_read() {
    let world = world().await;
    let all: Vec<i64> = world
        .column("SELECT DISTINCT token(pk) AS t FROM one ORDER BY t")
        .await
        .iter()
        .map(|token| token.parse().unwrap())
        .collect();
    let (low, high) = (all[10], all[20]);
    let stretches = [
        (format!("token(pk) > {low} AND token(pk) < {high}"), low + 1, high - 1, 9),
        (format!("{low} <= token(pk) AND {high} >= token(pk)"), low, high, 11),
        (format!("token(pk) = {low}"), low, low, 1),
        (format!("token(pk) >= {low} AND token(pk) BETWEEN {low} AND {high}"), low, high, 11),
        (format!("token(pk) <= {high}"), i64::MIN, high, 21),
    ];
    for place in ["", "FLUSH", "SELECT * FROM one"] {
        if !place.is_empty() {
            world.run(place).await.collect().await.unwrap();
        }
        for (condition, min, max, partitions) in &stretches {
            let text = format!("SELECT v FROM one WHERE {condition}");
            let plan = world.plan(&text).await;
            assert!(plan.contains(&format!("partitions=tokens {min} to {max}")), "{plan}");
            assert!(!plan.contains("filter="), "{plan}");
            let told = world.rows(&format!("EXPLAIN ANALYZE {text}")).await;
            assert!(told.contains(&format!("rows_read={}", 2 * partitions)), "{told}");
            assert_eq!(world.column(&text).await.len(), 2 * partitions, "{condition}, {place}");
        }
    }
    // Nothing lies there.
    for condition in [
        format!("token(pk) > {high} AND token(pk) < {low}"),
        format!("token(pk) > {}", i64::MAX),
        format!("token(pk) < {}", i64::MIN),
    ] {
        let plan = world.plan(&format!("SELECT v FROM one WHERE {condition}")).await;
        assert!(plan.contains("EmptyExec"), "{plan}");
    }
    // Other conditions are checked, or name slices, and a named partition needs no stretch.
    let page = format!("SELECT pk FROM one WHERE token(pk) >= {low} AND ck = 2 AND v = 'y'");
    assert_eq!(world.column(&page).await.len(), 30);
    let plan = world.plan(&page).await;
    assert!(plan.contains("partitions=tokens") && plan.contains("slices="), "{plan}");
    let plan = world.plan(&format!("SELECT v FROM one WHERE pk = 7 AND token(pk) > {low}")).await;
    assert!(plan.contains("partitions=1 key"), "{plan}");
    let first = format!("SELECT pk FROM one WHERE token(pk) > {low} PER PARTITION LIMIT 1");
    assert_eq!(world.column(&first).await.len(), 29);
    let joined = format!(
        "SELECT count(*) FROM one JOIN two ON two.v = one.pk WHERE token(pk) > {low} AND one.ck = 1"
    );
    assert_eq!(world.column(&joined).await, ["29"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_partition_has_no_token() {
    let world = world().await;
    for text in [
        "SELECT token(ck) FROM one",
        "SELECT token(v) FROM one",
        "SELECT token(pk, ck) FROM one",
        "SELECT token(a) FROM two",
        "SELECT token(b, a) FROM two",
        "SELECT token(5)",
        "SELECT token(pk + 1) FROM one",
    ] {
        let told = world.error(text).await.to_string();
        assert!(told.contains("all of them and in order"), "{text}: {told}");
    }
    for (text, words) in [
        ("SELECT pk FROM one WHERE token(pk) > token('x')", "none of the column"),
        ("SELECT pk FROM one WHERE token(pk) > token(NULL)", "NULL is part of no key"),
        ("SELECT pk FROM one WHERE token(pk) > token(1, 2)", "2 values beside one of 1 columns"),
    ] {
        let told = world.error(text).await.to_string();
        assert!(told.contains(words), "{text}: {told}");
    }
}
