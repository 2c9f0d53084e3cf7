//! What each eviction policy did on one shard.

use super::Eviction;
use super::charge::Stage;
use crate::cache::{ExitRecord, PolicyState, PolicyStatus, ShadowPurpose};
use crate::governance::report::{PolicyExit, PolicyReport, ShadowReport};

impl Eviction {
    /// What each policy did on this shard: those of the past, the one in charge, the one that
    /// stands by, the shadow.
    pub(super) fn policy_shares(&self) -> Vec<PolicyReport> {
        self.parts.cache.deliver();
        let status = self.parts.cache.policy_status();
        let mut shares = self.retired.borrow().clone();
        shares.push(self.share_in_charge());
        let named = |name: &str, state: &str| PolicyReport {
            name: name.into(),
            state: state.into(),
            shards: 1,
            ..PolicyReport::default()
        };
        if let Some(standby) = &status.standby {
            shares.push(named(&standby.name, "standby"));
        }
        if let Some(shadow) = status.shadow
            && shadow.purpose == ShadowPurpose::Candidate
        {
            let mut share = named(&shadow.identity.name, "shadow");
            share.count(shadow.counters);
            share.shadow = Some(ShadowReport {
                rate: shadow.rate,
                entries: u64::from(shadow.entries),
                sampled_lookups: shadow.sampled_lookups,
                estimate: shadow.estimate,
                active: shadow.active,
            });
            shares.push(share);
        }
        for record in &status.failures {
            let mut share = named(&record.identity.name, "loaded");
            (share.shards, share.last_failure) = (0, Some(record.failure.to_string()));
            shares.push(share);
        }
        shares
    }

    pub(super) fn share_in_charge(&self) -> PolicyReport {
        let status = self.parts.cache.policy_status();
        let charge = self.charge.borrow();
        let mut share = share_of(&status);
        share.state = match (status.state, charge.stage) {
            // One that failed is about to be rolled back.
            (_, Stage::Canary) => "canary",
            (PolicyState::Active | PolicyState::Native, _) => "active",
            (PolicyState::Failed, Stage::Ejected) => "ejected",
            (PolicyState::Failed, _) => "suspended",
        }
        .into();
        share.state_note = charge.state_note.clone();
        share.trial = status.shadow.and_then(|shadow| shadow.trial);
        share
    }

    pub(super) fn retire(&self, mut share: PolicyReport) {
        share.state = "loaded".into();
        let mut retired = self.retired.borrow_mut();
        match retired.iter_mut().find(|other| other.name == share.name) {
            Some(other) => other.add(&share),
            None => retired.push(share),
        }
    }

    /// The own figures of the policy of this name, in charge or as a shadow.
    pub(super) fn policy_metrics(&self, name: &str) -> Vec<(String, f64)> {
        let status = self.parts.cache.policy_status();
        if status.state == PolicyState::Active && status.identity.name == name {
            return self.parts.cache.policy_metrics();
        }
        match status.shadow {
            Some(shadow) if shadow.identity.name == name => self.parts.cache.shadow_metrics(),
            _ => Vec::new(),
        }
    }

    /// Policies that left this shard by a failure, oldest first, a bounded number.
    pub(super) fn policy_exits(&self) -> Vec<PolicyExit> {
        let clock = &self.parts.context.clock;
        let (wall_us, now_ns) = (clock.wall_us(), clock.monotonic_ns());
        let exit = |record: ExitRecord| {
            let ago_us = now_ns.saturating_sub(record.at_ns) / 1000;
            PolicyExit {
                policy: record.identity.name,
                version: record.identity.version,
                digest: record.identity.digest,
                shard: self.parts.context.shard,
                at_us: wall_us.saturating_sub_unsigned(ago_us),
                role: record.role.as_str(),
                kind: record.failure.kind.as_str(),
                message: record.failure.message,
                backtrace: record.failure.backtrace,
                calls: record.counters.calls,
                events: record.counters.events,
                victims: record.counters.victims,
                invalid_victims: record.counters.invalid_victims,
                shortfalls: record.counters.shortfalls,
                last_events: record.events,
            }
        };
        self.parts.cache.policy_status().failures.into_iter().map(exit).collect()
    }
}

/// A governor's view of the policy in charge as a report.
fn share_of(status: &PolicyStatus) -> PolicyReport {
    let failed = status.failures.iter().rev().find(|record| record.identity == status.identity);
    let counters = match (status.state, failed) {
        (PolicyState::Failed, Some(record)) => record.counters,
        _ => status.counters,
    };
    let mut share = PolicyReport {
        name: status.identity.name.clone(),
        version: status.identity.version.clone(),
        digest: status.identity.digest.clone(),
        world: "eviction".into(),
        shards: 1,
        lookups: status.tally,
        evictions: status.evictions,
        ..PolicyReport::default()
    };
    share.count(counters);
    share
}
