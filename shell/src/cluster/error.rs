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
