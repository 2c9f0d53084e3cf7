//! Our own settings of a session: `SET tidegate.… = …`.

use datafusion::common::extensions_options;
use datafusion::config::{ConfigExtension, ConfigOptions};

extensions_options! {
    /// See the head of this file.
    pub struct Settings {
        /// Reads ask the row cache for nothing and leave nothing in the caches
        pub bypass_cache: bool, default = false
        /// Statements that name their partition run without the planner
        pub short_path: bool, default = true
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
