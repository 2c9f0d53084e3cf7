//! Who calls.

use crate::query::Caller;

/// The caller of a request, as the guard has found; it goes with the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flight) struct Identity(pub Caller);
