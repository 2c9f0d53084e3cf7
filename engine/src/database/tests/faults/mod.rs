//! A database on disks that fail, fill up or hang, and what is left of it.

use super::*;

mod catalog_store;
mod dropped;
mod failing_disk;
mod full_disk;
mod log_limit;
mod steps;
mod unsynced;

pub(super) use log_limit::run;
