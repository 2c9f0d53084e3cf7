//! What the program takes its memory from: mimalloc.
//!
//! A cache is millions of small pieces that come and go in any order. glibc gathers freed ones in
//! one go now and then, which holds a shard up for milliseconds; mimalloc takes them back a page at
//! a time, keeps each thread's apart, and asks the kernel for pages of 2 MiB, through which a
//! processor finds its way faster. The kernel clears such a page when it is first written to, 0.2
//! ms and more: a server has that done before, by [`prefault`]. A program that embeds the engine
//! chooses for itself.
//!
//! Blocks of [`MAPPED_BYTES_MIN`] and more are the kernel's own mappings. mimalloc cuts them from
//! regions of its threads: what another thread frees stays until the first one allocates again, and
//! a thread that sleeps returns nothing. Long rows pass through many threads, each of which kept
//! some that were long over. A mapping ends where it is freed, and grows without being copied.
//!
//! It is version 2. With version 3.3 a benchmark died once, in `_mi_page_free_collect` on a client
//! thread. Issues 1098 and 1287 of mimalloc describe such ends of 3.3; whether this was one of
//! them is not proven. No crate has version 3.4 yet, which mends 1287.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_long;
use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use libmimalloc_sys::{
    mi_is_in_heap_region, mi_manage_os_memory_ex, mi_option_set, mi_option_set_default,
};
use mimalloc::MiMalloc;
use tidegate_engine::os;

/// What a process needs in its environment for that a limit on its memory counts what it uses: else
/// memory is set aside a gigabyte at a time, ready to be written to.
pub const ENVIRONMENT_WITHIN_LIMITS: [(&str, &str); 1] = [("MIMALLOC_ARENA_EAGER_COMMIT", "0")];

/// Statements take and give back megabytes one after the other: what one gave back within so many
/// ms, the next one gets without asking the kernel, which would clear it first. Batches of long
/// rows give back as much in a second as a limit on memory leaves for them, so it is not longer.
const KEPT_MS: c_long = 10;
/// What takes its memory beforehand gives none back.
const NEVER_MS: c_long = -1;
/// mimalloc's number of the option that says after how many ms freed memory goes back to the
/// kernel.
const PURGE_DELAY: i32 = 15;
/// mimalloc's number of the option that says how many times as long whole regions stay.
const ARENA_PURGE_MULT: i32 = 24;
/// What is populated in one call; others who need the kernel's map of memory have their turn
/// between.
const STEP_BYTES: usize = 2 << 20;
/// mimalloc takes over pieces that begin and end on a multiple of this.
const ARENA_ALIGN: usize = 32 << 20;

/// Blocks from here on are mapped one by one: the kernel gives pages of this size for them.
const MAPPED_BYTES_MIN: usize = 2 << 20;
/// What every mapping begins on a multiple of.
const MAPPED_ALIGN: usize = 4096;

/// Set once memory was taken beforehand: then large blocks come from there too.
static TAKES_ALL_FROM_HEAP: AtomicBool = AtomicBool::new(false);

/// See the head of this file.
pub struct Allocator;

/// Whether blocks of this form are mapped, unless all is taken from the heap.
fn is_large(layout: &Layout) -> bool {
    layout.size() >= MAPPED_BYTES_MIN && layout.align() <= MAPPED_ALIGN
}

/// Whether a further block of this form is mapped.
fn will_be_mapped(layout: &Layout) -> bool {
    is_large(layout) && !TAKES_ALL_FROM_HEAP.load(Ordering::Relaxed)
}

/// Whether this block is mapped. One may have been mapped before all was taken from the heap.
fn is_mapped(block: *mut u8, layout: &Layout) -> bool {
    #[expect(unsafe_code, reason = "the allocator is asked for an address")]
    // SAFETY: it compares numbers, whatever stands at the address.
    let is_of_heap = || unsafe { mi_is_in_heap_region(block.cast()) };
    is_large(layout) && (!TAKES_ALL_FROM_HEAP.load(Ordering::Relaxed) || !is_of_heap())
}

