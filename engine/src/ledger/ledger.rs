//! The ledger of one shard: read at the start, added to while it runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::frame;
use crate::config::PAGE_BYTES;
use crate::disk::{Access, AlignedBuffer, Disk, DiskFile, OpenOptions, read_file, remove_if_there};
use crate::error::{Error, Result};
use crate::schema::TableId;

const MAGIC: [u8; 4] = *b"TGLD";
/// Pages that are reserved when the file is made: an entry that lets room go needs none.
const PAGES: usize = 64;
/// From so many pages on the file is written anew, while there is room for that.
const PAGES_FULL: usize = 32;

/// One thing that is known from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The manifest of a table has a frame of this sequence.
    Manifest { table: TableId, sequence: u64 },
    /// The catalog has reached this version.
    Catalog { version: u64 },
    /// The table was dropped.
    Dropped { table: TableId },
    /// Numbers of SSTables of a table up to this one were given, though their files may be gone.
    Numbered { table: TableId, generation: u64 },
    /// A commitlog segment is there, of so many bytes; what it holds is not known.
    Segment { id: u64, bytes: u64 },
    /// No more is written to a segment. It holds records of these tables that no SSTable had at
    /// that moment, the last of each at this offset.
    Finished { id: u64, tables: BTreeMap<TableId, u32> },
    /// SSTables have what the segments held, or they held nothing.
    Released { ids: Vec<u64> },
}

/// A commitlog segment that must be there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentEntry {
    /// Size of the file.
    pub bytes: u64,
    /// Offset of the last record of each table that was in no SSTable when the segment was
    /// finished; none when it was not finished, and may hold records of any table.
    pub tables: Option<BTreeMap<TableId, u32>>,
}

impl SegmentEntry {
    /// Whether the segment `id` may hold a record of `table`, at `from` or behind it, that is in no
    /// SSTable; those have all up to `flushed`, a segment and an offset.
    pub fn may_hold(
        &self,
        (id, from): (u64, u32),
        table: TableId,
        flushed: Option<(u64, u32)>,
    ) -> bool {
        match &self.tables {
            Some(tables) => {
                let last = tables.get(&table).filter(|last| **last >= from);
                last.is_some_and(|last| flushed < Some((id, *last)))
            }
            None => flushed.is_none_or(|(segment, _)| segment <= id),
        }
    }
}

/// All that a ledger says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// By table, the sequence that its manifest has reached.
    pub manifests: BTreeMap<TableId, u64>,
    /// The version that the catalog has reached.
    pub catalog: u64,
    /// By table, the greatest number of an SSTable whose files were removed.
    pub generations: BTreeMap<TableId, u64>,
    /// By id.
    pub segments: BTreeMap<u64, SegmentEntry>,
    /// Greatest segment id that was ever named.
    pub segment_max: u64,
}

impl Known {
    pub(super) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Manifest { table, sequence } => {
                let known = self.manifests.entry(*table).or_default();
                *known = (*known).max(*sequence);
            }
            Entry::Catalog { version } => self.catalog = self.catalog.max(*version),
            Entry::Dropped { table } => {
                self.manifests.remove(table);
                self.generations.remove(table);
            }
            Entry::Numbered { table, generation } => {
                let known = self.generations.entry(*table).or_default();
                *known = (*known).max(*generation);
            }
            Entry::Segment { id, bytes } => {
                let entry = SegmentEntry { bytes: *bytes, tables: None };
                self.segments.insert(*id, entry);
                self.segment_max = self.segment_max.max(*id);
            }
            Entry::Finished { id, tables } => {
                if let Some(segment) = self.segments.get_mut(id) {
                    segment.tables = Some(tables.clone());
                }
            }
            Entry::Released { ids } => {
                for id in ids {
                    self.segments.remove(id);
                }
            }
        }
    }

    /// Entries that say all of it again.
    fn entries(&self) -> Vec<Entry> {
        let manifests = self.manifests.iter();
        let manifests = manifests
            .map(|(table, sequence)| Entry::Manifest { table: *table, sequence: *sequence });
        let generations = self.generations.iter();
        let generations = generations
            .map(|(table, generation)| Entry::Numbered { table: *table, generation: *generation });
        // The greatest id comes along though its segment may be gone.
        let id = self.segment_max;
        let greatest = [Entry::Segment { id, bytes: 0 }, Entry::Released { ids: vec![id] }];
        let segments = self.segments.iter().flat_map(|(id, segment)| {
            let finished = segment.tables.clone();
            let finished = finished.map(|tables| Entry::Finished { id: *id, tables });
            [Entry::Segment { id: *id, bytes: segment.bytes }].into_iter().chain(finished)
        });
        let catalog = [Entry::Catalog { version: self.catalog }];
        manifests.chain(catalog).chain(generations).chain(greatest).chain(segments).collect()
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger({})", self.path.display())
    }
}

