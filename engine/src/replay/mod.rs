//! Policies on traces: what a policy would have done, without a cache that serves.
//!
//! A [`Candidate`] is a native policy or a component; [`Candidate::run`] gives it a cache of some
//! capacity and a trace, and counts. Invariant: equal candidates, traces and settings give equal
//! outcomes, times aside, however busy the machine is; that is how a component is compared with the
//! same code run natively. Not here: files (`trace/`), the cache that serves (`cache/`).

mod candidate;
mod capacity;
mod driver;
mod finding;
mod optimal;
mod questions;
mod trial;

#[cfg(test)]
mod tests;

pub use candidate::Candidate;
pub use capacity::Capacity;
pub use driver::{Outcome, Settings};
pub use finding::{Finding, Trial};
pub use trial::try_component;
