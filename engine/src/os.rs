//! The operating system: cores, clocks of threads, locks, and the file calls the disks need.
//!
//! Invariant: the one module that names rustix. Every function here may block, so a shard calls
//! only those that touch memory (`file_size`, `thread_cpu_ns`); the rest belong on a pool or in
//! start and stop. Not here: the ring itself (`disk/uring.rs`).

mod memory;
mod steady;

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Once;
use std::time::Duration;

use rustix::event::EventfdFlags;
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::io_uring::{IoringFeatureFlags, IoringSetupFlags, io_uring_params, io_uring_setup};
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};
use rustix::process::{Pid, Resource, Rlimit};
use rustix::thread::CpuSet;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
};

use self::steady::{Source, Steady};
pub use memory::{MemoryLimit, memory_limit};

/// Open flag: transfers go between the device and our memory, past the page cache.
pub const O_DIRECT: i32 = OFlags::DIRECT.bits() as i32;
/// Open flag: a completed write is on stable storage.
pub const O_DSYNC: i32 = OFlags::DSYNC.bits() as i32;
/// Open flag: the path must be a directory.
pub const O_DIRECTORY: i32 = OFlags::DIRECTORY.bits() as i32;
/// Permission denied.
pub const EACCES: i32 = Errno::ACCESS.raw_os_error();
/// What `open` answers where the file system has no direct I/O.
pub const EINVAL: i32 = Errno::INVAL.raw_os_error();
/// The operation was given up.
pub const ECANCELED: i32 = Errno::CANCELED.raw_os_error();
/// The file system lacks the operation.
pub const EOPNOTSUPP: i32 = Errno::OPNOTSUPP.raw_os_error();

// ---- cores and threads ----

/// The cores this thread may run on, ascending.
pub fn available_cores() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Keeps the calling thread on one core from now on.
///
/// Errors: EINVAL when this process may not use that core.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Asks the kernel to let the calling thread, and those it starts, run sooner when they have
/// something to do, and for no longer than `slice` at a time where others wait for the core. Linux
/// before 6.12 takes no notice.
#[expect(unsafe_code, reason = "a system call that no crate wraps")]
pub fn set_time_slice(slice: Duration) -> io::Result<()> {
    let done = |result: libc::c_long| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let bytes = size_of::<libc::sched_attr>();
    // SAFETY: it is plain numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let calling = 0;
    // SAFETY: the kernel writes so many bytes at most.
    done(unsafe {
        libc::syscall(libc::SYS_sched_getattr, calling, &raw mut attributes, bytes, 0)
    })?;
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: it reads the size that stands in the structure, which the kernel wrote there.
    done(unsafe { libc::syscall(libc::SYS_sched_setattr, calling, &raw const attributes, 0) })
}

/// CPU time that the calling thread has used, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// The kernel's clock, and the counter of the processor.
struct Processor;

impl Source for Processor {
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[expect(unsafe_code, reason = "an instruction of the processor")]
    fn ticks(&self) -> u64 {
        // SAFETY: every processor of this architecture has it, and it touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn ticks(&self) -> u64 {
        0
    }

    fn ns(&self) -> u64 {
        nanoseconds(ClockId::Monotonic)
    }
}

static STEADY: Steady<Processor> = Steady::new(Processor);

/// Nanoseconds since some moment, by `CLOCK_MONOTONIC` but for some microseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    STEADY.now_ns()
}

/// Has [`monotonic_ns`] read the processor's counter, if the kernel tells time by that too: it has
/// found then that the counters of all cores are one, and never rest.
pub fn prepare_clock() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let is_counter = std::fs::read_to_string(file).is_ok_and(|name| name.trim() == "tsc");
        if cfg!(target_arch = "x86_64") && is_counter {
            STEADY.turn_on();
        }
    });
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Memory of this process that is in RAM, bytes.
pub fn process_rss_bytes() -> io::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: Option<u64> = statm.split(' ').nth(1).and_then(|field| field.parse().ok());
    let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm has no resident field"))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// The addresses around `address` that the kernel maps in one piece.
