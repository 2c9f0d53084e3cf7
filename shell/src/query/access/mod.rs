//! Who runs statements, and whether they may.
//!
//! ```text
//! Session -> Caller            the owner of the data directory, or a role
//! Command -> needs             what a statement needs, by its kind
//! LogicalPlan -> needs         what a plan reads, with its subqueries
//!               |
//!           Roles::may         of the catalog as it is at that moment
//! ```
//! Invariant: a statement is checked when it is planned and again when it runs, so what is revoked
//! is gone for the next run, also of what was prepared before. A statement of our own that says
//! nothing of what it needs is one of administration.

mod audit;
mod caller;
mod level;
mod need;
mod plan;
mod session;

pub use audit::{Audit, AuditEvent, AuditRecord};
pub use caller::Caller;
pub(super) use caller::hand_over;
pub use need::Need;
