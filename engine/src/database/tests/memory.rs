//! What the engine says of its memory, beside what is in it.

use super::*;
use crate::database::{MemoryPool, MemoryReport};

const CACHE_BYTES: usize = 1 << 20;
const MEMTABLE_BYTES: usize = 4 << 20;

struct Told(Vec<MemoryReport>);

impl Told {
    async fn of(database: &Database) -> Told {
        Told(database.memory_report().await.unwrap())
    }

    fn bytes(&self, pool: MemoryPool) -> u64 {
        self.0.iter().filter(|report| report.pool == pool).map(|report| report.bytes).sum()
    }

    fn limits(&self, pool: MemoryPool) -> Vec<Option<u64>> {
        let of_pool = self.0.iter().filter(|report| report.pool == pool);
        of_pool.map(|report| report.limit_bytes).collect()
    }

    /// Parts are the whole.
    fn check(&self) {
        for whole in [MemoryPool::Memtables, MemoryPool::Cache] {
            let parts = self.0.iter().filter(|report| report.pool.whole() == Some(whole));
            let parts: u64 = parts.map(|report| report.bytes).sum();
            assert_eq!(parts, self.bytes(whole), "{whole:?}: {:?}", self.0);
        }
    }
}

#[tokio::test]
async fn memory_is_told_by_what_it_is_for() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        shards: Some(2),
        cache_bytes: CACHE_BYTES,
        memtable_bytes: MEMTABLE_BYTES,
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let name = |pk: i32| format!("a partition with a key that takes memory of its own: {pk}");
    let write = |pk: i32| insert(&schema, &name(pk), 1, i64::from(pk), 1);
    database.apply_many((0..2000).map(write).collect()).await.unwrap();
    let told = Told::of(&database).await;
    told.check();
    let reports = database.table_report().await.unwrap();
    let memtables: u64 = reports.iter().map(|report| report.memtable_bytes).sum();
    assert!(memtables > 2000 * 50);
    assert_eq!(told.bytes(MemoryPool::ActiveMemtables), memtables);
    assert_eq!(told.bytes(MemoryPool::Filters), 0, "there is no SSTable yet");
    let twice = Some(2 * MEMTABLE_BYTES as u64);
    assert_eq!(told.limits(MemoryPool::Memtables), [twice, twice]);
    assert_eq!(told.limits(MemoryPool::Cache), [Some(CACHE_BYTES as u64); 2]);

    database.flush(None).await.unwrap();
    for pk in (0..2000).step_by(7) {
        assert_eq!(count_rows(&database, &schema, &name(pk)).await.unwrap(), 1);
    }
    let told = Told::of(&database).await;
    told.check();
    assert_eq!(told.bytes(MemoryPool::Memtables), 0);
    let cached = database.cache_report().await.unwrap();
    let rows: u64 = cached.iter().map(|cache| cache.row_bytes).sum();
    assert!(rows > 0 && told.bytes(MemoryPool::CachedRows) == rows);
    let [filters, summaries, checksums] =
        [MemoryPool::Filters, MemoryPool::Summaries, MemoryPool::Checksums]
            .map(|pool| told.bytes(pool));
    // A filter takes about ten bits a partition; a sampled key its length, every 128th.
    assert!((2000..8000).contains(&filters), "{filters}");
    assert!((2000 / 128 * 50..20_000).contains(&summaries), "{summaries}");
    assert!((4 * 20..20_000).contains(&checksums), "{checksums}");
    assert!(told.bytes(MemoryPool::IoBuffers) > 0);

    database.drop_table("default", "t", false).await.unwrap();
    let told = Told::of(&database).await;
    told.check();
    for pool in [MemoryPool::Filters, MemoryPool::Summaries, MemoryPool::Checksums] {
        assert_eq!(told.bytes(pool), 0, "{pool:?} of a table that is gone");
    }
    database.close().await.unwrap();
}
