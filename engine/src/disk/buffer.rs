//! Memory aligned for direct I/O.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::config::PAGE_BYTES;

/// A byte buffer that starts at a page boundary and whose capacity is whole pages.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    capacity: usize,
    length: usize,
}

#[expect(unsafe_code, reason = "an aligned allocation has no safe form")]
impl AlignedBuffer {
    /// An empty buffer for at least `bytes` bytes, rounded up to whole pages (at least one). Its
    /// memory is zeroed.
    pub fn with_capacity(bytes: usize) -> Self {
        let capacity = bytes.max(1).next_multiple_of(PAGE_BYTES);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(Self::layout(capacity)) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(Self::layout(capacity)) };
        AlignedBuffer { start, capacity, length: 0 }
    }

    /// A buffer holding `bytes`, its length padded with zeros to whole pages.
    pub fn padded(bytes: &[u8]) -> Self {
        let mut buffer = AlignedBuffer::with_capacity(bytes.len());
        buffer.set_len(buffer.capacity());
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, PAGE_BYTES).expect("whole pages fit a layout")
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
        // SAFETY: allocated in `with_capacity` with this very layout, and dropped once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

// SAFETY: the buffer owns its memory and hands out no aliases.
#[expect(unsafe_code, reason = "owned memory may move between threads")]
unsafe impl Send for AlignedBuffer {}

#[expect(unsafe_code, reason = "view of memory that is always initialised")]
impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `length <= capacity` bytes are allocated and were zeroed at the start.
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
}
