//! Actions of operators, for clients that send no SQL, and for what SQL cannot: to hand over the
//! bytes of a policy, and to make a snapshot on the server's disk.
//!
//! | action | what it does | columns of its row |
//! |---|---|---|
//! | `Flush` | FLUSH | `keyspace`, `table`, or neither |
//! | `Compact` | COMPACT | `keyspace`, `table` |
//! | `Snapshot` | SNAPSHOT TO a folder of that name where the service keeps them | `name` |
//! | `UploadPolicy` | CREATE POLICY, then a shadow | `name`, `component`, and those below |
//!
//! `UploadPolicy` also takes `sha256`, `parameters`, `shadow` and `sample`.
//!
//! The body is one row of Arrow as an IPC stream: what every client of Flight can write. A column
//! that is absent or null says nothing. The answer is a sentence. Invariant: an action needs the
//! rights of its statement and is noted in the audit like it.

use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use prost::bytes::Bytes;
use tidegate_engine::schema::in_quotes;
use tonic::Status;

use super::error::{invalid, status};
use super::incoming::read_rows;
use super::session::FlightSession;
use crate::query::{OutcomeKind, PolicyUpload, QueryError, split};

/// What each action takes and does, for those who ask.
pub(super) const ACTIONS: [(&str, &str); 4] = [
    (
        "Flush",
        "Flushes a table, or all: a row of Arrow with keyspace and table, or without columns; a \
         sentence",
    ),
    ("Compact", "Compacts a table: a row of Arrow with keyspace and table; a sentence"),
    ("Snapshot", "Makes a snapshot (serve --snapshots): a row of Arrow with name; a sentence"),
    (
        "UploadPolicy",
        "Creates a policy of its bytes: a row of Arrow with name, component, sha256, parameters, \
         shadow, sample; a sentence",
    ),
];

/// Does what an action of operators says, and tells what was done; `None` for other actions.
/// `snapshots` is the folder that takes snapshots.
///
/// Errors: INVALID_ARGUMENT for a body that is no such row; those of the statement.
pub(super) async fn act(
    session: &FlightSession,
    snapshots: Option<&Path>,
    (action, body): (&str, &Bytes),
) -> Result<Option<String>, Status> {
    if !ACTIONS.iter().any(|(name, _)| *name == action) {
        return Ok(None);
    }
    let row = Row::read(body)?;
    let done = match action {
        "Flush" => {
            row.only(&["keyspace", "table"])?;
            let table = row.table()?.map_or_else(String::new, |table| format!(" {table}"));
            run(session, &format!("FLUSH{table}")).await
        }
        "Compact" => {
            row.only(&["keyspace", "table"])?;
            let table = row.table()?.ok_or_else(|| row.lacks("table"))?;
            run(session, &format!("COMPACT {table}")).await
        }
        "Snapshot" => {
            row.only(&["name"])?;
            let name = row.text("name")?.ok_or_else(|| row.lacks("name"))?;
            let made = session.query.snapshot_in(snapshots, &name).await;
            made.map_err(|error| status(&error))
        }
        _ => upload(session, &row).await,
    };
    done.map(Some)
}

/// Runs a statement that tells what it did.
async fn run(session: &FlightSession, text: &str) -> Result<String, Status> {
    let text_of = |error: QueryError| status(&error);
    let statement = split(text).map_err(text_of)?.remove(0);
    match session.query.run(&statement).await.map_err(text_of)?.kind {
        OutcomeKind::Message(message) => Ok(message),
        _ => Err(Status::internal("an action of operators gives a sentence")),
    }
}

/// Creates a policy, and has a shadow of it run where that is asked for.
async fn upload(session: &FlightSession, row: &Row) -> Result<String, Status> {
    row.only(&["name", "component", "sha256", "parameters", "shadow", "sample"])?;
    let name = row.text("name")?.ok_or_else(|| row.lacks("name"))?;
    let component = row.bytes("component")?.ok_or_else(|| row.lacks("component"))?;
    let (sha256, parameters) = (row.text("sha256")?, row.parameters()?);
    let sample = row.number("sample")?;
    let is_shadow = row.flag("shadow")?;
    if sample.is_some() && !is_shadow {
        return Err(invalid("'sample' is of a shadow: set 'shadow' as well, or leave it out"));
    }
    let upload = PolicyUpload { name: name.clone(), component, parameters, sha256 };
    let created = session.query.upload_policy(upload).await.map_err(|error| status(&error))?;
    if !is_shadow {
        return Ok(created);
    }
    let sample = sample.map_or_else(String::new, |sample| format!(" SAMPLE = {sample}"));
    let shadow = format!("ALTER CACHE SET POLICY = {} MODE = shadow{sample}", in_quotes(&name));
    let shadowed = run(session, &shadow).await.map_err(|error| {
        let text = format!("policy '{name}' is created and has no shadow: {}", error.message());
        Status::new(error.code(), text)
    })?;
    Ok(format!("{created} {shadowed}"))
}