///
/// Errors: `NotFound` when it is not mapped.
pub fn mapping_of(address: usize) -> io::Result<Range<usize>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let range = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(number(start)?..number(end)?)
    };
    let found = maps.lines().filter_map(range).find(|range| range.contains(&address));
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no memory is mapped there"))
}

/// Maps memory of this process, zero and to be written to, for good; in large pages where the
/// kernel has such. `align` is a power of two.
#[expect(unsafe_code, reason = "memory is mapped")]
pub fn map_large_pages(bytes: usize, align: usize) -> io::Result<Range<usize>> {
    let (protection, flags) =
        (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    let none = std::ptr::null_mut();
    // SAFETY: the kernel chooses addresses that nobody has.
    let start = unsafe { rustix::mm::mmap_anonymous(none, bytes + align, protection, flags) }?;
    let start = (start as usize).next_multiple_of(align);
    // SAFETY: what is mapped stays mapped and keeps its content.
    let advised = unsafe { rustix::mm::madvise(start as *mut _, bytes, Advice::LinuxHugepage) };
    match advised {
        // A kernel without large pages.
        Ok(()) | Err(Errno::INVAL) => Ok(start..start + bytes),
        Err(error) => Err(error.into()),
    }
}

/// Maps a block of memory of this process, zero and to be written to, which begins on a page; in
/// large pages where the kernel has such. `None` when there is no memory for it.
#[expect(unsafe_code, reason = "memory is mapped")]
pub fn map_block(bytes: usize) -> Option<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let none = std::ptr::null_mut();
    // SAFETY: the kernel chooses addresses that nobody has.
    let start = unsafe { rustix::mm::mmap_anonymous(none, bytes, protection, MapFlags::PRIVATE) };
    let start = NonNull::new(start.ok()?)?;
    // A kernel without large pages gives small ones.
    // SAFETY: what is mapped stays mapped and keeps its content.
    let _ = unsafe { rustix::mm::madvise(start.as_ptr(), bytes, Advice::LinuxHugepage) };
    Some(start.cast())
}

/// Makes a block of [`map_block`] longer or shorter; it may move, with its content. `None` when
/// there is no memory for it: then the block is as it was.
///
/// # Safety
///
/// The block has `bytes`, and nobody else uses it; where it moved, nobody uses the old address.
#[expect(unsafe_code, reason = "memory is mapped")]
pub unsafe fn remap_block(block: *mut u8, bytes: usize, wanted: usize) -> Option<NonNull<u8>> {
    let may_move = MremapFlags::MAYMOVE;
    // SAFETY: the caller's word.
    let moved = unsafe { rustix::mm::mremap(block.cast(), bytes, wanted, may_move) };
    NonNull::new(moved.ok()?.cast())
}

/// Gives a block of [`map_block`] back to the kernel.
///
/// # Safety
///
/// The block has `bytes`, and nobody uses it any more.
#[expect(unsafe_code, reason = "memory is unmapped")]
pub unsafe fn unmap_block(block: *mut u8, bytes: usize) {
    // SAFETY: the caller's word. The kernel may refuse for want of memory of its own, when the
    // block stood between others; then the block stays, which costs its addresses.
    let _ = unsafe { rustix::mm::munmap(block.cast(), bytes) };
}

/// Has the kernel put memory behind mapped addresses, as writing to them would; content stays.
///
/// Errors: EINVAL before Linux 5.14, ENOMEM where something is not mapped or there is no memory.
#[expect(unsafe_code, reason = "the kernel is told of addresses")]
pub fn populate(range: Range<usize>) -> io::Result<()> {
    let (start, bytes) = (range.start as *mut _, range.len());
    // SAFETY: this advice changes no content, whosever it is.
    Ok(unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxPopulateWrite) }?)
}

/// Signal that ends a process which used the processor time that it may.
pub const SIGNAL_CPU_LIMIT: i32 = rustix::process::Signal::XCPU.as_raw();

