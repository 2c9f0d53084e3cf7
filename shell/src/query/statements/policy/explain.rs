//! EXPLAIN POLICY: what a policy is, costs and brings, as figures with a name.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::SchemaRef as ArrowSchemaRef;
use tidegate_engine::PolicyReport;
use tidegate_engine::plugin::World;
use tidegate_engine::policy::Tally;

use crate::query::error::Result;
use crate::query::outcome::{Outcome, batch, text_schema};

pub fn figure_schema() -> ArrowSchemaRef {
    text_schema(&["figure", "value"])
}

/// One row a figure.
pub fn figures_of(report: &PolicyReport) -> Result<Outcome> {
    let figures = figures(report);
    let column = |pick: fn(&(String, String)) -> &str| {
        Arc::new(StringArray::from_iter_values(figures.iter().map(pick))) as ArrayRef
    };
    let columns = vec![column(|(name, _)| name), column(|(_, value)| value)];
    let batch = batch(figure_schema(), columns)?;
    Ok(Outcome::batches(figure_schema(), vec![batch]))
}

fn figures(report: &PolicyReport) -> Vec<(String, String)> {
    let mut figures: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| figures.push((name.to_owned(), value));
    add("policy", format!("{} {}", report.name, report.version));
    if !report.digest.is_empty() {
        add("component", report.digest.clone());
    }
    for (name, value) in &report.params {
        add(&format!("parameter {name}"), value.clone());
    }
    let shards = match report.shards {
        0 => String::new(),
        1 => " on 1 shard".to_owned(),
        shards => format!(" on {shards} shards"),
    };
    add("world", report.world.clone());
    add("state", format!("{}{shards}", report.state));
    match World::of(&report.world) {
        None | Some(World::Eviction) => eviction_figures(report, &mut add),
        Some(world) => other_figures(report, world, &mut add),
    }
    if let Some(failure) = &report.last_failure {
        add("last failure", failure.clone());
    }
    for (shard, name, value) in &report.metrics {
        add(&format!("{name} (shard {shard})"), number(*value));
    }
    figures
}

/// What a policy did that sees no single entries.
fn other_figures(report: &PolicyReport, world: World, add: &mut impl FnMut(&str, String)) {
    add("calls", report.calls.to_string());
    match world {
        World::CacheAdmission => add("fates told", report.events.to_string()),
        World::Compaction => {
            add("merges chosen", report.events.to_string());
            add("merges not legal", report.invalid_victims.to_string());
            if !report.state_note.is_empty() {
                add("last not legal", report.state_note.clone());
            }
        }
        _ => {}
    }
}

fn eviction_figures(report: &PolicyReport, add: &mut impl FnMut(&str, String)) {
    if !report.state_note.is_empty() {
        add("state handed over", report.state_note.clone());
    }
    let judged = report.judged();
    add("look-ups", judged.lookups().to_string());
    ratios(add, "", &judged);
    if let Some(shadow) = report.shadow.as_ref().filter(|_| report.state == "shadow") {
        add("sample", format!("1/{}", shadow.rate));
        add("look-ups seen", shadow.sampled_lookups.to_string());
        add("ghosts", shadow.entries.to_string());
        ratios(add, "active policy's ", &shadow.active);
        let ratios = (judged.cost_hit_ratio(), shadow.active.cost_hit_ratio());
        if let (Some(own), Some(active)) = ratios {
            add("gain by cost", points(own - active));
        }
    }
    if let Some(trial) = report.trial_text() {
        add("canary", trial);
    }
    add("calls", report.calls.to_string());
    add("events", report.events.to_string());
    let per_event = |amount: u64| {
        let is_measured = amount > 0 && report.events > 0;
        match is_measured {
            true => format!("{:.1}", amount as f64 / report.events as f64),
            false => "not measured".to_owned(),
        }
    };
    add("ns per event", per_event(report.usage.ns));
    add("fuel per event", per_event(report.usage.fuel));
    add("evictions", report.evictions.to_string());
    add("victims named", report.victims.to_string());
    add("victims refused", report.refused_victims.to_string());
    add("invalid victims", report.invalid_victims.to_string());
    add("shortfalls", report.shortfalls.to_string());
}

fn ratios(add: &mut impl FnMut(&str, String), whose: &str, tally: &Tally) {
    let text = |ratio: Option<f64>| ratio.map_or("none yet".into(), |ratio| format!("{ratio:.4}"));
    add(&format!("{whose}hit ratio"), text(tally.hit_ratio()));
    add(&format!("{whose}hit ratio by bytes"), text(tally.byte_hit_ratio()));
    add(&format!("{whose}hit ratio by cost"), text(tally.cost_hit_ratio()));
}

