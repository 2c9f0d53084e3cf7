//! Reads at a quarter of what the disk can do, while a flush and a compaction write as fast as they
//! can.

use tidegate_engine::io::{Class, Kind};

use super::disk::{Bench, Load, Pace, Place, Played};
use super::frame::{Arguments, Row, Target, median};

/// Part of the disk's random reads.
const READS: f64 = 0.25;
/// Length of a write of a flush and of a compaction, and how many each has at once.
const WRITE_BYTES: usize = 256 << 10;
const WRITE_DEPTH: usize = 8;

const UNSCHEDULED: &str = "read p95 beside writes, unscheduled";
const SCHEDULED: &str = "read p95 beside writes, scheduled";
const MEDIAN: &str = "read p50 beside writes, scheduled";
const READS_KEPT: &str = "reads beside writes, scheduled";
const WRITES_KEPT: &str = "writes beside reads, scheduled";

pub fn is_wanted(arguments: &Arguments) -> bool {
    [UNSCHEDULED, SCHEDULED, MEDIAN, READS_KEPT, WRITES_KEPT]
        .iter()
        .any(|name| arguments.wants(name))
}

/// What is kept of each round.
#[derive(Default)]
struct Rounds {
    p50: Vec<f64>,
    p95: Vec<f64>,
    reads: Vec<f64>,
    written: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, mut reads: Option<Played>, writes: &[Played]) {
        if let Some(reads) = &mut reads {
            self.p50.push(reads.us(0.5));
            self.p95.push(reads.us(0.95));
            self.reads.push(reads.per_second());
        }
        let requests: f64 = writes.iter().map(Played::per_second).sum();
        self.written.push(requests * WRITE_BYTES as f64 / 1e6);
    }
}

pub async fn print(arguments: &Arguments, bench: &Bench) {
    let reads = Load::reads(Pace::Open(READS * bench.figures.read_iops as f64));
    let write = |class, from| Load {
        class,
        kind: Kind::Write,
        bytes: WRITE_BYTES,
        place: Place::Sequential(from),
        pace: Pace::Closed(WRITE_DEPTH),
    };
    let writes = [write(Class::Flush, 0.0), write(Class::Compaction, 0.5)];
    let [mut alone, mut writing, mut unscheduled, mut scheduled] = <[Rounds; 4]>::default();
    for _ in 0..bench.rounds {
        alone.add(bench.play(None, &[reads]).await.pop(), &[]);
        writing.add(None, &bench.play(None, &writes).await);
        let both = [reads, writes[0], writes[1]];
        let mut played = bench.play(None, &both).await;
        unscheduled.add(Some(played.remove(0)), &played);
        let mut played = bench.play(Some(&bench.queue(1)), &both).await;
        scheduled.add(Some(played.remove(0)), &played);
    }
    let alone_p95 = median(alone.p95);
    for (name, unit, figures, baseline, target) in [
        (UNSCHEDULED, "us", unscheduled.p95, ("alone", alone_p95), Target::RatioAtLeast(4.0)),
        (SCHEDULED, "us", scheduled.p95, ("alone", alone_p95), Target::RatioAtMost(1.3)),
        (MEDIAN, "us", scheduled.p50, ("alone", median(alone.p50)), Target::None),
        (
            READS_KEPT,
            "/s",
            scheduled.reads,
            ("alone", median(alone.reads)),
            Target::RatioAtLeast(0.97),
        ),
        (
            WRITES_KEPT,
            "MB/s",
            scheduled.written,
            ("without reads", median(writing.written)),
            Target::RatioAtLeast(0.6),
        ),
    ] {
        let (figure, baseline) = (median(figures), Some(baseline));
        Row { name, unit, figure, baseline, target }.print(arguments);
    }
}
