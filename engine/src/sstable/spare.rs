//! Memory of windows that a thread keeps for the next ones.
//!
//! A point read copies some pages into its window, parses them and lets go: the same memory every
//! time is memory that the processor has at hand. Invariant: what is handed out is empty.

use std::cell::RefCell;

/// Most that are kept, and bytes of one.
const SPARES_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Memory that was used last, or none.
pub(super) fn take() -> Vec<u8> {
    SPARES.with_borrow_mut(|spares| spares.pop().unwrap_or_default())
}

/// Takes memory back.
pub(super) fn keep(mut bytes: Vec<u8>) {
    if !(1..=SPARE_BYTES_MAX).contains(&bytes.capacity()) {
        return;
    }
    bytes.clear();
    // A thread that ends keeps none.
    let _ = SPARES.try_with(|spares| {
        let spares = &mut *spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            spares.push(bytes);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_empty_and_a_bounded_part_of_it() {
        let thread = std::thread::Builder::new().spawn(|| {
            assert_eq!(take().capacity(), 0);
            keep(Vec::new());
            keep(Vec::with_capacity(SPARE_BYTES_MAX + 1));
            assert_eq!(take().capacity(), 0);
            for size in 1..=2 * SPARES_MAX {
                keep(vec![7; 100 * size]);
            }
            let kept: Vec<_> = (0..=SPARES_MAX).map(|_| take()).collect();
            assert!(kept.iter().all(Vec::is_empty));
            let sizes: Vec<_> = kept.iter().map(Vec::capacity).collect();
            assert_eq!(sizes, [400, 300, 200, 100, 0]);
        });
        thread.unwrap().join().unwrap();
    }
}