/// A difference of ratios in percentage points.
fn points(difference: f64) -> String {
    format!("{:+.2} points", difference * 100.0)
}

/// Whole numbers without a point.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::ShadowReport;
    use tidegate_engine::policy::PolicyUsage;

    use super::*;

    fn report() -> PolicyReport {
        let tally = |hits, misses| Tally { hits, misses, ..Tally::default() };
        let cost = |tally, hit_cost_us| Tally { hit_cost_us, miss_cost_us: 100, ..tally };
        PolicyReport {
            name: "p".into(),
            version: "1.2".into(),
            state: "shadow".into(),
            shards: 2,
            calls: 10,
            events: 20,
            lookups: tally(1, 3),
            evictions: 30,
            victims: 40,
            refused_victims: 50,
            invalid_victims: 60,
            shortfalls: 70,
            usage: PolicyUsage { ns: 90, fuel: 0 },
            shadow: Some(ShadowReport {
                rate: 8,
                entries: 80,
                sampled_lookups: 81,
                estimate: cost(tally(1, 1), 100),
                active: cost(tally(1, 3), 0),
            }),
            metrics: vec![(1, "depth".into(), 0.25), (2, "depth".into(), 3.0)],
            ..PolicyReport::default()
        }
    }

    fn value(report: &PolicyReport, figure: &str) -> Option<String> {
        figures(report).into_iter().find(|(name, _)| name == figure).map(|(_, value)| value)
    }

    #[test]
    fn each_figure_is_the_one_that_it_is_called() {
        let report = report();
        for (figure, wanted) in [
            ("policy", "p 1.2"),
            ("world", ""),
            ("state", "shadow on 2 shards"),
            ("look-ups", "2"),
            ("hit ratio", "0.5000"),
            ("sample", "1/8"),
            ("look-ups seen", "81"),
            ("ghosts", "80"),
            ("active policy's hit ratio", "0.2500"),
            ("gain by cost", "+50.00 points"),
            ("calls", "10"),
            ("events", "20"),
            ("ns per event", "4.5"),
            ("fuel per event", "not measured"),
            ("evictions", "30"),
            ("victims named", "40"),
            ("victims refused", "50"),
            ("invalid victims", "60"),
            ("shortfalls", "70"),
            ("depth (shard 1)", "0.2500"),
            ("depth (shard 2)", "3"),
        ] {
            assert_eq!(value(&report, figure).as_deref(), Some(wanted), "{figure}");
        }
        for absent in ["component", "last failure", "canary", "state handed over"] {
            assert_eq!(value(&report, absent), None);
        }
    }

    #[test]
    fn a_policy_of_another_world_has_figures_of_that() {
        let told = |world: World| {
            let (world, state) = (world.as_str().to_owned(), "active".to_owned());
            let note = "SSTable 1 is not there".to_owned();
            PolicyReport { world, state, state_note: note, ..report() }
        };
        let compaction = told(World::Compaction);
        for (figure, wanted) in [
            ("world", Some("compaction")),
            ("calls", Some("10")),
            ("merges chosen", Some("20")),
            ("merges not legal", Some("60")),
            ("last not legal", Some("SSTable 1 is not there")),
            ("depth (shard 1)", Some("0.2500")),
            ("look-ups", None),
            ("evictions", None),
            ("state handed over", None),
        ] {
            assert_eq!(value(&compaction, figure).as_deref(), wanted, "{figure}");
        }
        let admission = told(World::CacheAdmission);
        assert_eq!(value(&admission, "fates told").as_deref(), Some("20"));
        let limiter = told(World::RateLimiter);
        assert_eq!(value(&limiter, "calls").as_deref(), Some("10"));
        assert_eq!(value(&limiter, "last not legal"), None);
    }

    #[test]
    fn in_charge_a_policy_is_judged_by_what_it_did() {
        let report = PolicyReport { state: "active".into(), shards: 1, ..report() };
        assert_eq!(value(&report, "state").as_deref(), Some("active on 1 shard"));
        assert_eq!(value(&report, "look-ups").as_deref(), Some("4"));
        assert_eq!(value(&report, "hit ratio").as_deref(), Some("0.2500"));
        assert_eq!(value(&report, "sample"), None, "it is no shadow any more");
        let nowhere = PolicyReport { state: "loaded".into(), shards: 0, ..report };
        assert_eq!(value(&nowhere, "state").as_deref(), Some("loaded"));
    }
}
