//! Queries of a cluster, planned and run by `datafusion-distributed` on all nodes.
//!
//! | file | holds |
//! |---|---|
//! | `planner` | which plans are divided, and which node reads what |
//! | `explaining` | EXPLAIN of what nodes share |
//! | `codec` | a scan as a message |
//! | `functions` | which functions a node finds by their names |
//! | `worker` | what a node needs to run a part of another's query |
//! | `nodes` | the nodes as a table |
//! | `channels` | the way to the others |
//! | `all_nodes` | statements that all nodes run, or none |
//! | `definer` | definitions that all nodes make, or none |
//!
//! Each leaf that reads tables has one task a node, and that runs on the node that owns what it
//! reads. A plan that cannot be sent is run by one node, whose scans ask the others for their rows.

mod all_nodes;
mod channels;
mod codec;
mod definer;
mod explaining;
mod functions;
pub(super) mod nodes;
mod planner;
mod worker;

pub(super) use planner::planned_by_all;
pub(super) use worker::Distributed;