/// The ledger of one shard. Its entries come one at a time, in the order of the calls.
pub struct Ledger {
    disk: Rc<dyn Disk>,
    path: PathBuf,
    known: RefCell<Known>,
    /// Entries that go along with the next that is recorded.
    waiting: RefCell<Vec<Entry>>,
    /// The file was there, and nothing of it was damaged.
    was_whole: bool,
    file: tokio::sync::Mutex<LedgerFile>,
}

#[derive(Default)]
struct LedgerFile {
    file: Option<Rc<dyn DiskFile>>,
    /// Pages of whole frames.
    pages: usize,
    /// Of these, the pages of the first frame, which says all that was known then.
    first_pages: usize,
    next_sequence: u64,
    /// What is on disk is not known, or is damaged: the next entry replaces the whole file.
    is_broken: bool,
}

impl Ledger {
    /// Reads the ledger at `path`; a missing one knows nothing. Frames that are damaged are left
    /// out and told of.
    ///
    /// Errors: `Io`.
    pub async fn open(disk: Rc<dyn Disk>, path: &Path) -> Result<Rc<Ledger>> {
        let mut known = Known::default();
        let mut file = LedgerFile { next_sequence: 1, ..LedgerFile::default() };
        match read_file(&*disk, path).await {
            Ok(content) => file.replay(path, &content, &mut known),
            Err(error) if error.is_missing_file() => file.is_broken = true,
            Err(error) => return Err(error),
        }
        Ok(Rc::new(Ledger {
            disk,
            path: path.to_owned(),
            known: RefCell::new(known),
            waiting: RefCell::default(),
            was_whole: !file.is_broken,
            file: tokio::sync::Mutex::new(file),
        }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was there when it was opened, and whole.
    pub fn was_whole(&self) -> bool {
        self.was_whole
    }

    /// What it says as of now.
    pub fn known(&self) -> Known {
        self.known.borrow().clone()
    }

    /// The sequence that the manifest of a table has reached; 0 where nothing is known.
    pub fn manifest(&self, table: TableId) -> u64 {
        self.known.borrow().manifests.get(&table).copied().unwrap_or(0)
    }

    /// Greatest segment id that it ever named; 0 for none.
    pub fn segment_max(&self) -> u64 {
        self.known.borrow().segment_max
    }

    /// Whether it names a segment.
    pub fn names_segment(&self, id: u64) -> bool {
        self.known.borrow().segments.contains_key(&id)
    }

    /// Makes entries durable. They are true already: what they name is durable.
    ///
    /// Errors: `Io`; then nobody knows whether they are on disk. The next call writes them again.
    pub async fn record(&self, entries: Vec<Entry>) -> Result<()> {
        let mut file = self.file.lock().await;
        entries.iter().for_each(|entry| self.known.borrow_mut().apply(entry));
        let mut all = self.waiting.take();
        all.extend(entries);
        if all.is_empty() && !file.is_broken {
            return Ok(());
        }
        let result = self.write(&mut file, &all).await;
        file.is_broken = result.is_err();
        if file.is_broken {
            file.file = None;
        }
        result
    }

    /// Has an entry recorded along with the next: for what does no harm when it is forgotten.
    pub fn record_later(&self, entry: Entry) {
        self.known.borrow_mut().apply(&entry);
        self.waiting.borrow_mut().push(entry);
    }

    async fn write(&self, file: &mut LedgerFile, entries: &[Entry]) -> Result<()> {
        let frame = frame::encode(MAGIC, file.next_sequence, &entries);
        let pages = frame.len() / PAGE_BYTES;
        let used = file.pages + pages - file.first_pages;
        let fits = !file.is_broken && used <= PAGES;
        if !fits || used > PAGES_FULL {
            match self.rewrite(file).await {
                // The room that was reserved serves meanwhile.
                Err(error) if fits && error.is_disk_full() => {}
                result => return result,
            }
        }
        let handle = match &file.file {
            Some(handle) => handle.clone(),
            None => {
                let options = OpenOptions { access: Access::ReadWrite, data_sync: true };
                let handle = self.disk.open(&self.path, options).await?;
                file.file.insert(handle).clone()
            }
        };
        let offset = (file.pages * PAGE_BYTES) as u64;
        handle.write_at(offset, AlignedBuffer::padded(&frame)).await.0?;
        file.pages += pages;
        file.next_sequence += 1;
        Ok(())
    }

    /// Replaces the file by one that says what is known, with room for more.
    async fn rewrite(&self, file: &mut LedgerFile) -> Result<()> {
        let folder = self.path.parent().ok_or_else(|| Error::invalid("a ledger has a folder"))?;
        self.disk.create_directories(folder).await?;
        if let Some(above) = folder.parent() {
            self.disk.sync_directory(above).await?;
        }
        let entries = self.known.borrow().entries();
        let frame = frame::encode(MAGIC, file.next_sequence, &entries);
        let pages = frame.len() / PAGE_BYTES;
        let beside = self.path.with_extension("tmp");
        remove_if_there(&*self.disk, &beside).await?;
        let made = async {
            let fresh = self.disk.open(&beside, OpenOptions::CREATE).await?;
            fresh.allocate(((pages + PAGES) * PAGE_BYTES) as u64).await?;
            fresh.write_at(0, AlignedBuffer::padded(&frame)).await.0?;
            fresh.sync().await?;
            self.disk.rename(&beside, &self.path).await?;
            self.disk.sync_directory(folder).await
        };
        let made = made.await;
        if made.is_err() {
            // Half a file must not take the room that others wait for.
            let _ = remove_if_there(&*self.disk, &beside).await;
        }
        made?;
        file.file = None;
        (file.pages, file.first_pages) = (pages, pages);
        file.next_sequence += 1;
        Ok(())
    }
}

impl LedgerFile {
    fn replay(&mut self, path: &Path, content: &[u8], known: &mut Known) {
        let (mut at, mut damage) = (0, None);
        while at < content.len() {
            match frame::parse::<Vec<Entry>>(MAGIC, &content[at..]) {
                Some((sequence, entries, length)) => {
                    entries.iter().for_each(|entry| known.apply(entry));
                    self.next_sequence = sequence + 1;
                    if self.pages == 0 {
                        self.first_pages = length / PAGE_BYTES;
                    }
                    at += length;
                    self.pages = at / PAGE_BYTES;
                    if let Some(damage) = damage.take() {
                        let path = path.display();
                        tracing::warn!(%path, damage, "a ledger is damaged: some of it is unknown");
                    }
                }
                None => {
                    let page = &content[at..content.len().min(at + PAGE_BYTES)];
                    if page.iter().any(|byte| *byte != 0) {
                        damage.get_or_insert(at);
                        self.is_broken = true;
                    }
                    at += PAGE_BYTES;
                }
            }
        }
    }
}
