//! Why a command for authors of policies ends early.

use std::io;

use crate::query::QueryError;

/// Why a command ended early.
pub(super) enum Failure {
    /// In words for the author.
    Wrong(String),
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Failure::Wrong(error.to_string())
    }
}

impl From<tidegate_engine::Error> for Failure {
    fn from(error: tidegate_engine::Error) -> Self {
        Failure::Wrong(error.to_string())
    }
}
