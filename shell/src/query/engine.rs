//! The engine as DataFusion can hold it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tidegate_engine::Database;

use super::roster::Roster;
use super::watch::journal::Journal;
use crate::cluster::Cluster;

/// The database and what is kept of statements, with the `Debug` that DataFusion requires of
/// everything it holds.
#[derive(Clone)]
pub struct Engine {
    database: Database,
    journal: Arc<Journal>,
    roster: Arc<Roster>,
    cluster: Option<Arc<Cluster>>,
}

impl Engine {
    pub fn new(database: Database, journal: Arc<Journal>, roster: Arc<Roster>) -> Self {
        Engine { database, journal, roster, cluster: None }
    }

    /// The same, with the other nodes.
    pub fn in_cluster(self, cluster: Option<Arc<Cluster>>) -> Self {
        Engine { cluster, ..self }
    }

    /// The other nodes, where the database is one of a cluster.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_deref()
    }

    /// The last traces and slow statements.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Who is connected and what runs.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

impl Deref for Engine {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}
