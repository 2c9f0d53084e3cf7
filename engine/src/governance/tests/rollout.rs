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
        for native in NATIVES {
            let told = governance.drop_policy(native.name, true).await.unwrap_err();
            assert!(told.to_string().contains("a native policy cannot be dropped"), "{told}");
        }
    });
}

#[test]
fn a_native_policy_is_one_of_eviction_alone() {
    live(async |life| {
        let governance = &life.governance;
        for native in NATIVES {
            let told = governance.put_in_charge(World::LoadShedding, Some(native.name)).await;
            let told = told.unwrap_err().to_string();
            assert!(told.contains("it decides on eviction, not on load-shedding"), "{told}");
            assert_eq!(life.wanted(World::LoadShedding), None);
            assert!(life.steps().is_empty(), "no shard is asked");
            governance.put_in_charge(World::Eviction, Some(native.name)).await.unwrap();
            let in_charge = format!("switch {}", native.name);
            assert!(life.steps().iter().all(|step| step.ends_with(&in_charge)));
        }
        governance.put_in_charge(World::LoadShedding, None).await.unwrap();
    });
}

#[test]
fn a_shadow_that_takes_charge_is_none_any_more_and_another_one_stays() {
    live(async |life| {
        let governance = &life.governance;
        for (pages, name) in [(2, "a"), (3, "b"), (4, "c")] {
            life.create(name, Guest { pages, ..Guest::default() }.component()).await;
        }
        let began = |name: &str| {
            vec![format!("0 canary {name}"), "1 end shadow ".into(), "2 end shadow ".into()]
        };
        governance.shadow(Some("b"), None).await.unwrap();
        governance.put_in_charge(World::Eviction, Some("b")).await.unwrap();
        life.steps();
        governance.canary("a").await.unwrap();
        assert_eq!(life.steps(), began("a"), "b is in charge and no shadow");
        governance.roll_back().await.unwrap();

        governance.shadow(Some("c"), None).await.unwrap();
        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap();
        life.steps();
        governance.canary("b").await.unwrap();
        let ended = ["0 end shadow c", "1 end shadow c", "2 end shadow c"].map(String::from);
        assert_eq!(life.steps(), [ended.to_vec(), began("b")].concat());
        governance.roll_back().await.unwrap();

        // What the canary learnt as a shadow is handed over to it.
        governance.shadow(Some("b"), None).await.unwrap();
        life.steps();
        governance.canary("b").await.unwrap();
        assert_eq!(life.steps(), began("b"));
        governance.roll_back().await.unwrap();
        life.timer.sleep(LOOK).await;
    });
}

#[test]
fn what_cannot_be_a_shadow_or_a_canary_is_refused_before_any_shard_is_asked() {
    live(async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        let is_unknown = |error: Error| matches!(error, Error::NotFound { kind: "policy", .. });
        assert!(is_unknown(governance.shadow(Some("x"), None).await.unwrap_err()));
        assert!(is_unknown(governance.canary("x").await.unwrap_err()));
        for world in [World::Eviction, World::LoadShedding] {
            let unknown = governance.put_in_charge(world, Some("x")).await.unwrap_err();
            assert!(is_unknown(unknown), "{world}");
        }
        assert!(is_unknown(governance.drop_policy("x", false).await.unwrap_err()));
        let told = governance.canary("lru").await.unwrap_err().to_string();
        assert!(told.contains("policy 'lru' is in charge already"), "{told}");
        assert!(life.steps().is_empty());

        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap();
        life.steps();
        let told = governance.canary("a").await.unwrap_err().to_string();
        assert!(told.contains("policy 'a' is in charge already"), "{told}");
        assert!(life.steps().is_empty());
        governance.canary("lru").await.unwrap();
        life.steps();
        for (name, sample) in [(Some("a"), None), (Some("a"), Some(8)), (None, None)] {
            let told = governance.shadow(name, sample).await.unwrap_err().to_string();
            assert!(told.contains("a canary runs"), "{name:?}: {told}");
        }
        assert!(life.steps().is_empty());
        governance.roll_back().await.unwrap();
        governance.shadow(Some("lru"), None).await.unwrap();
        let began = ["0 end canary a", "0 shadow lru", "1 shadow lru", "2 shadow lru"];
        assert_eq!(life.steps(), began);
        life.timer.sleep(LOOK).await;
    });
}

