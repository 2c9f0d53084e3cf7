//! `cargo bench --bench compaction`: what merging of SSTables costs and what it leaves, how reads
//! fare beside it and without a cache, and how a directory of many SSTables or many tables opens.
//!
//! Everything but a simulated day goes to a real disk by the public API. Bytes that were written
//! are counted by the I/O classes; a read's cost is the requests that it made with next to no
//! cache.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[path = "compaction/bulk.rs"]
mod bulk;
#[path = "compaction/cold.rs"]
mod cold;
#[path = "compaction/day.rs"]
mod day;
#[path = "compaction/flushes.rs"]
mod flushes;
#[allow(dead_code, reason = "a group uses of the client what it needs")]
#[path = "doors/flight_client.rs"]
mod flight_client;
#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;
#[path = "compaction/load.rs"]
mod load;
#[path = "compaction/merge.rs"]
mod merge;
#[allow(dead_code, reason = "a group uses of the server what it needs")]
#[path = "doors/server.rs"]
mod server;
#[path = "../tests/model/day.rs"]
mod simulated;
#[path = "compaction/strategies.rs"]
mod strategies;
#[path = "compaction/tables.rs"]
mod tables;
#[path = "compaction/world.rs"]
mod world;

use std::process::ExitCode;

use frame::{Arguments, print_head};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: tidegate::allocator::Allocator = tidegate::allocator::Allocator;

fn main() -> ExitCode {
    if let Some(code) = server::as_child() {
        return code;
    }
    let arguments = Arguments::parse();
    print_head(&arguments);
    bulk::print(&arguments);
    merge::print(&arguments);
    strategies::print(&arguments);
    flushes::print(&arguments);
    tables::print(&arguments);
    cold::print(&arguments);
    day::print(&arguments);
    load::print(&arguments);
    ExitCode::SUCCESS
}
