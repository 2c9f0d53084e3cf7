//! The allocator of a benchmark: the system's, counting.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts every allocation of the process.
pub struct CountingAllocator {
    count: AtomicU64,
    bytes: AtomicU64,
    in_use: AtomicU64,
    peak: AtomicU64,
}

/// What was allocated while something ran.
#[derive(Clone, Copy, Default)]
pub struct Allocated {
    pub count: u64,
    pub bytes: u64,
    /// Most bytes in use at one moment, above what was in use at the start.
    pub peak_bytes: u64,
}

/// The counters at one moment.
pub struct Mark {
    count: u64,
    bytes: u64,
    in_use: u64,
}

impl CountingAllocator {
    pub const fn new() -> Self {
        CountingAllocator {
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            in_use: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    /// Starts to measure.
    pub fn mark(&self) -> Mark {
        let in_use = self.in_use.load(Relaxed);
        self.peak.store(in_use, Relaxed);
        Mark { count: self.count.load(Relaxed), bytes: self.bytes.load(Relaxed), in_use }
    }

    /// What was allocated since the last mark.
    pub fn since(&self, mark: &Mark) -> Allocated {
        Allocated {
            count: self.count.load(Relaxed) - mark.count,
            bytes: self.bytes.load(Relaxed) - mark.bytes,
            peak_bytes: self.peak.load(Relaxed).saturating_sub(mark.in_use),
        }
    }

    fn took(&self, bytes: usize) {
        self.count.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
        let in_use = self.in_use.fetch_add(bytes as u64, Relaxed) + bytes as u64;
        if in_use > self.peak.load(Relaxed) {
            self.peak.fetch_max(in_use, Relaxed);
        }
    }

    fn gave(&self, bytes: usize) {
        self.in_use.fetch_sub(bytes as u64, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; the counters allocate nothing.
#[expect(unsafe_code, reason = "an allocator has no safe form")]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.took(layout.size());
        // SAFETY: the caller's promises are those that System asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.gave(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.gave(layout.size());
        self.took(bytes);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
