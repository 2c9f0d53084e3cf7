//! What policies remember, in arrays of fixed size: [`SlotQueues`], several queues over one array of
//! links, [`Ghosts`], entries that left and may return, and [`Sketch`], how often entries were seen.
//! [`trial`] holds what every policy has to stand.
//!
//! Apart from the SDK, so that a policy which needs none of it is not rebuilt to other bytes.
//!
//! Invariant: nothing here reads a clock, draws a random number or iterates by hash.

pub mod ghosts;
pub mod queues;
pub mod sketch;
#[cfg(not(target_arch = "wasm32"))]
pub mod trial;

pub use ghosts::{FingerprintIndex, Ghosts, shorten};
pub use queues::SlotQueues;
pub use sketch::Sketch;
