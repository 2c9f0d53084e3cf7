//! What all shards are asked for by a change, and what is left of one that fails.

use super::*;

#[test]
fn a_switch_that_one_shard_refuses_is_undone_on_those_before_it() {
    live(async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        life.create("b", Guest { pages: 3, ..Guest::default() }.component()).await;
        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap();
        assert_eq!(life.steps(), ["0 switch a", "1 switch a", "2 switch a"]);
        assert_eq!(life.wanted(World::Eviction).as_deref(), Some("a"));
        // The same once more: what was before it stays what was before.
        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap();
        life.steps();

        life.refuse(2, "switch");
        let refused = governance.put_in_charge(World::Eviction, Some("b")).await.unwrap_err();
        assert!(refused.to_string().contains("no switch"), "{refused}");
        let undone = ["0 switch b", "1 switch b", "2 switch b", "0 roll back a", "1 roll back a"];
        assert_eq!(life.steps(), undone);
        assert_eq!(life.wanted(World::Eviction).as_deref(), Some("a"));

        // A rollback that is refused goes forward again.
        life.refuse(1, "roll back");
        let refused = governance.roll_back().await.unwrap_err();
        assert!(refused.to_string().contains("no roll back"), "{refused}");
        assert_eq!(life.steps(), ["0 roll back lru", "1 roll back lru", "0 roll back a"]);
        life.script.refuses.set(None);
        let back = governance.roll_back().await.unwrap();
        assert_eq!((back.policy.as_str(), back.was_kept), ("lru", true));
        assert_eq!(life.wanted(World::Eviction), None);
    });
}

#[test]
fn an_exchange_is_prepared_everywhere_before_anyone_decides() {
    live(async |life| {
        let governance = &life.governance;
        life.create("shed", load_shedding("unreachable")).await;
        let wrong = governance.put_in_charge(World::RateLimiter, Some("shed")).await.unwrap_err();
        assert!(wrong.to_string().contains("not on rate-limiter"), "{wrong}");
        assert!(life.steps().is_empty());

        life.refuse(1, "prepare");
        let refused = governance.put_in_charge(World::LoadShedding, Some("shed")).await;
        assert!(refused.unwrap_err().to_string().contains("no prepare"));
        assert_eq!(life.steps(), ["0 prepare shed", "1 prepare shed"]);
        assert_eq!(life.wanted(World::LoadShedding), None);

        life.script.refuses.set(None);
        governance.put_in_charge(World::LoadShedding, Some("shed")).await.unwrap();
        let prepared = ["0 prepare shed", "1 prepare shed", "2 prepare shed"];
        let committed = ["0 commit shed", "1 commit shed", "2 commit shed"];
        assert_eq!(life.steps(), [prepared, committed].concat());
        assert_eq!(life.wanted(World::LoadShedding).as_deref(), Some("shed"));

        // The name of what decides without a component stands for none.
        governance.put_in_charge(World::RateLimiter, Some("decaying")).await.unwrap();
        assert_eq!(life.wanted(World::RateLimiter), None);
        assert_eq!(life.steps().len(), 6);
    });
}

#[test]
fn what_is_wanted_is_restored_and_what_fails_then_leaves_the_native_one() {
    live(async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        life.create("shed", load_shedding("unreachable")).await;
        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap();
        governance.put_in_charge(World::LoadShedding, Some("shed")).await.unwrap();
        life.steps();
        governance.restore_direct().await;
        let steps = life.steps();
        assert_eq!((steps.len(), steps[0].as_str()), (6, "0 prepare shed"));
        governance.restore_staged().await;
        let steps = life.steps();
        let first = ["0 load ", "1 load ", "2 load ", "0 switch a", "1 switch a", "2 switch a"];
        assert_eq!(steps[..6], first);
        assert_eq!(steps[6..], ["0 drop standby ", "1 drop standby ", "2 drop standby "]);

        life.refuse(0, "switch");
        governance.restore_staged().await;
        let reports = governance.policies().await.unwrap();
        let report = reports.iter().find(|report| report.name == "a").unwrap();
        assert_eq!(report.state, "unavailable");
        assert!(report.last_failure.as_ref().unwrap().contains("no switch"), "{report:?}");
        assert_eq!(life.wanted(World::Eviction).as_deref(), Some("a"), "it is wanted still");
    });
}

#[test]
fn a_policy_that_is_not_restored_keeps_none_of_another_world_from_it() {
    live(async |life| {
        let governance = &life.governance;
        life.create("shed", load_shedding("unreachable")).await;
        life.create("io", io_priority("unreachable")).await;
        governance.put_in_charge(World::LoadShedding, Some("shed")).await.unwrap();
        governance.put_in_charge(World::IoPriority, Some("io")).await.unwrap();
        life.steps();
        life.refuse(0, "prepare");
        governance.restore_direct().await;
        assert_eq!(life.steps(), ["0 prepare shed", "0 prepare io"]);
        assert_eq!(life.wanted(World::LoadShedding).as_deref(), Some("shed"), "at the next start");
        assert_eq!(life.wanted(World::IoPriority).as_deref(), Some("io"));
    });
}

