//! What writes keep, and what they refuse.

mod assign;
mod copy;
mod expiry;
mod write;
