//! Plans: DataFusion's rules, and ours where its answers are not exact.

pub mod access;
mod any_all;
mod correlated;
pub mod deep;
mod filter;
mod frame;
pub mod heading;
mod join;
mod multiset;
pub mod row_in;
pub mod rules;
mod subquery_value;
mod union;
mod wide;
pub mod zero;
