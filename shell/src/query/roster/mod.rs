//! Who is connected and what runs at this moment: the sessions and statements of this process.
//!
//! ```text
//! Session -> Member            a session as others see it
//!    |          |
//!    |       Roster            all of them, and the statements that run, each with a number
//!    |          |
//! Running -> Place             a statement that runs: in the roster until it is dropped
//!               |
//!            Signal            how far it is, and whether somebody ended it
//! ```
//! Invariant: no two statements of a process have one number. A statement is in the roster from
//! its start until its rows have ended or nobody takes more of them, whatever becomes of it.
//! A statement within another one is part of that one.

mod list;
mod member;
mod running;
mod session;
mod signal;

pub use list::{Listed, Roster, Shown};
pub use member::Member;
pub use running::{Running, note_running};
pub(super) use session::planned;
