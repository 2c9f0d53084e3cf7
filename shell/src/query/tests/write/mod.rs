//! What writes keep, and what they refuse.

mod alter;
mod assign;
mod batch;
mod conditional;
mod copy;
mod counter;
mod create_as;
mod expiry;
mod schema;
mod truncate;
mod write;
mod writing_copy;
mod writing_definitions;
mod writing_stamps;
