//! What share of DataFusion's published records hold that need no table and are on no list.

#[allow(dead_code, reason = "the test checks the list")]
#[path = "../../tests/slt/expected.rs"]
mod expected;
#[path = "../../tests/slt/cell.rs"]
mod cell;
#[path = "../../tests/slt/record.rs"]
mod record;
#[path = "../../tests/slt/run.rs"]
mod run;

use std::env;
use std::path::Path;

use crate::frame::{Arguments, Row, Target};

const HOLDING: &str = "published records of DataFusion that hold";

pub async fn print(arguments: &Arguments) {
    if !arguments.wants(HOLDING) {
        return;
    }
    let Some(folder) = env::var_os("TIDEGATE_SLT") else {
        return eprintln!("left out, as TIDEGATE_SLT names no folder: {HOLDING}");
    };
    let (count, _) = run::run(Path::new(&folder)).await;
    let asked = count.asked() as f64;
    let figure = 100.0 * count.holding as f64 / asked;
    let target = Target::AtLeast(99.0);
    Row { name: HOLDING, unit: "%", figure, baseline: None, target }.print(arguments);
}
