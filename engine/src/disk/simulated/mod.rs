//! A disk in memory whose delays, faults and power cuts a seed decides.
//!
//! Every operation takes a drawn number of executor turns, so operations that run at the same time
//! finish in any order. What no sync covers is kept, lost or torn at a power cut: file content in
//! `inode.rs`, names in `names.rs`. Equal seeds and equal calls give equal runs.

mod file;
mod inode;
mod names;
mod operations;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::Disk;
use crate::clock::Random;
use crate::config::PAGE_BYTES;
use crate::error::{Error, Result};
use inode::Inode;
use names::{Entry, InodeNumber, Names};

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EBADF: i32 = 9;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const ENOTEMPTY: i32 = 39;

/// What may go wrong, and how slow the disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// One read in this many fails with EIO; 0 = none.
    pub read_error_one_in: u64,
    /// One write in this many fails with EIO, its sectors written or not; 0 = none.
    pub write_error_one_in: u64,
    /// One sync (of a file or directory) in this many fails with EIO; 0 = none. What a file's
    /// failed sync should have made durable may be forgotten for good, as Linux does.
    pub sync_error_one_in: u64,
    /// Room for file content; ENOSPC beyond it.
    pub capacity_bytes: Option<u64>,
    /// Descriptors that there are; EMFILE beyond them.
    pub open_files_max: Option<u64>,
    /// One creation of a file, rename or creation of a directory in this many fails with ENOSPC;
    /// 0 = none.
    pub name_error_one_in: u64,
    /// One transfer of several pages in this many ends early and is gone on with, as the kernel may
    /// have it; 0 = none.
    pub short_one_in: u64,
    /// One operation in this many hangs for thousands of turns; 0 = none.
    pub stall_one_in: u64,
    /// One write in this many is acknowledged and never happens; 0 = none.
    pub lost_write_one_in: u64,
    /// One write in this many is acknowledged and goes to another place of its file; 0 = none.
    pub misdirected_write_one_in: u64,
    /// Most executor turns that one operation takes.
    pub delay_turns_max: u32,
}

/// Turns that a hanging operation takes.
const STALL_TURNS: u32 = 2000;

impl Default for Faults {
    /// No faults, short delays.
    fn default() -> Self {
        Faults {
            read_error_one_in: 0,
            write_error_one_in: 0,
            sync_error_one_in: 0,
            capacity_bytes: None,
            open_files_max: None,
            name_error_one_in: 0,
            short_one_in: 0,
            stall_one_in: 0,
            lost_write_one_in: 0,
            misdirected_write_one_in: 0,
            delay_turns_max: 4,
        }
    }
}

/// What the disk was asked for since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub reads: u64,
    pub writes: u64,
    /// Syncs of files and directories.
    pub syncs: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

/// The simulated disk. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct SimulatedDisk {
    state: Rc<RefCell<State>>,
}

#[derive(Debug)]
struct State {
    random: Random,
    faults: Faults,
    counters: Counters,
    names: Names,
    inodes: BTreeMap<InodeNumber, Inode>,
    next_number: u64,
    /// Handles of files.
    open_files: u64,
    /// A folder in which no name may be made, changed or removed.
    read_only: Option<PathBuf>,
    /// The power is cut: nothing works any more.
    dead: bool,
}

impl State {
    fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.random.one_in(n)
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn inode(&mut self, number: InodeNumber) -> &mut Inode {
        self.inodes.get_mut(&number).expect("a file lives as long as its names and handles")
    }

    /// Whether the disk has room for `more` bytes.
    fn has_room(&self, more: u64) -> bool {
        let Some(capacity) = self.faults.capacity_bytes else { return true };
        if more == 0 {
            return true;
        }
        let linked = self.names.linked();
        let used: u64 = self
            .inodes
            .iter()
            .filter(|(number, inode)| inode.handles > 0 || linked.contains(number))
            .map(|(_, inode)| inode.disk_bytes())
            .sum();
        used + more <= capacity
    }

    /// Where a transfer that got to `done` of `wanted` bytes gets next; both are whole pages.
    fn piece_end(&mut self, done: usize, wanted: usize) -> usize {
        let pages = ((wanted - done) / PAGE_BYTES) as u64;
        let one_in = self.faults.short_one_in;
        if pages > 1 && self.one_in(one_in) {
            done + (1 + self.random.below(pages - 1) as usize) * PAGE_BYTES
        } else {
            wanted
        }
    }

    /// Fails when the disk has no room for a name.
    fn take_name(&mut self, operation: &'static str, path: &Path) -> Result<()> {
        let one_in = self.faults.name_error_one_in;
        if self.one_in(one_in) { Err(failed(operation, path, ENOSPC)) } else { Ok(()) }
    }

    /// Fails when no descriptor is free.
    fn take_descriptor(&self, operation: &'static str, path: &Path) -> Result<()> {
        match self.faults.open_files_max {
            Some(max) if self.open_files >= max => Err(failed(operation, path, EMFILE)),
            _ => Ok(()),
        }
    }

    /// Fails when the folder of `path` is read only.
    fn check_folder(&self, operation: &'static str, path: &Path) -> Result<()> {
        match &self.read_only {
            Some(folder) if path.parent() == Some(folder) => Err(failed(operation, path, EACCES)),
            _ => Ok(()),
        }
    }

