//! Tests only: see `tests/traces.rs`.
