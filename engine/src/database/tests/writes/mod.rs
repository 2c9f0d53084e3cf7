//! Writes that depend on what is there, and writes that are all or nothing.

use super::*;

mod batches;
mod conditional;
