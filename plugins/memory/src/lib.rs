//! What policies remember, in arrays of fixed size: [`SlotQueues`], several queues over one array of
//! links, [`Tenants`], who is in a slot and where a victim came from, [`Ghosts`], entries that left
//! and may return, and [`Sketch`], how often entries were seen. [`trial`] holds what every policy has
//! to stand.
//!
//! Apart from the SDK, so that a policy which needs none of it is not rebuilt to other bytes.
//!
//! Invariant: nothing here reads a clock, draws a random number or iterates by hash.

pub mod ghosts;
pub mod queues;
pub mod sketch;
pub mod tenants;
#[cfg(not(target_arch = "wasm32"))]
pub mod trial;

pub use ghosts::{FingerprintIndex, Ghosts, shorten};
pub use queues::SlotQueues;
pub use sketch::Sketch;
pub use tenants::Tenants;

/// A percentage of a number of entries, rounded down.
#[inline]
pub fn share(entries: u32, percent: u32) -> u32 {
    (u64::from(entries) * u64::from(percent) / 100) as u32
}
