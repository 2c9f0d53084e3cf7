//! Changes of definitions while there are rows.

use std::path::Path;
use std::rc::Rc;

use tokio::task::LocalSet;

use super::*;
use crate::access::View;
use crate::admission::LevelOptions;
use crate::clock::SimulatedClock;
use crate::disk::SimulatedDisk;
use crate::error::Error;
use crate::runtime::{ShardContext, SimulatedTimer};
use crate::schema::UserType;

mod columns;
mod levels;
mod roles;
mod truncate;
mod views;

/// Two shards on the calling thread's `LocalSet`.
async fn open(disk: &SimulatedDisk) -> Database {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let contexts = (0..2).map(|shard| {
        let timer = Rc::new(SimulatedTimer::new(clock.clone()));
        ShardContext::new((shard, 2), disk.shared(), clock.clone(), timer, 5)
    });
    let contexts = contexts.collect();
    let options =
        Options { commitlog_segment_bytes: 1 << 16, clock, ..Options::new(Path::new("/db")) };
    Database::open_local(options, contexts).await.unwrap()
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, work);
}

async fn create(database: &Database, kind: &str, name: &str) -> crate::error::Result<()> {
    let (keyspace, name) = ("default".to_owned(), name.to_owned());
    match kind {
        "keyspace" => database.create_keyspace(&name, false).await,
        "table" => {
            let table = TableSchema { name, ..definition() };
            database.create_table(table, false).await.map(drop)
        }
        "type" => {
            let fields = vec![("a".to_owned(), DataType::Int)];
            database.create_type(UserType { keyspace, name, fields }, false).await
        }
        "view" => {
            let (query, reads) = ("SELECT 1".to_owned(), Default::default());
            database.create_view(View { keyspace, name, query, owner: None, reads }, false).await
        }
        "service level" => {
            database.create_service_level(&name, LevelOptions::default(), false).await
        }
        other => panic!("nobody creates a {other}"),
    }
}

fn is_there(database: &Database, kind: &str, name: &str) -> bool {
    let catalog = database.catalog();
    match kind {
        "keyspace" => catalog.has_keyspace(name),
        "table" => catalog.table("default", name).is_some(),
        "type" => catalog.user_type("default", name).is_some(),
        "view" => catalog.view("default", name).is_some(),
        _ => catalog.service_level(name).is_some(),
    }
}

/// Names become parts of paths and of statements, whatever is called so.
#[test]
fn names_of_everything_have_up_to_48_letters_digits_and_underscores() {
    let kinds =
        [("keyspace", 'k'), ("table", 't'), ("type", 'y'), ("view", 'v'), ("service level", 's')];
    let of = |letter: char| {
        let name = letter.to_string();
        [name.repeat(48), format!("_{name}_09"), name.to_uppercase(), name]
    };
    run(async {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk).await;
        let before = database.catalog().version();
        let long = "n".repeat(49);
        let wrong = ["", &long, "a-b", "a.b", "a/b", "..", "a b", "a\n", "\u{e4}", "a'b", "a\0"];
        for ((kind, _), name) in kinds.iter().flat_map(|kind| wrong.map(|name| (kind, name))) {
            let refused = create(&database, kind, name).await;
            let wanted = format!("cannot name a {kind}: use 1 to 48 letters");
            let is_told = matches!(&refused, Err(Error::Invalid(why)) if why.contains(&wanted));
            assert!(is_told, "{kind} '{name}': {refused:?}");
            assert!(!is_there(&database, kind, name), "{kind} '{name}'");
        }
        assert_eq!(database.catalog().version(), before);
        for (kind, letter) in kinds {
            for name in of(letter) {
                // Names differ where a letter does, in its case too.
                create(&database, kind, &name).await.unwrap();
                let again = create(&database, kind, &name).await;
                assert!(matches!(again, Err(Error::Exists { .. })), "{kind} '{name}': {again:?}");
            }
        }
        database.close().await.unwrap();
        let database = open(&disk.power_cut()).await;
        for (kind, letter) in kinds {
            for name in of(letter) {
                assert!(is_there(&database, kind, &name), "{kind} '{name}' after a start");
            }
        }
        database.close().await.unwrap();
    });
}

/// Types go along, for nothing that is left uses them.
#[test]
fn a_keyspace_goes_when_neither_a_table_nor_a_view_is_in_it() {
    let k = || "k".to_owned();
    let table = TableSchema { keyspace: k(), ..definition() };
    let (query, reads) = ("SELECT 1".to_owned(), Default::default());
    let view = View { keyspace: k(), name: "v".to_owned(), query, owner: None, reads };
    let fields = vec![("a".to_owned(), DataType::Int)];
    let ty = UserType { keyspace: k(), name: "y".to_owned(), fields };
    run(async {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk).await;
        database.create_keyspace("k", false).await.unwrap();
        // What is elsewhere does not count.
        for (kind, name) in [("table", "t"), ("view", "v")] {
            create(&database, kind, name).await.unwrap();
        }
        for (has_table, has_view) in [(true, false), (false, true), (true, true)] {
            if has_table {
                database.create_table(table.clone(), false).await.unwrap();
            }
            if has_view {
                database.create_view(view.clone(), false).await.unwrap();
            }
            let (tables, views) = (u8::from(has_table), u8::from(has_view));
            let wanted = format!("keyspace 'k' still has {tables} tables and {views} views");
            for if_exists in [false, true] {
                let refused = database.drop_keyspace("k", if_exists).await.unwrap_err();
                assert!(refused.to_string().contains(&wanted), "{wanted}: {refused}");
            }
            database.drop_table("k", "t", !has_table).await.unwrap();
            database.drop_view("k", "v", !has_view).await.unwrap();
        }
        database.create_type(ty, false).await.unwrap();
        for if_exists in [false, true] {
            let always = database.drop_keyspace("default", if_exists).await;
            assert!(matches!(always, Err(Error::Invalid(_))), "{always:?}");
        }
        database.drop_keyspace("k", false).await.unwrap();
        let again = database.drop_keyspace("k", false).await;
        assert!(matches!(again, Err(Error::NotFound { kind: "keyspace", .. })), "{again:?}");
        database.drop_keyspace("k", true).await.unwrap();
        database.close().await.unwrap();
        let database = open(&disk.power_cut()).await;
        assert!(!database.catalog().has_keyspace("k") && is_there(&database, "table", "t"));
        assert!(database.catalog().user_type("k", "y").is_none());
        database.close().await.unwrap();
    });
}
