//! Policies are loaded, put in charge, reported and brought back.

use std::path::Path;

use super::*;

fn dist(file: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist").join(file)).unwrap()
}

pub(super) fn component(name: &str) -> Vec<u8> {
    dist(&format!("{name}.wasm"))
}

fn options(directory: &Path) -> Options {
    let mut options = Options::new(directory);
    options.shards = Some(2);
    options.commitlog_segment_bytes = 1 << 20;
    options.cache_bytes = 256 << 10;
    options
}

/// A table of 300 partitions that is many times the size of the cache.
pub(super) async fn fill(database: &Database) -> SchemaRef {
    let schema = database.create_table(definition(), false).await.unwrap();
    for partition in 0..300 {
        let name = format!("p{partition}");
        let writes = (0..300).map(|i| insert(&schema, &name, i, 7, 1)).collect();
        database.apply_many(writes).await.unwrap();
    }
    database.flush(None).await.unwrap();
    schema
}

async fn read_around(database: &Database, schema: &SchemaRef) {
    for round in 0..300 {
        // Every second read is of one hot partition.
        let name = if round % 2 == 0 { "p7".into() } else { format!("p{round}") };
        let command = read_of(schema, &name, Slice::full(Direction::Forward), None);
        let batches: Vec<RecordBatch> = database.read(command).try_collect().await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 300, "{name}");
    }
}

#[tokio::test]
async fn a_policy_is_swapped_while_the_database_serves() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = fill(&database).await;
    let report = async |name: &str| {
        let reports = database.policies().await.unwrap();
        reports.into_iter().find(|report| report.name == name).unwrap()
    };
    read_around(&database, &schema).await;
    let native = report("lru").await;
    assert_eq!(native.state, "active");
    assert!(native.lookups.misses > 0 && native.evictions > 0, "{native:?}");

    let info = database.create_policy("sieve", component("sieve"), vec![], None).await.unwrap();
    assert_eq!(report("sieve").await.state, "loaded");
    database.set_cache_policy(Some("sieve")).await.unwrap();
    read_around(&database, &schema).await;
    let sieve = report("sieve").await;
    assert_eq!((sieve.state.as_str(), &sieve.digest), ("active", &info.digest));
    assert!(sieve.calls > 0 && sieve.lookups.hits > 0 && sieve.evictions > 0, "{sieve:?}");
    assert_eq!((sieve.invalid_victims, sieve.last_failure), (0, None));
    assert_eq!(report("lru").await.state, "standby");

    database.create_policy("lru_wasm", component("lru"), vec![], None).await.unwrap();
    database.set_cache_policy(Some("lru_wasm")).await.unwrap();
    read_around(&database, &schema).await;
    assert_eq!(report("lru_wasm").await.state, "active");
    let kept = report("sieve").await;
    assert_eq!((kept.state.as_str(), kept.calls >= sieve.calls), ("standby", true));

    let refused = database.drop_policy("lru_wasm", false).await.unwrap_err();
    assert!(refused.to_string().contains("governs"), "{refused}");
    database.drop_policy("sieve", false).await.unwrap();
    database.close().await.unwrap();

    let database = Database::open(options(directory.path())).await.unwrap();
    let reports = database.policies().await.unwrap();
    let state = |name: &str| {
        let report = reports.iter().find(|report| report.name == name);
        report.map(|report| report.state.as_str())
    };
    let found = ["lru", "lru_wasm", "sieve"].map(state);
    assert_eq!(found, [Some("loaded"), Some("active"), None], "a restart brings it back");
    database.set_cache_policy(None).await.unwrap();
    read_around(&database, &schema).await;
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_snapshot_has_the_policies_though_the_database_drops_them() {
    let directory = tempfile::tempdir().unwrap();
    let (root, snap) = (directory.path().join("db"), directory.path().join("snap"));
    let database = Database::open(options(&root)).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    database.apply(insert(&schema, "a", 1, 7, 1)).await.unwrap();
    for (name, file) in [("sieve", "sieve"), ("lru_wasm", "lru")] {
        database.create_policy(name, component(file), vec![], None).await.unwrap();
    }
    database.set_cache_policy(Some("sieve")).await.unwrap();
    database.snapshot(&snap).await.unwrap();
    database.set_cache_policy(None).await.unwrap();
    for name in ["sieve", "lru_wasm"] {
        database.drop_policy(name, false).await.unwrap();
    }
    database.close().await.unwrap();

    let copy = Database::open(options(&snap)).await.unwrap();
    assert_eq!(count_rows(&copy, &schema, "a").await.unwrap(), 1);
    let is_active = async |name: &str| {
        let reports = copy.policies().await.unwrap();
        let report = reports.into_iter().find(|report| report.name == name).unwrap();
        assert_eq!((report.state.as_str(), report.last_failure), ("active", None), "{name}");
    };
    is_active("sieve").await;
    copy.set_cache_policy(Some("lru_wasm")).await.unwrap();
    is_active("lru_wasm").await;
    copy.close().await.unwrap();
}

