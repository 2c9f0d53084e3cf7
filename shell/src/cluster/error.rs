//! Errors of the engine on the wire between nodes: the code says what to do about one.

use std::time::Duration;

use tidegate_engine::Error;
use tonic::{Code, Status};

/// What is said of a node that does not answer.
const DOWN: &str = "queries and writes that need it fail until it is back, all others run";

/// Whether a text is that of a node which does not answer.
pub(crate) fn is_of_node_down(text: &str) -> bool {
    text.contains("node '") && text.contains(DOWN)
}

/// The status of a call that failed on this node.
pub(crate) fn status(error: &Error) -> Status {
    let code = match error {
        Error::Invalid(_) => Code::InvalidArgument,
        Error::NotFound { .. } => Code::NotFound,
        Error::Exists { .. } => Code::AlreadyExists,
        Error::Corrupt(_) => Code::DataLoss,
        Error::Overloaded(_) | Error::RateLimited { .. } => Code::ResourceExhausted,
        Error::Timeout { .. } => Code::DeadlineExceeded,
        Error::Io { .. } | Error::Policy { .. } => Code::Internal,
        Error::Unavailable(_) | Error::Poisoned { .. } | Error::Closed => Code::Unavailable,
    };
    Status::new(code, error.to_string())
}

/// The error of a call that another node did not answer, or answered with an error.
pub(crate) fn of_status(node: &str, address: &str, status: &Status) -> Error {
    let message = status.message();
    match status.code() {
        Code::InvalidArgument => Error::Invalid(format!("node '{node}': {message}")),
        Code::ResourceExhausted => Error::short(format!("node '{node}': {message}")),
        Code::DeadlineExceeded => {
            Error::Timeout { what: "another node had not answered", within: Duration::ZERO }
        }
        _ if is_of_transport(status) => Error::Unavailable(format!(
            "node '{node}' at {address} does not answer ({message}): {DOWN}"
        )),
        _ => Error::Unavailable(format!("node '{node}' at {address}: {message}")),
    }
}

/// Whether no node has said this, but the way to it.
fn is_of_transport(status: &Status) -> bool {
    std::error::Error::source(status).is_some() || status.code() == Code::Cancelled
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "grpc://h:1";

    fn kind(error: &Error) -> &'static str {
        match error {
            Error::Invalid(_) => "invalid",
            Error::Overloaded(_) => "overloaded",
            Error::Timeout { .. } => "timeout",
            Error::Unavailable(_) => "unavailable",
            _ => "another",
        }
    }

    /// A client of the one node can do about an error what it could at the other.
    #[test]
    fn an_error_of_another_node_says_what_to_do_about_it_and_whose_it_is() {
        let limited = Error::RateLimited { table: "ks.t".into(), operation: "write", limit: 5 };
        let late = Error::Timeout { what: "x", within: Duration::from_millis(5) };
        let poisoned = Error::Poisoned { shard: 1, reason: "a sync failed".into() };
        let policy = Error::Policy { name: "sieve".into(), message: "x".into() };
        let full = Error::Io {
            operation: "write",
            path: "f".into(),
            code: Some(28),
            message: "no space".into(),
        };
        for (error, code, wanted) in [
            (policy, Code::Internal, "unavailable"),
            (full, Code::Internal, "unavailable"),
            (Error::invalid("x"), Code::InvalidArgument, "invalid"),
            (Error::short("x"), Code::ResourceExhausted, "overloaded"),
            (limited, Code::ResourceExhausted, "overloaded"),
            (late, Code::DeadlineExceeded, "timeout"),
            (Error::NotFound { kind: "table", name: "t".into() }, Code::NotFound, "unavailable"),
            (Error::Exists { kind: "table", name: "t".into() }, Code::AlreadyExists, "unavailable"),
            (Error::corrupt("f", 1, "a", "b"), Code::DataLoss, "unavailable"),
            (Error::Unavailable("x".into()), Code::Unavailable, "unavailable"),
            (poisoned, Code::Unavailable, "unavailable"),
            (Error::Closed, Code::Unavailable, "unavailable"),
        ] {
            let sent = status(&error);
            assert_eq!(sent.code(), code, "{error}");
            let came = of_status("b", ADDRESS, &sent);
            assert_eq!(kind(&came), wanted, "{error}");
            let text = came.to_string();
            assert!(!is_of_node_down(&text), "{text}");
            if wanted != "timeout" {
                assert!(text.contains("node 'b'") && text.ends_with(&error.to_string()), "{text}");
            }
        }
    }

    #[test]
    fn a_node_that_does_not_answer_is_told_from_one_that_refuses() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        for status in [Status::from_error(Box::new(refused)), Status::cancelled("x")] {
            let error = of_status("b", ADDRESS, &status);
            assert_eq!(kind(&error), "unavailable");
            let text = error.to_string();
            assert!(is_of_node_down(&text), "{text}");
            assert!(text.starts_with("node 'b' at grpc://h:1 does not answer ("), "{text}");
        }
        assert!(!is_of_node_down(DOWN), "no node is named");
    }
}
