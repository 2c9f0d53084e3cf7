//! Our own settings of a session, `SET tidegate.… = …`, and the terms of a statement that follow.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::extensions_options;
use datafusion::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::prelude::SessionConfig;
use tidegate_engine::{Catalog, DEFAULT_LEVEL, Terms};

use super::error::{ErrorKind, QueryError, Result, nearest};
use super::limit::ResultLimits;

extensions_options! {
    /// What [`Settings`] hold.
    pub struct Fields {
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
        /// In a cluster, definitions change on this node alone: for one that missed some
        pub this_node_alone: bool, default = false
    }
}

/// See the head of this file. DataFusion lists settings by the names that their extension gives
/// them: these are the full ones.
#[derive(Debug, Clone, Default)]
pub struct Settings(Fields);

impl ConfigExtension for Settings {
    const PREFIX: &'static str = "tidegate";
}

impl ExtensionOptions for Settings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> datafusion::common::Result<()> {
        ExtensionOptions::set(&mut self.0, key, value)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let with_prefix = |entry: ConfigEntry| {
            let key = format!("{}.{}", Self::PREFIX, entry.key);
            ConfigEntry { key, ..entry }
        };
        self.0.entries().into_iter().map(with_prefix).collect()
    }
}

impl Deref for Settings {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.0
    }
}

/// Whether reads go past the caches.
pub fn bypasses_cache(options: &ConfigOptions) -> bool {
    options.extensions.get::<Settings>().is_some_and(|settings| settings.bypass_cache)
}

/// Whether statements may run without the planner.
pub fn has_short_path(options: &ConfigOptions) -> bool {
    options.extensions.get::<Settings>().is_some_and(|settings| settings.short_path)
}

/// Whether definitions of a cluster change on this node alone.
pub fn is_alone(options: &ConfigOptions) -> bool {
    options.extensions.get::<Settings>().is_some_and(|settings| settings.this_node_alone)
}

/// Sets that.
pub fn set_alone(options: &mut ConfigOptions) {
    if let Some(settings) = options.extensions.get_mut::<Settings>() {
        settings.0.this_node_alone = true;
    }
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

/// Settings of the process, which sessions do not list.
const OF_PROCESS: &str = "datafusion.runtime.";

/// Errors: `NotFound` for a setting that does not exist, naming the one that was meant.
pub fn check_name(name: &str, options: &ConfigOptions) -> Result<()> {
    let entries = options.entries();
    let known = || entries.iter().map(|entry| entry.key.as_str());
    if name.starts_with(OF_PROCESS) || known().any(|key| key == name) {
        return Ok(());
    }
    let is_end = |key: &&str| key.strip_suffix(name).is_some_and(|start| start.ends_with('.'));
    let meant = known().find(is_end).or_else(|| nearest(name, known()));
    let message = format!("there is no setting '{name}'");
    let error = QueryError::new(ErrorKind::NotFound, message);
    Err(match meant {
        Some(meant) => error.with_help(format!("did you mean {meant}?")),
        None => error.with_help("SHOW ALL lists the settings"),
    })
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
        settings.0.service_level = name.to_owned();
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn options() -> ConfigOptions {
        let mut options = ConfigOptions::new();
        options.extensions.insert(Settings::default());
        options
    }

    #[test]
    fn a_setting_is_named_in_full_and_the_one_that_was_meant_is_told() {
        let options = options();
        for entry in options.entries() {
            assert!(check_name(&entry.key, &options).is_ok(), "{}", entry.key);
        }
        assert!(check_name("datafusion.runtime.memory_limit", &options).is_ok());
        for (name, help) in [
            // The end of a name, from a point on.
            ("short_path", "did you mean tidegate.short_path?"),
            ("result_max_bytes", "did you mean tidegate.result_max_bytes?"),
            ("execution.batch_size", "did you mean datafusion.execution.batch_size?"),
            // A slip of the pen.
            ("tidegate.short_pat", "did you mean tidegate.short_path?"),
            ("tidegate.slow_qeury_ms", "did you mean tidegate.slow_query_ms?"),
            // No name ends with a part of a word.
            ("ort_path", "SHOW ALL lists the settings"),
            ("no such thing at all", "SHOW ALL lists the settings"),
        ] {
            let error = check_name(name, &options).unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound, "{name}");
            assert_eq!(error.message, format!("there is no setting '{name}'"));
            assert_eq!(error.help.as_deref(), Some(help), "{name}");
        }
    }

    /// What settings say: of caches, of the short path, of this node, of slowness and of sizes.
    fn said(options: &ConfigOptions) -> (bool, bool, bool, u64, ResultLimits) {
        let slow = slow_query_ms(options);
        let (bypasses, short) = (bypasses_cache(options), has_short_path(options));
        (bypasses, short, is_alone(options), slow, result_limits(options))
    }

    #[test]
    fn each_setting_is_said_by_itself() {
        let limits = |warn_bytes, max_bytes| ResultLimits { warn_bytes, max_bytes };
        let usual = (false, true, false, 0, limits(100 << 20, 0));
        assert_eq!(said(&options()), usual);
        let (warned, ended) = (limits(7, 0), limits(100 << 20, 7));
        for (name, value, wanted) in [
            ("bypass_cache", "true", (true, true, false, 0, usual.4)),
            ("short_path", "false", (false, false, false, 0, usual.4)),
            ("this_node_alone", "true", (false, true, true, 0, usual.4)),
            ("slow_query_ms", "7", (false, true, false, 7, usual.4)),
            ("result_warn_bytes", "7", (false, true, false, 0, warned)),
            ("result_max_bytes", "7", (false, true, false, 0, ended)),
            ("service_level", "soon", usual),
        ] {
            let mut options = options();
            options.set(&format!("tidegate.{name}"), value).unwrap();
            assert_eq!(said(&options), wanted, "{name}");
            let level = if name == "service_level" { "soon" } else { DEFAULT_LEVEL };
            assert_eq!(service_level(&options), level, "{name}");
        }
        let mut alone = options();
        set_alone(&mut alone);
        assert_eq!(said(&alone), (false, true, true, 0, usual.4));
        set_service_level(&mut alone, "late");
        assert_eq!((service_level(&alone), said(&alone).2), ("late", true));
        // Where there are none of ours, as in a test of DataFusion.
        let none = ConfigOptions::new();
        assert_eq!(said(&none), (false, false, false, 0, limits(0, 0)));
        assert_eq!(service_level(&none), DEFAULT_LEVEL);
    }

    #[test]
    fn stamps_are_equal_until_one_of_the_sessions_sets_something() {
        let first = Stamp::new();
        let (second, third) = (first.copied(), first.copied());
        assert_eq!([second.value(), third.value()], [first.value(); 2]);
        second.renew();
        assert_eq!(third.value(), first.value(), "what another sets is its own");
        let of_second = second.copied();
        assert_eq!(of_second.value(), second.value());
        let mut seen = HashSet::from([first.value(), second.value()]);
        // Whoever sets something has a stamp that nobody had before.
        for stamp in [&third, &first, &of_second, &second, &third, &first] {
            stamp.renew();
            assert!(seen.insert(stamp.value()), "{} was given before", stamp.value());
        }
    }
}