/// Limits what a child may use from now on: memory that it can write to, and processor time. What
/// is over the first fails as an allocation, what is over the second ends it.
///
/// Errors: ESRCH when it has ended and was waited for.
pub fn limit_process(id: u32, memory_bytes: u64, cpu_seconds: u64) -> io::Result<()> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let limit = |now, most| Rlimit { current: Some(now), maximum: Some(most) };
    rustix::process::prlimit(Some(pid), Resource::Data, limit(memory_bytes, memory_bytes))?;
    rustix::process::prlimit(Some(pid), Resource::Cpu, limit(cpu_seconds, cpu_seconds + 1))?;
    rustix::process::prlimit(Some(pid), Resource::Core, limit(0, 0))?;
    Ok(())
}

/// Descriptors that this process may have open.
pub fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Lets this process have as many descriptors open as it may without asking anybody: raises the
/// soft limit to the hard one. Returns the limit from now on.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limits = rustix::process::getrlimit(Resource::Nofile);
    if limits.current != limits.maximum {
        let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
        rustix::process::setrlimit(Resource::Nofile, raised)?;
    }
    Ok(descriptor_limit())
}

/// Columns and lines of the terminal that stdout is; None where it is none, or has no size.
pub fn terminal_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Asks the terminal for a line that it does not show.
///
/// Errors: without a terminal, and at its end before a line.
pub fn read_secret(prompt: &str) -> io::Result<String> {
    use io::{BufRead, Write};
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

    let mut terminal = std::fs::File::options().read(true).write(true).open("/dev/tty")?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    let mut line = String::new();
    let read = terminal
        .write_all(prompt.as_bytes())
        .and_then(|()| io::BufReader::new(&terminal).read_line(&mut line));
    tcsetattr(&terminal, OptionalActions::Flush, &before)?;
    terminal.write_all(b"\n")?;
    match read? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
    }
}

/// A counter that a thread can wait for; each write wakes those who poll it.
pub fn event_counter() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// A descriptor that can be read once `after` has passed; it counts nanoseconds.
pub fn timer(after: Duration) -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let at = |duration| Timespec::try_from(duration).unwrap_or_default();
    // A time of zero would switch it off.
    let after = at(after.max(Duration::from_nanos(1)));
    let once = Itimerspec { it_interval: Timespec::default(), it_value: after };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    Ok(timer)
}

/// Adds one to an [`event_counter`].
pub fn ring_event_counter(counter: impl AsFd) -> io::Result<()> {
    match rustix::io::write(counter, &1_u64.to_ne_bytes()) {
        // A full counter wakes just as well.
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

// ---- io_uring ----

/// What the kernel offers beyond a plain ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSupport {
    /// Completions wait for the thread's next system call instead of interrupting it (5.19).
    pub cooperative: bool,
    /// The kernel may rely on one submitting thread (6.0).
    pub single_issuer: bool,
}

/// Asks the kernel whether this process may use io_uring, by making a tiny ring.
///
/// Errors: a reason in words: not built in, denied (seccomp, `kernel.io_uring_disabled`), or too
/// old (before 5.13, which lacks operations that the disk needs).
pub fn probe_io_uring() -> Result<RingSupport, String> {
    let features = ring_features(IoringSetupFlags::empty())
        .map_err(|error| format!("io_uring_setup: {}", io::Error::from(error)))?;
    // RSRC_TAGS came with 5.13 and stands for the rename and unlink of 5.11.
    if !features.contains(IoringFeatureFlags::NODROP | IoringFeatureFlags::RSRC_TAGS) {
        return Err(format!("the kernel's io_uring is too old (features {:#x})", features.bits()));
    }
    Ok(RingSupport {
        cooperative: ring_features(IoringSetupFlags::COOP_TASKRUN).is_ok(),
        single_issuer: ring_features(IoringSetupFlags::SINGLE_ISSUER).is_ok(),
    })
}

#[expect(unsafe_code, reason = "rustix has no safe way to set up a ring")]
fn ring_features(flags: IoringSetupFlags) -> Result<IoringFeatureFlags, Errno> {
    let mut params = io_uring_params::default();
    params.flags = flags;
    // SAFETY: the ring is closed at once; nothing is mapped, registered or submitted, so the
    // kernel gets no pointer but `params`, which outlives the call.
    drop(unsafe { io_uring_setup(4, &mut params) }?);
    Ok(params.features)
}

// ---- exclusive use of a directory ----

/// An exclusive lock on a file, held until dropped (or until the process ends, however it ends).
#[derive(Debug)]
pub struct LockFile {
    _file: OwnedFd,
}

/// Who holds a lock, as far as the lock file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// `None` when the holder has not written the file yet.
    pub pid: Option<u32>,
    pub command: String,
}

