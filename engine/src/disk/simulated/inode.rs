//! Content of one simulated file: what readers see, what is stable, and what lies between.
//!
//! Invariant: `stable` plus every change in `pending`, in order, gives `live` - until a failed sync
//! drops changes. A power cut picks, change by change, what survives.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::clock::Random;
use crate::config::{PAGE_BYTES, SECTOR_BYTES};

pub(super) type Page = Rc<[u8; PAGE_BYTES]>;

/// Size and pages of a file; a page that is missing reads as zeros.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub size: u64,
    pages: BTreeMap<u64, Page>,
}

impl Content {
    fn put(&mut self, page: u64, bytes: Page) {
        self.pages.insert(page, bytes);
    }

    fn resize(&mut self, size: u64) {
        if size < self.size {
            let page = PAGE_BYTES as u64;
            self.pages.split_off(&size.div_ceil(page));
            let rest = (size % page) as usize;
            if rest > 0
                && let Some(last) = self.pages.get_mut(&(size / page))
            {
                Rc::make_mut(last)[rest..].fill(0);
            }
        }
        self.size = size;
    }

    /// Copies what stands at `offset` into `out`; returns how many bytes lie before the end.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        let length = self.size.saturating_sub(offset).min(out.len() as u64) as usize;
        for (at, chunk) in out[..length].chunks_mut(PAGE_BYTES).enumerate() {
            match self.pages.get(&(offset / PAGE_BYTES as u64 + at as u64)) {
                Some(page) => chunk.copy_from_slice(&page[..chunk.len()]),
                None => chunk.fill(0),
            }
        }
        length
    }
}

/// A change that no sync has made stable yet.
#[derive(Debug, Clone)]
enum Change {
    Page { page: u64, bytes: Page },
    Size(u64),
}

/// A file, whatever its names are.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    pub live: Content,
    stable: Content,
    /// In order of their numbers.
    pending: Vec<(u64, Change)>,
    next_change: u64,
    /// Writes that were started and not finished, by operation.
    in_flight: BTreeMap<u64, (u64, Vec<Page>)>,
    pub allocated_bytes: u64,
    pub handles: u32,
}

impl Inode {
    /// Bytes of disk the file takes up.
    pub fn disk_bytes(&self) -> u64 {
        self.allocated_bytes.max((self.live.pages.len() * PAGE_BYTES) as u64)
    }

    /// Bytes of disk a write of `pages` pages at page `first` would add.
    pub fn growth_bytes(&self, first: u64, pages: u64) -> u64 {
        let new = (first..first + pages)
            .filter(|page| (page + 1) * PAGE_BYTES as u64 > self.allocated_bytes)
            .filter(|page| !self.live.pages.contains_key(page))
            .count();
        (new * PAGE_BYTES) as u64
    }

    pub fn begin_write(&mut self, operation: u64, first: u64, pages: Vec<Page>) {
        self.in_flight.insert(operation, (first, pages));
    }

    /// Ends a write. `stable` makes it durable at once, as O_DSYNC does.
    pub fn finish_write(&mut self, operation: u64, stable: bool) {
        let Some((first, pages)) = self.in_flight.remove(&operation) else { return };
        let end = (first + pages.len() as u64) * PAGE_BYTES as u64;
        if end > self.live.size {
            self.resize(end);
        }
        for (page, bytes) in (first..).zip(&pages) {
            self.put(page, bytes.clone());
        }
        let cuts = |change: &Change| matches!(change, Change::Size(size) if *size < end);
        if stable && (end > self.stable.size || self.pending.iter().any(|(_, change)| cuts(change)))
        {
            // The size must become stable too, and a journal takes everything before along.
            self.commit(self.next_change);
        } else if stable {
            let written = first..first + pages.len() as u64;
            self.pending.retain(
                |(_, change)| !matches!(change, Change::Page { page, .. } if written.contains(page)),
            );
            for (page, bytes) in (first..).zip(pages) {
                self.stable.put(page, bytes);
            }
        }
    }

    /// Ends a write that failed: each sector was written or not.
    pub fn fail_write(&mut self, operation: u64, random: &mut Random) {
        let Some((first, pages)) = self.in_flight.remove(&operation) else { return };
        for (page, bytes) in (first..).zip(pages) {
            if (page + 1) * PAGE_BYTES as u64 <= self.live.size {
                let torn = torn(self.live.pages.get(&page), &bytes, random);
                self.put(page, torn);
            }
        }
    }

    /// Ends a write that never reached the disk.
    pub fn undo_write(&mut self, operation: u64) {
        self.in_flight.remove(&operation);
    }

