//! The same work on Tidegate and on other storage engines, in one run.
//!
//! ```text
//! cargo run --release -p tidegate-peers --features rocksdb              # 1 M rows
//! cargo run --release -p tidegate-peers --features rocksdb -- --quick   # 200,000 rows
//! ```
//! A row's figure is Tidegate's, its baseline is another engine's. CPU time is the process's, all
//! threads together, so background work counts. The engines run one after the other, each alone
//! with its own data, and everything fits into its cache.
//!
//! Each engine works as its library suggests. RocksDB and fjall run in the caller's thread.
//! Tidegate's shard is a thread of its own: "on the shard" sends all operations there as one
//! closure, "one call each" crosses to the shard and back for every operation.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[allow(dead_code, reason = "this group uses of the frame what it needs")]
#[path = "../../frame/mod.rs"]
mod frame;
mod leveled;
mod store;
mod work;

use std::path::Path;

use frame::{Arguments, Row, Target, print_head};
use store::Store;
use work::{Figures, Work};

fn main() {
    let arguments = Arguments::parse();
    let work = Work::new(arguments.quick);
    let directory = tempfile::tempdir().expect("a folder for data");
    let place = |name: &str| {
        let folder = directory.path().join(name);
        std::fs::create_dir(&folder).expect("an empty folder");
        folder
    };
    print_head(&arguments);
    if arguments.wants(leveled::NAME) {
        let updates = arguments.scale(500_000, 5_000_000);
        let figure = leveled::of_tidegate(updates, &place("tidegate-leveled"));
        #[cfg(feature = "rocksdb")]
        let baseline = Some(("RocksDB", leveled::of_rocksdb(updates, &place("rocksdb-leveled"))));
        #[cfg(not(feature = "rocksdb"))]
        let baseline = None;
        let target = Target::RatioAtMost(1.1);
        Row { name: leveled::NAME, unit: "times", figure, baseline, target }.print(&arguments);
    }
    let groups =
        ["bulk load", "data files", "full scan", "point read", "slice of 100", "unsynced write"];
    if !groups.iter().any(|name| arguments.wants(name)) {
        return;
    }
    let ours = work::measure::<store::Tidegate>(&work, &place("tidegate"));
    let others = [
        #[cfg(feature = "rocksdb")]
        measured::<store::RocksDb>(&work, &place("rocksdb")),
        measured::<store::Fjall>(&work, &place("fjall")),
    ];
    for &(name, unit, figure) in ours.iter().filter(|(name, ..)| arguments.wants(name)) {
        for (other, figures) in &others {
            let baseline = figures.of(name).map(|baseline| (*other, baseline));
            let target = Target::None;
            Row { name, unit, figure, baseline, target }.print(&arguments);
        }
    }
}

fn measured<S: Store>(work: &Work, folder: &Path) -> (&'static str, Figures) {
    (S::NAME, work::measure::<S>(work, folder))
}
