//! Service levels: what the catalog takes and keeps of them.

use super::*;
use crate::access::RoleOptions;
use crate::admission::{LevelOptions, Workload};
use crate::config::LEVELS_MAX;
use crate::database::shard::Shard;
use crate::error::Error;

fn options(timeout_ms: u64, shares: u32) -> LevelOptions {
    let workload = Some(Workload::Interactive);
    LevelOptions { timeout_ms: Some(timeout_ms), workload, shares: Some(shares) }
}

fn names(database: &Database) -> Vec<String> {
    database.catalog().service_levels().map(|(name, _)| name.to_owned()).collect()
}

#[tokio::test]
async fn levels_stay_over_a_restart_and_none_takes_the_id_of_another() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(Options::new(directory.path())).await.unwrap();
    database.create_service_level("gold", options(50, 200), false).await.unwrap();
    database.create_service_level("bulk", LevelOptions::default(), false).await.unwrap();
    let again = database.create_service_level("gold", options(1, 1), false).await;
    assert!(matches!(again, Err(Error::Exists { .. })), "{again:?}");
    database.create_service_level("gold", options(1, 1), true).await.unwrap();
    let gold = database.catalog().service_level("gold").unwrap();
    assert_eq!(gold.options, options(50, 200));
    let change = |options: &mut LevelOptions| options.shares = None;
    let changed = database.alter_service_level("gold", change).await.unwrap();
    assert_eq!((changed.shares(), changed.timeout_ms), (1000, Some(50)));
    database.close().await.unwrap();

    let database = Database::open(Options::new(directory.path())).await.unwrap();
    assert_eq!(names(&database), ["default", "bulk", "gold"]);
    let kept = database.catalog().service_level("gold").unwrap();
    assert_eq!((kept.id, kept.options), (gold.id, changed));
    database.drop_service_level("gold", false).await.unwrap();
    let gone = database.drop_service_level("gold", false).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    database.drop_service_level("gold", true).await.unwrap();
    database.create_service_level("gold", options(50, 200), false).await.unwrap();
    let fresh = database.catalog().service_level("gold").unwrap();
    assert_ne!(fresh.id, gold.id, "work of the level that is gone must not count as the new one's");
    database.close().await.unwrap();
}

#[tokio::test]
async fn every_shard_knows_what_is_set_of_a_level_now() {
    let directory = tempfile::tempdir().unwrap();
    let options_of = || Options { shards: Some(2), ..Options::new(directory.path()) };
    let database = Database::open(options_of()).await.unwrap();
    database.create_service_level("gold", options(50, 200), false).await.unwrap();
    let level = database.catalog().service_level("gold").unwrap().id;
    let shares = async |database: &Database| {
        let of_shard = move |shard: &Shard| shard.admission.shares(level);
        database.of_shards("shares", of_shard).await.unwrap()
    };
    assert_eq!(shares(&database).await, [200, 200]);
    let change = |options: &mut LevelOptions| options.shares = Some(300);
    database.alter_service_level("gold", change).await.unwrap();
    assert_eq!(shares(&database).await, [300, 300]);
    database.close().await.unwrap();
    let database = Database::open(options_of()).await.unwrap();
    assert_eq!(shares(&database).await, [300, 300]);
    database.close().await.unwrap();
}

#[tokio::test]
async fn what_no_level_can_be_is_refused_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(Options::new(directory.path())).await.unwrap();
    let before = database.catalog().version();
    for (name, options, wanted) in [
        ("no name", options(5, 5), "letters, digits"),
        ("a", options(5, 0), "1 to 1000, not 0"),
        ("a", options(5, 1001), "1 to 1000, not 1001"),
        ("a", options(0, 5), "a millisecond at least"),
        ("default", options(5, 5), "is there always"),
    ] {
        let error = database.create_service_level(name, options, true).await.unwrap_err();
        assert!(error.to_string().contains(wanted), "{name}: {error}");
    }
    let change = |options: &mut LevelOptions| options.shares = Some(1);
    assert!(database.alter_service_level("default", change).await.is_err());
    assert!(database.drop_service_level("default", true).await.is_err());
    assert_eq!(database.catalog().version(), before);
    for n in 0..LEVELS_MAX {
        let name = format!("l{n}");
        database.create_service_level(&name, LevelOptions::default(), false).await.unwrap();
    }
    let ninth = database.create_service_level("l8", LevelOptions::default(), false).await;
    let text = ninth.unwrap_err().to_string();
    assert!(text.contains("8 service levels") && text.contains("DROP SERVICE LEVEL"), "{text}");
    let change = |options: &mut LevelOptions| options.shares = Some(0);
    assert!(database.alter_service_level("l1", change).await.is_err());
    assert_eq!(database.catalog().service_level("l1").unwrap().options, LevelOptions::default());
    database.close().await.unwrap();
}

/// The names of the roles that they are attached to say nothing.
#[tokio::test]
async fn of_several_levels_that_a_role_has_the_first_by_its_own_name_counts() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(Options::new(directory.path())).await.unwrap();
    for (role, level) in [("a", "z"), ("b", "m"), ("c", "m"), ("zoe", "k")] {
        database.create_role(role, RoleOptions::default(), false).await.unwrap();
        let set = if level == "k" { LevelOptions::default() } else { options(50, 200) };
        database.create_service_level(level, set, true).await.unwrap();
        database.attach_service_level(Some(level), role).await.unwrap();
    }
    // Where its reads queue, and who says its timeout.
    let told = || {
        let found = database.catalog().effective_level("zoe").unwrap();
        let timeout = found.timeout_ms.map(|timeout| timeout.level);
        (found.level.level, timeout.unwrap_or_default())
    };
    let wanted = |level: &str, timeout: &str| (level.to_owned(), timeout.to_owned());
    assert_eq!(told(), wanted("k", ""));
    database.grant_role("a", "zoe").await.unwrap();
    assert_eq!(told(), wanted("z", "z"));
    for role in ["b", "c"] {
        database.grant_role(role, "zoe").await.unwrap();
    }
    assert_eq!(told(), wanted("m", "m"));
    database.drop_service_level("m", false).await.unwrap();
    assert_eq!(told(), wanted("z", "z"));
    database.attach_service_level(None, "a").await.unwrap();
    assert_eq!(told(), wanted("k", ""));
    database.attach_service_level(None, "zoe").await.unwrap();
    assert_eq!(database.catalog().effective_level("zoe"), None);
    database.close().await.unwrap();
}
