//! `tidegate plugin check`: whether the engine would take a component, and what its author should
//! know of it.

use std::io::Write;
use std::path::Path;

use tidegate_engine::clock::SystemClock;
use tidegate_engine::plugin::{HostOptions, Inspection, PolicyHost, inspect};
use tidegate_engine::replay::try_component;

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
