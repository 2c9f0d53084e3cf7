//! Traces: streams of reads of a cache, from a running one, from files of others, or made up.
//!
//! ```text
//! running cache ── Recorder ── blocks ──┐
//! our files, oracleGeneral, u32, text ──┼──> Trace ──> replay
//! zipf, scan, loop (seeded) ────────────┘
//! ```
//! Invariant: a trace is what was read and in which order, never keys or values; ids of a recorded
//! one are keyed hashes. Not here: running a policy on one (`replay/`), who records (`database`).

mod format;
mod import;
mod recorder;
mod request;
mod synthetic;

pub use format::{BLOCK_REQUESTS_MAX, encode_block, encode_end, encode_header, read_recorded};
pub use import::{TraceFormat, read_trace};
pub use recorder::Recorder;
pub use request::{Read, Request, Trace, TraceBuilder};
pub use synthetic::Synthetic;
