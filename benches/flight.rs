//! `cargo bench --bench flight`: what users, TLS, parts and snapshots cost a service.
//!
//! Servers are child processes, clients are tasks of this one. Two servers that are compared have a
//! copy of the same data each, and are asked in turns.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[path = "flight/access.rs"]
mod access;
#[path = "flight/client.rs"]
mod client;
#[path = "flight/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "a group uses of the client what it needs")]
#[path = "doors/flight_client.rs"]
mod flight_client;
#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;
#[path = "flight/parts.rs"]
mod parts;
#[allow(dead_code, reason = "a group uses of the server what it needs")]
#[path = "doors/server.rs"]
mod server;
#[path = "flight/snapshot.rs"]
mod snapshot;
#[path = "../tests/tpch/tables.rs"]
mod tables;
#[path = "flight/tls.rs"]
mod tls;

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
    let arguments = Arguments::parse();
    print_head(&arguments);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // Each part prints its own rows.
        parts::print(&arguments).await;
        tls::print(&arguments).await;
        access::print(&arguments).await;
        snapshot::print(&arguments).await;
        cluster::print(&arguments).await;
    });
    ExitCode::SUCCESS
}
