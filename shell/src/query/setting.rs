//! Our own settings of a session, `SET tidegate.… = …`, and the terms of a statement that follow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::extensions_options;
use datafusion::config::{ConfigExtension, ConfigOptions};
use datafusion::prelude::SessionConfig;
use tidegate_engine::{Catalog, DEFAULT_LEVEL, Terms};

use super::limit::ResultLimits;

extensions_options! {
    /// See the head of this file.
    pub struct Settings {
        /// Reads ask the row cache for nothing and leave nothing in the caches
        pub bypass_cache: bool, default = false
        /// Statements that name their partition run without the planner
        pub short_path: bool, default = true
        /// The service level of statements that name none
        pub service_level: String, default = DEFAULT_LEVEL.to_owned()
        /// Statements that take so many milliseconds are kept in system.slow_queries; 0 keeps none
        pub slow_query_ms: u64, default = 0
        /// Bytes of a result from which on there is a warning; 0 is none
        pub result_warn_bytes: u64, default = 100 << 20
        /// Bytes at which a result ends with an error; 0 is none
        pub result_max_bytes: u64, default = 0
    }
}

impl ConfigExtension for Settings {
    const PREFIX: &'static str = "tidegate";
}

/// Whether reads go past the caches.
pub fn bypasses_cache(options: &ConfigOptions) -> bool {
    options.extensions.get::<Settings>().is_some_and(|settings| settings.bypass_cache)
}

/// Whether statements may run without the planner.
pub fn has_short_path(options: &ConfigOptions) -> bool {
    options.extensions.get::<Settings>().is_some_and(|settings| settings.short_path)
}

/// How large results may be.
pub fn result_limits(options: &ConfigOptions) -> ResultLimits {
    let settings = options.extensions.get::<Settings>();
    let of = |limit: fn(&Settings) -> u64| settings.map_or(0, limit);
    ResultLimits {
        warn_bytes: of(|settings| settings.result_warn_bytes),
        max_bytes: of(|settings| settings.result_max_bytes),
    }
}

/// Full name of the setting.
pub const SERVICE_LEVEL: &str = "tidegate.service_level";

/// The service level of statements that name none.
pub fn service_level(options: &ConfigOptions) -> &str {
    options.extensions.get::<Settings>().map_or(DEFAULT_LEVEL, |settings| &settings.service_level)
}

/// Sets it.
pub fn set_service_level(options: &mut ConfigOptions, name: &str) {
    if let Some(settings) = options.extensions.get_mut::<Settings>() {
        settings.service_level = name.to_owned();
    }
}

/// The terms of a statement of its own, or those of whatever runs under these settings.
pub fn terms_under(config: &SessionConfig, catalog: &Catalog) -> Terms {
    match config.get_extension::<Terms>() {
        Some(terms) => *terms,
        None => terms_of_options(config.options(), catalog),
    }
}

/// The terms of whatever runs under these settings.
pub fn terms_of_options(options: &ConfigOptions, catalog: &Catalog) -> Terms {
    let level = catalog.service_level(service_level(options)).unwrap_or_default();
    Terms { deadline: None, level: level.id }
}

/// From how many milliseconds on statements are kept as slow; 0 keeps none.
pub fn slow_query_ms(options: &ConfigOptions) -> u64 {
    options.extensions.get::<Settings>().map_or(0, |settings| settings.slow_query_ms)
}

/// Names the settings of a session. Sessions that were made of one have equal stamps for as long as
/// none of them changes a setting.
pub struct Stamp {
    own: AtomicU64,
    /// The last that was given, to any of these sessions.
    last: Arc<AtomicU64>,
}

impl Stamp {
    pub fn new() -> Self {
        Stamp { own: AtomicU64::new(0), last: Arc::new(AtomicU64::new(0)) }
    }

    pub fn value(&self) -> u64 {
        self.own.load(Ordering::SeqCst)
    }

    /// Said before a setting changes and after it did: who reads one value before and after copying
    /// the settings has those that belong to the value.
    pub fn renew(&self) {
        let next = self.last.fetch_add(1, Ordering::SeqCst) + 1;
        self.own.store(next, Ordering::SeqCst);
    }

    /// That of a session that was made of this one, whose settings were copied before.
    pub fn copied(&self) -> Self {
        Stamp { own: AtomicU64::new(self.value()), last: Arc::clone(&self.last) }
    }
}
