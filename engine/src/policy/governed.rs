//! A policy that makes plans, and what holds after it failed.

use super::eviction::PolicyFailure;

/// Intervals for which the last plan of a policy that failed still holds.
const INTERVALS_AFTER_FAILURE: u32 = 10;

/// What a policy of plans did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanStatus {
    /// Name that its statement gave it; the native plan where absent.
    pub name: Option<String>,
    /// Plans that it was asked for.
    pub asked: u64,
    /// Why it is not asked any more.
    pub failure: Option<PolicyFailure>,
}

/// A policy with the plan in force.
pub struct Governed<P: ?Sized, T> {
    policy: Option<Box<P>>,
    name: Option<String>,
    native: T,
    plan: T,
    asked: u64,
    failure: Option<PolicyFailure>,
    /// Until the native plan comes back after a failure.
    intervals_left: u32,
}

impl<P: ?Sized, T: Clone> Governed<P, T> {
    /// Nobody is in charge, and `native` holds.
    pub fn new(native: T) -> Self {
        let plan = native.clone();
        Governed {
            policy: None,
            name: None,
            native,
            plan,
            asked: 0,
            failure: None,
            intervals_left: 0,
        }
    }

    /// Puts a policy in charge, or the native plan.
    pub fn set(&mut self, policy: Option<(String, Box<P>)>) {
        *self = Governed::new(self.native.clone());
        if let Some((name, policy)) = policy {
            self.name = Some(name);
            self.policy = Some(policy);
        }
    }

    /// The plan in force.
    pub fn plan(&self) -> &T {
        &self.plan
    }

    /// Whether a policy is in charge, or the last plan of one that failed still holds.
    pub fn is_governed(&self) -> bool {
        self.policy.is_some() || self.intervals_left > 0
    }

    /// What the policy did since it was put in charge.
    pub fn status(&self) -> PlanStatus {
        PlanStatus { name: self.name.clone(), asked: self.asked, failure: self.failure.clone() }
    }

    /// Own figures of the policy in charge. One that fails at it is put out as by a plan.
    pub fn metrics(
        &mut self,
        world: &'static str,
        metrics: impl FnOnce(&mut P) -> Result<Vec<(String, f64)>, PolicyFailure>,
    ) -> Vec<(String, f64)> {
        match self.policy.as_deref_mut().map(metrics) {
            Some(Ok(metrics)) => metrics,
            Some(Err(failure)) => {
                self.put_out(world, failure);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn put_out(&mut self, world: &'static str, failure: PolicyFailure) {
        let policy = self.name.as_deref().unwrap_or_default();
        tracing::error!(policy, world, %failure, "a policy failed; its last plan holds for a while");
        self.policy = None;
        self.failure = Some(failure);
        self.intervals_left = INTERVALS_AFTER_FAILURE;
    }

    /// An interval is over: asks for a plan, or counts what is left of the last one.
    pub fn ask(
        &mut self,
        world: &'static str,
        ask: impl FnOnce(&mut P, &mut T) -> Result<(), PolicyFailure>,
    ) {
        let Some(policy) = &mut self.policy else {
            if self.intervals_left > 0 {
                self.intervals_left -= 1;
                if self.intervals_left == 0 {
                    self.plan = self.native.clone();
                }
            }
            return;
        };
        self.asked += 1;
        let mut plan = self.plan.clone();
        match ask(policy, &mut plan) {
            Ok(()) => self.plan = plan,
            Err(failure) => self.put_out(world, failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::FailureKind;

    #[test]
    fn somebody_is_in_charge_as_long_as_a_plan_of_theirs_holds() {
        let mut governed: Governed<(), u32> = Governed::new(1);
        let state = |governed: &Governed<(), u32>| (governed.is_governed(), *governed.plan());
        assert_eq!(state(&governed), (false, 1));
        governed.set(Some(("p".into(), Box::new(()))));
        assert_eq!(state(&governed), (true, 1), "it was not asked yet");
        governed.ask("world", |_, plan| {
            *plan = 7;
            Ok(())
        });
        assert_eq!(state(&governed), (true, 7));
        governed.ask("world", |_, plan| {
            *plan = 8;
            let (kind, message) = (FailureKind::Trap, "on purpose".into());
            Err(PolicyFailure { kind, message, backtrace: Vec::new() })
        });
        for interval in 0..INTERVALS_AFTER_FAILURE {
            assert_eq!(state(&governed), (true, 7), "interval {interval} after the failure");
            governed.ask("world", |_, _| unreachable!("who failed is not asked again"));
        }
        assert_eq!(state(&governed), (false, 1));
        let PlanStatus { asked, failure, .. } = governed.status();
        assert_eq!((asked, failure.unwrap().message.as_str()), (2, "on purpose"));
    }

    #[test]
    fn who_fails_at_its_figures_is_put_out_and_the_next_one_begins_anew() {
        let mut governed: Governed<(), u32> = Governed::new(1);
        let state = |governed: &Governed<(), u32>| (governed.is_governed(), *governed.plan());
        let next = |governed: &mut Governed<(), u32>| {
            governed.ask("world", |_, plan| {
                *plan += 1;
                Ok(())
            });
        };
        governed.set(Some(("first".into(), Box::new(()))));
        next(&mut governed);
        let own = vec![("own".to_owned(), 2.0)];
        assert_eq!(governed.metrics("world", |_| Ok(own.clone())), own);
        let (kind, message) = (FailureKind::Trap, "no figures".to_owned());
        let failure = PolicyFailure { kind, message, backtrace: Vec::new() };
        assert!(governed.metrics("world", |_| Err(failure.clone())).is_empty());
        let none = governed.metrics("world", |_| unreachable!("who failed is not asked again"));
        assert!(none.is_empty());
        let status = PlanStatus { name: Some("first".into()), asked: 1, failure: Some(failure) };
        assert_eq!((governed.status(), state(&governed)), (status, (true, 2)));

        governed.ask("world", |_, _| unreachable!("who failed is not asked again"));
        governed.set(Some(("second".into(), Box::new(()))));
        let status = PlanStatus { name: Some("second".into()), ..PlanStatus::default() };
        assert_eq!((governed.status(), state(&governed)), (status, (true, 1)));
        // What was left of the time of the first says nothing of the second.
        for plan in 2..=2 * INTERVALS_AFTER_FAILURE {
            next(&mut governed);
            assert_eq!(state(&governed), (true, plan));
        }
        governed.set(None);
        assert_eq!((governed.status(), state(&governed)), (PlanStatus::default(), (false, 1)));
    }
}
