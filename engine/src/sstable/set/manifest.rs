//! Which SSTables of a table and shard are live: an append-only log of edits.
//!
//! ```text
//! file   := frame*                         each frame starts at a page boundary
//! frame  := "TGMF", u32 CRC of what follows, u32 length, u64 sequence, JSON, zeros to the page end
//! JSON   := list of edits, applied as a whole or not at all
//! ```
//! Invariants: sequences ascend by one; a frame is durable before `append` returns, so only the
//! last frame can be torn, and a torn one was never acknowledged. A damaged frame with a good one
//! behind it is corruption, not a torn tail; [`Manifest::seal`] puts one there. Not here:
//! files that no manifest names (`leftover`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::commitlog::ReplayPosition;
use crate::config::PAGE_BYTES;
use crate::disk::{
    Access, AlignedBuffer, Disk, DiskFile, OpenOptions, read_file, write_file_atomically,
};
use crate::error::{Error, Result};
use crate::ledger::frame;
use crate::sstable::format::info::SstableInfo;

const MAGIC: [u8; 4] = *b"TGMF";
/// The log is rewritten as one frame when it has this many at least, and has become twice as long
/// as it was then: so what a rewrite costs an edit does not grow with the number of SSTables.
const FRAMES_MAX: usize = 256;

/// One change of the set of live SSTables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "most edits add an SSTable")]
pub enum Edit {
    /// An SSTable is live from now on. `replay_through`, where given, says that the commitlog up to
    /// there is in SSTables. `run` is the run that it is a fragment of, if not one by itself.
    Add {
        info: SstableInfo,
        replay_through: Option<ReplayPosition>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<u64>,
    },
    /// An SSTable is not live any more: others have all that it holds. Its files may go.
    Remove { generation: u64 },
    /// Files of these numbers hold nothing that live SSTables do not, whole or not: they may go
    /// unless a later edit adds them. So says a compaction before it writes.
    Spent { generations: Vec<u64> },
    /// The files of these numbers are gone.
    Gone { generations: Vec<u64> },
    /// The commitlog up to `through` is in SSTables, or held nothing for this table.
    Flushed { through: ReplayPosition },
    /// What this shard owns of an SSTable that the manifest of another shard count names is in
    /// SSTables of this manifest, or purged: whoever reads that SSTable leaves it out.
    Taken { generation: u64 },
    /// No manifest names these SSTables any more of which parts were taken.
    Released { generations: Vec<u64> },
}

/// What takes an edit back that could not be made durable.
enum Undo {
    Added {
        generation: u64,
        was_spent: bool,
    },
    Removed {
        info: Box<SstableInfo>,
        run: Option<u64>,
    },
    /// Those that were not spent before.
    Spent {
        generations: Vec<u64>,
    },
    /// Those that were spent before.
    Gone {
        generations: Vec<u64>,
    },
    Taken {
        generation: u64,
    },
    /// Those of which a part was taken before.
    Released {
        generations: Vec<u64>,
    },
}

/// The live SSTables of one table in one shard.
pub struct Manifest {
    disk: Rc<dyn Disk>,
    path: PathBuf,
    /// Bytes of whole frames.
    size: u64,
    /// Bytes of the first frame: of everything, as it was when the log was rewritten last.
    base: u64,
    frames: usize,
    next_sequence: u64,
    /// Sequence of the last frame that has edits; 0 for none.
    edited: u64,
    live: BTreeMap<u64, SstableInfo>,
    /// Runs of those that are fragments of one.
    runs: BTreeMap<u64, u64>,
    /// Numbers of files that may be there and may go.
    spent: BTreeSet<u64>,
    /// SSTables of other manifests whose part of this shard is in SSTables of this one.
    taken: BTreeSet<u64>,
    /// Greatest number that was ever live or spent.
    number_max: u64,
    flushed_through: Option<ReplayPosition>,
    /// An append failed: what is on disk is not known.
    is_broken: bool,
}

impl Manifest {
    /// A manifest that names nothing, of a table that is never written.
    pub fn empty(disk: Rc<dyn Disk>, path: &Path) -> Self {
        Manifest {
            disk,
            path: path.to_owned(),
            size: 0,
            base: 0,
            frames: 0,
            next_sequence: 1,
            edited: 0,
            live: BTreeMap::new(),
            runs: BTreeMap::new(),
            spent: BTreeSet::new(),
            taken: BTreeSet::new(),
            number_max: 0,
            flushed_through: None,
            is_broken: false,
        }
    }