/// Why a lock was not obtained.
#[derive(Debug)]
pub enum LockError {
    Held(LockHolder),
    Io(io::Error),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held(LockHolder { pid: Some(pid), command }) => {
                write!(f, "in use by process {pid} ({command})")
            }
            LockError::Held(_) => write!(f, "in use by another process"),
            LockError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LockError {}

impl From<Errno> for LockError {
    fn from(error: Errno) -> Self {
        LockError::Io(error.into())
    }
}

/// Locks the file at `path`, made if missing, and writes this process into it. The file stays when
/// the lock is dropped: removing it would let two processes lock two files of one name.
pub fn try_lock(path: &Path) -> Result<LockFile, LockError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let text = std::fs::read_to_string(path).map_err(LockError::Io)?;
            return Err(LockError::Held(parse_holder(&text)));
        }
        Err(error) => return Err(error.into()),
    }
    let command: Vec<String> =
        std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let line = format!("{} {}\n", std::process::id(), command.join(" ").replace('\n', " "));
    rustix::fs::ftruncate(&file, 0)?;
    write_at(&file, 0, line.as_bytes()).map_err(LockError::Io)?;
    Ok(LockFile { _file: file })
}

fn parse_holder(text: &str) -> LockHolder {
    let line = text.lines().next().unwrap_or("");
    let (pid, command) = line.split_once(' ').unwrap_or((line, ""));
    LockHolder { pid: pid.parse().ok(), command: command.to_owned() }
}

// ---- files ----

/// Opens a file with raw `flags` beside `O_CLOEXEC`.
pub fn open_file(
    path: &Path,
    write: bool,
    create: bool,
    exclusive: bool,
    flags: i32,
) -> io::Result<OwnedFd> {
    let mut all = OFlags::CLOEXEC | OFlags::from_bits_retain(flags as u32);
    all |= if write { OFlags::RDWR } else { OFlags::RDONLY };
    all.set(OFlags::CREATE, create);
    all.set(OFlags::EXCL, exclusive);
    Ok(rustix::fs::open(path, all, Mode::from_raw_mode(0o644))?)
}

/// A second descriptor of the same open file.
pub fn duplicate(file: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(file, 0)?)
}

/// Reads once at `offset`; may be short.
pub fn read_at(file: impl AsFd, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::pread(file, buffer, offset)?)
}

/// Writes once at `offset`; may be short.
pub fn write_at(file: impl AsFd, offset: u64, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::pwrite(file, bytes, offset)?)
}

/// Makes data and size durable.
pub fn sync_data(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}

/// Size in bytes. The inode of an open file is in memory: this does not block.
pub fn file_size(file: impl AsFd) -> io::Result<u64> {
    let stat = rustix::fs::fstat(file)?;
    u64::try_from(stat.st_size).map_err(|_| io::Error::other("negative file size"))
}

/// Reserves the first `bytes` bytes of a file and grows it to them; never shrinks it. Where the
/// file system cannot reserve, the file only grows.
pub fn allocate(file: impl AsFd, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file.as_fd(), FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP) => {
            if file_size(file.as_fd())? < bytes {
                truncate(file, bytes)?;
            }
            Ok(())
        }
        result => Ok(result?),
    }
}

/// Sets the size.
pub fn truncate(file: impl AsFd, bytes: u64) -> io::Result<()> {
    Ok(rustix::fs::ftruncate(file, bytes)?)
}

// ---- directories ----

/// Bytes that this user may still write on the file system of a directory.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(directory)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether nobody but this user, and those who may do everything, can write in a directory.
pub fn is_private(directory: &Path) -> io::Result<bool> {
    let stat = rustix::fs::stat(directory)?;
    let owner = rustix::process::geteuid().as_raw();
    let others = (Mode::WGRP | Mode::WOTH).as_raw_mode();
    Ok((stat.st_uid == owner || stat.st_uid == 0) && stat.st_mode & others == 0)
}

