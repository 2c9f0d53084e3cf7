//! What policies are held to: see `tests/traces.rs`.

pub mod made;
pub mod published;
