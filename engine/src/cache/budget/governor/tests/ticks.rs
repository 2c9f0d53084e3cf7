//! A policy is told the time in microseconds, as often as it wants to know it.

use super::*;

/// Evicts nobody, wants the time every so many milliseconds, and notes what it was told.
struct Listener {
    wants_ms: u32,
    told_us: Rc<RefCell<Vec<u64>>>,
}

impl EvictionPolicy for Listener {
    fn name(&self) -> &str {
        "listener"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn apply(
        &mut self,
        _: &[u64],
        _: &[u64],
        _: u32,
        _: u64,
        _: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        Ok(())
    }

    fn drain_order(&mut self, _: u32, _: u32, _: &mut Vec<Slot>) -> Result<(), PolicyFailure> {
        Ok(())
    }

    fn resize(&mut self, _: u64, _: u32) -> Result<(), PolicyFailure> {
        Ok(())
    }

    fn wants_ticks_ms(&self) -> u32 {
        self.wants_ms
    }

    fn tick(&mut self, now_us: u64) -> Result<(), PolicyFailure> {
        self.told_us.borrow_mut().push(now_us);
        Ok(())
    }
}

/// What a policy is told that wants the time every `wants_ms`, when the shard ticks at these ns.
fn told_us(wants_ms: u32, ticks_ns: &[u64]) -> Vec<u64> {
    let told_us: Rc<RefCell<Vec<u64>>> = Rc::default();
    let mut harness = Harness::with(10, Listener { wants_ms, told_us: told_us.clone() });
    for now_ns in ticks_ns {
        harness.governor.tick(*now_ns);
    }
    let calls = harness.governor.status().counters.calls;
    assert_eq!(calls, told_us.borrow().len() as u64, "every call is counted");
    told_us.take()
}

#[test]
fn a_policy_is_told_the_time_as_often_as_it_wants_in_microseconds() {
    let ticks_ns = [1_234_567, 5_000_000, 11_234_566, 11_234_567, 50_000_999, 60_000_999];
    assert_eq!(told_us(10, &ticks_ns), [1234, 11_234, 50_000, 60_000]);
    assert_eq!(told_us(1, &ticks_ns), [1234, 5000, 11_234, 50_000, 60_000]);
    assert_eq!(told_us(0, &ticks_ns), [0; 0], "it wants none");
}