    /// Reads the manifest at `path`; a missing one is empty. A torn last frame is dropped.
    ///
    /// Errors: `Io`; `Corrupt` for damage before the last frame, and for edits that contradict each
    /// other.
    pub async fn open(disk: Rc<dyn Disk>, path: &Path) -> Result<Self> {
        Manifest::open_from(disk, path, 0).await
    }

    /// As [`open`](Self::open), of a manifest that is known to have had the frame `reached`.
    ///
    /// Errors: as `open`; `Corrupt`, and nothing was changed, when it has that frame no more.
    pub async fn open_from(disk: Rc<dyn Disk>, path: &Path, reached: u64) -> Result<Self> {
        let mut manifest = Manifest::empty(disk.clone(), path);
        let content = match read_file(&*disk, path).await {
            Ok(content) => content,
            Err(error) if error.is_missing_file() => Vec::new(),
            Err(error) => return Err(error),
        };
        manifest.replay(&content)?;
        manifest.check_reaches(reached)?;
        // A frame without the end of its padding is whole, but nothing can be written behind it.
        let is_cut = !manifest.size.is_multiple_of(PAGE_BYTES as u64);
        if is_cut || (manifest.size as usize) < content.len() {
            match manifest.rewrite().await {
                Ok(()) => {}
                // The next edit does it, when there is room.
                Err(error) if error.is_disk_full() => {
                    let path = path.display();
                    tracing::warn!(%path, %error, "the torn end of a manifest stays for now");
                    manifest.is_broken = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(manifest)
    }

    /// Sequence of the last frame that has edits; 0 for none.
    pub fn edited(&self) -> u64 {
        self.edited
    }

    fn check_reaches(&self, sequence: u64) -> Result<()> {
        let last = self.next_sequence - 1;
        if last >= sequence {
            return Ok(());
        }
        let found = match self.frames {
            0 => "no frame that is whole: the file is missing, empty or damaged".to_owned(),
            _ => format!("frames up to {last}: the file is an older one, was cut or is damaged"),
        };
        let folder = self.path.parent().unwrap_or(&self.path).display();
        let remedy = format!(
            "bring the file back; or, as its SSTables are still there, IMPORT SSTABLES '{folder}' \
             INTO another table of the same columns, and then DROP this one"
        );
        let wanted = format!("frame {sequence}, which the ledger names");
        Err(Error::corrupt(&self.path, self.size, wanted, found).with_remedy(remedy))
    }

    fn replay(&mut self, content: &[u8]) -> Result<()> {
        let mut at = 0;
        while at < content.len() {
            let Some((sequence, edits, end)) = frame::parse::<Vec<Edit>>(MAGIC, &content[at..])
            else {
                return self.check_torn(content, at);
            };
            if self.frames > 0 && sequence != self.next_sequence {
                let wanted = format!("sequence {}", self.next_sequence);
                return Err(Error::corrupt(&self.path, at as u64, wanted, sequence));
            }
            if !edits.is_empty() {
                self.edited = sequence;
            }
            self.apply(edits).map_err(|found| {
                Error::corrupt(&self.path, at as u64, "edits that follow from the others", found)
            })?;
            self.next_sequence = sequence + 1;
            self.frames += 1;
            at += end;
            self.size = at as u64;
            if self.frames == 1 {
                self.base = self.size;
            }
        }
        Ok(())
    }

    /// Nothing good may follow a frame that cannot be read.
    fn check_torn(&self, content: &[u8], at: usize) -> Result<()> {
        let later = (at + PAGE_BYTES..content.len()).step_by(PAGE_BYTES);
        for later in later {
            if let Some((sequence, ..)) = frame::parse::<Vec<Edit>>(MAGIC, &content[later..])
                && sequence > self.next_sequence
            {
                let found = format!("damage, and frame {sequence} at {later}");
                let wanted = format!("frame {}", self.next_sequence);
                return Err(Error::corrupt(&self.path, at as u64, wanted, found));
            }
        }
        tracing::warn!(path = %self.path.display(), at, "dropped the torn end of a manifest");
        Ok(())
    }

    /// Applies edits one after another, and says what takes them back, in the order in which they
    /// were applied.
    fn apply(&mut self, edits: Vec<Edit>) -> std::result::Result<Vec<Undo>, String> {
        let mut undo = Vec::with_capacity(edits.len());
        for edit in edits {
            let through = match edit {
                Edit::Add { info, replay_through, run } => {
                    let generation = info.generation;
                    let was_spent = self.spent.remove(&generation);
                    self.number_max = self.number_max.max(generation);
                    if self.live.insert(generation, info).is_some() {
                        return Err(format!("SSTable {generation} added twice"));
                    }
                    self.runs.extend(run.map(|run| (generation, run)));
                    undo.push(Undo::Added { generation, was_spent });
                    replay_through
                }
                Edit::Remove { generation } => {
                    let Some(info) = self.live.remove(&generation) else {
                        return Err(format!("SSTable {generation} removed, which is not live"));
                    };
                    let run = self.runs.remove(&generation);
                    self.spent.insert(generation);
                    undo.push(Undo::Removed { info: Box::new(info), run });
                    None
                }
                Edit::Spent { mut generations } => {
                    if let Some(live) = generations.iter().find(|g| self.live.contains_key(g)) {
                        return Err(format!("SSTable {live} is spent and live"));
                    }
                    let highest = generations.iter().copied().max().unwrap_or(0);
                    self.number_max = self.number_max.max(highest);
                    generations.retain(|generation| self.spent.insert(*generation));
                    undo.push(Undo::Spent { generations });
                    None
                }
                Edit::Gone { mut generations } => {
                    generations.retain(|generation| self.spent.remove(generation));
                    undo.push(Undo::Gone { generations });
                    None
                }
                Edit::Flushed { through } => Some(through),
                Edit::Taken { generation } => {
                    if self.live.contains_key(&generation) || !self.taken.insert(generation) {
                        return Err(format!("SSTable {generation} is live, or was taken before"));
                    }
                    undo.push(Undo::Taken { generation });
                    None
                }
                Edit::Released { mut generations } => {
                    generations.retain(|generation| self.taken.remove(generation));
                    undo.push(Undo::Released { generations });
                    None
                }
            };
            self.flushed_through = self.flushed_through.max(through);
        }
        Ok(undo)
    }

    /// Takes back what `apply` did, the latest first.
    fn take_back(&mut self, undo: Vec<Undo>) {
        for undo in undo.into_iter().rev() {
            match undo {
                Undo::Added { generation, was_spent } => {
                    self.live.remove(&generation);
                    self.runs.remove(&generation);
                    if was_spent {
                        self.spent.insert(generation);
                    }
                }
                Undo::Removed { info, run } => {
                    let generation = info.generation;
                    self.spent.remove(&generation);
                    self.runs.extend(run.map(|run| (generation, run)));
                    self.live.insert(generation, *info);
                }
                Undo::Spent { generations } => {
                    self.spent.retain(|generation| !generations.contains(generation));
                }
                Undo::Gone { generations } => self.spent.extend(generations),
                Undo::Taken { generation } => _ = self.taken.remove(&generation),
                Undo::Released { generations } => self.taken.extend(generations),
            }
        }
    }

    /// The live SSTables by generation.
    pub fn live(&self) -> &BTreeMap<u64, SstableInfo> {
        &self.live
    }

    /// The run that a live SSTable is a fragment of: its own number where it is a run by itself.
    pub fn run(&self, generation: u64) -> u64 {
        self.runs.get(&generation).copied().unwrap_or(generation)
    }

    /// Numbers of SSTables that are not live and whose files, if there are any, hold nothing that
    /// live ones do not.
    pub fn spent(&self) -> &BTreeSet<u64> {
        &self.spent
    }

    /// Numbers of SSTables that other manifests name, or named, and whose part of this shard is in
    /// SSTables of this one.
    pub fn taken(&self) -> &BTreeSet<u64> {
        &self.taken
    }

    /// Greatest number that it ever named: a greater one is new.
    pub fn number_max(&self) -> u64 {
        self.number_max
    }

    /// Up to where the commitlog need not be replayed for this table and shard.
    pub fn flushed_through(&self) -> Option<ReplayPosition> {
        self.flushed_through
    }

    /// Makes edits durable, all or none, and applies them.
    ///
    /// Panics when they contradict the live set: that is a bug of the caller.
    /// Errors: `Io`; the live set is as before then. What such an append left on disk is not known,
    /// so the next one replaces the whole file.
    pub async fn append(&mut self, edits: Vec<Edit>) -> Result<()> {
        let before = (self.flushed_through, self.edited);
        if !edits.is_empty() {
            self.edited = self.next_sequence;
        }
        let frame = frame::encode(MAGIC, self.next_sequence, &edits);
        for edit in &edits {
            if let Edit::Add { info, .. } = edit {
                let SstableInfo { generation, partitions, first_key, last_key, .. } = info;
                assert!(
                    *partitions > 0 && first_key <= last_key,
                    "SSTable {generation}: {partitions} partitions, {first_key:?} to {last_key:?}"
                );
            }
        }
        let undo = match self.apply(edits) {
            Ok(undo) => undo,
            Err(wrong) => panic!("{}: {wrong}", self.path.display()),
        };
        let (was, is) = (before.0, self.flushed_through);
        assert!(was <= is, "{}: flushed up to {is:?}, was {was:?}", self.path.display());
        let must_rewrite = std::mem::replace(&mut self.is_broken, true);
        let is_long = self.frames >= FRAMES_MAX && self.size >= 2 * self.base;
        let written =
            if must_rewrite || is_long { self.rewrite().await } else { self.write(frame).await };
        match written {
            Ok(()) => self.is_broken = false,
            Err(_) => {
                self.take_back(undo);
                (self.flushed_through, self.edited) = before;
            }
        }
        let (edited, next) = (self.edited, self.next_sequence);
        assert!(edited < next, "frame {edited} has edits, {next} is the next one");
        written
    }

    /// Puts an empty frame behind the last one: from now on damage of that is told from a torn end.
    /// To be called before anything is forgotten that the last edits replace.
    ///
    /// Errors: as `append`; the edits before are durable all the same.
    pub async fn seal(&mut self) -> Result<()> {
        self.append(Vec::new()).await
    }

    async fn write(&mut self, frame: Vec<u8>) -> Result<()> {
        // Opened for each append: with many tables the descriptors would be missed elsewhere.
        let file = self.open_file().await?;
        let (length, page) = (frame.len() as u64, PAGE_BYTES as u64);
        assert!(
            self.size.is_multiple_of(page) && length.is_multiple_of(page),
            "a frame of {length} bytes at {}, across pages",
            self.size
        );
        let (result, _) = file.write_at(self.size, AlignedBuffer::padded(&frame)).await;
        result?;
        file.sync().await?;
        if self.frames == 0
            && let Some(directory) = self.path.parent()
        {
            self.disk.sync_directory(directory).await?;
        }
        if self.frames == 0 {
            self.base = length;
        }
        self.size += length;
        self.frames += 1;
        self.next_sequence += 1;
        Ok(())
    }

    async fn open_file(&self) -> Result<Rc<dyn DiskFile>> {
        let access = if self.frames == 0 { Access::Create } else { Access::ReadWrite };
        let options = OpenOptions { access, data_sync: false };
        match self.disk.open(&self.path, options).await {
            // A crash between creation and first frame leaves an empty file.
            Err(Error::Io { code: Some(17), .. }) => {
                let options = OpenOptions { access: Access::ReadWrite, data_sync: false };
                self.disk.open(&self.path, options).await
            }
            opened => opened,
        }
    }

    /// Writes what is live to a file of the same name in another folder, of a directory without
    /// commitlogs: nothing there says how far one was flushed, or which files may go.
    ///
    /// Errors: `Io`.
    pub async fn copy_into(&self, folder: &Path) -> Result<()> {
        let name =
            self.path.file_name().ok_or_else(|| Error::invalid("a manifest needs a name"))?;
        let mut copy = Manifest::empty(self.disk.clone(), &folder.join(name));
        (copy.live, copy.runs) = (self.live.clone(), self.runs.clone());
        copy.number_max = self.number_max;
        copy.rewrite().await
    }

    /// Replaces the log by one frame that says the same, and one behind it.
    async fn rewrite(&mut self) -> Result<()> {
        let mut edits: Vec<Edit> = self
            .live
            .values()
            .map(|info| {
                let run = self.runs.get(&info.generation).copied();
                Edit::Add { info: info.clone(), replay_through: None, run }
            })
            .collect();
        // The greatest number is told though nothing of it may be left.
        let numbers = self.spent.iter().copied().chain([self.number_max]);
        let known = numbers.filter(|g| *g > 0 && !self.live.contains_key(g));
        let generations: Vec<u64> = known.collect();
        if !generations.is_empty() {
            edits.push(Edit::Spent { generations });
        }
        edits.extend(self.flushed_through.map(|through| Edit::Flushed { through }));
        edits.extend(self.taken.iter().map(|generation| Edit::Taken { generation: *generation }));
        let edited = self.next_sequence;
        let mut frames = frame::encode(MAGIC, self.next_sequence, &edits);
        let base = frames.len() as u64;
        frames.extend(frame::encode(MAGIC, self.next_sequence + 1, &[] as &[Edit; 0]));
        write_file_atomically(&*self.disk, &self.path, &frames).await?;
        (self.size, self.base) = (frames.len() as u64, base);
        assert!(self.size.is_multiple_of(PAGE_BYTES as u64), "{} bytes of frames", self.size);
        self.frames = 2;
        self.edited = edited;
        self.next_sequence += 2;
        Ok(())
    }
}
