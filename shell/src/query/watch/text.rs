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
    let left_out = record.left_out();
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
    if left_out > 0 {
        line("", "", &format!("left out: {left_out} steps more"));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use tidegate_engine::clock::SimulatedClock;
    use tidegate_engine::probe::{Detail, DiskRead, Watch};

    use super::super::record::Did;
    use super::*;
    use crate::text::width::width;

    #[test]
    fn steps_fit_the_screen() {
        let clock = SimulatedClock::new(0);
        let watch = Watch::new(clock.clone(), Detail::Steps);
        watch.note(|| "planned");
        clock.advance(Duration::from_micros(90));
        watch.read(Arc::new("ks.t")).on(1).disk_read(&DiskRead {
            file: Path::new("me-12-big-Data.db"),
            class: "query",
            offset: 40960,
            bytes: 131_072,
            queued_ns: 3_000,
            disk_ns: 120_000,
        });
        let mut did = Did::default();
        assert!(did.keep(watch.clone()).is_none());
        let record = Record {
            number: 7,
            started_us: 0,
            duration_us: 1234,
            session: "shell".into(),
            statement: "SELECT 1".into(),
            rows: 2,
            error: None,
            trace_id: None,
            did,
        };
        let text = trace_text(&record, 60);
        assert_eq!(
            text,
            "trace 7: 1234 µs, rows: 2\n\
             \x20      µs shard  step\n\
             \x20       0        planned\n\
             \x20      90     1  me-12-big-Data.db: 131072 bytes at 40960,\n\
             \x20                  queued 3 µs, in the disk 120 µs (query)\n\
             \x20    1234     1  ks.t: disk_reads=1, disk_bytes=131072,\n\
             \x20                  time_queued=3 µs, time_disk=120 µs\n"
        );
        (0..2000).for_each(|_| watch.note(|| "more"));
        let left_out = record.left_out();
        let end = format!("left out: {left_out} steps more\n");
        assert!(left_out > 0 && trace_text(&record, 60).ends_with(&end));
        for columns in [40, 60, 80, 200] {
            let text = trace_text(&record, columns);
            assert!(text.lines().all(|line| width(line) <= columns), "{columns}:\n{text}");
        }
        let failed = Record { error: Some("no".to_owned()), ..record };
        assert!(trace_text(&failed, 80).starts_with("trace 7: 1234 µs, an error\n"));
    }
}