/// What an action is told.
struct Row(Option<RecordBatch>);

impl Row {
    /// Of the body of an action, which may be empty.
    fn read(body: &Bytes) -> Result<Self, Status> {
        if body.is_empty() {
            return Ok(Row(None));
        }
        let rows = read_rows(body)
            .map_err(|error| invalid(format!("the body of an action: {}", error.message())))?;
        match rows.as_ref().map(RecordBatch::num_rows) {
            Some(1) => Ok(Row(rows)),
            count => {
                let count = count.unwrap_or(0);
                Err(invalid(format!("the body has {count} rows, an action takes one")))
            }
        }
    }

    /// Errors: INVALID_ARGUMENT for a column of another name.
    fn only(&self, names: &[&str]) -> Result<(), Status> {
        let schema = self.0.as_ref().map(RecordBatch::schema);
        let columns = schema.iter().flat_map(|schema| schema.fields().iter());
        match columns.map(|field| field.name()).find(|name| !names.contains(&name.as_str())) {
            Some(other) => Err(invalid(format!(
                "the action takes no column '{other}', but {}",
                names.join(", ")
            ))),
            None => Ok(()),
        }
    }

    fn lacks(&self, name: &str) -> Status {
        invalid(format!("the action wants a column '{name}'"))
    }

    /// What a column says; `None` where it is absent or null.
    fn value(&self, name: &str) -> Option<&ArrayRef> {
        let column = self.0.as_ref()?.column_by_name(name)?;
        // One of type null has no bits that say so.
        let says = column.logical_nulls().is_none_or(|nulls| nulls.is_valid(0));
        says.then_some(column)
    }

    /// The same in another type.
    fn value_as(&self, name: &str, ty: &DataType) -> Result<Option<ArrayRef>, Status> {
        let Some(column) = self.value(name) else { return Ok(None) };
        let wrong = || invalid(format!("column '{name}' is {}, not {ty}", column.data_type()));
        let cast = cast(column, ty).map_err(|_| wrong())?;
        if cast.is_null(0) { Err(wrong()) } else { Ok(Some(cast)) }
    }

    fn text(&self, name: &str) -> Result<Option<String>, Status> {
        let text = self.value_as(name, &DataType::Utf8)?;
        Ok(text.map(|text| text.as_string::<i32>().value(0).to_owned()))
    }

    fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, Status> {
        let bytes = self.value_as(name, &DataType::Binary)?;
        Ok(bytes.map(|bytes| bytes.as_binary::<i32>().value(0).to_owned()))
    }

    fn flag(&self, name: &str) -> Result<bool, Status> {
        let flag = self.value_as(name, &DataType::Boolean)?;
        Ok(flag.is_some_and(|flag| flag.as_boolean().value(0)))
    }

    fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let number = self.value_as(name, &DataType::Int64)?;
        Ok(number.map(|number| number.as_primitive::<Int64Type>().value(0)))
    }

    /// The table that `keyspace` and `table` name, as statements name it.
    fn table(&self) -> Result<Option<String>, Status> {
        match (self.text("keyspace")?, self.text("table")?) {
            (None, table) => Ok(table.map(|table| in_quotes(&table))),
            (Some(keyspace), Some(table)) => {
                Ok(Some(format!("{}.{}", in_quotes(&keyspace), in_quotes(&table))))
            }
            (Some(_), None) => Err(self.lacks("table")),
        }
    }

    /// Parameters of a policy: the fields of a struct, each with its value as text.
    fn parameters(&self) -> Result<Vec<(String, String)>, Status> {
        let Some(column) = self.value("parameters") else { return Ok(Vec::new()) };
        let fields = column.as_any().downcast_ref::<StructArray>().ok_or_else(|| {
            invalid(format!("column 'parameters' is {}, not a struct", column.data_type()))
        })?;
        let one = |(name, column): (&str, &ArrayRef)| {
            let row = RecordBatch::try_from_iter_with_nullable([(name, column.clone(), true)]);
            let row = row.map_err(|error| invalid(error.to_string()))?;
            let value = Row(Some(row)).text(name)?;
            Ok(value.map(|value| (name.to_owned(), value)))
        };
        let names = fields.column_names();
        names.into_iter().zip(fields.columns()).filter_map(|field| one(field).transpose()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryArray, BooleanArray, Int32Array, Int64Array, NullArray, StringArray};
    use arrow::datatypes::Field;
    use tidegate_engine::{Database, Options};
    use tonic::Code;

    use super::*;
    use crate::flight::kept::Kept;
    use crate::flight::ticket::write_rows;
    use crate::query::{Session, SessionOptions};

    fn row(columns: Vec<(&str, ArrayRef)>) -> Row {
        let row = RecordBatch::try_from_iter(columns).unwrap();
        Row::read(&write_rows(&row).unwrap()).unwrap()
    }

    fn text(text: &str) -> ArrayRef {
        Arc::new(StringArray::from(vec![text]))
    }

    #[test]
    fn a_row_says_what_its_columns_say() {
        let limit = Arc::new(Field::new("limit", DataType::Int32, false));
        let parameters = StructArray::from(vec![
            (limit, Arc::new(Int32Array::from(vec![5])) as ArrayRef),
            (
                Arc::new(Field::new("none", DataType::Null, true)),
                Arc::new(NullArray::new(1)) as ArrayRef,
            ),
        ]);
        let row = row(vec![
            ("name", text("sieve")),
            ("component", Arc::new(BinaryArray::from_vec(vec![&b"\0asm"[..]]))),
            ("sha256", Arc::new(StringArray::from(vec![None::<&str>]))),
            ("shadow", Arc::new(BooleanArray::from(vec![true]))),
            ("sample", Arc::new(Int64Array::from(vec![64]))),
            ("parameters", Arc::new(parameters)),
        ]);
        assert_eq!(row.text("name").unwrap().as_deref(), Some("sieve"));
        assert_eq!(row.bytes("component").unwrap().as_deref(), Some(&b"\0asm"[..]));
        assert_eq!((row.text("sha256").unwrap(), row.text("absent").unwrap()), (None, None));
        assert!(row.flag("shadow").unwrap() && !row.flag("absent").unwrap());
        assert_eq!(row.number("sample").unwrap(), Some(64));
        assert_eq!(row.parameters().unwrap(), [("limit".to_owned(), "5".to_owned())]);
        assert_eq!(row.number("name").unwrap_err().code(), Code::InvalidArgument);
        let other = row.only(&["name"]).unwrap_err();
        assert!(other.message().contains("no column 'component', but name"), "{other}");
    }

    #[test]
    fn tables_are_named_so_that_no_name_is_read_as_something_else() {
        let named = |columns| row(columns).table();
        assert_eq!(named(vec![("table", text("t"))]).unwrap().as_deref(), Some("\"t\""));
        let both = vec![("keyspace", text("a b")), ("table", text("t\"; DROP TABLE u"))];
        assert_eq!(named(both).unwrap().as_deref(), Some("\"a b\".\"t\"\"; DROP TABLE u\""));
        assert!(named(vec![("keyspace", text("k"))]).is_err());
        assert!(Row(None).table().unwrap().is_none());
    }

    #[test]
    fn a_body_is_one_row() {
        assert!(Row::read(&Bytes::new()).unwrap().0.is_none());
        let two = RecordBatch::try_from_iter([(
            "name",
            Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef,
        )]);
        let two = write_rows(&two.unwrap()).unwrap();
        for (body, says) in [
            (two.clone(), "2 rows"),
            (Bytes::from_static(b"sieve"), "no rows of Arrow"),
            (two.slice(..two.len() / 2), ""),
        ] {
            let error = Row::read(&body).err().unwrap();
            assert_eq!(error.code(), Code::InvalidArgument);
            assert!(error.message().contains(says), "{error}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_action_means_the_tables_of_its_session_and_a_sample_wants_a_shadow() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let query = Session::new(database, SessionOptions::default()).unwrap();
        for definition in [
            "CREATE TABLE \"T\" (k int PRIMARY KEY)",
            "CREATE KEYSPACE k2",
            "CREATE TABLE k2.\"T\" (k int PRIMARY KEY)",
            "USE k2",
        ] {
            query.execute(definition).await.unwrap();
        }
        let session = FlightSession::new(query, Arc::new(Kept::new()), 0);
        let done = async |action: &str, columns: Vec<(&str, ArrayRef)>| {
            let body = write_rows(&RecordBatch::try_from_iter(columns).unwrap()).unwrap();
            let done = act(&session, None, (action, &body)).await;
            done.map_err(|refused| refused.message().to_owned())
        };
        let said = |text: &str| Ok(Some(text.to_owned()));
        let table = || vec![("table", text("T"))];
        assert_eq!(done("Flush", table()).await, said("Table k2.T flushed."));
        let both = vec![("keyspace", text("default")), ("table", text("T"))];
        assert_eq!(done("Flush", both).await, said("Table default.T flushed."));
        assert_eq!(done("flush", table()).await, Ok(None), "it is no action of operators");
        for is_shadow in [None, Some(false)] {
            let upload = vec![
                ("name", text("mine")),
                ("component", Arc::new(BinaryArray::from_vec(vec![&b"x"[..]])) as ArrayRef),
                ("sample", Arc::new(Int64Array::from(vec![64])) as ArrayRef),
                ("shadow", Arc::new(BooleanArray::from(vec![is_shadow])) as ArrayRef),
            ];
            let told = done("UploadPolicy", upload).await.unwrap_err();
            assert!(told.contains("'sample' is of a shadow"), "{told}");
        }
    }
}
