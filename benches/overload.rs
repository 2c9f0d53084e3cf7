//! `cargo bench --bench overload`: what shards do that are asked for more than they can do.
//!
//! Clients are threads of this process that ask through the library, so they take a part of the
//! same cores. The server of the rows about connections is a child process. A closed client keeps
//! a number of reads in flight; an open one asks at times that a Poisson process draws, whatever
//! became of earlier reads. What is compared runs in turns.
//!
//! `-- --pictures=benches` draws goodput against offered load, and even reads against those of a
//! hot partition, into that folder.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[path = "overload/client.rs"]
mod client;
#[path = "overload/connections.rs"]
mod connections;
#[allow(dead_code, reason = "a group uses of the client what it needs")]
#[path = "doors/flight_client.rs"]
mod flight_client;
#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;
#[path = "overload/goodput.rs"]
mod goodput;
#[path = "overload/hot.rs"]
mod hot;
#[path = "overload/levels.rs"]
mod levels;
#[path = "overload/limiter.rs"]
mod limiter;
#[path = "overload/memory.rs"]
mod memory;
#[path = "overload/refusal.rs"]
mod refusal;
#[allow(dead_code, reason = "a group uses of the server what it needs")]
#[path = "doors/server.rs"]
mod server;
#[path = "overload/shards.rs"]
mod shards;
#[path = "overload/world.rs"]
mod world;

use std::process::ExitCode;

use frame::{Arguments, print_head};
use tidegate::allocator::Allocator;

/// What the program takes its memory from.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    if let Some(code) = server::as_child() {
        return code;
    }
    let arguments = Arguments::parse();
    print_head(&arguments);
    // Each part prints its own rows.
    limiter::print(&arguments);
    refusal::print(&arguments);
    hot::print(&arguments);
    shards::print(&arguments);
    goodput::print(&arguments);
    levels::print(&arguments);
    memory::print(&arguments);
    connections::print(&arguments);
    ExitCode::SUCCESS
}
