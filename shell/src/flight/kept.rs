//! What calls have in common and is worth to be kept: prepared statements, schemas as they are
//! sent, and parameters that one call after another brings.
//!
//! Invariant: it is bounded, and a call that finds nothing makes it again. Clients carry all that a
//! call depends on.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::{FlightData, IpcMessage, SchemaAsIpc};
use prost::bytes::Bytes;
use tonic::Status;

use super::outgoing::Form;
use super::seal::digest;
use super::ticket::{Bound, Parameters};
use crate::query::Plans;

/// Schemas that are kept.
const SCHEMAS_MAX: usize = 1024;
/// Rows of parameters that are kept: one execution brings the same ones three times.
const PARAMETERS_MAX: usize = 1024;
/// Largest of them, bytes in memory.
const PARAMETERS_BYTES_MAX: usize = 4 << 10;
/// Bytes before an IPC message: its mark and its length.
const IPC_PREFIX: usize = 8;

/// See the head of this file.
pub(super) struct Kept {
    pub plans: Plans,
    schemas: Bounded<(usize, Form), (SchemaRef, Sent)>,
    /// By what handles and tickets hold of them.
    parameters: Bounded<Parameters, RecordBatch>,
}

/// A map that is emptied when it is full: what is asked for again comes back.
struct Bounded<K, V> {
    most: usize,
    map: Mutex<HashMap<K, V>>,
}

impl<K: Eq + Hash, V: Clone> Bounded<K, V> {
    fn new(most: usize) -> Self {
        Bounded { most, map: Mutex::default() }
    }

    fn get(&self, key: &K) -> Option<V> {
        self.map.lock().expect("no one panics while holding it").get(key).cloned()
    }

    fn insert(&self, key: K, value: V) {
        let mut map = self.map.lock().expect("no one panics while holding it");
        if map.len() >= self.most {
            map.clear();
        }
        map.insert(key, value);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.map.lock().unwrap().len()
    }
}

/// The schema of rows as they are sent.
#[derive(Clone)]
pub(super) struct Sent {
    pub schema: SchemaRef,
    /// The same as an IPC message.
    pub bytes: Bytes,
    /// The same as the first message of a stream.
    pub message: FlightData,
    /// The digest of `bytes`.
    pub digest: Bytes,
}

impl Sent {
    /// Of rows that leave as they are.
    pub(super) fn of(schema: SchemaRef) -> Result<Self, Status> {
        let bytes = ipc(&schema)?;
        // In a stream the message goes without its mark and its length.
        let message =
            FlightData { data_header: bytes.slice(IPC_PREFIX..), ..FlightData::default() };
        let digest = digest(&bytes);
        Ok(Sent { schema, bytes, message, digest })
    }
}

impl Kept {
    pub(super) fn new() -> Self {
        let (schemas, parameters) = (Bounded::new(SCHEMAS_MAX), Bounded::new(PARAMETERS_MAX));
        Kept { plans: Plans::new(), schemas, parameters }
    }

    /// A statement with these rows of parameters.
    pub(super) fn bind(&self, bound: Bound, rows: &RecordBatch) -> Result<Bound, Status> {
        let bound = bound.with_rows(rows)?;
        self.keep_rows(&bound, rows);
        Ok(bound)
    }

    /// The rows of parameters that are bound to a statement.
    pub(super) fn rows(&self, bound: &Bound) -> Result<Option<RecordBatch>, Status> {
        let Some(parameters) = &bound.parameters else { return Ok(None) };
        let known = self.parameters.get(parameters);
        if known.is_some() {
            return Ok(known);
        }
        let rows = bound.rows()?;
        if let Some(rows) = &rows {
            self.keep_rows(bound, rows);
        }
        Ok(rows)
    }

    fn keep_rows(&self, bound: &Bound, rows: &RecordBatch) {
        let Some(parameters) = &bound.parameters else { return };
        // A batch that a client sent holds all of its message.
        if parameters.len() + rows.get_array_memory_size() > PARAMETERS_BYTES_MAX {
            return;
        }
        self.parameters.insert(parameters.clone(), rows.clone());
    }

    /// How the schema of a statement is sent. It is encoded once while its statement lasts.
    pub(super) fn sent(&self, form: Form, schema: &SchemaRef) -> Result<Sent, Status> {
        // What is kept holds its schema, so that no other has the address.
        let key = (Arc::as_ptr(schema).addr(), form);
        if let Some((_, sent)) = self.schemas.get(&key) {
            return Ok(sent);
        }
        let sent = Sent::of(form.schema(schema))?;
        self.schemas.insert(key, (Arc::clone(schema), sent.clone()));
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
    use arrow::array::Int64Array;
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
        for sent in [first, other] {
            let message = FlightData::from(SchemaAsIpc::new(&sent.schema, &Default::default()));
            let read = |message: &FlightData| Schema::try_from(message).unwrap();
            assert_eq!(
                (read(&sent.message), read(&message)),
                (read(&message), (*sent.schema).clone())
            );
        }
    }

    fn numbers(numbers: Vec<i64>) -> RecordBatch {
        let column = Arc::new(Int64Array::from(numbers)) as _;
        RecordBatch::try_from_iter([("$1", column)]).unwrap()
    }

    #[test]
    fn parameters_are_those_that_were_bound_whether_they_are_kept_or_not() {
        let kept = Kept::new();
        for number in 0..2 * PARAMETERS_MAX as i64 + 7 {
            let rows = numbers(vec![number]);
            let bound = kept.bind(Bound::default(), &rows).unwrap();
            assert_eq!(kept.rows(&bound).unwrap(), Some(rows));
        }
        let count = kept.parameters.len();
        assert!((1..=PARAMETERS_MAX).contains(&count), "{count}");
        let rows = numbers(vec![-1]);
        let other = Bound::default().with_rows(&rows).unwrap();
        assert_eq!(kept.rows(&other).unwrap(), Some(rows));
        assert!(kept.parameters.get(other.parameters.as_ref().unwrap()).is_some());
        assert_eq!(kept.rows(&Bound::default()).unwrap(), None);
    }

    #[test]
    fn parameters_that_hold_much_memory_are_not_kept() {
        let many = numbers(vec![7; PARAMETERS_BYTES_MAX / 8]);
        for rows in [many.slice(0, 1), many] {
            let kept = Kept::new();
            let bound = kept.bind(Bound::default(), &rows).unwrap();
            assert_eq!(kept.parameters.len(), 0, "{} rows", rows.num_rows());
            assert_eq!(kept.rows(&bound).unwrap(), Some(rows));
        }
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
        assert!(kept.schemas.len() <= SCHEMAS_MAX);
    }
}
