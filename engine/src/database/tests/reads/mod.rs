//! What a read gives, and when it ends early.

use super::*;

mod partition_limit;
