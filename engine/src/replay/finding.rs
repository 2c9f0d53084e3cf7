//! What a trial comes to: findings, each a sentence.

use super::driver::Outcome;

/// One sentence of the trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether the engine would refuse the component or put it out.
    pub is_fault: bool,
    pub text: String,
}

/// What the trial found.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What the policy calls itself.
    pub name: String,
    pub version: String,
    pub findings: Vec<Finding>,
    /// Of the first trace, as the engine talks to a policy.
    pub outcome: Option<Outcome>,
}

impl Trial {
    /// Whether nothing is wrong.
    pub fn is_passed(&self) -> bool {
        !self.findings.iter().any(|finding| finding.is_fault)
    }

    pub(super) fn good(&mut self, text: String) {
        self.findings.push(Finding { is_fault: false, text });
    }

    pub(super) fn fault(&mut self, text: String) {
        self.findings.push(Finding { is_fault: true, text });
    }
}
