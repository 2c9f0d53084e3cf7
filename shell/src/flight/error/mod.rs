//! Errors of statements as gRPC status codes, chosen so that a client knows whether to retry.

use tidegate_engine::Error;
use tonic::{Code, Status};

use crate::query::{ErrorKind, QueryError};

/// The status of a statement that failed. The message keeps its place in the text and its help.
pub(super) fn status(error: &QueryError) -> Status {
    Status::new(code(error.kind), error.to_string())
}

/// The status of an engine call that failed.
pub(super) fn engine_status(error: Error) -> Status {
    status(&QueryError::from(error))
}

/// The request itself is wrong.
pub(super) fn invalid(message: impl Into<String>) -> Status {
    Status::invalid_argument(message)
}

fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::Syntax | ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Exists => Code::AlreadyExists,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::Denied => Code::PermissionDenied,
        ErrorKind::Overloaded => Code::ResourceExhausted,
        ErrorKind::Timeout => Code::DeadlineExceeded,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Corrupt => Code::DataLoss,
        ErrorKind::Io | ErrorKind::Internal => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_can_tell_its_own_fault_from_a_reason_to_retry() {
        for (error, wanted) in [
            (Error::invalid("x"), Code::InvalidArgument),
            (Error::NotFound { kind: "table", name: "t".into() }, Code::NotFound),
            (Error::Exists { kind: "table", name: "t".into() }, Code::AlreadyExists),
            (Error::short("x"), Code::ResourceExhausted),
            (Error::Timeout { what: "x", within: Duration::ZERO }, Code::DeadlineExceeded),
            (Error::Closed, Code::Unavailable),
            (Error::corrupt("f", 1, "a", "b"), Code::DataLoss),
        ] {
            assert_eq!(engine_status(error).code(), wanted);
        }
    }
}
