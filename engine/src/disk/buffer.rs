//! Memory aligned for direct I/O, and what a thread keeps of it for the next reads.
//!
//! Invariant: the memory of a buffer is initialised from its allocation on, whoever had it before.
//! A thread keeps buffers of up to [`SPARE_PAGES_MAX`] pages, [`SPARE_BYTES_MAX`] together: a cache
//! that is full frees a page for every one that it reads, and then neither allocates nor fills any.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::PAGE_BYTES;

/// Bytes of freed buffers that a thread keeps.
const SPARE_BYTES_MAX: usize = 4 << 20;
/// Pages of the longest buffer that is kept.
const SPARE_PAGES_MAX: usize = 32;

/// Bytes of all buffers of the process, those that threads keep included.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// Bytes of all buffers of this process: of requests under way, of pages that are cached, and what
/// threads keep for the next reads.
pub fn buffer_bytes() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

thread_local! {
    static SPARES: RefCell<Spares> = const { RefCell::new(Spares::new()) };
}

/// A byte buffer that starts at a page boundary and whose capacity is whole pages.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    capacity: usize,
    length: usize,
}

/// Freed memory of one thread, by the number of its pages less one.
struct Spares {
    lists: [Vec<NonNull<u8>>; SPARE_PAGES_MAX],
    bytes: usize,
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, PAGE_BYTES).expect("whole pages fit a layout")
}

/// Gives memory back to the allocator.
///
/// # Safety
/// `start` was allocated with `layout(capacity)`, and nobody uses it any more.
#[expect(unsafe_code, reason = "an aligned allocation has no safe form")]
unsafe fn free(start: NonNull<u8>, capacity: usize) {
    ALLOCATED.fetch_sub(capacity, Ordering::Relaxed);
    // SAFETY: as the caller promises.
    unsafe { dealloc(start.as_ptr(), layout(capacity)) }
}

impl Spares {
    const fn new() -> Self {
        Spares { lists: [const { Vec::new() }; SPARE_PAGES_MAX], bytes: 0 }
    }

    /// The list for buffers of so many bytes, if such are kept.
    fn list(&mut self, capacity: usize) -> Option<&mut Vec<NonNull<u8>>> {
        self.lists.get_mut(capacity / PAGE_BYTES - 1)
    }

    fn take(&mut self, capacity: usize) -> Option<NonNull<u8>> {
        let start = self.list(capacity)?.pop()?;
        self.bytes -= capacity;
        Some(start)
    }

    /// Keeps memory; false where there is no room for it. A length of which there is none pushes
    /// out what there is most of, so that the lists follow what is read.
    fn keep(&mut self, start: NonNull<u8>, capacity: usize) -> bool {
        let Some(is_first) = self.list(capacity).map(|list| list.is_empty()) else { return false };
        if !is_first && self.bytes + capacity > SPARE_BYTES_MAX {
            return false;
        }
        while self.bytes + capacity > SPARE_BYTES_MAX {
            self.release_most();
        }
        self.bytes += capacity;
        self.lists[capacity / PAGE_BYTES - 1].push(start);
        true
    }

    /// Frees one buffer of the length that takes most.
    #[expect(unsafe_code, reason = "an aligned allocation has no safe form")]
    fn release_most(&mut self) {
        let taken = |at: usize| self.lists[at].len() * (at + 1);
        let most = (0..SPARE_PAGES_MAX).max_by_key(|at| taken(*at)).expect("there are lists");
        let start = self.lists[most].pop().expect("over the maximum some list has a buffer");
        let capacity = (most + 1) * PAGE_BYTES;
        self.bytes -= capacity;
        // SAFETY: `keep` got it with this capacity from a buffer that was dropped.
        unsafe { free(start, capacity) }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        while self.bytes > 0 {
            self.release_most();
        }
    }
}

#[expect(unsafe_code, reason = "an aligned allocation has no safe form")]
impl AlignedBuffer {
    /// An empty buffer for at least `bytes` bytes, rounded up to whole pages (at least one). Its
    /// memory is zeroed.
    pub fn with_capacity(bytes: usize) -> Self {
        let capacity = bytes.max(1).next_multiple_of(PAGE_BYTES);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout(capacity)) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout(capacity)) };
        ALLOCATED.fetch_add(capacity, Ordering::Relaxed);
        AlignedBuffer { start, capacity, length: 0 }
    }

    /// As [`with_capacity`](Self::with_capacity), for bytes that replace what is there: the memory
    /// holds anything.
    pub fn for_reading(bytes: usize) -> Self {
        let capacity = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let spare = SPARES.try_with(|spares| spares.borrow_mut().take(capacity));
        match spare.ok().flatten() {
            Some(start) => AlignedBuffer { start, capacity, length: 0 },
            None => AlignedBuffer::with_capacity(bytes),
        }
    }

    /// A buffer holding `bytes`, its length padded with zeros to whole pages.
    pub fn padded(bytes: &[u8]) -> Self {
        let mut buffer = AlignedBuffer::with_capacity(bytes.len());
        buffer.set_len(buffer.capacity());
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets how many bytes count as content. The memory is always initialised.
    pub fn set_len(&mut self, length: usize) {
        assert!(length <= self.capacity, "length {length} over capacity {}", self.capacity);
        self.length = length;
    }

    /// Appends bytes. Panics when they do not fit: the caller sizes the buffer.
    pub fn extend(&mut self, bytes: &[u8]) {
        let start = self.length;
        self.set_len(start + bytes.len());
        self[start..].copy_from_slice(bytes);
    }

    /// Start of the memory, for backends that hand it to the kernel.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

#[expect(unsafe_code, reason = "an aligned allocation has no safe form")]
impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        let (start, capacity) = (self.start, self.capacity);
        let kept = SPARES.try_with(|spares| spares.borrow_mut().keep(start, capacity));
        // The thread may be past its lists: at its end.
        if !kept.unwrap_or(false) {
            // SAFETY: allocated in `with_capacity` with this capacity, dropped once and not kept.
            unsafe { free(start, capacity) }
        }
    }
}

