//! What others expect of SQL: the records of DataFusion's own test files that need no table.
//!
//! `TIDEGATE_SLT` names the folder with the files (`*.slt`, of the crate
//! `datafusion-sqllogictest`); without it the check is skipped. Each file has a session of its own.
//! A record is left out where it names a table or view, or is a statement about one: how a table is
//! made is a matter of each engine. A record that expects an error holds where the engine refuses
//! as well: words differ.
//!
//! `expected.txt` lists what is not as there, each with a reason; a line that fits no record fails
//! the test too. What holds or not by the memory at hand is listed as well.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod cell;
mod expected;
mod record;
mod run;
#[path = "../skip.rs"]
mod skip;

use std::env;
use std::path::PathBuf;

use run::run;

#[test]
fn published_records_hold() {
    let Some(folder) = env::var_os("TIDEGATE_SLT").map(PathBuf::from) else {
        return skip::skip(
            "records of DataFusion",
            "TIDEGATE_SLT names no folder with *.slt files",
        );
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(16 << 20)
        .build()
        .unwrap();
    let (count, expected) = runtime.block_on(run(&folder));
    let (holding, asked) = (count.holding, count.asked());
    let (listed, of_tables) = (count.listed, count.of_tables);
    println!("{holding} of {asked} records hold, {listed} listed, {of_tables} need a table");
    count.differing.iter().for_each(|differs| println!("\n{differs}"));
    assert!(asked > 1000, "{asked} records: is {} the folder?", folder.display());
    expected.check();
    assert_eq!(holding, asked, "records differ and are not listed: see above");
}
