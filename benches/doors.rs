//! `cargo bench --bench doors`: what a call costs that comes from outside a shard.
//!
//! The library's door is measured as a program uses it: from a thread of its own, one call at a
//! time, and with many in flight. Beside it, in the same run, a bare ping-pong of two threads: what
//! a hop costs where nothing is done behind it. CPU time is the process's, all threads together.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;
#[path = "doors/library.rs"]
mod library;
#[path = "doors/ping_pong.rs"]
mod ping_pong;

use frame::{Arguments, print_head};

fn main() {
    let arguments = Arguments::parse();
    print_head(&arguments);
    // Each door has a module, which prints its own rows.
    ping_pong::print(&arguments);
    library::print(&arguments);
}
