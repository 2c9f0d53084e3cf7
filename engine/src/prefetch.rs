//! Asking the processor for memory before it is needed, so that several pieces come at once where
//! each would be found only by way of the one before.

use std::ptr;
use std::rc::Rc;

/// Bytes that the processor fetches together.
pub const LINE_BYTES: usize = 64;

/// Memory that somebody will want soon. It need not be right, and there need be no memory at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub address: usize,
    pub bytes: usize,
}

impl Memory {
    /// That of a value, without what it points to.
    #[inline(always)]
    pub fn of<T>(value: &T) -> Self {
        Memory { address: ptr::from_ref(value).addr(), bytes: size_of::<T>() }
    }

    /// That of the elements.
    #[inline(always)]
    pub fn of_slice<T>(elements: &[T]) -> Self {
        Memory { address: elements.as_ptr().addr(), bytes: size_of_val(elements) }
    }

    /// That of a value and of the counts of its holders, which stand before it.
    #[inline(always)]
    pub fn of_shared<T>(value: &Rc<T>) -> Self {
        let counts = 2 * size_of::<usize>();
        let Memory { address, bytes } = Memory::of(&**value);
        Memory { address: address - counts, bytes: bytes + counts }
    }

    /// Has it fetched.
    #[inline(always)]
    pub fn prefetch(self) {
        let lines = self.address % LINE_BYTES + self.bytes;
        for line in 0..lines.div_ceil(LINE_BYTES) {
            prefetch_line(self.address.wrapping_add(line * LINE_BYTES));
        }
    }
}

#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[expect(unsafe_code, reason = "an instruction that takes a pointer and does not follow it")]
fn prefetch_line(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let place = ptr::without_provenance::<i8>(address);
    // SAFETY: the instruction accesses nothing and never faults, whatever the address is.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
}

/// Other processors fetch by their own lights.
#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn prefetch_line(_address: usize) {}
