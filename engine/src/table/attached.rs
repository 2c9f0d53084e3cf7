//! Tables over SSTables of other products: read only, in a directory that is never written to.
//!
//! Every shard opens all files and leaves out what it does not own, as with SSTables of another shard
//! count. Such a table has no commitlog, its memtable stays empty and its manifest names nothing.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::table::{LiveSstable, Sstables, Table};
use crate::cache::{PageCache, RowCache};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::mutation::{Direction, Fragment, FragmentSource, Position, Tombstone};
use crate::schema::table_schema::SchemaRef;
use crate::sstable::manifest::Manifest;
use crate::sstable::{Sstable, SstableName};

/// What becomes of damaged files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCorruption {
    /// A file that cannot be opened keeps the table from being attached; damage that a read meets ends
    /// the read.
    #[default]
    Fail,
    /// A file that cannot be opened is left out. Of a file in which a read meets damage, that read
    /// leaves out the rest: rows may be missing, and what other files have of them may show.
    Skip,
}

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
    /// Opens foreign SSTables as a table that is only read. Files that cannot be opened are left out
    /// and handed back with the reason.
    pub async fn attach(
        opening: AttachedOpening,
        names: &[SstableName],
    ) -> (Rc<Table>, Vec<(SstableName, Error)>) {
        let AttachedOpening { schema, directory, on_corruption, disk, cache, shard, shard_count } =
            opening;
        let (mut sstables, mut failed) = (Vec::new(), Vec::new());
        for name in names {
            let opened = Sstable::open_foreign(
                disk.clone(),
                cache.clone(),
                &directory,
                name,
                schema.clone(),
            );
            match opened.await {
                Ok(sstable) => sstables.push(LiveSstable { sstable, is_shared: true }),
                Err(error) => failed.push((name.clone(), error)),
            }
        }
        let table = Table {
            active: RefCell::new(Memtable::new(Rc::default())),
            shard_bytes: Rc::default(),
            sealed: RefCell::default(),
            sstables: RefCell::new(Rc::new(Sstables(sstables))),
            generation: Cell::new(0),
            rows: RowCache::new(cache.clone(), schema.clone()),
            manifest: tokio::sync::Mutex::new(Manifest::empty(disk.clone(), &directory)),
            directory,
            disk,
            schema,
            commitlog: None,
            shard,
            shard_count,
            foreign_flushed: BTreeMap::new(),
            cache,
            next_generation: Cell::new(0),
            unnamed: RefCell::default(),
            dropped: Cell::new(false),
            attached: Some(on_corruption),
        };
        (Rc::new(table), failed)
    }

    /// Whether the table is one of foreign SSTables.
    pub fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// Bytes of the data files, and rows that they say that they have.
    pub fn foreign_size(&self) -> (u64, u64) {
        let sstables = self.sstables.borrow();
        let infos = || sstables.0.iter().map(|live| live.sstable.info());
        (infos().map(|info| info.data_bytes).sum(), infos().map(|info| info.rows).sum())
    }

    /// Errors: `Invalid` for an attached table.
    pub fn check_writable(&self) -> Result<()> {
        if !self.is_attached() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "table '{}' is attached and can only be read: IMPORT SSTABLES '{}' INTO a table of this \
             database copies it",
            self.schema.name,
            self.directory.display()
        )))
    }
}

/// A source that ends at damage instead of failing.
pub(super) struct SalvagedSource {
    source: Box<dyn FragmentSource>,
    directory: PathBuf,
    direction: Direction,
    is_inside: bool,
    in_force: Option<Tombstone>,
    has_ended: bool,
}

impl SalvagedSource {
    pub(super) fn new(
        source: Box<dyn FragmentSource>,
        directory: &Path,
        direction: Direction,
    ) -> Self {
        SalvagedSource {
            source,
            directory: directory.to_owned(),
            direction,
            is_inside: false,
            in_force: None,
            has_ended: false,
        }
    }

    async fn fill_some(&mut self, out: &mut VecDeque<Fragment>) -> Result<()> {
        if self.has_ended {
            return Ok(());
        }
        let before = out.len();
        let filled = self.source.fill(out).await;
        for fragment in out.iter().skip(before) {
            match fragment {
                Fragment::PartitionStart { .. } => self.is_inside = true,
                Fragment::RangeTombstoneChange { tombstone, .. } => self.in_force = *tombstone,
                Fragment::PartitionEnd => self.is_inside = false,
                Fragment::StaticRow(_) | Fragment::Row { .. } | Fragment::FlatRow(_) => {}
            }
        }
        match filled {
            Err(error @ Error::Corrupt(_)) => {
                let directory = self.directory.display();
                tracing::warn!(%directory, %error, "a read leaves out the rest of a damaged file");
                self.has_ended = true;
            }
            filled => return filled,
        }
        // What was begun must end.
        if self.in_force.take().is_some() {
            let position = match self.direction {
                Direction::Forward => Position::end(),
                Direction::Reversed => Position::start(),
            };
            out.push_back(Fragment::RangeTombstoneChange { position, tombstone: None });
        }
        if std::mem::take(&mut self.is_inside) {
            out.push_back(Fragment::PartitionEnd);
        }
        Ok(())
    }
}

impl FragmentSource for SalvagedSource {
    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        self.fill_some(out).boxed_local()
    }
}
