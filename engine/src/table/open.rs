//! Opening a table's files on one shard.
//!
//! ```text
//! data/<keyspace>/<table>-<id>/manifest-<shard>-of-<count>     which SSTables are live
//!                              me-<generation>-big-Data.db ..   the SSTables of all shards
//! ```
//! SSTables that were written under another shard count hold partitions of several shards: each
//! that owns some of them opens those, and leaves out what it does not own or took before
//! (`resharding.rs`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::compacting::Compacting;
use super::read::TombstoneLimits;
use super::resharding::{Handovers, Log, Resharding, sees_to};
use super::table::{LiveSstable, Sstables, Table};
use crate::cache::{PageCache, RowCache};
use crate::commitlog::{Commitlog, ReplayPosition};
use crate::disk::{Disk, make_durable};
use crate::error::{Error, Result};
use crate::ledger::{Entry, Ledger};
use crate::memtable::Memtable;
use crate::reader::DroppedCells;
use crate::runtime::Gate;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ClusteringShape, LargeDataThresholds, OnCorruption};
use crate::sstable::manifest::Manifest;
use crate::sstable::{
    Component, DamageLog, LOST, Part, Sstable, SstableInfo, clear_unnamed, generation_of, overlap,
    stated_positions,
};

/// Sequences that the manifests of a table are known to have reached, by shard and shard count.
pub type Reached = BTreeMap<Log, u64>;

/// What a table is opened with.
pub struct TableOpening {
    pub schema: SchemaRef,
    /// The table's folder, made when it is new.
    pub directory: PathBuf,
    pub disk: Rc<dyn Disk>,
    /// None when the shard has none for want of room.
    pub commitlog: Option<Rc<Commitlog>>,
    /// Where edits of the manifest are recorded.
    pub ledger: Rc<Ledger>,
    /// What the manifests of the table must have reached, by shard and shard count.
    pub reached: Reached,
    /// Numbers of SSTables up to this one were given, though their files may be gone.
    pub generation_max: u64,
    pub cache: Rc<PageCache>,
    /// Bytes of all memtables of the shard.
    pub shard_bytes: Rc<Cell<usize>>,
    pub shard: u32,
    pub shard_count: u32,
    /// From which sizes on data is large, where the table does not say.
    pub large_data: LargeDataThresholds,
    /// How many tombstones reads may meet.
    pub tombstones: TombstoneLimits,
    /// Where shards say which SSTables of another shard count they need no more.
    pub handovers: Arc<Handovers>,
}