/// It is wanted, and yet the native one governs.
#[test]
fn a_policy_that_could_not_be_restored_holds_nothing_until_it_is_in_charge_again() {
    live(async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        let lose = async || {
            governance.put_in_charge(World::Eviction, Some("a")).await.unwrap();
            life.refuse(0, "switch");
            governance.restore_staged().await;
            life.script.refuses.set(None);
            life.steps();
        };
        lose().await;
        // Where a switch is refused, the native one comes back.
        life.refuse(1, "switch");
        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap_err();
        assert_eq!(life.steps(), ["0 switch a", "1 switch a", "0 roll back lru"]);
        life.script.refuses.set(None);
        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap();
        let reports = governance.policies().await.unwrap();
        let report = reports.iter().find(|report| report.name == "a").unwrap();
        assert!(report.state != "unavailable" && report.last_failure.is_none(), "{report:?}");
        let held = governance.drop_policy("a", false).await.unwrap_err();
        assert!(held.to_string().contains("'a' governs the cache"), "{held}");
        assert_eq!(governance.roll_back().await.unwrap().policy, "lru", "that was before it");

        lose().await;
        governance.drop_policy("a", false).await.unwrap();
        assert_eq!(life.wanted(World::Eviction), None);
        life.steps();
        life.create("a", Guest::default().component()).await;
    });
}

#[test]
fn a_canary_goes_on_to_all_shards_or_back_as_its_shards_say() {
    live(async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        assert_eq!(governance.canary("a").await.unwrap(), 1);
        assert_eq!(life.steps(), ["0 canary a", "1 end shadow ", "2 end shadow "]);
        let busy = governance.drop_policy("a", false).await.unwrap_err();
        assert!(busy.to_string().contains("is a canary"), "{busy}");
        life.timer.sleep(LOOK).await;
        assert!(life.steps().is_empty(), "no verdict, no step");
        assert_eq!(life.wanted(World::Eviction), None, "a restart forgets the canary");

        *life.script.verdict.borrow_mut() = Some(TrialVerdict::GoesOn { gain: 3.0 });
        life.timer.sleep(LOOK).await;
        assert_eq!(life.steps(), ["1 switch a", "2 switch a", "0 confirm "]);
        assert_eq!(life.wanted(World::Eviction).as_deref(), Some("a"));
        let came_to = life.came_to("a").await.unwrap();
        assert!(came_to.starts_with("took over: a gain of 3.00 points"), "{came_to}");

        *life.script.verdict.borrow_mut() = Some(TrialVerdict::RollsBack { reason: "bad".into() });
        governance.canary("lru").await.unwrap();
        life.steps();
        life.timer.sleep(LOOK).await;
        assert_eq!(life.steps(), ["0 end canary a"]);
        assert_eq!(life.wanted(World::Eviction).as_deref(), Some("a"));
        assert_eq!(life.came_to("lru").await.unwrap(), "went back: canary: bad");
    });
}

#[test]
fn a_canary_that_cannot_take_over_or_begin_goes_back() {
    live(async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        life.refuse(0, "canary");
        governance.canary("a").await.unwrap_err();
        assert_eq!(life.steps(), ["0 canary a", "0 end canary lru"]);

        life.refuse(2, "switch");
        governance.canary("a").await.unwrap();
        *life.script.verdict.borrow_mut() = Some(TrialVerdict::GoesOn { gain: 1.0 });
        life.steps();
        life.timer.sleep(LOOK).await;
        let steps = ["1 switch a", "2 switch a", "1 roll back lru", "0 end canary lru"];
        assert_eq!(life.steps(), steps);
        let came_to = life.came_to("a").await.unwrap();
        assert!(came_to.contains("no switch"), "{came_to}");
        assert_eq!(life.wanted(World::Eviction), None);
    });
}

/// What the shards do must be what is stored: the next start reads that.
#[test]
fn shards_go_back_where_the_wish_cannot_be_stored() {
    live(async |life| {
        let governance = &life.governance;
        let is_full = |is_full| life.keeper.is_full.store(is_full, Ordering::Relaxed);
        life.create("a", Guest::default().component()).await;
        life.create("shed", load_shedding("unreachable")).await;
        let all = |step: &str, name: &str| -> Vec<String> {
            (0..SHARDS).map(|shard| format!("{shard} {step} {name}")).collect()
        };

        is_full(true);
        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap_err();
        assert_eq!(life.steps(), [all("switch", "a"), all("roll back", "lru")].concat());
        governance.put_in_charge(World::LoadShedding, Some("shed")).await.unwrap_err();
        let steps = life.steps();
        assert_eq!(steps[..3], all("prepare", "shed"));
        let native = steps[9].rsplit(' ').next().unwrap();
        assert!(native != "shed", "{steps:?}");
        assert_eq!(steps[9..], all("commit", native), "{steps:?}");
        assert_eq!(life.wanted(World::LoadShedding), None);

        is_full(false);
        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap();
        life.steps();
        is_full(true);
        governance.roll_back().await.unwrap_err();
        assert_eq!(life.steps(), [all("roll back", "lru"), all("roll back", "a")].concat());
        assert_eq!(life.wanted(World::Eviction).as_deref(), Some("a"));

        // A canary that took over, as far as the shards were concerned.
        is_full(false);
        governance.canary("lru").await.unwrap();
        *life.script.verdict.borrow_mut() = Some(TrialVerdict::GoesOn { gain: 1.0 });
        life.steps();
        is_full(true);
        life.timer.sleep(LOOK).await;
        let steps =
            ["1 switch lru", "2 switch lru", "1 roll back a", "2 roll back a", "0 end canary a"];
        assert_eq!(life.steps(), steps);
        let came_to = life.came_to("lru").await.unwrap();
        assert!(came_to.contains("no room for wishes"), "{came_to}");
        assert_eq!(life.wanted(World::Eviction).as_deref(), Some("a"));
    });
}

