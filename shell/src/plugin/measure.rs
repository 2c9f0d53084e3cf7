//! `tidegate plugin bench` and `replay`: policies on traces, side by side.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use tidegate_engine::clock::SystemClock;
use tidegate_engine::replay::{Candidate, Capacity, Outcome, Settings};
use tidegate_engine::trace::Trace;

use super::failure::Failure;
use crate::cli::{BenchArguments, ReplayArguments, policy_compiler};
use crate::output::plot::{Chart, Curve, Scale};
use crate::output::{self, Mode, Page, printer};
use crate::query::{load_candidate, load_trace, replay_row, replay_schema};

/// Runs of a measurement; the fastest counts, because others only add what the machine did besides.
const RUNS: usize = 3;
/// Victims that the engine asks for at once.
const AHEAD: u32 = 32;

/// The screen, where there is one; results are never cut short there.
fn page() -> Option<Page> {
    output::screen().map(|(columns, _)| Page { columns, lines: None })
}

/// Runs a candidate; nobody cancels it here but the end of the process.
fn outcome(candidate: &Candidate, trace: &Trace, settings: &Settings) -> Result<Outcome, Failure> {
    let run = candidate.run(trace, settings, &SystemClock::new(), &AtomicBool::new(false))?;
    Ok(run.expect("nobody cancelled it"))
}

/// Time and instructions of a component beside the native LRU, as the engine talks to policies.
pub(super) fn bench(
    arguments: &BenchArguments,
    mode: Mode,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let trace = load_trace(&arguments.trace, None)?;
    let component = load_candidate(&arguments.file.to_string_lossy(), Some(policy_compiler()))?;
    let capacity = arguments.capacity.resolve(&trace)?;
    let settings = Settings { ahead: AHEAD, ..Settings::new(capacity) };
    let mut printer = printer(mode, replay_schema(), page());
    let mut times = Vec::new();
    for candidate in [Candidate::LRU, component] {
        let mut best = outcome(&candidate, &trace, &settings)?;
        for _ in 1..RUNS {
            let again = outcome(&candidate, &trace, &settings)?;
            best = if again.ns < best.ns { again } else { best };
        }
        times.push(best.ns_per_request());
        printer.write(out, &replay_row(candidate.name(), capacity, &best)?)?;
    }
    printer.finish(out)?;
    if mode.is_for_people() {
        writeln!(
            out,
            "{:.1} ns a request inside the policy, {:.1} more than the native LRU; {} requests, \
             {AHEAD} victims at once, the best of {RUNS} runs",
            times[1],
            times[1] - times[0],
            trace.reads().len()
        )?;
    }
    Ok(())
}

/// Hit ratios of policies over capacities, as rows and as curves.
pub(super) fn replay(
    arguments: &ReplayArguments,
    mode: Mode,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let trace = load_trace(&arguments.trace, arguments.format)?;
    describe(arguments, &trace, mode, out)?;
    let capacities = match arguments.capacities.as_slice() {
        [] => Capacity::curve(&trace),
        named => named.to_vec(),
    };
    let candidates: Vec<Candidate> = arguments
        .policies
        .iter()
        .map(|name| load_candidate(name, Some(policy_compiler())))
        .collect::<Result<_, _>>()?;
    let mut printer = printer(mode, replay_schema(), page());
    let mut curves = Vec::new();
    let mut unit = "entries";
    for candidate in &candidates {
        let mut points = Vec::new();
        for capacity in &capacities {
            let capacity = capacity.resolve(&trace)?;
            let settings = Settings {
                capacity,
                batch: arguments.batch,
                ahead: arguments.ahead,
                seed: arguments.seed,
            };
            let outcome = outcome(candidate, &trace, &settings)?;
            printer.write(out, &replay_row(candidate.name(), capacity, &outcome)?)?;
            match capacity {
                Capacity::Bytes(bytes) => {
                    unit = "bytes";
                    points.push((bytes as f64, outcome.byte_hit_ratio()));
                }
                Capacity::Entries(entries) => {
                    points.push((f64::from(entries), outcome.hit_ratio()));
                }
                Capacity::Percent(_) => panic!("a resolved capacity is no share"),
            }
        }
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        curves.push(Curve { name: candidate.name().to_owned(), points });
    }
    printer.finish(out)?;
    let what = if unit == "bytes" { "byte hit ratio" } else { "hit ratio" };
    let title = format!("{what}, {}", arguments.trace);
    let chart = Chart {
        title,
        unit: format!("{unit} in the cache"),
        scale: Scale::Logarithmic,
        curves,
        events: Vec::new(),
    };
    if arguments.plot {
        write!(out, "\n{}", chart.text())?;
    }
    if let Some(file) = &arguments.svg {
        std::fs::write(file, chart.svg()).map_err(|error| {
            Failure::Wrong(format!("cannot write '{}': {error}", file.display()))
        })?;
    }
    Ok(())
}

