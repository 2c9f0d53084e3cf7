//! The fields of wishes on disk, and the list of worlds that names them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::*;
use crate::governance::PolicyInfo;
use crate::governance::worlds::{Served, WORLDS};

/// A file with wishes among its fields.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct File {
    version: u64,
    #[serde(flatten)]
    wishes: Wishes,
    cache_bytes: Option<usize>,
}

/// As databases have it.
const ON_DISK: &str = r#"{"version":7,"policies":{"p":{"name":"p","version":"1.0","digest":"ab","params":[["k","v"]],"world":"eviction"}},"cache_policy":"p","admission_policy":null,"rate_policy":"r","read_admission_policy":"ra","load_shedding_policy":"s","io_priority_policy":"i","compaction_policy":null,"previous_policy":"lru","cache_bytes":5}"#;

#[test]
fn wishes_are_fields_of_the_file_around_them() {
    let mut wishes = Wishes::default();
    wishes.add(PolicyInfo {
        name: "p".into(),
        version: "1.0".into(),
        digest: "ab".into(),
        params: vec![("k".into(), "v".into())],
        world: "eviction".into(),
    });
    wishes.want(World::Eviction, Some("p"));
    wishes.want(World::RateLimiter, Some("r"));
    wishes.want(World::ReadAdmission, Some("ra"));
    wishes.want(World::LoadShedding, Some("s"));
    wishes.want(World::IoPriority, Some("i"));
    wishes.previous = Some("lru".into());
    let file = File { version: 7, wishes, cache_bytes: Some(5) };
    assert_eq!(serde_json::to_string(&file).unwrap(), ON_DISK);
    assert_eq!(serde_json::from_str::<File>(ON_DISK).unwrap(), file);
}

#[test]
fn fields_that_came_later_may_be_missing() {
    let first = r#"{"version":1,"policies":{"p":{"name":"p","version":"1","digest":"ab","params":[]}},"cache_policy":null,"cache_bytes":null,"other":[1,{"a":null}]}"#;
    let file: File = serde_json::from_str(first).unwrap();
    assert_eq!(file.wishes.policy("p").unwrap().world, "eviction");
    assert!(World::ALL.iter().all(|world| file.wishes.wanted(*world).is_none()));
    let without = serde_json::from_str::<File>(r#"{"version":1,"cache_bytes":null}"#);
    assert!(without.unwrap_err().to_string().contains("missing field `policies`"));
}

#[test]
fn a_policy_that_is_forgotten_is_wanted_nowhere() {
    let mut file: File = serde_json::from_str(ON_DISK).unwrap();
    assert_eq!(file.wishes.charge_of("s"), Some("decides on load shedding"));
    file.wishes.remove("s");
    file.wishes.remove("lru");
    assert_eq!((file.wishes.charge_of("s"), file.wishes.previous.as_deref()), (None, None));
    assert_eq!(file.wishes.wanted(World::Eviction), Some("p"));
}

#[test]
fn every_world_is_in_the_list_once() {
    let all: Vec<&str> = World::ALL.iter().map(|world| world.as_str()).collect();
    let listed: Vec<&str> = WORLDS.iter().map(|served| served.world.as_str()).collect();
    assert_eq!(listed, all);
    let keys: BTreeSet<&str> = WORLDS.iter().map(|served| served.key).collect();
    assert_eq!(keys.len(), WORLDS.len(), "each has a field of its own");
    assert_eq!(WORLDS.iter().filter(|served| served.in_stages).count(), 1);
    assert_eq!(Served::staged().world, World::Eviction);
}

#[test]
fn a_policy_is_in_charge_of_what_it_is_wanted_for_and_of_nothing_else() {
    for (world, charge) in [
        (World::Eviction, "governs the cache"),
        (World::CacheAdmission, "decides what the cache keeps"),
        (World::RateLimiter, "decides on rate limits"),
        (World::ReadAdmission, "decides on read admission"),
        (World::LoadShedding, "decides on load shedding"),
        (World::IoPriority, "decides on shares of I/O"),
        (World::Compaction, "decides on compactions"),
    ] {
        let mut wishes = Wishes::default();
        wishes.want(world, Some("p2"));
        wishes.previous = Some("p2".into());
        assert_eq!((wishes.charge_of("p2"), wishes.charge_of("p")), (Some(charge), None));
        for other in World::ALL {
            let wanted = (other == world).then_some("p2");
            assert_eq!(wishes.wanted(other), wanted, "{other} where {world} has one");
        }
        wishes.remove("p");
        let left = (wishes.wanted(world), wishes.previous.as_deref());
        assert_eq!(left, (Some("p2"), Some("p2")), "{world}: another one was removed");
        wishes.want(world, Some("p"));
        assert_eq!((wishes.charge_of("p2"), wishes.charge_of("p")), (None, Some(charge)));
        wishes.want(world, None);
        assert_eq!((wishes.charge_of("p"), wishes.wanted(world)), (None, None));
    }
}