#[test]
fn a_shadow_runs_on_all_shards_or_on_none() {
    live(async |life| {
        let governance = &life.governance;
        life.refuse(1, "shadow");
        governance.shadow(Some("lru"), Some(8)).await.unwrap_err();
        let ended = ["0 end shadow ", "1 end shadow ", "2 end shadow "];
        assert_eq!(life.steps(), [&["0 shadow lru", "1 shadow lru"][..], &ended].concat());
        life.script.refuses.set(None);
        assert_eq!(governance.shadow(Some("lru"), Some(8)).await.unwrap(), 8);
        assert_eq!(governance.shadow(None, None).await.unwrap(), 0);
        assert_eq!(life.steps()[3..], ended);
        let none = governance.shadow(Some("lru"), Some(0)).await.unwrap_err();
        assert!(none.to_string().contains("one key in 1 or more"), "{none}");
    });
}

#[test]
fn a_canary_ends_the_shadow_of_another_policy_if_that_still_runs() {
    live(async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        life.create("b", Guest { pages: 3, ..Guest::default() }.component()).await;
        life.create("c", Guest { pages: 3, ..Guest::default() }.component()).await;
        governance.shadow(Some("b"), None).await.unwrap();
        // The end of this one is not the end of that one.
        governance.drop_policy("c", false).await.unwrap();
        life.steps();
        governance.canary("a").await.unwrap();
        let ended = ["0 end shadow b", "1 end shadow b", "2 end shadow b"];
        let began = ["0 canary a", "1 end shadow ", "2 end shadow "];
        assert_eq!(life.steps(), [ended, began].concat());
        governance.roll_back().await.unwrap();

        governance.shadow(Some("b"), None).await.unwrap();
        governance.shadow(None, None).await.unwrap();
        life.steps();
        governance.canary("a").await.unwrap();
        assert_eq!(life.steps(), began, "no shadow runs");
        governance.roll_back().await.unwrap();
        assert_eq!(life.steps(), ["0 end canary lru"]);
        life.timer.sleep(LOOK).await;
    });
}

#[test]
fn an_expected_digest_may_be_in_any_letter_case() {
    live(async |life| {
        let governance = &life.governance;
        let component = Guest::default().component();
        let create = async |name: &str, sha256: &str| {
            governance.create(name, component.clone(), vec![], Some(sha256.to_owned())).await
        };
        let told = create("a", &"0".repeat(64)).await.unwrap_err().to_string();
        let digest = told.split_once("SHA-256 is ").unwrap().1.split(',').next().unwrap();
        assert_eq!(create("a", digest).await.unwrap().digest, digest);
        assert_eq!(create("b", &digest.to_uppercase()).await.unwrap().digest, digest);
        create("c", &digest[1..]).await.unwrap_err();
    });
}

#[test]
fn a_policy_is_kept_as_long_as_one_of_its_names_is() {
    live(async |life| {
        let governance = &life.governance;
        let component = Guest::default().component();
        let info = governance.create("a", component.clone(), vec![], None).await.unwrap();
        governance.create("same", component.clone(), vec![], None).await.unwrap();
        let twice = governance.create("a", component, vec![], None).await.unwrap_err();
        assert!(matches!(twice, Error::Exists { .. }), "{twice}");
        let file = format!("{}.wasm", info.digest);
        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap();
        let held = governance.drop_policy("a", false).await.unwrap_err();
        assert!(held.to_string().contains("'a' governs the cache"), "{held}");
        governance.put_in_charge(World::Eviction, None).await.unwrap();
        governance.drop_policy("a", false).await.unwrap();
        let nothing = governance.roll_back().await.unwrap_err();
        assert!(nothing.to_string().contains("nothing to roll back"), "{nothing}");
        assert!(life.has_file(&file).await);

        life.keeper.is_full.store(true, Ordering::Relaxed);
        governance.drop_policy("same", false).await.unwrap_err();
        assert!(governance.component("same").await.is_ok(), "what is not stored did not happen");
        life.keeper.is_full.store(false, Ordering::Relaxed);
        governance.drop_policy("same", false).await.unwrap();
        assert!(!life.has_file(&file).await);
        governance.drop_policy("same", true).await.unwrap();
        governance.drop_policy("lru", true).await.unwrap_err();
    });
}
