//! `cargo bench --bench sql`: what SQL costs that reads more than a few keys, and whether it reads
//! no more than it must.
//!
//! A session runs in this process on two shards. Beside TPC-H stands plain DataFusion over Parquet
//! files of the same rows, in the same process and run. `TIDEGATE_SLT` names the folder of
//! DataFusion's published records, as in `tests/slt`; without it that row is left out, and the run
//! says so.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;
#[path = "sql/join.rs"]
mod join;
#[path = "sql/records.rs"]
mod records;
#[path = "sql/shapes.rs"]
mod shapes;
#[path = "sql/streams.rs"]
mod streams;
#[allow(dead_code, reason = "a benchmark uses of the tables what it needs")]
#[path = "../tests/tpch/tables.rs"]
mod tables;
#[path = "sql/tpch.rs"]
mod tpch;
#[path = "sql/tracing.rs"]
mod tracing;
#[path = "sql/world.rs"]
mod world;

use frame::{Arguments, print_head};
use tidegate::allocator::{Allocator, keep_freed};
use tokio::runtime::Builder;

/// What the program takes its memory from.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() {
    keep_freed();
    let arguments = Arguments::parse();
    print_head(&arguments);
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        join::print(&arguments).await;
        streams::print(&arguments).await;
        shapes::print(&arguments).await;
        tracing::print(&arguments).await;
        tpch::print(&arguments).await;
        records::print(&arguments).await;
    });
}