fn describe(
    arguments: &ReplayArguments,
    trace: &Trace,
    mode: Mode,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if !mode.is_for_people() {
        return Ok(());
    }
    writeln!(
        out,
        "{}: {} requests of {} entries, {} bytes in all",
        arguments.trace,
        trace.reads().len(),
        trace.entry_count(),
        trace.footprint_bytes()
    )?;
    if let Some(hits) = trace.recorded_hits() {
        let ratio = hits as f64 / trace.reads().len().max(1) as f64;
        writeln!(out, "the cache that was recorded hit {:.2} % of them", ratio * 100.0)?;
    }
    if trace.lost() > 0 {
        writeln!(out, "{} reads were lost while it was recorded", trace.lost())?;
    }
    if !trace.is_complete() {
        writeln!(out, "the recording was cut off: its end is missing")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_the_ratio_of_what_its_capacities_count() {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("t.txt");
        // Half of the requests hit, and a fiftieth of the bytes.
        std::fs::write(&trace, "1,10\n1,10\n1,10\n2,970\n").unwrap();
        for (capacity, title, unit, top) in [
            (Capacity::Bytes(1000), "byte hit ratio, ", "bytes in the cache", " 10.0 % |"),
            (Capacity::Entries(2), "hit ratio, ", "entries in the cache", " 60.0 % |"),
        ] {
            let arguments = ReplayArguments {
                policies: vec!["lru".to_owned()],
                trace: trace.display().to_string(),
                format: None,
                capacities: vec![capacity],
                ahead: 1,
                batch: 256,
                seed: 1,
                plot: true,
                svg: None,
            };
            let mut out = Vec::new();
            assert!(replay(&arguments, Mode::Csv, &mut out).is_ok(), "{capacity}");
            let text = String::from_utf8(out).unwrap();
            let (rows, chart) = text.split_once("\n\n").unwrap();
            assert!(rows.contains(",requests,hits,hit_ratio,byte_hit_ratio,"), "{rows}");
            assert!(rows.contains(",4,2,0.5,0.02,"), "{rows}");
            let lines: Vec<&str> = chart.lines().collect();
            assert!(lines[0].starts_with(title) && chart.contains(unit), "{chart}");
            // The highest share that the frame has: a whole tenth above the curve's.
            assert!(lines[1].starts_with(top), "{chart}");
        }
    }

    /// A replay of a recipe with these capacities, which draws into a file.
    fn replayed(capacities: Vec<Capacity>, svg: std::path::PathBuf) -> ReplayArguments {
        ReplayArguments {
            policies: vec!["lru".to_owned(), "optimal".to_owned()],
            trace: "zipf:ids=200,requests=2000,skew=0.9".to_owned(),
            format: None,
            capacities,
            ahead: 1,
            batch: 256,
            seed: 1,
            plot: false,
            svg: Some(svg),
        }
    }

    #[test]
    fn a_curve_goes_from_the_least_capacity_on_in_whatever_order_they_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("curve.svg");
        let capacities = [50, 5, 100].map(Capacity::Entries).to_vec();
        let mut out = Vec::new();
        assert!(replay(&replayed(capacities, file.clone()), Mode::Csv, &mut out).is_ok());
        let rows = String::from_utf8(out).unwrap();
        let named: Vec<String> = rows
            .lines()
            .skip(1)
            .map(|row| row.split(',').take(3).collect::<Vec<_>>().join(" "))
            .collect();
        let wanted = ["lru", "optimal"]
            .iter()
            .flat_map(|policy| [50, 5, 100].map(|size| format!("{policy} {size} entries")));
        assert_eq!(named, wanted.collect::<Vec<_>>());
        let svg = std::fs::read_to_string(file).unwrap();
        let curves: Vec<&str> = svg.split("<polyline points=\"").skip(1).collect();
        assert_eq!(curves.len(), 2, "{svg}");
        for curve in curves {
            let points = curve.split('"').next().unwrap().split(' ');
            let places: Vec<f64> =
                points.map(|point| point.split(',').next().unwrap().parse().unwrap()).collect();
            assert!(places.len() == 3 && places[0] < places[1] && places[1] < places[2], "{svg}");
        }
        assert!(svg.contains(">lru</text>") && svg.contains(">optimal</text>"), "{svg}");
    }

    #[test]
    fn a_picture_that_cannot_be_written_is_told_with_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("absent/curve.svg");
        let arguments = replayed(vec![Capacity::Entries(5)], file);
        match replay(&arguments, Mode::Json, &mut Vec::new()) {
            Err(Failure::Wrong(told)) => {
                assert!(told.starts_with("cannot write '") && told.contains("absent/curve.svg'"));
            }
            Err(Failure::Output(error)) => panic!("{error}"),
            Ok(()) => panic!("there is no such folder"),
        }
    }

    #[test]
    fn people_are_told_of_the_trace_above_the_rows_and_programs_are_not() {
        let directory = tempfile::tempdir().unwrap();
        for mode in [Mode::Table, Mode::Expanded, Mode::Csv, Mode::Json] {
            let file = directory.path().join(format!("{mode}.svg"));
            let mut out = Vec::new();
            let arguments = replayed(vec![Capacity::Entries(5)], file);
            assert!(replay(&arguments, mode, &mut out).is_ok(), "{mode}");
            let text = String::from_utf8(out).unwrap();
            let head = "zipf:ids=200,requests=2000,skew=0.9: 2000 requests of ";
            assert_eq!(text.starts_with(head), mode.is_for_people(), "{text}");
            assert_eq!(text.contains(" bytes in all\n"), mode.is_for_people(), "{text}");
            assert!(!text.contains("was cut off") && !text.contains("were lost"), "{text}");
        }
    }
}
