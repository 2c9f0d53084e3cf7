//! What a read gives, and when it ends early.

use super::*;

mod deadlines;
mod killed;
mod partition_limit;
mod watched;
