//! How a program reads and writes rows: by key, by scan, by batch.
//!
//! `call.rs` has the calls and what is on its way, `conditional.rs` those that write if something
//! holds, `scan.rs` and `write_batch.rs` what they are asked for by people who do not want to build
//! a `ReadCommand` or mutations, `stream.rs` the batches of a read. `refusal.rs` is what callers
//! refuse by themselves. Not here: what a shard does for them (`shard/call.rs`).

mod call;
mod conditional;
mod refusal;
mod scan;
mod stream;
mod write_batch;

pub use call::{Getting, GettingMany, Under, Writing};
pub use conditional::Deciding;
pub use scan::Scan;
pub use stream::BatchStream;
pub use write_batch::WriteBatch;