    fn drop_unreachable(&mut self) {
        let reachable = self.names.reachable();
        self.inodes.retain(|number, inode| inode.handles > 0 || reachable.contains(number));
    }
}

impl SimulatedDisk {
    /// An empty disk without faults.
    pub fn new(seed: u64) -> Self {
        SimulatedDisk::with_faults(seed, Faults::default())
    }

    /// An empty disk.
    pub fn with_faults(seed: u64, faults: Faults) -> Self {
        SimulatedDisk::from_state(State {
            random: Random::new(seed),
            faults,
            counters: Counters::default(),
            names: Names::default(),
            inodes: BTreeMap::new(),
            next_number: 0,
            open_files: 0,
            read_only: None,
            dead: false,
        })
    }

    fn from_state(state: State) -> Self {
        SimulatedDisk { state: Rc::new(RefCell::new(state)) }
    }

    /// The disk as the engine takes it.
    pub fn shared(&self) -> Rc<dyn Disk> {
        Rc::new(self.clone())
    }

    pub fn faults(&self) -> Faults {
        self.state.borrow().faults
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state.borrow_mut().faults = faults;
    }

    /// Makes a folder read only, as for want of permission: what stands in it can be read and
    /// written, but names can neither be made nor changed. `None` lets everything be changed again.
    pub fn set_read_only(&self, folder: Option<&Path>) {
        self.state.borrow_mut().read_only = folder.map(Path::to_path_buf);
    }

    /// Handles of files that were not dropped yet.
    pub fn open_files(&self) -> u64 {
        self.state.borrow().open_files
    }

    pub fn counters(&self) -> Counters {
        self.state.borrow().counters
    }

    /// Cuts the power: this disk and its files answer EIO from now on. Returns the disk as it is
    /// found when the power is back, without faults but for its capacity.
    ///
    /// Each unsynced page is kept, lost or torn between sectors; the size is one the file had since
    /// its last sync; each creation, rename or removal since the last sync of its directory is done
    /// or undone, and undone too when it builds on one that is.
    pub fn power_cut(&self) -> SimulatedDisk {
        let mut state = self.state.borrow_mut();
        state.dead = true;
        let mut random = Random::new(state.random.next_u64());
        let names = state.names.after_power_cut(&mut random);
        let linked = names.linked();
        let inodes = state
            .inodes
            .iter()
            .filter(|(number, _)| linked.contains(number))
            .map(|(number, inode)| (*number, inode.after_power_cut(&mut random)))
            .collect();
        let faults = Faults {
            capacity_bytes: state.faults.capacity_bytes,
            open_files_max: state.faults.open_files_max,
            delay_turns_max: state.faults.delay_turns_max,
            ..Faults::default()
        };
        SimulatedDisk::from_state(State {
            random,
            faults,
            counters: Counters::default(),
            names,
            inodes,
            next_number: state.next_number,
            open_files: 0,
            read_only: state.read_only.clone(),
            dead: false,
        })
    }

    /// A disk with the same files, of which nothing is being written.
    #[cfg(test)]
    pub(crate) fn copy(&self, seed: u64) -> SimulatedDisk {
        let state = self.state.borrow();
        SimulatedDisk::from_state(State {
            random: Random::new(seed),
            faults: state.faults,
            counters: Counters::default(),
            names: state.names.clone(),
            inodes: state.inodes.clone(),
            next_number: state.next_number,
            open_files: 0,
            read_only: state.read_only.clone(),
            dead: false,
        })
    }

    /// Paths and sizes of all files, in the order of their paths.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let state = self.state.borrow();
        let size = |number| state.inodes.get(&number).map_or(0, |inode: &Inode| inode.live.size);
        let files = state.names.files();
        files.map(|(path, number)| (path.to_path_buf(), size(number))).collect()
    }

    /// Turns the bits set in `flip` of one byte of a file; panics when there is no such byte.
    pub fn corrupt(&self, path: &Path, offset: u64, flip: u8) {
        let mut state = self.state.borrow_mut();
        let Some(Entry::File(number)) = state.names.get(path) else {
            panic!("{} is no file", path.display())
        };
        assert!(state.inode(number).flip(offset, flip), "{} ends before", path.display());
    }

    /// Waits a drawn number of turns; EIO when the power is cut meanwhile.
    async fn turn(&self, operation: &'static str, path: &Path) -> Result<()> {
        let turns = {
            let mut state = self.state.borrow_mut();
            let max = u64::from(state.faults.delay_turns_max);
            let one_in = state.faults.stall_one_in;
            let stall = if state.one_in(one_in) { STALL_TURNS } else { 0 };
            state.random.below(max + 1) as u32 + stall
        };
        Turns(turns).await;
        if self.state.borrow().dead {
            return Err(failed(operation, path, EIO));
        }
        Ok(())
    }
}

/// Returns `Pending` so many times, waking itself each time.
struct Turns(u32);

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn failed(operation: &'static str, path: &Path, code: i32) -> Error {
    Error::io(operation, path, &std::io::Error::from_raw_os_error(code))
}

#[cfg(test)]
mod tests;
