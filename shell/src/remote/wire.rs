//! What service and shell tell each other beside Flight SQL: which shape a result has, where in the
//! text an error is, and what names there are.
//!
//! Clients of other kinds leave all of it unread.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use serde::{Deserialize, Serialize};
use tidegate_engine::Catalog;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::query::{ErrorKind, QueryError, Span};

/// The action that gives a [`Names`]; its body is the version of the catalog that is known, in
/// decimal digits, or empty.
pub(crate) const NAMES: &str = "Names";
/// The header of a status that holds an [`ErrorPlace`].
const PLACE: &str = "tidegate-error-bin";

/// The shape of a result, as `app_metadata` of its FlightInfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Rows,
    Count,
    Decided,
    Message,
}

impl Shape {
    const ALL: [(Shape, &'static str); 4] = [
        (Shape::Rows, "rows"),
        (Shape::Count, "count"),
        (Shape::Decided, "decided"),
        (Shape::Message, "message"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Shape::ALL.iter().find(|(shape, _)| *shape == self).map_or("rows", |(_, name)| *name)
    }

    /// Of a name; a service that gives none gives rows.
    pub(super) fn of(name: &[u8]) -> Self {
        let found = Shape::ALL.iter().find(|(_, known)| known.as_bytes() == name);
        found.map_or(Shape::Rows, |(shape, _)| *shape)
    }
}

/// Where in its text a statement is wrong, and what would help: the message of the status says it
/// in words.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ErrorPlace {
    #[prost(string, tag = "1")]
    message: String,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    /// Line, column, length; nothing where it has no place.
    #[prost(uint64, repeated, tag = "3")]
    span: Vec<u64>,
}

/// Puts the parts of an error beside its words.
pub(crate) fn with_place(mut status: Status, error: &QueryError) -> Status {
    if error.span.is_none() && error.help.is_none() {
        return status;
    }
    let span = error.span.map(|span| vec![span.line, span.column, span.length]);
    let place = ErrorPlace {
        message: error.message.clone(),
        help: error.help.clone(),
        span: span.unwrap_or_default(),
    };
    let value = MetadataValue::from_bytes(&place.encode_to_vec());
    status.metadata_mut().insert_bin(PLACE, value);
    status
}

/// The error that a status tells of.
pub(super) fn error_of(status: &Status) -> QueryError {
    let kind = match status.code() {
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::Exists,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::Denied,
        Code::ResourceExhausted => ErrorKind::Overloaded,
        Code::DeadlineExceeded => ErrorKind::Timeout,
        Code::Unavailable => ErrorKind::Unavailable,
        Code::DataLoss => ErrorKind::Corrupt,
        Code::Internal | Code::Unknown => ErrorKind::Internal,
        _ => ErrorKind::Invalid,
    };
    let told = status.metadata().get_bin(PLACE).and_then(|value| value.to_bytes().ok());
    let Some(place) = told.and_then(|bytes| ErrorPlace::decode(bytes).ok()) else {
        return QueryError::new(kind, status.message());
    };
    let mut error = QueryError::new(kind, place.message);
    error.help = place.help;
    if let [line, column, length] = place.span[..] {
        error.span = Some(Span { line, column, length });
    }
    error
}

/// What names there are, and where a session is.
#[derive(Serialize, Deserialize)]
pub(crate) struct Names {
    pub keyspace: String,
    /// Nothing where the version that the caller knows is the latest one.
    pub catalog: Option<Arc<Catalog>>,
}

impl Names {
    /// The answer to a caller who knows this version of the catalog: nothing of roles is in it.
    pub(crate) fn encode(keyspace: String, catalog: &Catalog, known: &[u8]) -> Vec<u8> {
        let is_known = catalog.version().to_string().as_bytes() == known;
        let catalog = (!is_known).then(|| Arc::new(catalog.without_roles()));
        // Maps with keys of text, numbers and texts: nothing in it can fail.
        serde_json::to_vec(&Names { keyspace, catalog }).unwrap_or_default()
    }
}

/// How long a service has to say what names there are: a prompt waits for it.
pub(super) const NAMES_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_with_its_place_and_its_help() {
        let span = Span { line: 2, column: 7, length: 4 };
        let whole = QueryError::new(ErrorKind::NotFound, "column 'tmep' does not exist")
            .at(span)
            .with_help("did you mean 'temp'?");
        let helped = QueryError::new(ErrorKind::Denied, "no").with_help("ask");
        for error in [whole, helped, QueryError::new(ErrorKind::Internal, "a bug")] {
            let code = match error.kind {
                ErrorKind::NotFound => Code::NotFound,
                ErrorKind::Denied => Code::PermissionDenied,
                _ => Code::Internal,
            };
            let status = with_place(Status::new(code, error.to_string()), &error);
            assert_eq!(error_of(&status), error);
        }
        let other = Status::new(Code::Unavailable, "gone");
        assert_eq!(error_of(&other), QueryError::new(ErrorKind::Unavailable, "gone"));
    }

    #[test]
    fn a_shape_has_a_name_and_no_name_is_rows() {
        for (shape, name) in Shape::ALL {
            assert_eq!((shape.name(), Shape::of(name.as_bytes())), (name, shape));
        }
        assert_eq!(Shape::of(b""), Shape::Rows);
        assert_eq!(Shape::of(b"else"), Shape::Rows);
    }
}
