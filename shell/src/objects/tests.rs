//! Snapshots in a store in memory: whole, cut short, changed.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};

use super::*;

const CATALOG: &str = "catalog";

/// A folder with files, of which one takes several parts.
fn folder(at: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let long: Vec<u8> = (0..40_u32 << 20).map(|at| (at % 251) as u8).collect();
    let files = vec![
        ("catalog", b"what there is".to_vec()),
        ("data/ks/t-1/me-1-big-Data.db", long),
        ("data/ks/t-1/me-1-big-Index.db", Vec::new()),
        ("policies/ä b.wasm", vec![7; 100]),
    ];
    for (name, content) in &files {
        let path = at.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    files
}

async fn names(store: &dyn ObjectStore) -> Vec<String> {
    let objects: Vec<_> = store.list(None).try_collect().await.unwrap();
    let mut names: Vec<_> = objects.iter().map(|object| object.location.to_string()).collect();
    names.sort();
    names
}

fn mute(_: Moved) {}

#[tokio::test]
async fn what_is_sent_is_restored_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
    let files = folder(&from);
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let place = Place::within(Arc::clone(&store), "backup/monday");
    let seen = Mutex::new(Vec::new());
    let tell = |moved| seen.lock().unwrap().push(moved);
    let bytes: u64 = files.iter().map(|(_, content)| content.len() as u64).sum();
    let all = Moved { files: 4, bytes, bytes_max: bytes };
    assert_eq!(place.send(&from, &tell).await.unwrap(), all);
    let told = std::mem::take(&mut *seen.lock().unwrap());
    assert!(told.len() > 40 && told.is_sorted_by_key(|moved| moved.bytes));
    assert_eq!(told.last().map(|moved| (moved.bytes, moved.bytes_max)), Some((bytes, bytes)));
    assert!(names(&*store).await.contains(&"backup/monday/SNAPSHOT".to_owned()));

    assert_eq!(place.fetch(&to, CATALOG, &tell).await.unwrap(), all);
    assert_eq!(seen.lock().unwrap().iter().map(|moved| moved.bytes).max(), Some(bytes));
    for (name, content) in &files {
        assert!(fs::read(to.join(name)).unwrap() == *content, "{name}");
    }
    // Another snapshot does not mix with it.
    let told = place.send(&from, &mute).await.unwrap_err();
    assert!(told.contains("is not empty, it has backup/monday/"), "{told}");
    Place::within(store, "backup/tuesday").send(&from, &mute).await.unwrap();
}

#[tokio::test]
async fn what_was_cut_short_or_changed_is_no_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("from");
    folder(&from);
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let place = Place::within(Arc::clone(&store), "b");
    let restore = async |number: u32| {
        let to = directory.path().join(format!("to-{number}"));
        let told = place.fetch(&to, CATALOG, &mute).await.unwrap_err();
        assert!(!to.join(CATALOG).exists(), "{told}");
        told
    };
    let told = restore(0).await;
    assert!(told.contains("test://b holds no snapshot: it has no object SNAPSHOT"), "{told}");

    place.send(&from, &mute).await.unwrap();
    let (data, list) = (place.at("policies/ä b.wasm"), place.at("SNAPSHOT"));
    let whole = store.get(&data).await.unwrap().bytes().await.unwrap();
    let mut flipped = whole.to_vec();
    flipped[50] ^= 1;
    for (number, content) in
        [(1, flipped), (2, whole[1..].to_vec()), (3, [&whole[..], b"x"].concat())]
    {
        let length = content.len();
        store.put(&data, content.into()).await.unwrap();
        let told = restore(number).await;
        let (wanted, found) = ("wanted 100 bytes", format!("found {length} bytes"));
        assert!(told.contains(wanted) && told.contains(&found), "{told}");
        assert!(told.contains("test://b/policies/ä b.wasm: "), "{told}");
    }
    store.put(&data, whole.into()).await.unwrap();
    let catalog = place.at(CATALOG);
    let whole = store.get(&catalog).await.unwrap().bytes().await.unwrap();
    store.put(&catalog, whole[1..].to_vec().into()).await.unwrap();
    assert!(restore(8).await.contains(CATALOG));
    store.put(&catalog, whole.into()).await.unwrap();
    store.delete(&data).await.unwrap();
    assert!(restore(4).await.contains("ä b.wasm"));
    store.delete(&list).await.unwrap();
    assert!(restore(5).await.contains("holds no snapshot"));
    store.put(&list, "nonsense".into()).await.unwrap();
    assert!(restore(6).await.contains("test://b/SNAPSHOT: this is no list"));
    let empty = list::List::new(Vec::new()).encode();
    store.put(&list, empty.into()).await.unwrap();
    assert!(restore(7).await.contains("its list has no catalog"));
}

