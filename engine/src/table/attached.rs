//! Tables over SSTables of other products: read only, in a directory that is never written to.
//!
//! Every shard opens all files and leaves out what it does not own, as with SSTables of another
//! shard count. Such a table has no commitlog, its memtable stays empty and its manifest names
//! nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use super::compacting::Compacting;
use super::read::TombstoneLimits;
use super::resharding::Resharding;
use super::table::{LiveSstable, Sstables, Table};
use crate::cache::{PageCache, RowCache};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::runtime::Gate;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{
    ClusteringShape, LargeDataThresholds, OnCorruption, TableOptions, TableSchema,
};
use crate::sstable::manifest::Manifest;
use crate::sstable::{DamageLog, Part, Sstable, SstableName};

/// What an attached table is opened with.
pub struct AttachedOpening {
    pub schema: SchemaRef,
    pub directory: PathBuf,
    pub on_corruption: OnCorruption,
    pub disk: Rc<dyn Disk>,
    pub cache: Rc<PageCache>,
    pub shard: u32,
    pub shard_count: u32,
}

impl Table {
    /// Opens foreign SSTables as a table that is only read. Files that cannot be opened are left
    /// out and handed back with the reason; `opened_one` is told of each other.
    pub async fn attach(
        opening: AttachedOpening,
        names: &[SstableName],
        mut opened_one: impl FnMut(&Sstable),
    ) -> (Rc<Table>, Vec<(SstableName, Error)>) {
        let AttachedOpening { schema, directory, on_corruption, disk, cache, shard, shard_count } =
            opening;
        let (mut sstables, mut failed) = (Vec::new(), Vec::new());
        let damage = Rc::new(DamageLog::default());
        for name in names {
            let opened = Sstable::open_foreign(
                disk.clone(),
                cache.clone(),
                &directory,
                name,
                schema.clone(),
            );
            match opened.await {
                Ok(sstable) => {
                    opened_one(&sstable);
                    sstable.mended().iter().for_each(|error| damage.add_rebuilt(error));
                    let run = sstable.info().generation;
                    let only = Some((shard, shard_count));
                    sstable.restrict(Part { only, ..Part::default() });
                    sstables.push(LiveSstable { sstable, is_shared: true, run });
                }
                Err(error) => failed.push((name.clone(), error)),
            }
        }
        let options = TableOptions { on_corruption, ..schema.options.clone() };
        let table = Table {
            large_data: LargeDataThresholds::default(),
            tombstones: Rc::new(TombstoneLimits::default().into()),
            damage,
            active: RefCell::new(Memtable::new(Rc::default())),
            shard_bytes: Rc::default(),
            sealed: RefCell::default(),
            sstables: RefCell::new(Rc::new(Sstables(sstables))),
            generation: Cell::new(0),
            rows: RowCache::new(cache.clone(), schema.clone()),
            manifest: tokio::sync::Mutex::new(Manifest::empty(disk.clone(), &directory)),
            directory,
            disk,
            clustering: ClusteringShape::of(&schema),
            refused_columns: RefCell::default(),
            dropped_cells: RefCell::new(None),
            schema: RefCell::new(SchemaRef::new(TableSchema { options, ..(*schema).clone() })),
            commitlog: RefCell::new(None),
            ledger: None,
            owed: Cell::new(None),
            shard,
            shard_count,
            foreign_flushed: BTreeMap::new(),
            cache,
            next_generation: Cell::new(0),
            unnamed: RefCell::default(),
            replaced: RefCell::default(),
            gone: RefCell::default(),
            released: RefCell::default(),
            resharding: Resharding::none(),
            left_out: Vec::new(),
            compacting: Compacting::default(),
            dropped: Cell::new(false),
            stuck: RefCell::default(),
            is_frozen: Cell::new(false),
            flushes_awaited: Gate::new(),
            is_attached: true,
        };
        (Rc::new(table), failed)
    }

    /// Whether the table is one of foreign SSTables.
    pub fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// Bytes of the data files, and rows that they say that they have.
    pub fn foreign_size(&self) -> (u64, u64) {
        let sstables = self.sstables.borrow();
        let infos = || sstables.0.iter().map(|live| live.sstable.info());
        (infos().map(|info| info.data_bytes).sum(), infos().map(|info| info.rows).sum())
    }

    /// Errors: `Invalid` for an attached table; `Unavailable` while it is being dropped.
    pub fn check_own(&self) -> Result<()> {
        if !self.is_attached() {
            return self.check_not_frozen();
        }
        Err(Error::invalid(format!(
            "table '{}' is attached and can only be read: IMPORT SSTABLES '{}' INTO a table of this \
             database copies it",
            self.schema().name,
            self.directory.display()
        )))
    }
}