#[tokio::test]
async fn a_policy_that_cannot_be_brought_back_says_so_and_can_be_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    assert!(!database.inner.governance.components().has_host(), "no policy, no runtime");
    let info = database.create_policy("sieve", component("sieve"), vec![], None).await.unwrap();
    assert!(database.inner.governance.components().has_host());
    database.set_cache_policy(Some("sieve")).await.unwrap();
    database.close().await.unwrap();
    let file = directory.path().join(format!("policies/{}.wasm", info.digest));

    // Another component than the one that was stored.
    std::fs::write(&file, component("lru")).unwrap();
    let states = async |database: &Database| -> Vec<(String, Option<String>)> {
        let reports = database.policies().await.unwrap().into_iter();
        let reports = reports.filter(|report| ["lru", "sieve"].contains(&report.name.as_str()));
        reports.map(|report| (report.state, report.last_failure)).collect()
    };
    let database = Database::open(options(directory.path())).await.unwrap();
    let found = states(&database).await;
    let [native, (state, failure)] = &found[..] else { panic!("two policies: {found:?}") };
    assert_eq!(native, &("active".to_owned(), None));
    let failure = failure.as_deref().unwrap();
    assert!(state == "unavailable" && failure.contains(&info.digest), "{state}: {failure}");
    let again = database.set_cache_policy(Some("sieve")).await.unwrap_err();
    assert_eq!(again.to_string(), failure, "what is wrong stays wrong");
    std::fs::write(&file, component("sieve")).unwrap();
    database.set_cache_policy(Some("sieve")).await.unwrap();
    let found = states(&database).await;
    assert_eq!(found, [("standby".to_owned(), None), ("active".to_owned(), None)]);
    database.close().await.unwrap();

    std::fs::remove_file(&file).unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let found = states(&database).await;
    let [_, (state, failure)] = &found[..] else { panic!("two policies: {found:?}") };
    let failure = failure.as_deref().unwrap();
    let names_file = failure.contains(file.file_name().unwrap().to_str().unwrap());
    assert!(state == "unavailable" && names_file, "{state}: {failure}");
    database.drop_policy("sieve", false).await.unwrap();
    database.close().await.unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(states(&database).await, [("active".to_owned(), None)]);
    database.create_policy("sieve", component("sieve"), vec![], None).await.unwrap();
    assert_eq!(states(&database).await[1], ("loaded".to_owned(), None));
    database.close().await.unwrap();
}

#[tokio::test]
async fn what_is_no_policy_is_refused_and_the_engine_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = fill(&database).await;
    let create = async |component: Vec<u8>, sha256: Option<String>| {
        database.create_policy("p", component, vec![], sha256).await.unwrap_err().to_string()
    };
    let no_component = create(b"plain text".to_vec(), None).await;
    assert!(no_component.contains("policy 'p'"), "{no_component}");
    let wrong = create(component("sieve"), Some("00".repeat(32))).await;
    assert!(wrong.contains("SHA-256"), "{wrong}");
    let params = vec![("size".to_owned(), "1".to_owned())];
    let started = database.create_policy("p", component("sieve"), params, None).await.unwrap_err();
    assert!(started.to_string().contains("unknown parameter 'size'"), "{started}");
    let sums = String::from_utf8(dist("SHA256SUMS")).unwrap();
    let digest = sums.lines().find_map(|line| line.strip_suffix("  sieve.wasm")).unwrap();
    assert!(
        database.inner.governance.components().find(digest).is_none(),
        "what was refused is not kept"
    );
    let unknown = database.set_cache_policy(Some("p")).await.unwrap_err();
    assert_eq!(unknown.to_string(), "policy 'p' does not exist");
    let native = database.create_policy("lru", component("lru"), vec![], None).await.unwrap_err();
    assert!(native.to_string().contains("exists already"), "{native}");
    read_around(&database, &schema).await;
    database.close().await.unwrap();
}

