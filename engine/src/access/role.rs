//! One role, as the catalog keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::right::Grant;

/// What is kept of a password. Nobody is shown it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// A hash in the form of PHC strings: `$argon2id$v=19$…`.
    pub fn new(phc: String) -> Self {
        PasswordHash(phc)
    }

    pub fn as_phc(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(***)")
    }
}

/// What is kept of a token: a text that its holder sends in place of a password. Nobody is shown
/// it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// The digest of the token.
    pub digest: String,
    /// Wall clock, microseconds since the epoch.
    pub created_us: i64,
    /// The same; `None` for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_us: Option<i64>,
}

impl AccessToken {
    /// Whether it holds at this moment of the wall clock, microseconds since the epoch.
    pub fn holds_at(&self, now_us: i64) -> bool {
        self.expires_us.is_none_or(|expires_us| now_us < expires_us)
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessToken(***, created {}, expires {:?})", self.created_us, self.expires_us)
    }
}

/// What is set of a role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RoleOptions {
    /// Without one, a role proves who it is in another way, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<PasswordHash>,
    /// Whether somebody may come as this role.
    pub login: bool,
    /// Whether it may do everything.
    pub superuser: bool,
}

/// A role: what is set of it, and what was given to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Role {
    #[serde(flatten)]
    pub options: RoleOptions,
    /// Roles that it has: what they may do, it may do too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub grants: BTreeSet<Grant>,
    /// Tokens by which somebody comes as this role, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<String, AccessToken>,
    /// Name of the service level that is attached to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_level: Option<String>,
}
