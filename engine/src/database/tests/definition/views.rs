//! Views: what they depend on, what depends on them, and that they are kept.

use tempfile::TempDir;

use super::super::*;
use crate::access::{Permission, Resource, RoleOptions, View};
use crate::config::VIEW_DEPTH_MAX;
use crate::error::Error;

async fn open_in(directory: &TempDir) -> Database {
    Database::open(Options { shards: Some(1), ..Options::new(directory.path()) }).await.unwrap()
}

fn view(name: &str, reads: &[&str]) -> View {
    let reads = reads.iter().map(|table| ("default".to_owned(), (*table).to_owned()));
    View {
        keyspace: "default".to_owned(),
        name: name.to_owned(),
        query: format!("SELECT * FROM {name}_source"),
        owner: None,
        reads: reads.collect(),
    }
}

fn says(result: crate::error::Result<()>, wanted: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(wanted), "{wanted}: {error}");
}

#[tokio::test]
async fn a_view_outlives_a_restart_and_what_it_reads_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let format = || std::fs::read_to_string(&path).unwrap().split(' ').nth(1).unwrap().to_owned();
    let database = open_in(&directory).await;
    database.create_table(definition(), false).await.unwrap();
    assert_eq!(format(), "4");
    database.create_view(view("v", &["t"]), false).await.unwrap();
    database.create_view(view("w", &["v", "t"]), false).await.unwrap();
    assert_eq!(format(), "6", "a build without views must not lose them");
    database.close().await.unwrap();
    let database = open_in(&directory).await;
    assert_eq!(database.catalog().view("default", "v"), Some(&view("v", &["t"])));
    says(database.drop_table("default", "t", false).await, "is read by view 'default.v'");
    says(database.drop_view("default", "v", false).await, "is read by view 'default.w'");
    says(database.create_view(view("v", &["t"]), false).await, "exists");
    let named_v = TableSchema { name: "v".to_owned(), ..definition() };
    says(database.create_table(named_v, true).await.map(drop), "view 'default.v'");
    says(database.create_view(view("t", &["v"]), true).await, "table 'default.t'");
    says(database.create_view(view("x", &["nowhere"]), false).await, "default.nowhere");
    says(database.create_view(view("a-b", &[]), false).await, "cannot name a view");
    database.drop_view("default", "w", false).await.unwrap();
    database.drop_view("default", "v", false).await.unwrap();
    database.drop_view("default", "v", true).await.unwrap();
    let gone = database.drop_view("default", "v", false).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { kind: "view", .. }), "{gone}");
    assert_eq!(format(), "4");
    database.drop_table("default", "t", false).await.unwrap();
    database.close().await.unwrap();
}

#[tokio::test]
async fn no_view_reads_itself_and_none_is_too_deep() {
    let directory = tempfile::tempdir().unwrap();
    let database = open_in(&directory).await;
    database.create_table(definition(), false).await.unwrap();
    database.create_view(view("v0", &["t"]), false).await.unwrap();
    for n in 1..VIEW_DEPTH_MAX {
        let below = format!("v{}", n - 1);
        database.create_view(view(&format!("v{n}"), &[&below, "t"]), false).await.unwrap();
    }
    let last = format!("v{}", VIEW_DEPTH_MAX - 1);
    says(database.create_view(view("more", &[&last]), false).await, "upon one another");
    // Below the others it makes them deeper.
    database.create_view(view("under", &["t"]), false).await.unwrap();
    says(database.create_view(view("v0", &["under"]), true).await, "upon one another");
    says(database.create_view(view("v0", &["v1"]), true).await, "would read itself");
    says(database.create_view(view("under", &["under"]), true).await, "would read itself");
    database.create_view(view("v0", &["t"]), true).await.unwrap();
    database.close().await.unwrap();
}

#[tokio::test]
async fn rights_on_a_view_go_with_it_and_its_owner_stays() {
    let directory = tempfile::tempdir().unwrap();
    let database = open_in(&directory).await;
    database.create_table(definition(), false).await.unwrap();
    for role in ["ann", "bob"] {
        database.create_role(role, RoleOptions::default(), false).await.unwrap();
    }
    let owned = |owner: &str| View { owner: Some(owner.to_owned()), ..view("v", &["t"]) };
    database.create_view(owned("ann"), false).await.unwrap();
    let resource = Resource::table("default", "v");
    database.grant(&[Permission::Select], &resource, "bob").await.unwrap();
    let may = || database.catalog().roles().may("bob", Permission::Select, &resource);
    says(database.drop_role("ann", false).await, "owns view 'default.v'");
    database.create_view(owned("bob"), true).await.unwrap();
    database.drop_role("ann", false).await.unwrap();
    assert!(may());
    says(database.drop_keyspace("default", false).await, "default keyspace");
    database.drop_view("default", "v", false).await.unwrap();
    database.create_view(owned("bob"), false).await.unwrap();
    assert!(!may(), "what was granted on a view does not come back with its name");
    database.close().await.unwrap();
}