#[expect(unsafe_code, reason = "an allocator hands out addresses")]
// SAFETY: blocks of mimalloc are as they must be. Others are mappings of their own, zero, as long
// as wanted, and begin on a page. `is_mapped` tells them apart, so each goes back where it is from.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if will_be_mapped(&layout) {
            return os::map_block(layout.size()).map_or(null_mut(), NonNull::as_ptr);
        }
        // SAFETY: as of this call.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if will_be_mapped(&layout) {
            return os::map_block(layout.size()).map_or(null_mut(), NonNull::as_ptr);
        }
        // SAFETY: as of this call.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_mapped(block, &layout) {
            // SAFETY: it was mapped with this length, and nobody uses it any more.
            return unsafe { os::unmap_block(block, layout.size()) };
        }
        // SAFETY: as of this call.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller answers for the size, and the alignment is that of a block.
        let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        match (is_mapped(block, &layout), will_be_mapped(&wanted)) {
            (true, true) => {
                // SAFETY: it was mapped with this length, and nobody else uses it.
                let moved = unsafe { os::remap_block(block, layout.size(), bytes) };
                moved.map_or(null_mut(), NonNull::as_ptr)
            }
            // SAFETY: as of this call.
            (false, false) => unsafe { MiMalloc.realloc(block, layout, bytes) },
            _ => {
                // SAFETY: the new block is nobody else's, and both have the bytes that are copied.
                unsafe {
                    let new = self.alloc(wanted);
                    if !new.is_null() {
                        new.copy_from_nonoverlapping(block, layout.size().min(bytes));
                        self.dealloc(block, layout);
                    }
                    new
                }
            }
        }
    }
}

/// From now on gives memory back to the kernel some time after it was freed, and not at once. The
/// variable `MIMALLOC_PURGE_DELAY` says after how many ms, where it is set.
pub fn keep_freed() {
    #[expect(unsafe_code, reason = "options of the allocator are set")]
    // SAFETY: it stores numbers.
    unsafe {
        mi_option_set_default(PURGE_DELAY, KEPT_MS);
        mi_option_set_default(ARENA_PURGE_MULT, 1);
    }
}

/// From now on keeps what the kernel gave, and has it give `bytes` beforehand: what the heap takes
/// next, large blocks with the rest. A thread sees to that, and warns of what the kernel does not
/// give; its handle need not be kept.
///
/// Errors: the kernel has not so many addresses, or no thread.
pub fn prefault(bytes: usize) -> io::Result<JoinHandle<()>> {
    #[expect(unsafe_code, reason = "an option of the allocator is set")]
    // SAFETY: it stores a number.
    unsafe {
        mi_option_set(PURGE_DELAY, NEVER_MS);
    }
    TAKES_ALL_FROM_HEAP.store(true, Ordering::Relaxed);
    // The heap's first region is used from its start on.
    let probe = Box::new(0_u8);
    let first = os::mapping_of(&raw const *probe as usize)?;
    let first = first.start..first.end.min(first.start + bytes);
    let more = match bytes - first.len() {
        0 => None,
        rest => Some(add_region(rest.next_multiple_of(ARENA_ALIGN))?),
    };
    let populate = move || {
        for region in [Some(first), more].into_iter().flatten() {
            let mut steps = region.clone().step_by(STEP_BYTES);
            let populated =
                steps.try_for_each(|start| os::populate(start..region.end.min(start + STEP_BYTES)));
            if let Err(error) = populated {
                tracing::warn!(%error, "not all memory is taken beforehand");
            }
        }
    };
    std::thread::Builder::new().name("prefault".to_owned()).spawn(populate)
}

