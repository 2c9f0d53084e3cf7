//! `tidegate plugin check`: whether the engine would take a component, and what its author should
//! know of it.

use std::io::Write;
use std::path::Path;

use tidegate_engine::clock::SystemClock;
use tidegate_engine::plugin::{HostOptions, Inspection, PolicyHost, inspect};
use tidegate_engine::replay::{Trial, try_component};

use super::failure::Failure;
use crate::cli::{CheckArguments, policy_compiler};
use crate::query::read_component;

/// Checks a file; false when the engine would refuse it or put it out.
pub(super) fn run(arguments: &CheckArguments, out: &mut dyn Write) -> Result<bool, Failure> {
    let bytes = read_component(&arguments.file)?;
    let inspection = inspect(&bytes);
    describe(&arguments.file, &inspection, out)?;
    if let Some(fault) = &inspection.fault {
        writeln!(out, "  WRONG {fault}")?;
        return verdict(false, out);
    }
    let host =
        PolicyHost::new(HostOptions { instances_max: 2, compiler: Some(policy_compiler()) })?;
    let compiled = match host.compile("it", &bytes) {
        Ok(compiled) => compiled,
        Err(error) => {
            writeln!(out, "  WRONG {error}")?;
            return verdict(false, out);
        }
    };
    writeln!(out, "  ok    compiles")?;
    let clock = SystemClock::new();
    let trial = match try_component(&compiled, &arguments.params, &clock) {
        Ok(trial) => trial,
        Err(error) => {
            writeln!(out, "  WRONG {error}")?;
            return verdict(false, out);
        }
    };
    tell(&trial, out)
}

/// What the trial found, and whether that is good.
fn tell(trial: &Trial, out: &mut dyn Write) -> Result<bool, Failure> {
    writeln!(out, "  ok    calls itself {} {}", trial.name, trial.version)?;
    for finding in &trial.findings {
        let mark = if finding.is_fault { "WRONG" } else { "ok   " };
        writeln!(out, "  {mark} {}", finding.text)?;
    }
    verdict(trial.is_passed(), out)
}

fn verdict(is_passed: bool, out: &mut dyn Write) -> Result<bool, Failure> {
    writeln!(out, "{}", if is_passed { "the engine takes it" } else { "not fit for the engine" })?;
    Ok(is_passed)
}

fn describe(
    file: &Path,
    inspection: &Inspection,
    out: &mut dyn Write,
) -> Result<(), std::io::Error> {
    let list = |names: &[String]| match names {
        [] => "nothing".to_owned(),
        names => names.join(", "),
    };
    writeln!(out, "{}: {} bytes", file.display(), inspection.size_bytes)?;
    writeln!(out, "  sha256    {}", inspection.digest)?;
    writeln!(out, "  world     {}", inspection.world.as_deref().unwrap_or("none"))?;
    writeln!(out, "  imports   {}", list(&inspection.imports))?;
    writeln!(out, "  exports   {}", list(&inspection.exports))?;
    writeln!(
        out,
        "  functions {}, the largest of {} bytes",
        inspection.function_count, inspection.body_bytes_max
    )
}

#[cfg(test)]
mod tests {
    use tidegate_engine::replay::Finding;

    use super::*;

    #[test]
    fn a_component_passes_when_none_of_its_findings_is_a_fault() {
        for (faults, wanted) in [
            ([false, false], "  ok    0\n  ok    1\nthe engine takes it\n"),
            ([false, true], "  ok    0\n  WRONG 1\nnot fit for the engine\n"),
            ([true, false], "  WRONG 0\n  ok    1\nnot fit for the engine\n"),
        ] {
            let finding =
                |(at, is_fault): (usize, bool)| Finding { is_fault, text: at.to_string() };
            let findings = faults.into_iter().enumerate().map(finding).collect();
            let (name, version) = ("lru".to_owned(), "0.1.0".to_owned());
            let trial = Trial { name, version, findings, outcome: None };
            let mut out = Vec::new();
            let Ok(is_passed) = tell(&trial, &mut out) else { panic!("a vector takes all") };
            assert_eq!(is_passed, !faults.contains(&true), "{faults:?}");
            let out = String::from_utf8(out).unwrap();
            assert_eq!(out, format!("  ok    calls itself lru 0.1.0\n{wanted}"));
        }
    }
}
