//! `cargo bench --bench doors`: what a call costs that comes from outside a shard.
//!
//! The library's door is measured as a program uses it: from a thread of its own, one call at a
//! time, and with many in flight. Beside it, in the same run, a bare ping-pong of two threads: what
//! a hop costs where nothing is done behind it. SQL in process stands beside the library. Flight
//! SQL is served by a child process. Beside it stands a bare tonic service, also a child, that
//! answers the same calls from memory, and a node of Cassandra where there is a JDK. CPU time is a
//! process's, all threads together.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[path = "doors/bare.rs"]
mod bare;
#[path = "doors/cassandra.rs"]
mod cassandra;
#[path = "doors/copy.rs"]
mod copy;
#[path = "doors/flight.rs"]
mod flight;
#[allow(dead_code, reason = "a group uses of the client what it needs")]
#[path = "doors/flight_client.rs"]
mod flight_client;
#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;
#[path = "doors/library.rs"]
mod library;
#[allow(dead_code, reason = "a group uses of the node what it needs")]
#[path = "../tests/interop/node.rs"]
mod node;
#[path = "doors/ping_pong.rs"]
mod ping_pong;
#[allow(dead_code, reason = "a group uses of the server what it needs")]
#[path = "doors/server.rs"]
mod server;
#[path = "doors/scan.rs"]
mod scan;
#[path = "doors/sql.rs"]
mod sql;

use std::path::PathBuf;
use std::process::ExitCode;

use frame::{Arguments, print_head};
use tidegate::allocator::Allocator;
use tokio::runtime::Builder;

/// What the program takes its memory from.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    if let Some(code) = server::as_child() {
        return code;
    }
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(bare::CHILD) {
        return bare::run(&PathBuf::from(words.next().unwrap()));
    }
    let arguments = Arguments::parse();
    print_head(&arguments);
    // Each door has a module, which prints its own rows.
    ping_pong::print(&arguments);
    library::print(&arguments);
    let alone = Builder::new_current_thread().enable_all().build().unwrap();
    if arguments.wants("SQL point read") {
        let loaded = library::load(&arguments);
        alone.block_on(sql::print(&arguments, &loaded));
    }
    if arguments.wants("COPY from Parquet and CSV") {
        alone.block_on(copy::print(&arguments));
    }
    if ["Flight", "ingest", "executemany", "idle server"].iter().any(|name| arguments.wants(name)) {
        let threads = Builder::new_multi_thread().enable_all().build().unwrap();
        threads.block_on(flight::print(&arguments));
    }
    ExitCode::SUCCESS
}
