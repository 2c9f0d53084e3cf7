//! Roles: what the catalog takes and keeps of them.

use super::*;
use crate::access::{AccessToken, PasswordHash, Permission, Resource, RoleOptions};
use crate::admission::LevelOptions;
use crate::config::TOKENS_MAX;
use crate::error::Error;

fn login(hash: &str) -> RoleOptions {
    let password = Some(PasswordHash::new(hash.to_owned()));
    RoleOptions { password, login: true, superuser: false }
}

async fn open_in(directory: &tempfile::TempDir) -> Database {
    Database::open(Options::new(directory.path())).await.unwrap()
}

fn table(keyspace: &str, name: &str) -> TableSchema {
    TableSchema { keyspace: keyspace.to_owned(), name: name.to_owned(), ..definition() }
}

#[tokio::test]
async fn roles_and_grants_stay_over_a_restart_and_go_with_what_they_are_on() {
    let directory = tempfile::tempdir().unwrap();
    let database = open_in(&directory).await;
    database.create_keyspace("k", false).await.unwrap();
    for name in ["t", "u"] {
        database.create_table(table("k", name), false).await.unwrap();
    }
    database.create_role("team", RoleOptions::default(), false).await.unwrap();
    database.create_role("ann", login("h1"), false).await.unwrap();
    let again = database.create_role("ann", login("h2"), false).await;
    assert!(matches!(again, Err(Error::Exists { .. })), "{again:?}");
    database.create_role("ann", login("h2"), true).await.unwrap();
    database.grant_role("team", "ann").await.unwrap();
    let (t, u) = (Resource::table("k", "t"), Resource::table("k", "u"));
    database.grant(&[Permission::Select, Permission::Modify], &t, "team").await.unwrap();
    database.grant(&[Permission::Select], &u, "team").await.unwrap();
    database.create_service_level("gold", LevelOptions::default(), false).await.unwrap();
    database.attach_service_level(Some("gold"), "team").await.unwrap();
    database.close().await.unwrap();

    let database = open_in(&directory).await;
    let may = |permission, resource: &Resource| {
        database.catalog().roles().may("ann", permission, resource)
    };
    assert!(may(Permission::Select, &t) && may(Permission::Modify, &t));
    let hash = database.catalog().roles().get("ann").unwrap().options.password.clone();
    assert_eq!(hash.unwrap().as_phc(), "h1");
    assert_eq!(database.catalog().effective_level("ann").unwrap().level.level, "gold");
    database.revoke(&[Permission::Modify], &t, "team").await.unwrap();
    assert!(may(Permission::Select, &t) && !may(Permission::Modify, &t));
    database.truncate_table("k", "t").await.unwrap();
    assert!(may(Permission::Select, &t), "a table that is emptied is the same table");
    database.drop_table("k", "t", false).await.unwrap();
    database.create_table(table("k", "t"), false).await.unwrap();
    assert!(!may(Permission::Select, &t), "the next table of this name is another one");
    assert!(may(Permission::Select, &u));
    database.drop_service_level("gold", false).await.unwrap();
    assert_eq!(database.catalog().effective_level("ann"), None);
    database.revoke_role("team", "ann").await.unwrap();
    assert!(!may(Permission::Select, &u));
    database.grant_role("team", "ann").await.unwrap();
    database.drop_role("team", false).await.unwrap();
    database.create_role("team", RoleOptions::default(), false).await.unwrap();
    assert!(database.catalog().roles().get("ann").unwrap().roles.is_empty());
    database.close().await.unwrap();
}