#[test]
fn a_policy_that_is_dropped_takes_its_trial_its_shadow_and_its_standby_along() {
    live(async |life| {
        let governance = &life.governance;
        life.create("a", Guest::default().component()).await;
        governance.canary("a").await.unwrap();
        governance.roll_back().await.unwrap();
        let came_to = life.came_to("a").await;
        assert_eq!(came_to.as_deref(), Some("went back: operator: rolled back by statement"));
        life.steps();
        governance.drop_policy("a", false).await.unwrap();
        let all = |step: &'static str| (0..SHARDS).map(move |shard| format!("{shard} {step} a"));
        let wanted: Vec<String> = all("end shadow").chain(all("drop standby")).collect();
        assert_eq!(life.steps(), wanted);
        life.create("a", Guest::default().component()).await;
        assert_eq!(life.came_to("a").await, None, "it is another one");
        life.timer.sleep(LOOK).await;
    });
}

#[test]
fn a_component_that_is_refused_leaves_neither_a_file_nor_a_name() {
    live(async |life| {
        let governance = &life.governance;
        let component = Guest::default().component();
        let create = async |name: &str, sha256: Option<&str>| {
            let sha256 = sha256.map(str::to_owned);
            governance.create(name, component.clone(), vec![], sha256).await
        };
        let digest = create("other", None).await.unwrap().digest;
        governance.drop_policy("other", false).await.unwrap();
        let file = format!("{digest}.wasm");
        life.steps();

        let zeros = "0".repeat(64);
        assert!(matches!(create("a", Some(zeros.as_str())).await, Err(Error::Policy { .. })));
        let sums = [None, Some(digest.as_str())];
        for (native, sha256) in NATIVES.iter().flat_map(|native| sums.map(|sum| (native, sum))) {
            let told = create(native.name, sha256).await.unwrap_err();
            assert!(matches!(told, Error::Exists { kind: "policy", .. }), "{told}");
        }
        assert!(life.steps().is_empty(), "nobody tries it");
        life.refuse(0, "try");
        let refused = create("a", None).await.unwrap_err();
        assert!(refused.to_string().contains("no try"), "{refused}");
        life.script.refuses.set(None);
        assert!(!life.has_file(&file).await);

        life.keeper.is_full.store(true, Ordering::Relaxed);
        create("a", None).await.unwrap_err();
        life.keeper.is_full.store(false, Ordering::Relaxed);
        let listed = governance.policies().await.unwrap();
        let names: Vec<&str> = listed.iter().map(|report| report.name.as_str()).collect();
        assert!(names.into_iter().eq(NATIVES.iter().map(|native| native.name)));
        governance.put_in_charge(World::Eviction, Some("a")).await.unwrap_err();
        assert_eq!(create("a", Some(digest.as_str())).await.unwrap().name, "a");
        assert!(life.has_file(&file).await);
    });
}

#[test]
fn a_second_rollback_goes_forward_again() {
    live(async |life| {
        let governance = &life.governance;
        for (pages, name) in [(2, "a"), (3, "b")] {
            life.create(name, Guest { pages, ..Guest::default() }.component()).await;
            governance.put_in_charge(World::Eviction, Some(name)).await.unwrap();
            life.steps();
        }
        for name in ["a", "b", "a", "b"] {
            assert_eq!(governance.roll_back().await.unwrap().policy, name);
            assert_eq!(life.wanted(World::Eviction).as_deref(), Some(name));
            let all = (0..SHARDS).map(|shard| format!("{shard} roll back {name}"));
            assert_eq!(life.steps(), all.collect::<Vec<_>>());
        }
        // By its name, the native one is none that was created.
        governance.put_in_charge(World::Eviction, Some("lru")).await.unwrap();
        for (name, wanted) in [("b", Some("b")), ("lru", None), ("b", Some("b"))] {
            assert_eq!(governance.roll_back().await.unwrap().policy, name);
            assert_eq!(life.wanted(World::Eviction).as_deref(), wanted);
        }
    });
}
