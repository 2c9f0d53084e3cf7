//! A view: a query that is read like a table, with the rights of whoever made it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// See the head of this file. The engine keeps the text, and whoever plans queries reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    pub keyspace: String,
    pub name: String,
    /// The query, each of whose tables stands with its keyspace.
    pub query: String,
    /// The role with whose rights it reads. None: it may read everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Keyspace and name of each table and view that it reads.
    pub reads: BTreeSet<(String, String)>,
}

impl View {
    /// `keyspace.name`
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }

    /// Whether it reads the table or view of this name, not through others.
    pub fn reads(&self, keyspace: &str, name: &str) -> bool {
        self.reads.iter().any(|(of, table)| of == keyspace && table == name)
    }
}
