//! A simulated day of writes whose rows live for one hour: the room that they take stays the same.

use tidegate_engine::CompactionClass;

use crate::frame::{Arguments, Row, Target};
use crate::simulated::{Day, play};

const NAME: &str = "24 h of 10 k writes/s, TTL 1 h";

pub fn print(arguments: &Arguments) {
    if !arguments.wants(NAME) {
        return;
    }
    let scale = arguments.scale(10_000, 1000) as u64;
    for class in CompactionClass::ALL {
        let most = play(Day { hours: 24, scale, class });
        // Behind the first two hours all that comes has something that goes.
        let second = most[1] * scale;
        let later = most[2..].iter().max().copied().unwrap_or(0) * scale;
        let name = class.class().trim_end_matches("CompactionStrategy").to_lowercase();
        let name = format!("{NAME}, {name}: disk");
        Row {
            name: &name,
            unit: "GB",
            figure: later as f64 / 1e9,
            baseline: Some(("in the second hour", second as f64 / 1e9)),
            target: Target::RatioAtMost(1.2),
        }
        .print(arguments);
    }
}
