//! Load shedding: who waited for too long is refused, and too long is short while there is a standing
//! queue.
//!
//! A queue that was empty once in the last plans drains by itself: everybody may wait for `calm`. One
//! that was never empty is a standing queue, in which waiting gains nothing: then `busy` is the most,
//! so that those who are served are served in time (controlled delay, as in Facebook's servers).
//!
//! Invariant: nothing is refused that did not wait.

use tidegate_plugin_decision::{LoadSheddingPolicy, Setup, Shedding, Signals};

tidegate_plugin_decision::export_load_shedding!(Codel, "../../wit/v0.1");

const CALM_DEFAULT: u64 = 1_000;
const BUSY_DEFAULT: u64 = 50;
const WRITE_DEFAULT: u64 = 5_000;
const PATIENCE_DEFAULT: u64 = 3;
/// The class of writes: they wait for a flush, which takes seconds by nature.
const WRITES: usize = 2;

/// The policy of one shard.
#[derive(Debug)]
pub struct Codel {
    calm_ms: u32,
    busy_ms: u32,
    write_ms: u32,
    patience: u64,
    /// Plans in a row, by class, in which something waited.
    standing: Vec<u64>,
}

impl LoadSheddingPolicy for Codel {
    const NAME: &'static str = "codel";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["busy", "calm", "patience", "write"])?;
        let ms = |name, default, least| setup.number(name, default, least..=3_600_000);
        Ok(Codel {
            calm_ms: ms("calm", CALM_DEFAULT, 1)? as u32,
            busy_ms: ms("busy", BUSY_DEFAULT, 1)? as u32,
            write_ms: ms("write", WRITE_DEFAULT, 0)? as u32,
            patience: setup.number("patience", PATIENCE_DEFAULT, 1..=1_000)?,
            standing: Vec::new(),
        })
    }

    fn plan(&mut self, _: u64, signals: &Signals) -> Vec<Shedding> {
        self.standing.resize(signals.classes.len(), 0);
        let classes = self.standing.iter_mut().zip(&signals.classes).enumerate();
        classes
            .map(|(class, (standing, load))| {
                *standing = if load.waiting > 0 { *standing + 1 } else { 0 };
                let wait_ms_max = match class {
                    0 | 1 if *standing >= self.patience => self.busy_ms,
                    0 | 1 => self.calm_ms,
                    WRITES => self.write_ms,
                    _ => 0,
                };
                Shedding { per_mille: 0, wait_ms_max }
            })
            .collect()
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let of = |class: usize| self.standing.get(class).map_or(0.0, |plans| *plans as f64);
        vec![("plans with a queue of reads", of(0)), ("plans with a queue of scans", of(1))]
    }
}

#[cfg(test)]
mod tests {
    use tidegate_plugin_decision::WorkLoad;

    use super::*;

    fn waiting(counts: [u64; 3]) -> Signals {
        let class = |waiting| WorkLoad { waiting, ..WorkLoad::default() };
        Signals { classes: counts.map(class).to_vec(), ..Signals::default() }
    }

    #[test]
    fn a_standing_queue_makes_the_wait_short() {
        let params = vec![("patience".to_string(), "2".to_string())];
        let mut policy = Codel::new(&Setup { params, ..Setup::default() }).unwrap();
        let mut ages = |counts| {
            let plan = policy.plan(0, &waiting(counts));
            assert!(plan.iter().all(|shed| shed.per_mille == 0));
            plan.iter().map(|shed| shed.wait_ms_max).collect::<Vec<_>>()
        };
        assert_eq!(ages([0, 0, 0]), [1_000, 1_000, 5_000]);
        assert_eq!(ages([5, 0, 9]), [1_000, 1_000, 5_000]);
        assert_eq!(ages([5, 1, 9]), [50, 1_000, 5_000]);
        assert_eq!(ages([5, 1, 9]), [50, 50, 5_000]);
        assert_eq!(ages([0, 1, 9]), [1_000, 50, 5_000]);
    }

    #[test]
    fn classes_that_come_later_are_left_alone() {
        let mut policy = Codel::new(&Setup::default()).unwrap();
        let signals = Signals { classes: vec![WorkLoad::default(); 5], ..Signals::default() };
        let plan = policy.plan(0, &signals);
        assert_eq!((plan.len(), plan[3], plan[4]), (5, Shedding::default(), Shedding::default()));
    }
}
