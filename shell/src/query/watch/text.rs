//! A trace as people read it.

use std::fmt::Write;

use super::record::Record;
use crate::text::width::wrapped;

/// Columns before the text of a step: microseconds and shard.
const HEAD_COLUMNS: usize = 17;
/// Columns that the text of a step gets on the narrowest screen.
const TEXT_COLUMNS_MIN: usize = 20;

/// The steps of a trace, each on a line of at most so many columns or on several.
pub fn trace_text(record: &Record, columns: usize) -> String {
    let Record { number, duration_us, rows, error, .. } = record;
    let end = match error {
        None => format!("rows: {rows}"),
        Some(_) => "an error".to_owned(),
    };
    let mut out = format!("trace {number}: {duration_us} µs, {end}\n");
    let mut line = |at: &str, shard: &str, text: &str| {
        let text = wrapped(text, columns.saturating_sub(HEAD_COLUMNS).max(TEXT_COLUMNS_MIN), "  ");
        for (n, part) in text.lines().enumerate() {
            let (at, shard) = if n == 0 { (at, shard) } else { ("", "") };
            writeln!(out, "{at:>9} {shard:>5}  {part}").expect("text takes what is written to it");
        }
    };
    line("µs", "shard", "step");
    for step in &record.steps() {
        let shard = step.shard.map_or(String::new(), |shard| shard.to_string());
        let class = step.class.map_or(String::new(), |class| format!(" ({class})"));
        line(&(step.at_ns / 1000).to_string(), &shard, &format!("{}{class}", step.text));
    }
    if record.left_out > 0 {
        line("", "", &format!("left out: {} steps more", record.left_out));
    }
    out
}

#[cfg(test)]
mod tests {
    use tidegate_engine::probe::{ReadStats, Step};

    use super::*;
    use crate::text::width::width;

    #[test]
    fn steps_fit_the_screen() {
        let step = |at_us: u64, shard, class, text: &str| Step {
            at_ns: at_us * 1000,
            shard,
            class,
            bytes: None,
            text: text.to_owned(),
        };
        let long = "me-12-big-Data.db: 131072 bytes at 40960, queued 3 µs, in the disk 120 µs";
        let record = Record {
            number: 7,
            started_us: 0,
            duration_us: 1234,
            session: "shell".to_owned(),
            statement: "SELECT 1".to_owned(),
            rows: 2,
            error: None,
            reads: Vec::new(),
            noted: vec![step(0, None, None, "planned"), step(90, Some(1), Some("query"), long)],
            left_out: 5,
            stats: ReadStats::default(),
        };
        let text = trace_text(&record, 60);
        assert_eq!(
            text,
            "trace 7: 1234 µs, rows: 2\n\
             \x20      µs shard  step\n\
             \x20       0        planned\n\
             \x20      90     1  me-12-big-Data.db: 131072 bytes at 40960,\n\
             \x20                  queued 3 µs, in the disk 120 µs (query)\n\
             \x20                left out: 5 steps more\n"
        );
        for columns in [40, 60, 80, 200] {
            let text = trace_text(&record, columns);
            assert!(text.lines().all(|line| width(line) <= columns), "{columns}:\n{text}");
        }
        let failed = Record { error: Some("no".to_owned()), ..record };
        assert!(trace_text(&failed, 80).starts_with("trace 7: 1234 µs, an error\n"));
    }
}