/// A short file is written when it ends.
#[tokio::test]
async fn a_file_that_cannot_be_sent_ends_the_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
    folder(&from);
    for broken in ["policies", "data"] {
        let below = to.join(broken);
        fs::create_dir_all(&below).unwrap();
        // Nothing can be made below a link to nowhere.
        std::os::unix::fs::symlink("/nowhere/at/all", below.join(broken)).unwrap();
        let store = LocalFileSystem::new_with_prefix(&to).unwrap();
        let place = Place::within(Arc::new(store), broken);
        let told = place.send(&from, &mute).await.unwrap_err();
        assert!(told.contains(broken) && told.contains("is no snapshot"), "{told}");
        assert!(!below.join("SNAPSHOT").exists());
    }
}

#[test]
fn a_place_is_named_by_a_url_without_secrets() {
    for (text, is_one) in [
        ("s3://b/p", true),
        ("file:///x", true),
        ("/backup/a://b", false),
        ("a", false),
        ("://", false),
    ] {
        assert_eq!(Place::is_one(text), is_one, "{text}");
    }
    for (text, wanted) in [
        ("s3://key:secret@b/p", "without user, password"),
        ("s3://b/p?X-Amz-Signature=1", "without user, password"),
        ("memory:///x", "'memory://' is no object storage that is known"),
        ("https://b/p", "is no object storage"),
        ("s3://", "s3://"),
    ] {
        let told = Place::of(text).map(|place| place.to_string()).unwrap_err();
        assert!(told.contains(wanted) && !told.contains("secret"), "{text}: {told}");
    }
    assert_eq!(Place::of("file:///backup/monday/").unwrap().to_string(), "file:///backup/monday");
}

#[test]
fn who_has_no_keys_learns_where_they_come_from() {
    let store = || Arc::new(LocalFileSystem::new());
    let place = Place::within(store(), "p");
    let told = place.told("catalog", "PUT http://169.254.169.254/latest/api/token: 403");
    assert!(told.starts_with("test://p/catalog: PUT http"), "{told}");
    assert!(told.ends_with("none: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), "{told}");
    assert_eq!(place.told("catalog", "404"), "test://p/catalog: 404");
}

/// Also a file below a folder may have the name of the one that comes last.
#[tokio::test]
async fn a_place_is_taken_by_what_is_below_it_and_not_by_a_name_that_begins_as_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
    fs::create_dir_all(from.join("t")).unwrap();
    fs::write(from.join(CATALOG), "what there is").unwrap();
    fs::write(from.join("t").join(CATALOG), "of a table").unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let send = async |root: &str| {
        let sent = Place::within(Arc::clone(&store), root).send(&from, &mute).await;
        sent.map(|moved| moved.files)
    };
    for free in ["b/monday", "b/mon", "b/monday2", "c"] {
        assert_eq!(send(free).await, Ok(2), "{free}");
    }
    for taken in ["b/monday", "b/mon", "b", "c", "c/t", ""] {
        let told = send(taken).await.unwrap_err();
        assert!(told.contains("is not empty, it has "), "{taken}: {told}");
    }
    let fetched = Place::within(Arc::clone(&store), "b/mon").fetch(&to, CATALOG, &mute).await;
    assert_eq!(fetched.map(|moved| moved.files), Ok(2));
    assert_eq!(fs::read_to_string(to.join(CATALOG)).unwrap(), "what there is");
    assert_eq!(fs::read_to_string(to.join("t").join(CATALOG)).unwrap(), "of a table");
}
