//! Policy administration: the registry, the active policies, and the rollout of changes to all
//! shards.
//!
//! ```text
//! database ──> Governance ── registry: create, drop, compile
//!    ^             │     └── rollout, canary: shadow, canary, in charge, back
//!    │ Keeper      │ Shards: a closure to each shard
//! wishes           v
//! on disk     ShardPolicies ── a post for each world ──> cache, rate limiter, admission
//! ```
//! `world.rs` says what a world is, `worlds.rs` has the list of all; `direct.rs` and `eviction/`
//! implement them. Invariant: if one shard refuses a change, the earlier shards undo it, so all
//! shards follow the wishes. A canary is the one exception. Not here: what a policy may do to a
//! cache (`cache/governor/`), components (`plugin/`), the catalog that keeps the wishes.

mod canary;
mod components;
mod direct;
mod eviction;
mod files;
mod governance;
mod origin;
mod registry;
mod report;
mod rollout;
mod shard;
mod trials;
mod wishes;
mod world;
mod worlds;

#[cfg(test)]
mod tests;

pub use direct::NATIVE_RATE;
pub use files::PolicyFiles;
pub use governance::{Governance, Setting};
pub use report::{PolicyExit, PolicyInfo, PolicyReport, ShadowReport};
pub use rollout::RolledBack;
pub use shard::{Governed, ShardPolicies, Shards};
pub use wishes::{Keeper, Wishes};
pub use world::Parts;
