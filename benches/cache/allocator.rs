//! The program's allocator, counting, each thread in a line of its own: shards that count in one
//! place would wait for each other at every allocation.

#![expect(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

use tidegate::allocator::Allocator;

/// More than there are threads that allocate much; those beyond share.
const LANES: usize = 64;

/// What some threads count, away from what others do.
#[repr(align(128))]
struct Lane {
    allocations: AtomicU64,
    held_bytes: AtomicI64,
}

static COUNTS: [Lane; LANES] =
    [const { Lane { allocations: AtomicU64::new(0), held_bytes: AtomicI64::new(0) } }; LANES];
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LANE: Cell<Option<usize>> = const { Cell::new(None) };
}

fn lane() -> &'static Lane {
    let at = LANE.get().unwrap_or_else(|| {
        let at = NEXT.fetch_add(1, Relaxed) % LANES;
        LANE.set(Some(at));
        at
    });
    &COUNTS[at]
}

fn count(bytes: usize) {
    let lane = lane();
    lane.allocations.fetch_add(1, Relaxed);
    lane.held_bytes.fetch_add(bytes as i64, Relaxed);
}

fn uncount(bytes: usize) {
    lane().held_bytes.fetch_sub(bytes as i64, Relaxed);
}

/// See the head of this file.
pub struct Counting;

// SAFETY: every call goes to the program's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { Allocator.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { Allocator.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        uncount(layout.size());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { Allocator.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        uncount(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { Allocator.dealloc(pointer, layout) }
    }
}

/// Calls to the allocator so far.
pub fn allocations() -> u64 {
    COUNTS.iter().map(|lane| lane.allocations.load(Relaxed)).sum()
}

/// Bytes that are held now.
pub fn held_bytes() -> i64 {
    COUNTS.iter().map(|lane| lane.held_bytes.load(Relaxed)).sum()
}
