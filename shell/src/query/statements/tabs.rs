//! What Tab offers behind the first words of statements, where several rows have the same.

use super::definition::table_option;
use super::load::service_level;
use super::row::Tab;

/// What stands behind which words.
pub type Tabs = &'static [(&'static str, &'static [Tab])];

pub const TABLE: Tabs = &[("", &[Tab::Tables]), ("TABLE", &[Tab::Tables])];
pub const NAME: Tabs = &[("", &[Tab::Tables])];
pub const KEYSPACE: Tabs = &[("", &[Tab::Keyspaces])];
pub const POLICY: Tabs = &[("", &[Tab::Policies])];
/// Behind ALTER RATE LIMITER and its like.
pub const SET_POLICY: Tabs = &[
    ("", &[Tab::Words(&["SET"])]),
    ("SET", &[Tab::Words(&["POLICY"])]),
    ("POLICY", &[Tab::Policies]),
    ("POLICY =", &[Tab::Policies]),
];
/// Behind MODE.
pub const MODES: &[Tab] = &[Tab::Words(&["ACTIVE", "CANARY", "SHADOW"])];
pub const LEVEL_OPTIONS: Tabs = &[
    ("WITH", &[Tab::Names(service_level::OPTIONS)]),
    ("AND", &[Tab::Names(service_level::OPTIONS)]),
];
pub const ROLE_OPTIONS: Tabs = &[
    ("WITH", &[Tab::Words(&["LOGIN", "PASSWORD", "SUPERUSER"])]),
    ("AND", &[Tab::Words(&["LOGIN", "PASSWORD", "SUPERUSER"])]),
];
/// Behind GRANT and REVOKE.
pub const RIGHTS: Tabs = &[
    ("", &[Tab::Words(&["ALL", "ALTER", "AUTHORIZE", "CREATE", "DROP", "MODIFY", "SELECT"])]),
    (
        "ON",
        &[
            Tab::Words(&["ADMINISTRATION", "ALL KEYSPACES", "KEYSPACE", "POLICIES", "TABLE"]),
            Tab::Tables,
        ],
    ),
    ("TABLE", &[Tab::Tables]),
    ("KEYSPACE", &[Tab::Keyspaces]),
];
pub const OPTIONS: Tab = Tab::Names(table_option::OPTIONS);
pub const CREATED_WITH: &[Tab] = &[OPTIONS, Tab::Words(&["CLUSTERING ORDER BY"])];
