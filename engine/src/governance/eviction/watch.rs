//! Supervises the active policy: suspends one that failed, and retries it.

use std::rc::Rc;

use super::Eviction;
use super::charge::{Charge, Stage};
use crate::cache::PolicyState;
use crate::policy::AfterFailure;
use crate::runtime;

impl Eviction {
    /// Looks after the policy in charge: one that failed is tried again after a pause, the one that
    /// stands by goes when its time is over. Called at every tick.
    pub(super) fn watch(self: &Rc<Self>) {
        let now = self.parts.context.clock.monotonic_ns();
        let Ok(_unchanged) = self.change.try_lock() else { return };
        let mut charge = self.charge.borrow_mut();
        if charge.standby_until_ns.is_some_and(|end| now >= end) {
            charge.standby_until_ns = None;
            self.parts.cache.drop_standby_policy();
        }
        if self.parts.cache.policy_state() != PolicyState::Failed {
            return;
        }
        match charge.stage {
            Stage::InCharge => self.suspend(&mut charge, now),
            Stage::Suspended { retry_at_ns } if now >= retry_at_ns => {
                charge.stage = Stage::Retrying;
                let post = self.clone();
                runtime::spawn_local("retry policy", async move { post.retry().await });
            }
            _ => {}
        }
    }

    fn suspend(&self, charge: &mut Charge, now: u64) {
        let (shard, policy) = (self.parts.context.shard, charge.origin.identity().name);
        let records = self.parts.cache.policy_status().failures;
        let of_it = records.iter().rev().find(|record| record.identity.name == policy);
        let reason = of_it.map_or_else(|| "unknown".into(), |record| record.failure.to_string());
        charge.stage = match charge.backoff.fail(now) {
            AfterFailure::RetryAt { ns } => {
                let pause_ms = (ns - now) / 1_000_000;
                tracing::warn!(
                    shard,
                    policy,
                    pause_ms,
                    reason,
                    "policy suspended; native CLOCK governs"
                );
                Stage::Suspended { retry_at_ns: ns }
            }
            AfterFailure::Ejected => {
                let failures = charge.backoff.failures();
                tracing::error!(
                    shard,
                    policy,
                    failures,
                    reason,
                    "policy ejected; native CLOCK governs"
                );
                Stage::Ejected
            }
        };
    }

    async fn retry(&self) {
        let _change = self.change.lock().await;
        // A statement may have come first.
        if self.charge.borrow().stage != Stage::Retrying {
            return;
        }
        let origin = self.charge.borrow().origin.clone();
        // Its state may be what it failed of.
        let retried = self.replace_policy(&origin, false).await;
        let mut charge = self.charge.borrow_mut();
        match retried {
            Ok(note) => {
                (charge.stage, charge.state_note) = (Stage::InCharge, note);
                // What stands by is the CLOCK, which needs no events.
                self.parts.cache.drop_standby_policy();
            }
            Err(error) => {
                let (shard, policy) = (self.parts.context.shard, origin.identity().name);
                tracing::warn!(shard, policy, %error, "policy failed when it was tried again");
                self.suspend(&mut charge, self.parts.context.clock.monotonic_ns());
            }
        }
    }
}
