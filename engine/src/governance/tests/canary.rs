//! A canary on several shards, and what ends one.

use super::*;

/// The canary begins on two of them.
const MANY: u32 = 9;

fn ended() -> [&'static str; 2] {
    ["0 end canary lru", "1 end canary lru"]
}

#[test]
fn a_canary_on_two_shards_goes_on_when_both_say_so() {
    live_on(MANY, async |life| {
        life.create("a", Guest::default().component()).await;
        assert_eq!(life.governance.canary("a").await.unwrap(), 2, "one in eight, rounded up");
        let mut began = vec!["0 canary a".to_owned(), "1 canary a".to_owned()];
        began.extend((2..MANY).map(|shard| format!("{shard} end shadow ")));
        assert_eq!(life.steps(), began);

        life.says(0, TrialVerdict::GoesOn { gain: 1.0 });
        life.timer.sleep(LOOK).await;
        assert!(life.steps().is_empty(), "one of them has no verdict yet");
        life.says(1, TrialVerdict::GoesOn { gain: 2.0 });
        life.timer.sleep(4 * LOOK).await;
        let mut took_over: Vec<String> =
            (2..MANY).map(|shard| format!("{shard} switch a")).collect();
        took_over.extend(["0 confirm ".to_owned(), "1 confirm ".to_owned()]);
        assert_eq!(life.steps(), took_over);
        assert_eq!(life.wanted(World::Eviction).as_deref(), Some("a"));
        let came_to = life.came_to("a").await.unwrap();
        assert!(came_to.starts_with("took over: a gain of 1.50 points"), "the mean: {came_to}");
    });
}

#[test]
fn one_shard_is_enough_to_end_a_canary_on_all_that_have_it() {
    live_on(MANY, async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        governance.canary("a").await.unwrap();
        life.steps();
        life.says(0, TrialVerdict::GoesOn { gain: 1.0 });
        life.says(1, TrialVerdict::RollsBack { reason: "bad".into() });
        life.timer.sleep(4 * LOOK).await;
        assert_eq!(life.steps(), ended());
        assert_eq!(life.came_to("a").await.unwrap(), "went back: canary: bad");
        assert_eq!(life.wanted(World::Eviction), None);

        // A shard on which it does not end keeps no other from its end.
        life.script.verdicts.borrow_mut().clear();
        governance.canary("a").await.unwrap();
        life.steps();
        life.refuse(0, "end canary");
        let told = governance.roll_back().await.unwrap_err();
        assert!(told.to_string().contains("no end canary"), "{told}");
        assert_eq!(life.steps(), ended());
        life.timer.sleep(LOOK).await;
    });
}

#[test]
fn a_canary_that_one_of_its_shards_refuses_ends_where_it_began() {
    live_on(MANY, async |life| {
        life.create("a", Guest::default().component()).await;
        life.refuse(1, "canary");
        let refused = life.governance.canary("a").await.unwrap_err();
        assert!(refused.to_string().contains("no canary"), "{refused}");
        assert_eq!(life.steps(), [["0 canary a", "1 canary a"], ended()].concat());
        life.governance.drop_policy("a", false).await.expect("it is no canary");
    });
}

#[test]
fn a_canary_gives_way_to_another_one_and_to_whom_a_statement_puts_in_charge() {
    live(async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        life.create("b", Guest { pages: 3, ..Guest::default() }.component()).await;
        governance.canary("a").await.unwrap();
        life.steps();
        governance.canary("b").await.unwrap();
        let steps = ["0 end canary lru", "0 canary b", "1 end shadow ", "2 end shadow "];
        assert_eq!(life.steps(), steps);
        let came_to = life.came_to("a").await.unwrap();
        assert_eq!(came_to, "went back: operator: another canary took its place");

        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap();
        let steps = ["0 end canary lru", "0 switch a", "1 switch a", "2 switch a"];
        assert_eq!(life.steps(), steps);
        let came_to = life.came_to("b").await.unwrap();
        assert_eq!(came_to, "went back: operator: another policy was put in charge");
        assert_eq!(life.wanted(World::Eviction).as_deref(), Some("a"));
        governance.drop_policy("b", false).await.expect("it is no canary any more");
        assert_eq!(governance.roll_back().await.unwrap().policy, "lru", "that was before it");
        life.timer.sleep(LOOK).await;
    });
}
