//! The cache-admission world: whether what was read on a miss is kept.

use super::event::EntryKind;
use super::eviction::PolicyFailure;

/// What was read and could be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionCandidate {
    /// Keyed hash of the entry's identity; equal for the same entry when it returns.
    pub fingerprint: u64,
    pub size_bytes: u32,
    /// Expected time to read it again, µs.
    pub cost_us: u32,
    pub kind: EntryKind,
    /// Keeping it evicts nothing.
    pub has_room: bool,
    /// Entries of the same file that were read in sequence before it.
    pub run: u16,
    /// Number of the table within the shard.
    pub table: u32,
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    /// It was read and was there.
    Read = 0,
    Evicted = 1,
}

/// The two words of a fate.
pub fn fate(fingerprint: u64, fate: Fate, kind: EntryKind) -> [u64; 2] {
    [fingerprint, fate as u64 | (kind as u64) << 4]
}

/// A cache-admission policy.
pub trait AdmissionPolicy {
    /// Name and version as the policy states them.
    fn name(&self) -> &str;
    fn version(&self) -> &str;

    /// Its own figures, for people.
    ///
    /// Errors: the policy failed and must not be called again.
    fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        Ok(Vec::new())
    }

    /// Whether [`feedback`](Self::feedback) is wanted; collecting it costs some ns a hit.
    fn wants_feedback(&self) -> bool;

    /// Whether it is kept.
    ///
    /// Errors: the policy failed and must not be called again.
    fn admit(&mut self, candidate: &AdmissionCandidate) -> Result<bool, PolicyFailure>;

    /// What became of entries, two words each (see [`fate`]), in order.
    ///
    /// Errors: the policy failed and must not be called again.
    fn feedback(&mut self, words: &[u64]) -> Result<(), PolicyFailure>;
}
