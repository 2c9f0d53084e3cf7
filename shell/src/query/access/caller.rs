//! Who runs statements.

use std::sync::Arc;

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Caller {
    /// Whoever has the data directory: may do everything, whatever roles there are.
    #[default]
    Owner,
    /// A role, by its name.
    Role(Arc<str>),
}

impl Caller {
    /// The role; `None` for the owner.
    pub fn role(&self) -> Option<&str> {
        match self {
            Caller::Owner => None,
            Caller::Role(name) => Some(name),
        }
    }

    /// How logs and errors name who it is.
    pub fn name(&self) -> &str {
        self.role().unwrap_or("owner")
    }
}