/// Creates a directory and its parents; existing ones are no error.
pub fn create_directories(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Makes creations, renames and removals in a directory durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::fsync(open_file(path, false, false, false, O_DIRECTORY)?)?)
}

/// The content of a file that is text.
pub fn read_text(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

/// The path without links and detours.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// Gives a file a second name.
pub fn link(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::fs::link(from, to)?)
}

pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::fs::rename(from, to)?)
}

pub fn remove_file(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::unlink(path)?)
}

pub fn remove_directory(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::rmdir(path)?)
}

/// Names in a directory and whether each is a directory, sorted; empty when it does not exist.
/// Names that are not UTF-8 are none of ours and come back with replacement characters.
pub fn list(path: &Path) -> io::Result<Vec<(String, bool)>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        result => result?,
    };
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        let is_directory = match entry.file_type() {
            // Some file systems do not store types in directories.
            FileType::Unknown => path.join(&name).is_dir(),
            kind => kind == FileType::Directory,
        };
        names.push((name, is_directory));
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A processor may read its counter before a load ends that stands ahead of it: not past this.
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "an instruction of the processor")
    )]
    fn finish_loads() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every processor of this architecture has it, and it touches no memory.
        unsafe {
            core::arch::x86_64::_mm_lfence();
        }
    }

    /// On several cores at once: what one read is not before what another had read.
    #[test]
    fn the_steady_clock_goes_as_the_kernels_does() {
        const NEAR_NS: u64 = 100_000;
        prepare_clock();
        let (latest, start_ns) = (AtomicU64::new(0), monotonic_ns());
        let ahead_ns = start_ns.wrapping_sub(nanoseconds(ClockId::Monotonic)) as i64;
        let watch = || {
            let mut now_ns = 0;
            while now_ns < start_ns + 400_000_000 {
                let (before, seen) =
                    (nanoseconds(ClockId::Monotonic), latest.load(Ordering::SeqCst));
                finish_loads();
                now_ns = monotonic_ns();
                let after = nanoseconds(ClockId::Monotonic);
                assert!(now_ns + 1_000 >= seen, "{now_ns} behind {seen}");
                let kernels = now_ns.wrapping_add_signed(-ahead_ns);
                let near = before - NEAR_NS..=after + NEAR_NS;
                assert!(near.contains(&kernels), "{kernels}, not {near:?}");
                latest.fetch_max(now_ns, Ordering::SeqCst);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(watch))));
    }

    #[test]
    fn a_directory_is_private_where_neither_its_group_nor_others_may_write() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        for (mode, wanted) in [
            (0o700, true),
            (0o755, true),
            (0o770, false),
            (0o720, false),
            (0o707, false),
            (0o702, false),
            (0o777, false),
        ] {
            let mode_of = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(directory.path(), mode_of).unwrap();
            assert_eq!(is_private(directory.path()).unwrap(), wanted, "{mode:o}");
        }
        assert!(is_private(&directory.path().join("absent")).is_err());
    }

    #[test]
    fn a_lock_is_exclusive_and_names_its_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        let lock = try_lock(&path).unwrap();
        let error = try_lock(&path).expect_err("held");
        let text = error.to_string();
        let LockError::Held(holder) = error else { panic!("{text}") };
        assert_eq!(holder.pid, Some(std::process::id()));
        let program = std::env::args().next().unwrap();
        assert!(holder.command.starts_with(&program), "{}", holder.command);
        assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
        drop(lock);
        drop(try_lock(&path).expect("free again"));

        let missing = directory.path().join("no/LOCK");
        assert!(matches!(try_lock(&missing), Err(LockError::Io(_))));
        assert_eq!(parse_holder("").pid, None);
    }

    #[test]
    fn a_pinned_thread_stays_on_its_core() {
        let cores = available_cores().unwrap();
        assert!(!cores.is_empty());
        let last = *cores.last().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin_to_core(last).unwrap();
                assert_eq!(available_cores().unwrap(), [last]);
                assert_eq!(rustix::thread::sched_getcpu(), last);
            });
        });
        assert_eq!(available_cores().unwrap(), cores, "other threads are free");
        assert!(pin_to_core(usize::MAX).is_err());
    }

    /// Whether `holds` says yes once in twenty times: the process has one number for its memory,
    /// and tests on other threads change it meanwhile.
    fn eventually(mut holds: impl FnMut() -> bool) -> bool {
        (0..20).any(|_| holds())
    }

    #[test]
    fn memory_is_there_before_it_is_written_to() {
        let (bytes, align) = (8 << 20, 4 << 20);
        assert!(eventually(|| {
            let before = process_rss_bytes().unwrap();
            let region = map_large_pages(bytes, align).unwrap();
            assert!(region.start.is_multiple_of(align) && region.len() == bytes);
            assert!(mapping_of(region.start).unwrap().contains(&(region.end - 1)));
            let mapped = process_rss_bytes().unwrap();
            populate(region).unwrap();
            let half = bytes as u64 / 2;
            mapped < before + half && process_rss_bytes().unwrap() >= before + half
        }));
        assert_eq!(mapping_of(0).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(populate(0..1 << 20).is_err());
    }

    #[test]
    #[expect(unsafe_code, reason = "blocks are written to and given back")]
    fn a_block_keeps_its_content_while_it_grows_and_shrinks() {
        let (short, long) = (3 << 20, 64 << 20);
        // SAFETY: each address is used until the block has another one.
        unsafe {
            let block = map_block(short).unwrap().as_ptr();
            assert_eq!(*block.add(short - 1), 0);
            block.add(short - 1).write(7);
            // Where it stands is room for no more.
            let behind = map_block(short).unwrap().as_ptr();
            let block = remap_block(block, short, long).unwrap().as_ptr();
            assert_eq!((*block.add(short - 1), *block.add(long - 1)), (7, 0));
            let block = remap_block(block, long, short).unwrap().as_ptr();
            assert_eq!(*block.add(short - 1), 7);
            unmap_block(block, short);
            unmap_block(behind, short);
        }
        assert!(map_block(usize::MAX / 2).is_none());
    }

    #[test]
    fn a_time_slice_is_taken_and_the_rest_stays() {
        let thread = std::thread::Builder::new().spawn(|| {
            let nice = rustix::process::nice(3).unwrap();
            set_time_slice(Duration::from_micros(200)).unwrap();
            (nice, rustix::process::nice(0).unwrap())
        });
        let (before, after) = thread.unwrap().join().unwrap();
        assert_eq!(before, after);
    }

    #[test]
    fn thread_time_counts_work_and_rss_counts_memory() {
        let start = thread_cpu_ns();
        let mut sum = 0_u64;
        while thread_cpu_ns() - start < 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
        }
        // What an attempt allocates stays until the end: the allocator hands freed memory out
        // again, and memory that was resident before adds nothing.
        let mut kept = Vec::new();
        assert!(eventually(|| {
            let before = process_rss_bytes().unwrap();
            kept.push(std::hint::black_box(vec![1_u8; 32 << 20]));
            process_rss_bytes().unwrap() > before + (16 << 20)
        }));
    }

    #[test]
    fn who_holds_a_lock_is_told_as_far_as_its_file_says() {
        for (text, pid, command, wanted) in [
            ("", None, "", "in use by another process"),
            ("12", Some(12), "", "in use by process 12 ()"),
            ("12 a --b=c d\n", Some(12), "a --b=c d", "in use by process 12 (a --b=c d)"),
            ("12 a\n13 b\n", Some(12), "a", "in use by process 12 (a)"),
            ("x a\n", None, "a", "in use by another process"),
            ("-1 a\n", None, "a", "in use by another process"),
            ("\n12 a", None, "", "in use by another process"),
        ] {
            let holder = parse_holder(text);
            assert_eq!(holder, LockHolder { pid, command: command.to_owned() }, "{text:?}");
            assert_eq!(LockError::Held(holder).to_string(), wanted, "{text:?}");
        }
        let denied = || io::Error::from_raw_os_error(13);
        assert_eq!(LockError::Io(denied()).to_string(), denied().to_string());
    }
}
