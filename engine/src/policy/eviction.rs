//! The eviction world: which entries of a cache leave first.
//!
//! Entries are known by dense slots, reused only after the policy was told of the removal or the
//! host took the victim. Calls are batched; a policy sees all events before it is asked for
//! victims.

/// Place of an entry in the cache's slot table, `0..max_slots`.
pub type Slot = u32;

/// An eviction policy, native or Wasm.
pub trait EvictionPolicy {
    /// Name and version as the policy states them.
    fn name(&self) -> &str;
    fn version(&self) -> &str;

    /// Digests `events` (see `policy::event`), then appends up to `want_entries` victims to
    /// `victims`, best first; the host may take fewer. `want_bytes` says how much must go;
    /// both zero means "just digest". A victim that was returned counts as gone unless a
    /// `VictimRefused` event follows.
    ///
    /// Errors: the policy failed and must not be called again.
    fn apply(
        &mut self,
        events: &[u64],
        attributes: &[u64],
        want_entries: u32,
        want_bytes: u64,
        victims: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure>;

    /// Appends resident slots from coldest to hottest, from place `cursor` of that order on, at
    /// most `max`; for a successor. None are appended past the end. While it is paged through, the
    /// order may move: entries may be listed twice or not at all.
    ///
    /// Errors: the policy failed and must not be called again.
    fn drain_order(
        &mut self,
        cursor: u32,
        max: u32,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure>;

    /// Whether a page of `drain_order` costs what it returns, however many entries there are. Where
    /// it does not, a large cache is not asked for its order.
    fn drains_in_pages(&self) -> bool {
        false
    }

    /// Tells new limits of the cache.
    ///
    /// Errors: the policy failed and must not be called again.
    fn resize(&mut self, capacity_bytes: u64, max_slots: u32) -> Result<(), PolicyFailure>;

    /// How often `tick` is wanted, ms; 0 = never.
    fn wants_ticks_ms(&self) -> u32 {
        0
    }

    /// Time passed; µs of a monotonic clock.
    ///
    /// Errors: the policy failed and must not be called again.
    fn tick(&mut self, _now_us: u64) -> Result<(), PolicyFailure> {
        Ok(())
    }

    /// Number of the format of its snapshots; 0 = it has none.
    fn state_schema(&self) -> u32 {
        0
    }

    /// State for a successor of the same name and schema; empty where there is none.
    ///
    /// Errors: the policy failed and must not be called again.
    fn snapshot(&mut self) -> Result<Vec<u8>, PolicyFailure> {
        Ok(Vec::new())
    }

    /// Hands over a snapshot, before any event. A policy that refuses it goes on empty.
    ///
    /// Errors: the outer one, the policy failed; the inner one, it refused, in its own words.
    fn restore(
        &mut self,
        _schema: u32,
        _state: &[u8],
    ) -> Result<Result<(), String>, PolicyFailure> {
        Ok(Err("this policy keeps no state".into()))
    }

    /// The policy's own figures, at most 64.
    ///
    /// Errors: the policy failed and must not be called again.
    fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        Ok(Vec::new())
    }

    /// The slot will be told of soon: what is known of it may be fetched.
    fn prefetch(&self, _slot: Slot) {}

    /// What `apply` took so far; zeros where it is not measured.
    fn usage(&self) -> PolicyUsage {
        PolicyUsage::default()
    }
}

/// What the calls of `apply` of one instance took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyUsage {
    pub ns: u64,
    /// Instructions executed.
    pub fuel: u64,
}

/// Why a policy was detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    Trap,
    Fuel,
    Epoch,
    OutOfMemory,
    InvalidVictims,
    /// Too often it offered no victim though entries could leave.
    Shortfall,
    ResultTooLarge,
    InitError,
    /// As a canary it was not better than the policy before.
    Canary,
    Operator,
}

impl FailureKind {
    /// The kind as `system.policy_exits` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureKind::Trap => "trap",
            FailureKind::Fuel => "fuel",
            FailureKind::Epoch => "epoch",
            FailureKind::OutOfMemory => "out-of-memory",
            FailureKind::InvalidVictims => "invalid-victims",
            FailureKind::Shortfall => "shortfall",
            FailureKind::ResultTooLarge => "result-too-large",
            FailureKind::InitError => "init-error",
            FailureKind::Canary => "canary",
            FailureKind::Operator => "operator",
        }
    }
}

/// Record of a policy's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFailure {
    pub kind: FailureKind,
    /// At most 1 KiB.
    pub message: String,
    /// Wasm frames, innermost first, at most 16.
    pub backtrace: Vec<String>,
}

impl std::fmt::Display for PolicyFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_is_shown_by_its_own_word() {
        for (kind, word) in [
            (FailureKind::Trap, "trap"),
            (FailureKind::Fuel, "fuel"),
            (FailureKind::Epoch, "epoch"),
            (FailureKind::OutOfMemory, "out-of-memory"),
            (FailureKind::InvalidVictims, "invalid-victims"),
            (FailureKind::Shortfall, "shortfall"),
            (FailureKind::ResultTooLarge, "result-too-large"),
            (FailureKind::InitError, "init-error"),
            (FailureKind::Canary, "canary"),
            (FailureKind::Operator, "operator"),
        ] {
            assert_eq!(kind.as_str(), word);
            let (message, backtrace) = ("it said no".to_owned(), vec!["a frame".to_owned()]);
            let failure = PolicyFailure { kind, message, backtrace };
            assert_eq!(failure.to_string(), format!("{word}: it said no"));
        }
    }
}
