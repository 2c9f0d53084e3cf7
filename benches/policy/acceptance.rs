//! Every policy against published miss ratios on recorded traces, and whether its victims are those
//! of the same decisions in other batches. `TIDEGATE_TRACES` names the folder of the traces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tidegate_engine::clock::SystemClock;
use tidegate_engine::plugin::PolicyHost;
use tidegate_engine::replay::{Candidate, Capacity, Settings};
use tidegate_engine::trace::{Trace, read_trace};

use super::frame::{Arguments, Row, Target};
use super::load;
use super::published::{GOALS, Goal, PUBLISHED};
use super::skip::skip;

struct Traces(BTreeMap<&'static str, Trace>);

impl Traces {
    fn read(folder: &Path) -> Self {
        let names: Vec<&str> = PUBLISHED.iter().map(|(name, ..)| *name).collect();
        let read = |name| {
            let path = folder.join(format!("{name}.u32.zst"));
            (name, read_trace(&path, &std::fs::read(&path).unwrap(), None).unwrap())
        };
        Traces(names.into_iter().map(read).collect())
    }

    /// The largest difference from what is wanted, and of how many runs in other batches the
    /// victims are others.
    fn run(&self, host: &PolicyHost, goal: &Goal, quick: bool) -> (f64, usize) {
        let compiled = load(host, &goal.policy.replace('-', "_"));
        let candidate = Candidate::Component { compiled, params: Vec::new() };
        let clock = SystemClock::new();
        let (mut worst, mut others) = (0.0_f64, 0);
        for (name, entries, row) in &PUBLISHED {
            if quick && *name != "web07" {
                continue;
            }
            let trace = &self.0[name];
            let run = |batch| {
                let settings = Settings { batch, ..Settings::new(Capacity::Entries(*entries)) };
                candidate.run(trace, &settings, &clock, &AtomicBool::new(false)).unwrap().unwrap()
            };
            let whole = run(256);
            let difference = 1.0 - whole.hit_ratio() - (goal.expected)(row);
            worst = worst.max(if goal.two_sided { difference.abs() } else { difference });
            // A long trace says no more about batches than a short one.
            if *name != "OLTP" {
                others += usize::from(run(7).victims_hash != whole.victims_hash);
            }
        }
        (worst, others)
    }
}

/// Runs the rows if they are wanted.
pub fn run(arguments: &Arguments, host: &PolicyHost) {
    let (ratio, victims) =
        ("acceptance, largest difference of", "acceptance, victims that depend on batches of");
    let wanted = |goal: &&Goal| {
        [ratio, victims].iter().any(|name| arguments.wants(&format!("{name} {}", goal.policy)))
    };
    let goals: Vec<&Goal> = GOALS.iter().filter(wanted).collect();
    if goals.is_empty() {
        return;
    }
    let Some(folder) = std::env::var_os("TIDEGATE_TRACES").map(PathBuf::from) else {
        return skip("recorded traces", "TIDEGATE_TRACES names no folder for the acceptance rows");
    };
    let traces = Traces::read(&folder);
    for goal in goals {
        let (worst, others) = traces.run(host, goal, arguments.quick);
        let name = format!("{ratio} {}", goal.policy);
        let target = Target::AtMost(goal.tolerance * 100.0);
        Row { name: &name, unit: "points", figure: worst.max(0.0) * 100.0, baseline: None, target }
            .print(arguments);
        let name = format!("{victims} {}", goal.policy);
        let target = Target::AtMost(0.0);
        Row { name: &name, unit: "runs", figure: others as f64, baseline: None, target }
            .print(arguments);
    }
}
