//! What a read gives, and when it ends early.

use super::*;

mod at_once;
mod deadlines;
mod hot;
mod killed;
mod partition_limit;
mod ring;
mod soak;
mod tombstones;
mod waits;
mod watched;
