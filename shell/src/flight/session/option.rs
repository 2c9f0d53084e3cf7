//! Session options over Flight: the messages that the generated code lacks, and what they do.
//!
//! Options: `catalog` (there is one), `schema` (the current keyspace), [`SERVICE_LEVEL`] of
//! statements that name none, [`PRIMARY_KEY`] for tables that an ingest creates, and
//! [`outgoing::OPTIONS`] for how results leave.

use std::collections::HashMap;

use prost::{Enumeration, Message, Oneof};
use tidegate_engine::DEFAULT_LEVEL;
use tonic::metadata::MetadataMap;

use super::FlightSession;
use crate::flight::outgoing::{self, Compression};

/// Name of the one catalog.
pub(in crate::flight) const CATALOG: &str = "tidegate";
/// Key columns of tables made by an ingest: `partition, key; clustering, key`.
pub(in crate::flight) const PRIMARY_KEY: &str = "ingest.primary_key";

/// The service level of statements that name none; unset it is the default one.
const SERVICE_LEVEL: &str = "service_level";

/// Values of `SetSessionOptions`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::flight) struct SetSessionOptionsRequest {
    #[prost(map = "string, message", tag = "1")]
    pub session_options: HashMap<String, SessionOptionValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::flight) struct SessionOptionValue {
    #[prost(oneof = "OptionValue", tags = "1, 2, 3, 4, 5")]
    pub option_value: Option<OptionValue>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(in crate::flight) enum OptionValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Boolean(bool),
    #[prost(sfixed64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Float(f64),
    #[prost(message, tag = "5")]
    Texts(StringListValue),
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::flight) struct StringListValue {
    #[prost(string, repeated, tag = "1")]
    pub values: Vec<String>,
}

/// Which options were refused.
#[derive(Clone, PartialEq, Message)]
pub(in crate::flight) struct SetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    pub errors: HashMap<String, OptionError>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::flight) struct OptionError {
    #[prost(enumeration = "ErrorValue", tag = "1")]
    pub value: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(in crate::flight) enum ErrorValue {
    Unspecified = 0,
    InvalidName = 1,
    InvalidValue = 2,
    Error = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::flight) struct GetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    pub session_options: HashMap<String, SessionOptionValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::flight) struct CloseSessionResult {
    #[prost(enumeration = "CloseStatus", tag = "1")]
    pub status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(in crate::flight) enum CloseStatus {
    Unspecified = 0,
    Closed = 1,
    Closing = 2,
    NotCloseable = 3,
}

impl FlightSession {
    /// How the rows are packed that a call with these headers gets.
    pub(in crate::flight) fn compression(&self, headers: &MetadataMap) -> Compression {
        Compression::of(headers, |name| self.options.lock().ok()?.get(name).cloned())
    }
}

/// Sets options; those that cannot be set are in the answer.
pub(in crate::flight) fn set(
    session: &FlightSession,
    request: SetSessionOptionsRequest,
) -> SetSessionOptionsResult {
    let errors = request
        .session_options
        .into_iter()
        .filter_map(|(name, value)| {
            let error = set_one(session, &name, value.option_value).err()?;
            Some((name, OptionError { value: error as i32 }))
        })
        .collect();
    SetSessionOptionsResult { errors }
}

fn set_one(
    session: &FlightSession,
    name: &str,
    value: Option<OptionValue>,
) -> Result<(), ErrorValue> {
    let text = match value {
        Some(OptionValue::Text(text)) => Some(text),
        None => None,
        Some(_) => return Err(ErrorValue::InvalidValue),
    };
    match (name, text) {
        ("catalog", Some(text)) if text == CATALOG => Ok(()),
        ("schema", Some(text)) => {
            session.query.set_keyspace(&text).map_err(|_| ErrorValue::InvalidValue)
        }
        (SERVICE_LEVEL, text) => {
            let name = text.as_deref().unwrap_or(DEFAULT_LEVEL);
            session.query.set_service_level(name).map_err(|_| ErrorValue::InvalidValue)
        }
        ("catalog" | "schema", _) => Err(ErrorValue::InvalidValue),
        (name, text) => {
            let values = outgoing::OPTIONS.iter().find(|(option, _)| *option == name);
            match (values, &text) {
                (None, _) if name != PRIMARY_KEY => return Err(ErrorValue::InvalidName),
                (Some((_, values)), Some(text)) if !values.contains(&text.as_str()) => {
                    return Err(ErrorValue::InvalidValue);
                }
                _ => {}
            }
            let mut options = session.options.lock().map_err(|_| ErrorValue::Error)?;
            match text {
                Some(text) => options.insert(name.to_owned(), text),
                None => options.remove(name),
            };
            Ok(())
        }
    }
}

/// All options and their values.
pub(in crate::flight) fn get(session: &FlightSession) -> GetSessionOptionsResult {
    let value =
        |text: &str| SessionOptionValue { option_value: Some(OptionValue::Text(text.to_owned())) };
    let mut session_options = HashMap::from([
        ("catalog".to_owned(), value(CATALOG)),
        ("schema".to_owned(), value(&session.query.keyspace())),
        (SERVICE_LEVEL.to_owned(), value(&session.query.service_level())),
    ]);
    if let Ok(options) = session.options.lock() {
        session_options.extend(options.iter().map(|(name, text)| (name.clone(), value(text))));
    }
    GetSessionOptionsResult { session_options }
}
