//! What calls have in common and is worth to be kept: prepared statements, and schemas as they are
//! sent.
//!
//! Invariant: it is bounded, and a call that finds nothing makes it again. Clients carry all that a
//! call depends on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::{IpcMessage, SchemaAsIpc};
use prost::bytes::Bytes;
use tonic::Status;

use super::outgoing::Form;
use crate::query::Plans;

/// Schemas that are kept.
const SCHEMAS_MAX: usize = 1024;

/// See the head of this file.
pub(super) struct Kept {
    pub plans: Plans,
    schemas: Mutex<HashMap<(usize, Form), (SchemaRef, Sent)>>,
}

/// The schema of rows as they are sent.
#[derive(Clone)]
pub(super) struct Sent {
    pub schema: SchemaRef,
    /// The same as an IPC message.
    pub bytes: Bytes,
}

impl Sent {
    /// Of rows that leave as they are.
    pub(super) fn of(schema: SchemaRef) -> Result<Self, Status> {
        let bytes = ipc(&schema)?;
        Ok(Sent { schema, bytes })
    }
}

impl Kept {
    pub(super) fn new() -> Self {
        Kept { plans: Plans::new(), schemas: Mutex::default() }
    }

    /// How the schema of a statement is sent. It is encoded once while its statement lasts.
    pub(super) fn sent(&self, form: Form, schema: &SchemaRef) -> Result<Sent, Status> {
        // What is kept holds its schema, so that no other has the address.
        let key = (Arc::as_ptr(schema).addr(), form);
        let lock = || self.schemas.lock().expect("no one panics while holding schemas");
        if let Some((_, sent)) = lock().get(&key) {
            return Ok(sent.clone());
        }
        let sent = Sent::of(form.schema(schema))?;
        let mut kept = lock();
        if kept.len() >= SCHEMAS_MAX {
            kept.clear();
        }
        kept.insert(key, (Arc::clone(schema), sent.clone()));
        Ok(sent)
    }
}

/// A schema as an IPC message.
pub(super) fn ipc(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let IpcMessage(bytes) = SchemaAsIpc::new(schema, &options)
        .try_into()
        .map_err(|error: ArrowError| Status::internal(error.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn schema(ty: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("a", ty, true)]))
    }

    #[test]
    fn a_schema_is_encoded_once_for_each_form() {
        let kept = Kept::new();
        let own = schema(DataType::Decimal256(76, 0));
        let text = Form { wide_as_text: true, ..Form::default() };
        let first = kept.sent(Form::default(), &own).unwrap();
        let again = kept.sent(Form::default(), &own).unwrap();
        assert!(Arc::ptr_eq(&first.schema, &again.schema));
        assert_eq!(first.bytes, ipc(&own).unwrap());
        let other = kept.sent(text, &own).unwrap();
        assert_eq!(*other.schema.field(0).data_type(), DataType::Utf8);
        assert_eq!(other.bytes, ipc(&other.schema).unwrap());
    }

    #[test]
    fn schemas_are_bounded_and_none_is_taken_for_another() {
        let kept = Kept::new();
        for number in 0..3 * SCHEMAS_MAX {
            // Each may get the address of one that is gone.
            let ty = if number % 2 == 0 { DataType::Int32 } else { DataType::Int64 };
            let sent = kept.sent(Form::default(), &schema(ty.clone())).unwrap();
            assert_eq!(*sent.schema.field(0).data_type(), ty);
        }
        assert!(kept.schemas.lock().unwrap().len() <= SCHEMAS_MAX);
    }
}