#[tokio::test]
async fn what_is_revoked_is_the_grant_on_that_resource_alone() {
    let directory = tempfile::tempdir().unwrap();
    let database = open_in(&directory).await;
    database.create_keyspace("k", false).await.unwrap();
    database.create_table(table("k", "t"), false).await.unwrap();
    database.create_role("ann", RoleOptions::default(), false).await.unwrap();
    let all = [Resource::AllKeyspaces, Resource::keyspace("k"), Resource::table("k", "t")];
    for revoked in &all {
        for resource in &all {
            let both = [Permission::Select, Permission::Modify];
            database.grant(&both, resource, "ann").await.unwrap();
        }
        database.revoke(&[Permission::Select], revoked, "ann").await.unwrap();
        let role = database.catalog().roles().get("ann").unwrap().clone();
        let has = |permission, resource: &Resource| {
            let mut grants = role.grants.iter();
            grants.any(|grant| grant.permission == permission && grant.resource == *resource)
        };
        for resource in &all {
            assert_eq!(has(Permission::Select, resource), resource != revoked, "{revoked}");
            assert!(has(Permission::Modify, resource), "{revoked}, {resource}");
        }
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn what_no_role_can_be_or_have_is_refused_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = open_in(&directory).await;
    for name in ["a", "b", "c"] {
        database.create_role(name, RoleOptions::default(), false).await.unwrap();
    }
    database.grant_role("a", "b").await.unwrap();
    database.grant_role("b", "c").await.unwrap();
    let before = database.catalog().version();
    let says = |result: crate::error::Result<()>, wanted: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    };
    for name in ["", "x:y", "x\ny", &"x".repeat(129)] {
        let role = RoleOptions::default();
        says(database.create_role(name, role, false).await, "cannot name a role");
    }
    says(database.grant_role("c", "a").await, "has role 'a' already");
    says(database.grant_role("a", "a").await, "has role 'a' already");
    says(database.grant_role("a", "d").await, "'d'");
    says(database.grant_role("d", "a").await, "'d'");
    says(database.revoke_role("a", "c").await, "was not granted");
    says(database.alter_role("d", |_| {}).await, "'d'");
    says(database.drop_role("d", false).await, "'d'");
    let select = [Permission::Select];
    says(database.grant(&select, &Resource::keyspace("k"), "a").await, "'k'");
    says(database.grant(&select, &Resource::table("default", "t"), "a").await, "default.t");
    says(database.grant(&select, &Resource::Policies, "a").await, "no SELECT on POLICIES");
    says(database.grant(&select, &Resource::AllKeyspaces, "d").await, "'d'");
    says(database.revoke(&select, &Resource::Policies, "a").await, "no SELECT on POLICIES");
    says(database.attach_service_level(Some("gold"), "a").await, "'gold'");
    says(database.attach_service_level(None, "d").await, "'d'");
    database.drop_role("d", true).await.unwrap();
    assert_eq!(database.catalog().version(), before);
    database.close().await.unwrap();
}

fn token(digest: &str, expires_us: Option<i64>) -> AccessToken {
    AccessToken { digest: digest.to_owned(), created_us: 1, expires_us }
}

