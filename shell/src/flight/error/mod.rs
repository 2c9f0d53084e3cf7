//! Errors of statements as gRPC status codes, chosen so that a client knows whether to retry, and
//! refusals with when to.

mod retry;

use std::time::Duration;

use tidegate_engine::Error;
use tonic::{Code, Status};

pub(super) use self::retry::refusal;
#[cfg(test)]
pub(super) use self::retry::tests::retry_delay;
use crate::query::{ErrorKind, QueryError};
use crate::remote::wire::with_place;

/// When to come again where nobody says more.
const RETRY: Duration = Duration::from_secs(1);

/// The status of a statement that failed. The message keeps its place in the text and its help.
/// Where there was too much work it says when to try again.
pub(super) fn status(error: &QueryError) -> Status {
    match error.kind {
        ErrorKind::Overloaded => refusal(error.to_string(), error.retry_after.unwrap_or(RETRY)),
        kind => with_place(Status::new(code(kind), error.to_string()), error),
    }
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
    use tidegate_engine::error::Overload;

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

    #[test]
    fn an_error_of_each_kind_has_the_code_that_a_client_acts_by() {
        for (kind, wanted) in [
            (ErrorKind::Syntax, Code::InvalidArgument),
            (ErrorKind::Invalid, Code::InvalidArgument),
            (ErrorKind::NotFound, Code::NotFound),
            (ErrorKind::Exists, Code::AlreadyExists),
            (ErrorKind::Unsupported, Code::Unimplemented),
            (ErrorKind::Denied, Code::PermissionDenied),
            (ErrorKind::Overloaded, Code::ResourceExhausted),
            (ErrorKind::Timeout, Code::DeadlineExceeded),
            (ErrorKind::Unavailable, Code::Unavailable),
            (ErrorKind::Corrupt, Code::DataLoss),
            (ErrorKind::Io, Code::Internal),
            (ErrorKind::Internal, Code::Internal),
        ] {
            let told = status(&QueryError::new(kind, "why it failed"));
            assert_eq!(told.code(), wanted, "{kind:?}");
            assert!(told.message().contains("why it failed"), "{kind:?}: {told}");
            assert_eq!(told.details().is_empty(), kind != ErrorKind::Overloaded, "{kind:?}");
        }
    }

    #[test]
    fn a_refusal_says_when_to_come_again_and_other_errors_do_not() {
        let limited = Error::RateLimited { table: "t".into(), operation: "read", limit: 5 };
        let full = Error::Io {
            operation: "write",
            path: "f".into(),
            code: Some(28),
            message: "no space".into(),
        };
        for (error, wanted) in [
            (Error::Overloaded(Overload::Shed { what: "reads" }), Duration::from_millis(100)),
            (Error::Overloaded(Overload::NoMemory { waited_us: 1 }), Duration::from_millis(500)),
            (Error::short("x"), Duration::from_secs(1)),
            (limited, Duration::from_secs(1)),
            (full, Duration::from_secs(10)),
        ] {
            let status = engine_status(error);
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert_eq!(retry_delay(&status), Some(wanted), "{status}");
        }
        let memory = QueryError::new(ErrorKind::Overloaded, "queries have no more memory");
        assert_eq!(retry_delay(&status(&memory)), Some(RETRY));
        let late = Error::Timeout { what: "x", within: Duration::ZERO };
        for error in [Error::invalid("x"), late, Error::Closed] {
            assert!(engine_status(error).details().is_empty());
        }
    }
}
