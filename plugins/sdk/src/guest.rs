//! The component side: WIT bindings, and one policy per instance behind them.
//!
//! A guest has one thread, so the policy stands in a thread-local. A panic is logged at error
//! level before the trap, because the host keeps the last error line for its failure record.

pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/v0.1",
        world: "eviction-policy",
        pub_export_macro: true,
        default_bindings_module: "::tidegate_plugin::guest::bindings",
    });
}

use std::cell::RefCell;

pub use bindings::exports::tidegate::policy::{eviction, lifecycle};
pub use bindings::tidegate::policy::host::log;

use crate::{Driver, EvictionPolicy, Setup};

/// The place of an instance's policy; empty before `init` and after `fini`.
pub type Place<P> = RefCell<Option<Driver<P>>>;

/// Runs `work` on the policy.
///
/// Panics, that is traps, when the host calls before `init`.
pub fn with<P: EvictionPolicy, R>(place: &Place<P>, work: impl FnOnce(&mut Driver<P>) -> R) -> R {
    work(place.borrow_mut().as_mut().expect("init is the first call"))
}

/// `lifecycle.init`.
///
/// Errors: the policy refused its parameters.
pub fn init<P: EvictionPolicy>(place: &Place<P>, setup: &Setup) -> Result<lifecycle::Caps, String> {
    std::panic::set_hook(Box::new(|panic| log(4, &panic.to_string())));
    *place.borrow_mut() = Some(Driver::new(setup)?);
    Ok(lifecycle::Caps {
        hook: lifecycle::Hook::Eviction,
        name: P::NAME.to_string(),
        version: P::VERSION.to_string(),
        deterministic: true,
        wants_miss_events: P::WANTS_MISS_EVENTS,
        wants_ticks_ms: P::WANTS_TICKS_MS,
        state_schema: P::STATE_SCHEMA,
        bytes_per_slot: P::BYTES_PER_SLOT,
    })
}