/// Gives the allocator addresses of its own, that it uses when what it has is full.
#[expect(unsafe_code, reason = "memory is handed over to the allocator")]
fn add_region(bytes: usize) -> io::Result<Range<usize>> {
    let region = os::map_large_pages(bytes, ARENA_ALIGN)?;
    let mut id = 0;
    let start = region.start as *const std::ffi::c_void;
    // SAFETY: the addresses are mapped, writable, aligned, zero and nobody else's, and stay so.
    let taken =
        unsafe { mi_manage_os_memory_ex(start, bytes, true, true, true, -1, false, &mut id) };
    match taken {
        true => Ok(region),
        false => Err(io::Error::other("the allocator takes no more regions")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Held by a test while where blocks come from must not change.
    static ORIGIN: Mutex<()> = Mutex::new(());

    fn content(block: *mut u8, layout: &Layout) -> Vec<u8> {
        #[expect(unsafe_code, reason = "a block is read")]
        // SAFETY: the block has so many bytes, all of them set.
        unsafe { std::slice::from_raw_parts(block, layout.size()) }.to_vec()
    }

    #[test]
    #[expect(unsafe_code, reason = "an allocator is called")]
    fn blocks_keep_their_content_from_small_to_large_and_back() {
        let _origin = ORIGIN.lock().unwrap_or_else(PoisonError::into_inner);
        let sizes = [100, 1 << 20, MAPPED_BYTES_MIN - 1, MAPPED_BYTES_MIN, 5 << 20, 40 << 20];
        let steps = sizes.iter().chain(sizes.iter().rev()).chain([&(40 << 20), &100]);
        let steps: Vec<usize> = steps.copied().collect();
        let of = |bytes| Layout::from_size_align(bytes, 16).unwrap();
        // Large blocks from before go back where they are from.
        for takes_all_from_heap in [false, true, false] {
            // SAFETY: each block has the layout that it was made with, and is not used later.
            unsafe {
                let mut layout = of(steps[0]);
                let mut block = Allocator.alloc_zeroed(layout);
                assert_eq!(content(block, &layout), vec![0; layout.size()]);
                let old = Allocator.alloc(of(3 << 20));
                assert!(is_mapped(old, &of(3 << 20)));
                TAKES_ALL_FROM_HEAP.store(takes_all_from_heap, Ordering::Relaxed);
                for (step, &bytes) in steps.iter().enumerate() {
                    let kept = layout.size().min(bytes);
                    block.write_bytes(step as u8, layout.size());
                    block = Allocator.realloc(block, layout, bytes);
                    layout = of(bytes);
                    assert_eq!(content(block, &of(kept)), vec![step as u8; kept]);
                    assert_eq!(
                        is_mapped(block, &layout),
                        bytes >= MAPPED_BYTES_MIN && !takes_all_from_heap
                    );
                }
                Allocator.dealloc(block, layout);
                let new = Allocator.alloc_zeroed(of(3 << 20));
                assert_eq!(is_mapped(new, &of(3 << 20)), !takes_all_from_heap);
                assert!(is_mapped(old, &of(3 << 20)));
                Allocator.dealloc(old, of(3 << 20));
                Allocator.dealloc(new, of(3 << 20));
                TAKES_ALL_FROM_HEAP.store(false, Ordering::Relaxed);
            }
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "an allocator is called")]
    fn large_blocks_are_aligned_as_wanted() {
        let _origin = ORIGIN.lock().unwrap_or_else(PoisonError::into_inner);
        for align in [1, 4096, 64 << 10, 2 << 20] {
            let layout = Layout::from_size_align(3 << 20, align).unwrap();
            // SAFETY: the block is given back with its layout.
            unsafe {
                let block = Allocator.alloc(layout);
                assert!(block.addr().is_multiple_of(align));
                assert_eq!(is_mapped(block, &layout), align <= MAPPED_ALIGN);
                block.write_bytes(7, layout.size());
                Allocator.dealloc(block, layout);
            }
        }
    }
}
