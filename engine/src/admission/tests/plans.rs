//! Plans of policies as far as a shard follows them, and what policies tell of themselves.

use super::*;
use crate::config::{READ_MEMORY_BYTES_MAX, READ_QUEUE_MAX};

/// A policy that plans nothing, and has a figure or fails when it is asked for that.
struct Figures(Option<f64>);

impl Figures {
    fn of(&self, name: &str) -> Result<Vec<(String, f64)>, PolicyFailure> {
        self.0.map(|figure| vec![(name.to_owned(), figure)]).ok_or_else(failure)
    }
}

impl ReadAdmissionPolicy for Figures {
    fn name(&self) -> &str {
        "figures"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        self.of("reads")
    }

    fn plan(
        &mut self,
        _: u64,
        _: u64,
        _: &[ReadLoad; 2],
        _: &mut ReadPlan,
    ) -> Result<(), PolicyFailure> {
        Ok(())
    }
}

impl LoadSheddingPolicy for Figures {
    fn name(&self) -> &str {
        "figures"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        self.of("sheds")
    }

    fn plan(&mut self, _: u64, _: &LoadSignals, _: &mut SheddingPlan) -> Result<(), PolicyFailure> {
        Ok(())
    }
}

#[test]
fn a_plan_goes_no_further_than_a_shard_does() {
    let world = World::new(0, u64::MAX, u32::MAX, 7);
    let status = world.status();
    assert_eq!((status.running_max, status.wait_us_max), (1, 7), "one read may always run");
    assert_eq!(status.memory_bytes_max, READ_MEMORY_BYTES_MAX);
    assert_eq!(status.queued_max, READ_QUEUE_MAX);
    let running = world.try_admit().unwrap();
    let mut waits = world.wait();
    drop(running);
    assert!((&mut waits).now_or_never().is_some(), "and then the next one");
    // What is below that is followed as it is, and so is nothing.
    let limits = ReadLimits { running_max: 3, memory_bytes_max: 0, queued_max: 0, wait_us_max: 0 };
    world.limits.set(Some(limits));
    drop(waits);
    world.interval();
    let status = world.status();
    let found = ReadLimits {
        running_max: status.running_max,
        memory_bytes_max: status.memory_bytes_max,
        queued_max: status.queued_max,
        wait_us_max: status.wait_us_max,
    };
    assert_eq!(found, limits);
}

fn reads(figure: Option<f64>) -> Option<(String, Box<dyn ReadAdmissionPolicy>)> {
    Some(("r".to_owned(), Box::new(Figures(figure))))
}

fn sheds(figure: Option<f64>) -> Option<(String, Box<dyn LoadSheddingPolicy>)> {
    Some(("s".to_owned(), Box::new(Figures(figure))))
}

#[test]
fn each_policy_tells_figures_of_its_own_until_it_fails() {
    let admission = World::new(1, 1 << 20, 10, 0).admission;
    let figure = |name: &str, figure| vec![(name.to_owned(), figure)];
    admission.set_admission(None);
    admission.set_shedding(None);
    assert!(admission.admission_metrics().is_empty() && admission.shedding_metrics().is_empty());
    admission.set_admission(reads(Some(1.5)));
    admission.set_shedding(sheds(Some(2.5)));
    for _ in 0..2 {
        assert_eq!(admission.admission_metrics(), figure("reads", 1.5));
        assert_eq!(admission.shedding_metrics(), figure("sheds", 2.5));
    }
    // One that fails at it is asked no more, and the other one goes on.
    admission.set_admission(reads(None));
    assert_eq!(admission.admission_status().failure, None);
    assert!(admission.admission_metrics().is_empty());
    assert_eq!(admission.admission_status().failure, Some(failure()));
    assert_eq!(admission.admission_status().name.as_deref(), Some("r"));
    assert_eq!(admission.shedding_status().failure, None);
    assert_eq!(admission.shedding_metrics(), figure("sheds", 2.5));
    admission.set_shedding(sheds(None));
    assert!(admission.shedding_metrics().is_empty());
    assert_eq!(admission.shedding_status().failure, Some(failure()));
    // Whoever is put in charge next has not failed.
    admission.set_admission(reads(Some(3.5)));
    assert_eq!(admission.admission_status().failure, None);
    assert_eq!(admission.admission_metrics(), figure("reads", 3.5));
}
