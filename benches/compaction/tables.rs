//! Many tables of one row: how they are made, and how a directory of them opens.

use futures::executor::block_on;
use tidegate_engine::CompactionOptions;

use crate::frame::table::write;
use crate::frame::{Arguments, Row, Target, copy, timed};
use crate::world;

const NAME: &str = "tables of one row";

pub fn print(arguments: &Arguments) {
    if !arguments.wants(NAME) {
        return;
    }
    let count = arguments.scale(100, 500);
    let directory = tempfile::tempdir().unwrap();
    let killed = tempfile::tempdir().unwrap();
    let database = world::open(directory.path());
    let ((), made) = timed(|| {
        for number in 0..count {
            let name = format!("t{number}");
            let schema = world::create(&database, &name, CompactionOptions::default());
            block_on(database.apply(write(&schema, 1, 1, 1))).unwrap();
        }
    });
    // The log is durable by then. A copy has what a killed process leaves.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    copy(directory.path(), killed.path());
    block_on(database.close()).unwrap();
    let start = |folder| {
        let (database, wall) = timed(|| world::open(folder));
        let tables = database.catalog();
        for number in [0, count - 1] {
            let schema = tables.table("default", &format!("t{number}")).unwrap();
            assert_eq!(world::scan(&database, schema), 1);
        }
        block_on(database.close()).unwrap();
        wall.as_secs_f64()
    };
    for (what, figure, target) in [
        ("made", made.as_secs_f64(), Target::None),
        ("start", start(directory.path()), Target::AtMost(1.5)),
        ("start after a kill", start(killed.path()), Target::AtMost(3.0)),
    ] {
        let name = format!("{count} {NAME}: {what}");
        Row { name: &name, unit: "s", figure, baseline: None, target }.print(arguments);
    }
}
