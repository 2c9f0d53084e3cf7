//! The engine as DataFusion can hold it.

use std::fmt;
use std::ops::Deref;

use tidegate_engine::Database;

/// The database, with the `Debug` that DataFusion requires of everything it holds.
#[derive(Clone)]
pub struct Engine(Database);

impl Engine {
    pub fn new(database: Database) -> Self {
        Engine(database)
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
        &self.0
    }
}