impl Table {
    /// Opens the table's files on this shard, making its folder when it is new.
    ///
    /// Errors: `Io`, `Corrupt` naming the file.
    pub async fn open(opening: TableOpening) -> Result<Rc<Table>> {
        let TableOpening { schema, directory, disk, commitlog, cache, ledger, .. } = opening;
        let (reached, generation_max) = (opening.reached, opening.generation_max);
        let TableOpening { shard_bytes, shard, shard_count, large_data, .. } = opening;
        assert!(shard < shard_count, "a table of shard {shard} of {shard_count}");
        disk.create_directories(&directory).await?;
        // The folder of the keyspace and that of all data: either may be new.
        for ancestor in directory.ancestors().skip(1).take(2) {
            disk.sync_directory(ancestor).await?;
        }
        let names: Vec<String> =
            disk.list(&directory).await?.into_iter().map(|entry| entry.name).collect();
        let place = (shard, shard_count);
        let manifests = Manifests::open(&disk, &directory, (&names, &reached), place).await?;
        // Of a data directory that had no ledger, or of the edits before a crash, the ledger knows
        // nothing or too little. It is a watch more: who opens the tables has it written, once.
        let edited = manifests.own.edited();
        if ledger.manifest(schema.id) < edited {
            ledger.record_later(Entry::Manifest { table: schema.id, sequence: edited });
        }
        let mut files = Files::new(&schema, &directory, &disk, &cache);
        files.open_all(&manifests).await?;
        let foreign_flushed = manifests.foreign_flushed();
        let (owed, released) = (manifests.owed(), manifests.released());
        let (manifest, resharding) = manifests.into_resharding(opening.handovers);
        let Files { sstables, left_out, number_max, damage, .. } = files;
        // Leftovers were cleared away before.
        let there: BTreeSet<u64> = names.iter().filter_map(|name| generation_of(name)).collect();
        let gone = manifest.spent().difference(&there).copied().collect();
        // Numbers of SSTables that were set aside are not given again either.
        let mut names = names;
        if names.iter().any(|name| name == LOST) {
            let lost = disk.list(&directory.join(LOST)).await?;
            names.extend(lost.into_iter().map(|entry| entry.name));
        }
        let highest = names.iter().filter_map(|name| generation_of(name)).max().unwrap_or(0);
        let highest = highest.max(generation_max).max(number_max);
        let next_generation = generation_above(highest, shard, shard_count);
        Ok(Rc::new(Table {
            rows: RowCache::new(cache.clone(), schema.clone()),
            clustering: ClusteringShape::of(&schema),
            refused_columns: RefCell::default(),
            dropped_cells: RefCell::new(DroppedCells::of(&schema)),
            schema: RefCell::new(schema),
            directory,
            disk,
            commitlog: RefCell::new(commitlog),
            ledger: Some(ledger),
            owed: Cell::new(owed),
            shard,
            shard_count,
            active: RefCell::new(Memtable::new(shard_bytes.clone())),
            shard_bytes,
            sealed: RefCell::new(VecDeque::new()),
            sstables: RefCell::new(Rc::new(Sstables(sstables))),
            generation: Cell::new(0),
            manifest: tokio::sync::Mutex::new(manifest),
            foreign_flushed,
            cache,
            next_generation: Cell::new(next_generation),
            unnamed: RefCell::default(),
            replaced: RefCell::default(),
            gone: RefCell::new(gone),
            released: RefCell::new(released),
            resharding,
            left_out,
            compacting: Compacting::default(),
            dropped: Cell::new(false),
            stuck: RefCell::default(),
            is_frozen: Cell::new(false),
            flushes_awaited: Gate::new(),
            is_attached: false,
            large_data,
            tombstones: Rc::new(opening.tombstones.into()),
            damage,
        }))
    }
}

/// The SSTables that manifests of a table name, as they are opened.
struct Files {
    schema: SchemaRef,
    directory: PathBuf,
    disk: Rc<dyn Disk>,
    cache: Rc<PageCache>,
    sstables: Vec<LiveSstable>,
    /// Those that are damaged, if the table goes on without: they stay where they are, and in their
    /// manifest.
    left_out: Vec<SstableInfo>,
    /// Greatest number that a manifest knows.
    number_max: u64,
    damage: Rc<DamageLog>,
}

impl Files {
    fn new(
        schema: &SchemaRef,
        directory: &Path,
        disk: &Rc<dyn Disk>,
        cache: &Rc<PageCache>,
    ) -> Self {
        Files {
            schema: schema.clone(),
            directory: directory.to_owned(),
            disk: disk.clone(),
            cache: cache.clone(),
            sstables: Vec::new(),
            left_out: Vec::new(),
            number_max: 0,
            damage: Rc::default(),
        }
    }

    /// Opens those that the manifests name and of which the shard owns something.
    async fn open_all(&mut self, manifests: &Manifests) -> Result<()> {
        let takers = manifests.takers();
        let own = &manifests.own;
        self.number_max = own.number_max();
        for info in own.live().values() {
            let without = takers.get(&info.generation).cloned().unwrap_or_default();
            let part = Part { without, ..Part::default() };
            self.open(info, own.run(info.generation), part).await?;
        }
        for (log, other) in &manifests.others {
            self.number_max = self.number_max.max(other.number_max());
            for info in other.live().values() {
                if manifests.needs(*log, info.generation) {
                    let without = takers.get(&info.generation).cloned().unwrap_or_default();
                    let part = Part { only: Some(manifests.place), of: Some(*log), without };
                    self.open(info, other.run(info.generation), part).await?;
                }
            }
        }
        Ok(())
    }