    fn put(&mut self, page: u64, bytes: Page) {
        self.live.put(page, bytes.clone());
        self.push(Change::Page { page, bytes });
    }

    fn push(&mut self, change: Change) {
        self.pending.push((self.next_change, change));
        self.next_change += 1;
    }

    pub fn resize(&mut self, size: u64) {
        self.live.resize(size);
        self.push(Change::Size(size));
        self.allocated_bytes = self.allocated_bytes.min(size.next_multiple_of(PAGE_BYTES as u64));
    }

    /// Number of the next change; a sync takes it when it begins.
    pub fn next_change(&self) -> u64 {
        self.next_change
    }

    /// Makes every change before number `until` stable.
    pub fn commit(&mut self, until: u64) {
        let count = self.pending.partition_point(|(number, _)| *number < until);
        for (_, change) in self.pending.drain(..count) {
            match change {
                Change::Page { page, bytes } => self.stable.put(page, bytes),
                Change::Size(size) => self.stable.resize(size),
            }
        }
    }

    /// A failed sync: each unsynced page may be forgotten, and what readers see of it with it.
    pub fn drop_some(&mut self, random: &mut Random) {
        let (stable, live) = (&self.stable, &mut self.live);
        self.pending.retain(|(_, change)| {
            let Change::Page { page, .. } = change else { return true };
            if random.one_in(2) {
                return true;
            }
            if random.one_in(2) {
                match stable.pages.get(page) {
                    Some(old) => live.pages.insert(*page, old.clone()),
                    None => live.pages.remove(page),
                };
            }
            false
        });
    }

    /// The file as it stands after a power cut.
    pub fn after_power_cut(&self, random: &mut Random) -> Inode {
        let mut content = self.stable.clone();
        // Sizes reach the disk in order, so the last one that did decides.
        let sizes =
            self.pending.iter().filter(|(_, change)| matches!(change, Change::Size(_))).count();
        let mut sizes_kept = random.below(sizes as u64 + 1);
        let mut size = content.size;
        let mut survive = |content: &mut Content, page: u64, bytes: &Page| {
            let kept = match random.below(3) {
                0 => return,
                1 => bytes.clone(),
                _ => torn(content.pages.get(&page), bytes, random),
            };
            content.put(page, kept);
        };
        content.size = u64::MAX;
        for (_, change) in &self.pending {
            match change {
                Change::Page { page, bytes } => survive(&mut content, *page, bytes),
                Change::Size(to) if sizes_kept > 0 => {
                    sizes_kept -= 1;
                    content.resize(*to);
                    content.size = u64::MAX;
                    size = *to;
                }
                Change::Size(_) => {}
            }
        }
        for (first, pages) in self.in_flight.values() {
            for (page, bytes) in (*first..).zip(pages) {
                survive(&mut content, page, bytes);
            }
        }
        content.resize(size);
        let allocated_bytes = self.allocated_bytes.min(size.next_multiple_of(PAGE_BYTES as u64));
        Inode { live: content.clone(), stable: content, allocated_bytes, ..Inode::default() }
    }

    /// Flips bits of one byte everywhere it is kept; returns whether the file has that byte.
    pub fn flip(&mut self, offset: u64, flip: u8) -> bool {
        let (page, at) = (offset / PAGE_BYTES as u64, (offset % PAGE_BYTES as u64) as usize);
        let turn = |content: &mut Content| {
            let bytes = content.pages.entry(page).or_insert_with(|| Rc::new([0; PAGE_BYTES]));
            Rc::make_mut(bytes)[at] ^= flip;
        };
        if offset >= self.live.size {
            return false;
        }
        turn(&mut self.live);
        let mut pending = false;
        for (_, change) in &mut self.pending {
            if let Change::Page { page: changed, bytes } = change
                && *changed == page
            {
                Rc::make_mut(bytes)[at] ^= flip;
                pending = true;
            }
        }
        if !pending && offset < self.stable.size {
            turn(&mut self.stable);
        }
        true
    }
}

/// A page of which each sector is old or new.
fn torn(old: Option<&Page>, new: &Page, random: &mut Random) -> Page {
    let mut torn = old.map_or([0; PAGE_BYTES], |old| **old);
    for sector in (0..PAGE_BYTES).step_by(SECTOR_BYTES) {
        if random.one_in(2) {
            torn[sector..sector + SECTOR_BYTES]
                .copy_from_slice(&new[sector..sector + SECTOR_BYTES]);
        }
    }
    Rc::new(torn)
}