#[tokio::test]
async fn tokens_stay_over_a_restart_and_go_with_their_role() {
    let directory = tempfile::tempdir().unwrap();
    let database = open_in(&directory).await;
    database.create_role("ann", RoleOptions::default(), false).await.unwrap();
    database.create_token("ann", "ci", token("d1", Some(5))).await.unwrap();
    database.create_token("ann", "ops", token("d2", None)).await.unwrap();
    let again = database.create_token("ann", "ci", token("d3", None)).await;
    assert!(matches!(again, Err(Error::Exists { kind: "token", .. })), "{again:?}");
    let nobody = database.create_token("bob", "ci", token("d3", None)).await;
    assert!(matches!(nobody, Err(Error::NotFound { kind: "role", .. })), "{nobody:?}");
    let unfit = database.create_token("ann", "a:b", token("d3", None)).await.unwrap_err();
    assert!(unfit.to_string().contains("cannot name a token"), "{unfit}");
    for number in 2..TOKENS_MAX {
        database.create_token("ann", &format!("t{number}"), token("d", None)).await.unwrap();
    }
    let many = database.create_token("ann", "more", token("d", None)).await.unwrap_err();
    assert!(many.to_string().contains("64 tokens, which is most"), "{many}");
    database.close().await.unwrap();

    let database = open_in(&directory).await;
    let tokens = || database.catalog().roles().get("ann").unwrap().tokens.clone();
    assert_eq!((tokens().len(), &tokens()["ci"]), (TOKENS_MAX, &token("d1", Some(5))));
    assert!(tokens()["ci"].holds_at(4) && !tokens()["ci"].holds_at(5));
    assert!(tokens()["ops"].holds_at(i64::MAX));
    assert!(!format!("{:?}", tokens()).contains("d1"), "nobody is shown a digest");
    database.drop_token("ann", "ci", false).await.unwrap();
    assert!(!tokens().contains_key("ci"));
    let gone = database.drop_token("ann", "ci", false).await;
    assert!(matches!(gone, Err(Error::NotFound { kind: "token", .. })), "{gone:?}");
    // What changes nothing is not written.
    let before = database.catalog().version();
    database.drop_token("ann", "ci", true).await.unwrap();
    database.alter_role("ann", |_| ()).await.unwrap();
    assert_eq!(database.catalog().version(), before);
    database.drop_role("ann", false).await.unwrap();
    database.create_role("ann", RoleOptions::default(), false).await.unwrap();
    assert!(tokens().is_empty(), "the next role of this name is another one");
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_catalog_with_roles_is_none_that_builds_without_them_open() {
    let directory = tempfile::tempdir().unwrap();
    let database = open_in(&directory).await;
    let path = directory.path().join("catalog");
    let format = || {
        let text = std::fs::read_to_string(&path).unwrap();
        text.split(' ').nth(1).unwrap().to_owned()
    };
    database.create_keyspace("k", false).await.unwrap();
    assert_eq!(format(), "4");
    database.create_role("a", RoleOptions::default(), false).await.unwrap();
    assert_eq!(format(), "5");
    database.create_token("a", "ci", token("d", None)).await.unwrap();
    assert_eq!(format(), "7", "a build without tokens must not lose them");
    database.drop_token("a", "ci", false).await.unwrap();
    assert_eq!(format(), "5");
    database.drop_role("a", false).await.unwrap();
    assert_eq!(format(), "4");
    database.close().await.unwrap();
}

#[tokio::test]
async fn what_was_granted_on_a_keyspace_goes_with_it_alone() {
    let directory = tempfile::tempdir().unwrap();
    let database = open_in(&directory).await;
    for role in ["ann", "bob"] {
        database.create_role(role, RoleOptions::default(), false).await.unwrap();
    }
    let select = [Permission::Select];
    for keyspace in ["k", "kk"] {
        database.create_keyspace(keyspace, false).await.unwrap();
        database.grant(&select, &Resource::keyspace(keyspace), "ann").await.unwrap();
    }
    database.grant(&select, &Resource::AllKeyspaces, "bob").await.unwrap();
    database.drop_keyspace("k", false).await.unwrap();
    database.close().await.unwrap();

    let database = open_in(&directory).await;
    database.create_keyspace("k", false).await.unwrap();
    database.create_table(table("k", "t"), false).await.unwrap();
    let may = |role: &str, resource: &Resource| {
        database.catalog().roles().may(role, Permission::Select, resource)
    };
    for gone in [Resource::keyspace("k"), Resource::table("k", "t")] {
        assert!(!may("ann", &gone), "{gone}: the next keyspace of this name is another one");
        assert!(may("bob", &gone), "{gone}: it is one of all");
    }
    assert!(may("ann", &Resource::keyspace("kk")));
    database.close().await.unwrap();
}

#[tokio::test]
async fn roles_and_tokens_have_names_that_credentials_can_carry() {
    let directory = tempfile::tempdir().unwrap();
    let database = open_in(&directory).await;
    let role = |name: &str| database.create_role(name, RoleOptions::default(), false);
    let create_token = |name: &str| database.create_token("a", name, token("d", None));
    // Bytes count, and not letters.
    let (full, wide) = ("x".repeat(128), "\u{e4}".repeat(64));
    for name in ["a", "A", "a b", "a@b.c", "a/b", "\u{e4}", "'", &full, &wide] {
        role(name).await.unwrap();
        create_token(name).await.unwrap();
        let again = role(name).await;
        assert!(matches!(again, Err(Error::Exists { kind: "role", .. })), "{name}: {again:?}");
    }
    let (long, too_wide) = (format!("{full}x"), format!("{wide}\u{e4}"));
    let before = database.catalog().version();
    for name in ["", ":", "a:", ":a", "a\tb", "a\0", "a\u{7f}", "\u{85}", &long, &too_wide] {
        for (kind, refused) in [("role", role(name).await), ("token", create_token(name).await)] {
            let told = refused.unwrap_err().to_string();
            assert!(told.contains(&format!("cannot name a {kind}: use 1 to 128 bytes")), "{told}");
            assert!(told.chars().all(|c| !c.is_control()), "{told:?} goes to a terminal");
        }
    }
    assert_eq!(database.catalog().version(), before);
    database.close().await.unwrap();
}