    async fn open(&mut self, info: &SstableInfo, run: u64, part: Part) -> Result<()> {
        let skips = self.schema.options.on_corruption == OnCorruption::Skip;
        let (disk, cache) = (self.disk.clone(), self.cache.clone());
        let (known, schema) = ((info.generation, Some(info)), self.schema.clone());
        match Sstable::open(disk, cache, &self.directory, known, schema).await {
            Ok(sstable) => {
                sstable.mended().iter().for_each(|error| self.damage.add_rebuilt(error));
                let is_shared = part.only.is_some();
                if part != Part::default() {
                    sstable.restrict(part);
                }
                self.sstables.push(LiveSstable { sstable, is_shared, run });
            }
            Err(error @ Error::Corrupt(_)) if skips => {
                self.damage.add(&error, true);
                self.left_out.push(info.clone());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The manifests of a table that one shard reads: its own, and those of other shard counts.
struct Manifests {
    place: Log,
    own: Manifest,
    others: Vec<(Log, Manifest)>,
}

impl Manifests {
    async fn open(
        disk: &Rc<dyn Disk>,
        directory: &Path,
        (names, reached): (&[String], &Reached),
        place: Log,
    ) -> Result<Self> {
        let open = async |log: Log, reached| {
            let path = directory.join(manifest_name(log.0, log.1));
            Manifest::open_from(disk.clone(), &path, reached).await
        };
        let own = open(place, reached.get(&place).copied().unwrap_or(0)).await?;
        let mut others = Vec::new();
        for (log, reached) in manifests_of(names, reached) {
            if log.1 != place.1 {
                others.push((log, open(log, reached).await?));
            }
        }
        Ok(Manifests { place, own, others })
    }

    /// By SSTable, the shards of other counts whose part of it is elsewhere.
    fn takers(&self) -> BTreeMap<u64, Vec<Log>> {
        let mut takers: BTreeMap<u64, Vec<Log>> = BTreeMap::new();
        for (log, other) in &self.others {
            for number in other.taken() {
                takers.entry(*number).or_default().push(*log);
            }
        }
        takers
    }

    /// Whether the shard may own something of an SSTable of another shard count, and has it nowhere
    /// else.
    fn needs(&self, log: Log, number: u64) -> bool {
        debug_assert!(!self.own.live().contains_key(&number), "SSTable {number} has two manifests");
        overlap(log, self.place) && !self.own.taken().contains(&number)
    }

    /// What the logs of other shard counts need not replay.
    fn foreign_flushed(&self) -> BTreeMap<Log, ReplayPosition> {
        let flushed = self.others.iter().map(|(log, other)| (*log, other.flushed_through()));
        flushed.filter_map(|(log, through)| Some((log, through?))).collect()
    }

    /// Before anything follows from it that parts were taken, the manifest that says so is sealed.
    fn owed(&self) -> Option<Option<ReplayPosition>> {
        (!self.own.taken().is_empty()).then_some(None)
    }

    /// SSTables of which a part was taken and that are gone.
    fn released(&self) -> Vec<u64> {
        let is_own = |number: &u64| self.own.live().contains_key(number);
        assert!(!self.own.taken().iter().any(is_own), "own SSTables are no parts of others");
        let is_live =
            |number: &&u64| self.others.iter().any(|(_, other)| other.live().contains_key(number));
        self.own.taken().iter().filter(|number| !is_live(number)).copied().collect()
    }

    fn into_resharding(self, handovers: Arc<Handovers>) -> (Manifest, Resharding) {
        let this = &self;
        let unneeded = self.others.iter().flat_map(|(log, other)| {
            let numbers = other.live().keys().copied();
            numbers.filter(move |number| !this.needs(*log, *number))
        });
        let left = unneeded.collect();
        let Manifests { place, own, others } = self;
        let foreign = others
            .into_iter()
            .filter(|(log, other)| sees_to(*log, place) && !other.live().is_empty());
        let foreign = foreign.map(|(_, other)| other).collect();
        (own, Resharding::new(handovers, left, foreign))
    }
}

/// The least generation above `highest` that this shard may give. Shards share the folder: each
/// takes the generations of its own residue, from the next multiple of their count on.
fn generation_above(highest: u64, shard: u32, shard_count: u32) -> u64 {
    let (shard, stride) = (u64::from(shard), u64::from(shard_count));
    let next = (highest / stride + 1) * stride + shard;
    assert!(
        next > highest && next % stride == shard,
        "shard {shard} of {stride} would write SSTable {next}, {highest} is there"
    );
    next
}

/// An SSTable that no manifest names.
#[derive(Debug, Clone, Default)]
pub struct SetAside {
    /// Where its files are now.
    pub files: Vec<PathBuf>,
    /// Commitlog positions of its first and last write, as it states them; `None` for one of
    /// another product or host, or without readable statistics.
    pub replay: Option<(ReplayPosition, ReplayPosition)>,
}

/// What clearing a table's folder found.
#[derive(Debug, Clone, Default)]
pub struct Cleared {
    /// Newest commitlog position that the manifests know.
    pub newest: Option<ReplayPosition>,
    /// Whole SSTables that were set aside.
    pub set_aside: Vec<SetAside>,
    /// Files that were set aside before.
    pub lost_before: usize,
    /// What a manifest says could not be made durable: nothing may follow from it.
    pub unsure: Option<Error>,
}

/// Clears away SSTable files in a table's folder that no manifest names: what crashes left. To be
/// called before any shard opens the table.
///
/// Errors: `Io`, `Corrupt` naming the manifest; then nothing was changed. Files that cannot be
/// cleared away are told and stay.
pub async fn clear_leftovers(
    disk: &Rc<dyn Disk>,
    directory: &Path,
    reached: &Reached,
) -> Result<Cleared> {
    let (mut live, mut spent) = (BTreeSet::new(), BTreeSet::new());
    let mut result = Cleared::default();
    let names: Vec<String> =
        disk.list(directory).await?.into_iter().map(|entry| entry.name).collect();
    for ((shard, count), reached) in manifests_of(&names, reached) {
        let path = directory.join(manifest_name(shard, count));
        let manifest = Manifest::open_from(disk.clone(), &path, reached).await?;
        // Of later edits nobody has said that they are durable, and the commitlog goes by them.
        if manifest.edited() > reached
            && let Err(error) = make_durable(&**disk, &path).await
        {
            result.unsure = Some(error);
        }
        live.extend(manifest.live().keys());
        spent.extend(manifest.spent());
        result.newest = result.newest.max(manifest.flushed_through());
    }
    if result.unsure.is_some() {
        // Files that it calls spent may be live again after a power cut.
        return Ok(result);
    }
    let lost = directory.join(LOST);
    if names.iter().any(|name| name == LOST) {
        result.lost_before = disk.list(&lost).await?.len();
    }
    let cleared = clear_unnamed(&**disk, directory, (&live, &spent)).await;
    let directory = directory.display();
    let (removed, moved) = match cleared {
        Ok(cleared) => cleared,
        Err(error) => {
            // They do no harm: no number is given twice, and the next start tries again.
            tracing::warn!(%directory, %error, "unfinished SSTables stay for now");
            return Ok(result);
        }
    };
    for name in removed.iter().chain(&moved) {
        let generation = generation_of(name);
        let is_live = generation.is_none_or(|generation| live.contains(&generation));
        assert!(!is_live, "{name} was cleared away, which a manifest names");
    }
    if !removed.is_empty() {
        tracing::info!(%directory, files = removed.len(), "removed unfinished SSTables");
    }
    if !moved.is_empty() {
        tracing::warn!(%directory, ?moved, "SSTables that no manifest names were moved to 'lost'");
    }
    let mut set_aside: BTreeMap<u64, SetAside> = BTreeMap::new();
    for name in &moved {
        let set = set_aside.entry(generation_of(name).unwrap_or_default()).or_default();
        set.files.push(lost.join(name));
        if name.ends_with(Component::Statistics.suffix()) {
            set.replay = stated_positions(&**disk, &lost.join(name)).await;
        }
    }
    result.set_aside = set_aside.into_values().collect();
    Ok(result)
}

pub(super) fn manifest_name(shard: u32, shard_count: u32) -> String {
    format!("manifest-{shard}-of-{shard_count}")
}

/// Manifests that are there and those that must be, each with what it must have reached.
fn manifests_of(names: &[String], reached: &Reached) -> Reached {
    let there = names.iter().filter_map(|name| Some((parse_manifest_name(name)?, 0)));
    let mut all: Reached = there.collect();
    all.extend(reached.iter().map(|(log, sequence)| (*log, *sequence)));
    all
}

fn parse_manifest_name(name: &str) -> Option<(u32, u32)> {
    let (shard, count) = name.strip_prefix("manifest-")?.split_once("-of-")?;
    Some((shard.parse().ok()?, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        assert_eq!(parse_manifest_name(&manifest_name(3, 8)), Some((3, 8)));
        assert_eq!(parse_manifest_name("manifest-3-of-8.tmp"), None);
        assert_eq!(generation_of("me-17-big-Data.db"), Some(17));
        assert_eq!(generation_of("manifest-3-of-8"), None);
    }
}
