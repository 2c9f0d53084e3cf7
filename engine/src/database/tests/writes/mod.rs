//! Writes that depend on what is there, writes that are all or nothing, and whole files of them.

use super::*;

mod batches;
mod conditional;
mod counting;
mod import;
