//! What the program takes its memory from: mimalloc.
//!
//! A cache is millions of small pieces that come and go in any order. glibc gathers freed ones in
//! one go now and then, which holds a shard up for milliseconds; mimalloc takes them back a page at
//! a time, keeps each thread's apart, and asks the kernel for pages of 2 MiB, through which a
//! processor finds its way faster. The kernel clears such a page when it is first written to, 0.2
//! ms and more: a server has that done before, by [`prefault`]. A program that embeds the engine
//! chooses for itself.
//!
//! It is version 2. With version 3.3 a benchmark died once, in `_mi_page_free_collect` on a client
//! thread. Issues 1098 and 1287 of mimalloc describe such ends of 3.3; whether this was one of
//! them is not proven. No crate has version 3.4 yet, which mends 1287.

use std::ffi::c_long;
use std::io;
use std::ops::Range;
use std::thread::JoinHandle;

use libmimalloc_sys::{mi_manage_os_memory_ex, mi_option_set, mi_option_set_default};
pub use mimalloc::MiMalloc as Allocator;
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
/// next. A thread sees to that, and warns of what the kernel does not give; its handle need not be
/// kept.
///
/// Errors: the kernel has not so many addresses, or no thread.
pub fn prefault(bytes: usize) -> io::Result<JoinHandle<()>> {
    #[expect(unsafe_code, reason = "an option of the allocator is set")]
    // SAFETY: it stores a number.
    unsafe {
        mi_option_set(PURGE_DELAY, NEVER_MS);
    }
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