// SAFETY: the buffer owns its memory and hands out no aliases.
#[expect(unsafe_code, reason = "owned memory may move between threads")]
unsafe impl Send for AlignedBuffer {}

#[expect(unsafe_code, reason = "view of memory that is always initialised")]
impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `length <= capacity` bytes are allocated and were zeroed when they were.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

#[expect(unsafe_code, reason = "view of memory that is always initialised")]
impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` excludes other views.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuffer({} of {} bytes)", self.length, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_padded_and_zeroed() {
        let buffer = AlignedBuffer::padded(b"abc");
        assert_eq!(buffer.as_ptr() as usize % PAGE_BYTES, 0);
        assert_eq!((buffer.len(), &buffer[..3], buffer[3]), (PAGE_BYTES, &b"abc"[..], 0));
        let mut grown = AlignedBuffer::with_capacity(PAGE_BYTES + 1);
        assert_eq!((grown.capacity(), grown.len()), (2 * PAGE_BYTES, 0));
        grown.extend(b"xy");
        assert_eq!(&grown[..], b"xy");
    }

    /// What this thread keeps: buffers of so many pages, and bytes of all.
    fn kept(pages: usize) -> (usize, usize) {
        SPARES.with_borrow(|spares| (spares.lists[pages - 1].len(), spares.bytes))
    }

    /// Runs a test on a thread that has kept nothing yet.
    fn on_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new().spawn(test).unwrap().join().unwrap();
    }

    #[test]
    fn a_freed_buffer_is_read_into_again_and_a_new_one_is_zeroed() {
        on_thread(|| {
            let mut buffer = AlignedBuffer::for_reading(3 * PAGE_BYTES);
            let start = buffer.as_mut_ptr();
            buffer.extend(b"what was read");
            drop(buffer);
            assert_eq!(kept(3), (1, 3 * PAGE_BYTES));
            let zeroed = AlignedBuffer::padded(&[0; 2 * PAGE_BYTES + 1]);
            assert!(zeroed.len() == 3 * PAGE_BYTES && zeroed.iter().all(|byte| *byte == 0));
            let mut again = AlignedBuffer::for_reading(2 * PAGE_BYTES + 1);
            assert_eq!(
                (again.as_mut_ptr(), again.len(), again.capacity()),
                (start, 0, 3 * PAGE_BYTES)
            );
            assert_eq!(kept(3), (0, 0));
            // Another length is another memory.
            drop(again);
            let other = AlignedBuffer::for_reading(PAGE_BYTES);
            assert_eq!((other.capacity(), kept(3)), (PAGE_BYTES, (1, 3 * PAGE_BYTES)));
        });
    }

    #[test]
    fn a_thread_keeps_so_much_and_lets_every_length_in() {
        on_thread(|| {
            let pages = SPARE_BYTES_MAX / PAGE_BYTES;
            let many: Vec<_> =
                (0..2 * pages).map(|_| AlignedBuffer::for_reading(PAGE_BYTES)).collect();
            drop(many);
            assert_eq!(kept(1), (pages, SPARE_BYTES_MAX));
            drop(AlignedBuffer::for_reading(SPARE_PAGES_MAX * PAGE_BYTES));
            assert_eq!(kept(SPARE_PAGES_MAX), (1, SPARE_BYTES_MAX));
            assert_eq!(kept(1).0, pages - SPARE_PAGES_MAX);
            drop(AlignedBuffer::for_reading((SPARE_PAGES_MAX + 1) * PAGE_BYTES));
            assert_eq!(kept(1), (pages - SPARE_PAGES_MAX, SPARE_BYTES_MAX), "too long to be kept");
        });
    }

    #[test]
    fn bytes_of_all_buffers_are_counted_until_they_are_freed() {
        // Too long to be kept, and longer than what other tests make meanwhile.
        const LONG: usize = 256 << 20;
        let before = buffer_bytes();
        let buffer = AlignedBuffer::with_capacity(LONG);
        let with = buffer_bytes();
        drop(buffer);
        let after = buffer_bytes();
        assert!(with > before + LONG / 2 && with > after + LONG / 2, "{before}, {with}, {after}");
    }

    #[test]
    fn a_buffer_may_be_freed_by_another_thread_and_after_its_lists() {
        thread_local! {
            static LATE: RefCell<Option<AlignedBuffer>> = const { RefCell::new(None) };
        }
        let buffer = AlignedBuffer::padded(b"abc");
        on_thread(move || {
            // The order in which a thread's variables go is not told.
            LATE.set(Some(AlignedBuffer::for_reading(PAGE_BYTES)));
            drop(buffer);
            assert_eq!(kept(1), (1, PAGE_BYTES));
        });
    }
}
