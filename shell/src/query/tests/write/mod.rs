//! What writes keep, and what they refuse.

mod alter;
mod assign;
mod copy;
mod expiry;
mod truncate;
mod write;
