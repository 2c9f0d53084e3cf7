//! `cargo bench --bench io`: what the I/O scheduler costs, and what it does for reads beside
//! writes.
//!
//! Requests go to a real disk by the engine's own way, with and without the scheduler before it, in
//! turns within one run. The figures of the disk are measured at the start, as `tidegate iotune`
//! does. The latency of a read is the time from its call to its end, queue and disk together.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[path = "io/cost.rs"]
mod cost;
#[path = "io/disk.rs"]
mod disk;
#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;
#[path = "io/mixed.rs"]
mod mixed;
#[path = "io/shares.rs"]
mod shares;

use frame::{Arguments, print_head};
use tidegate_engine::Backend;

fn main() {
    let arguments = Arguments::parse();
    print_head(&arguments);
    cost::print(&arguments);
    if !(mixed::is_wanted(&arguments) || shares::is_wanted(&arguments)) {
        return;
    }
    tidegate_engine::disk::run(Backend::Auto, |raw, _| async {
        let bench = disk::Bench::prepare(raw, &arguments).await;
        if mixed::is_wanted(&arguments) {
            mixed::print(&arguments, &bench).await;
        }
        if shares::is_wanted(&arguments) {
            shares::print(&arguments, &bench).await;
        }
    })
    .unwrap();
}
