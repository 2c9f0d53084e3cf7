//! Strategies as tables, what a policy may choose, what is still to do, and what a purge leaves.

mod backlog;
mod by_policy;
mod purge;
mod remnant;
mod strategies;
