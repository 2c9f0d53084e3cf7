//! What governance tells of all shards together.

use super::*;

fn exit(shard: u32, at_us: i64) -> PolicyExit {
    PolicyExit {
        policy: "a".into(),
        version: "1".into(),
        digest: String::new(),
        shard,
        at_us,
        role: "active",
        kind: "trap",
        message: "on purpose".into(),
        backtrace: Vec::new(),
        calls: 0,
        events: 0,
        victims: 0,
        invalid_victims: 0,
        shortfalls: 0,
        last_events: Vec::new(),
    }
}

#[test]
fn exits_of_all_shards_stand_in_the_order_of_time() {
    live(async |life| {
        assert_eq!(life.governance.exits().await.unwrap(), []);
        let all = [exit(0, 5), exit(0, 9), exit(1, 3), exit(1, 5), exit(2, 7)];
        life.script.exits.borrow_mut().extend(all);
        let exits = life.governance.exits().await.unwrap();
        let places: Vec<(i64, u32)> = exits.iter().map(|exit| (exit.at_us, exit.shard)).collect();
        assert_eq!(places, [(3, 1), (5, 0), (5, 1), (7, 2), (9, 0)]);
    });
}

#[test]
fn figures_of_a_policy_are_told_with_the_number_of_their_shard() {
    live(async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        let told = governance.explain("a").await.unwrap();
        assert_eq!((told.name.as_str(), told.version.as_str()), ("a", "9.9"));
        let figure = |shard: u32| (shard, "figure of a".to_owned(), f64::from(shard));
        assert_eq!(told.metrics, [figure(0), figure(1), figure(2)]);
        let unknown = governance.explain("b").await.unwrap_err();
        assert!(matches!(unknown, Error::NotFound { kind: "policy", .. }), "{unknown}");
        let listed = governance.policies().await.unwrap();
        assert!(listed.iter().all(|report| report.metrics.is_empty()), "a list has no figures");
    });
}
