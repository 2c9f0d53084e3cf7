//! Strategies as tables, and what a purge leaves.

mod purge;
mod strategies;