#[tokio::test]
async fn the_cache_can_be_resized_and_keeps_its_size() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = fill(&database).await;
    read_around(&database, &schema).await;
    database.set_cache_bytes(64 << 10).await.unwrap();
    for report in database.cache_report().await.unwrap() {
        assert!(report.bytes <= 64 << 10 && report.capacity_bytes == 64 << 10, "{report:?}");
    }
    for too_few in [0, 100, (64 << 10) - 1] {
        let refused = database.set_cache_bytes(too_few).await.unwrap_err();
        assert!(refused.to_string().contains("64 KiB"), "{too_few}: {refused}");
    }
    database.close().await.unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(database.cache_report().await.unwrap()[0].capacity_bytes, 64 << 10);
    database.close().await.unwrap();
}

/// Files of machine code in the folder of policies.
fn code_files(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory.join("policies")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "code")).collect()
}

#[tokio::test]
async fn machine_code_is_kept_for_the_next_start_and_made_anew_when_it_is_no_good() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let info = database.create_policy("sieve", component("sieve"), vec![], None).await.unwrap();
    database.set_cache_policy(Some("sieve")).await.unwrap();
    database.close().await.unwrap();
    let [file] = &code_files(directory.path())[..] else { panic!("one file") };
    let state = async |compiles: bool| {
        let mut options = options(directory.path());
        // A compiler that cannot be started: whatever is compiled fails.
        options.policy_compiler = (!compiles).then(|| crate::plugin::CompilerCommand {
            program: "/nothing/compiles/here".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            limits: crate::plugin::CompileLimits::default(),
        });
        let database = Database::open(options).await.unwrap();
        let reports = database.policies().await.unwrap();
        let report = reports.into_iter().find(|report| report.name == "sieve").unwrap();
        database.close().await.unwrap();
        (report.state, report.last_failure.unwrap_or_default())
    };
    let good = ("active".to_owned(), String::new());
    assert_eq!(state(false).await, good, "nothing was compiled");

    let whole = std::fs::read(file).unwrap();
    for damage in 0..5 {
        let mut damaged = whole.clone();
        match damage {
            0 => damaged[30] ^= 1,
            1 => *damaged.last_mut().unwrap() ^= 0x80,
            2 => damaged.truncate(whole.len() / 2),
            3 => damaged.clear(),
            _ => damaged = component("sieve"),
        }
        std::fs::write(file, damaged).unwrap();
        let (found, failure) = state(false).await;
        assert_eq!(found, "unavailable", "damage {damage}");
        assert!(failure.contains("/nothing/compiles/here"), "{failure}");
        // Of another build; it goes when the code is made anew.
        let other = file.with_file_name(format!("{}-0123.code", info.digest));
        std::fs::write(&other, b"other").unwrap();
        assert_eq!(state(true).await, good, "damage {damage}");
        assert_eq!(&code_files(directory.path()), std::slice::from_ref(file));
        assert_eq!(state(false).await, good, "damage {damage}");
    }

    // Where others may write, code is neither taken nor kept.
    let policies = directory.path().join("policies");
    std::fs::set_permissions(&policies, PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(state(false).await.0, "unavailable");
    std::fs::remove_file(file).unwrap();
    assert_eq!(state(true).await, good);
    assert!(code_files(directory.path()).is_empty());
    std::fs::set_permissions(&policies, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(state(true).await, good);
    assert_eq!(code_files(directory.path()).len(), 1);

    let database = Database::open(options(directory.path())).await.unwrap();
    database.set_cache_policy(None).await.unwrap();
    database.drop_policy("sieve", false).await.unwrap();
    database.close().await.unwrap();
    assert!(code_files(directory.path()).is_empty());
}
