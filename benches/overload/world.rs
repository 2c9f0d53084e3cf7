//! The databases of these rows, and reads of them.

use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;
use futures::executor::block_on;
use tidegate_engine::schema::table_schema::RateLimit;
use tidegate_engine::{
    BatchStream, ColumnId, Database, Deadline, Direction, Durability, LevelId, Options, Partitions,
    ReadCommand, Result, SchemaRef, Slice,
};

use crate::frame::table::{definition, partition_key, write};

/// Rows of a small partition.
pub const ROWS: i64 = 100;

/// A database of its own, which is gone with this.
pub struct World {
    pub database: Database,
    _directory: tempfile::TempDir,
}

impl World {
    /// With so many shards; one a core where `None`.
    pub fn open(shards: Option<u32>, cache_bytes: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            shards,
            durability: Durability::Periodic { ms: 10_000 },
            cache_bytes,
            ..Options::new(directory.path())
        };
        let database = block_on(Database::open(options)).unwrap();
        World { database, _directory: directory }
    }

    /// A table of `partitions` with so many `rows` each, in the row cache. Reads of a partition may
    /// be limited to so many a second.
    pub fn table(&self, name: &str, partitions: i64, rows: i64, limit: Option<u32>) -> SchemaRef {
        let mut schema = definition(name);
        let limit = RateLimit { max_reads_per_second: limit, max_writes_per_second: None };
        schema.options.per_partition_rate_limit = limit;
        let schema = block_on(self.database.create_table(schema, false)).unwrap();
        for pk in 0..partitions {
            let writes = (0..rows).map(|ck| write(&schema, pk, ck, 1)).collect();
            self.database.apply_many(writes).wait().unwrap();
        }
        block_on(self.database.flush(Some(schema.id))).unwrap();
        for pk in 0..partitions {
            let found = block_on(self.read(&schema, pk)).unwrap();
            assert_eq!(found, rows as usize);
        }
        schema
    }

    /// Reads a partition; how many rows it has.
    pub fn read(&self, schema: &SchemaRef, pk: i64) -> impl Future<Output = Result<usize>> + use<> {
        rows_of(self.database.read(command(schema, pk)))
    }

    /// The same as work of a level, with an end.
    pub fn read_within(
        &self,
        schema: &SchemaRef,
        pk: i64,
        (level, deadline): (LevelId, Option<Deadline>),
    ) -> impl Future<Output = Result<usize>> + use<> {
        rows_of(self.database.read(ReadCommand { level, deadline, ..command(schema, pk) }))
    }

    pub fn close(self) {
        block_on(self.database.close()).unwrap();
    }
}

/// A read of one partition.
pub fn command(schema: &SchemaRef, pk: i64) -> ReadCommand {
    ReadCommand {
        schema: Arc::clone(schema),
        partitions: Partitions::Keys(vec![partition_key(schema, pk)]),
        slice: Slice::full(Direction::Forward),
        columns: vec![ColumnId(1), ColumnId(2)],
        stamps: Vec::new(),
        row_limit: None,
        partition_limit: None,
        deadline: None,
        level: LevelId::DEFAULT,
        past_cache: false,
        filter: None,
    }
}

/// Takes all batches of a read; how many rows they have.
///
/// Errors: those of the read.
pub async fn rows_of(mut batches: BatchStream) -> Result<usize> {
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

/// Where a picture of this name goes, if pictures are wanted.
pub fn picture(name: &str) -> Option<PathBuf> {
    let mut words = std::env::args();
    let folder = words.find_map(|word| word.strip_prefix("--pictures=").map(PathBuf::from))?;
    Some(folder.join(name))
}
