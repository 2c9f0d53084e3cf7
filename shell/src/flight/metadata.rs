//! Answers about catalogs, keyspaces, tables, keys and types.
//!
//! Invariant: every answer is one batch whose schema is the one the protocol prescribes, also when
//! it has no rows. There is one catalog; keyspaces are schemas.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{XdbcTypeInfo, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTableTypes,
    CommandGetTables, CommandGetXdbcTypeInfo, Nullable, Searchable, XdbcDataType,
    XdbcDatetimeSubcode,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use tidegate_engine::batch::arrow_schema;
use tidegate_engine::{Catalog, ColumnId, TableSchema};
use tonic::Status;

use super::outgoing::Form;
use super::session::option::CATALOG;
use crate::query::Session;

/// Kinds of tables.
const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";

/// Answer or a bug of ours.
type Answer = Result<RecordBatch, Status>;

fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

pub(super) fn catalogs(query: CommandGetCatalogs) -> Answer {
    let mut builder = query.into_builder();
    builder.append(CATALOG);
    builder.build().map_err(internal)
}

pub(super) fn schemas(query: CommandGetDbSchemas, catalog: &Catalog) -> Answer {
    let mut builder = query.into_builder();
    for keyspace in catalog.keyspaces() {
        builder.append(CATALOG, keyspace);
    }
    builder.build().map_err(internal)
}

/// Tables and views; their schemas have the types in which rows leave.
pub(super) fn tables(
    query: CommandGetTables,
    session: &Session,
    form: Form,
) -> BoxFuture<'_, Answer> {
    tables_and_views(query, session, form).boxed()
}

async fn tables_and_views(query: CommandGetTables, session: &Session, form: Form) -> Answer {
    let views = session.views(query.include_schema).await;
    let catalog = session.database().catalog();
    let mut builder = query.into_builder();
    for table in catalog.all_tables() {
        let all: Vec<ColumnId> = table.ids().collect();
        let schema = form.schema(&arrow_schema(table, &all));
        builder
            .append(CATALOG, &table.keyspace, &table.name, TABLE, &schema)
            .map_err(|error: FlightError| internal(error))?;
    }
    for (view, columns) in &views {
        let schema = form.schema(columns);
        builder
            .append(CATALOG, &view.keyspace, &view.name, VIEW, &schema)
            .map_err(|error: FlightError| internal(error))?;
    }
    builder.build().map_err(internal)
}

pub(super) fn table_types(query: CommandGetTableTypes) -> Answer {
    let mut builder = query.into_builder();
    builder.append(TABLE);
    builder.append(VIEW);
    builder.build().map_err(internal)
}

/// Key columns of a table, the partition key first.
pub(super) fn primary_keys(query: &CommandGetPrimaryKeys, catalog: &Catalog) -> Answer {
    let wanted = |table: &&Arc<TableSchema>| {
        table.name == query.table
            && query.db_schema.as_ref().is_none_or(|schema| *schema == table.keyspace)
            && query.catalog.as_ref().is_none_or(|name| name == CATALOG || name.is_empty())
    };
    let mut keys: Vec<(&str, &str, &str, i32)> = Vec::new();
    for table in catalog.all_tables().filter(wanted) {
        let columns = table.partition_key().chain(table.clustering_key());
        for (column, sequence) in columns.zip(1..) {
            keys.push((&table.keyspace, &table.name, &column.name, sequence));
        }
    }
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let schema = Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("key_name", true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(keys.iter().map(|_| Some(CATALOG)).collect::<StringArray>()),
        Arc::new(keys.iter().map(|key| Some(key.0)).collect::<StringArray>()),
        Arc::new(keys.iter().map(|key| Some(key.1)).collect::<StringArray>()),
        Arc::new(keys.iter().map(|key| Some(key.2)).collect::<StringArray>()),
        Arc::new(keys.iter().map(|key| key.3).collect::<Int32Array>()),
        Arc::new(keys.iter().map(|_| None::<&str>).collect::<StringArray>()),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).map_err(internal)
}

/// Keys between tables: there are none.
pub(super) fn foreign_keys() -> RecordBatch {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let rule = |name: &str| Field::new(name, DataType::UInt8, false);
    RecordBatch::new_empty(Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        rule("update_rule"),
        rule("delete_rule"),
    ])))
}

/// The column types, with the numbers that ODBC and JDBC know them by.
pub(super) fn type_info(query: CommandGetXdbcTypeInfo) -> Answer {
    use XdbcDataType::*;
    let mut builder = XdbcTypeInfoDataBuilder::new();
    for (name, ty, size, quote, radix) in [
        ("boolean", XdbcBit, 1, None, None),
        ("tinyint", XdbcTinyint, 3, None, Some(10)),
        ("smallint", XdbcSmallint, 5, None, Some(10)),
        ("int", XdbcInteger, 10, None, Some(10)),
        ("bigint", XdbcBigint, 19, None, Some(10)),
        ("float", XdbcReal, 24, None, Some(2)),
        ("double", XdbcDouble, 53, None, Some(2)),
        ("decimal", XdbcDecimal, 38, None, Some(10)),
        ("text", XdbcVarchar, 16 << 20, Some("'"), None),
        ("blob", XdbcVarbinary, 16 << 20, Some("'"), None),
        ("date", XdbcDate, 10, Some("'"), None),
        ("time", XdbcTime, 18, Some("'"), None),
        ("timestamp", XdbcTimestamp, 24, Some("'"), None),
        ("uuid", XdbcVarchar, 36, Some("'"), None),
        ("timeuuid", XdbcVarchar, 36, Some("'"), None),
        ("inet", XdbcVarchar, 45, Some("'"), None),
    ] {
        let is_decimal = ty == XdbcDecimal;
        let datetime_subcode = match ty {
            XdbcTime => Some(XdbcDatetimeSubcode::XdbcSubcodeTime),
            XdbcTimestamp => Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
            _ => None,
        };
        builder.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type: ty,
            column_size: Some(size),
            literal_prefix: quote.map(str::to_owned),
            literal_suffix: quote.map(str::to_owned),
            create_params: is_decimal.then(|| vec!["precision".to_owned(), "scale".to_owned()]),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: name == "text",
            searchable: Searchable::Full,
            unsigned_attribute: radix.map(|_| false),
            fixed_prec_scale: false,
            auto_increment: Some(false),
            local_type_name: Some(name.to_owned()),
            minimum_scale: is_decimal.then_some(0),
            maximum_scale: is_decimal.then_some(38),
            sql_data_type: ty,
            datetime_subcode,
            num_prec_radix: radix,
            interval_precision: None,
        });
    }
    let types = builder.build().map_err(internal)?;
    query.into_builder(&types).build().map_err(internal)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;
    use arrow_flight::IpcMessage;
    use tidegate_engine::{Database, Options};

    use super::*;
    use crate::query::SessionOptions;

    const DEFINITIONS: [&str; 4] = [
        "CREATE KEYSPACE k2",
        "CREATE TABLE t (k int PRIMARY KEY, v text)",
        "CREATE TABLE k2.t (a int, b text, c int, v int, PRIMARY KEY ((a, b), c))",
        "CREATE VIEW w AS SELECT v FROM t",
    ];

    async fn session(directory: &tempfile::TempDir) -> Session {
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let session = Session::new(database, SessionOptions::default()).unwrap();
        for text in DEFINITIONS {
            session.execute(text).await.unwrap();
        }
        session
    }

    /// Keyspace, name and kind of each table, and its columns where they are told.
    fn told(tables: &RecordBatch) -> Vec<String> {
        let text = |column: usize, row: usize| {
            tables.column(column).as_string::<i32>().value(row).to_owned()
        };
        let columns = |row: usize| {
            let bytes = tables.column(4).as_binary::<i32>().value(row).to_vec();
            let schema = Schema::try_from(IpcMessage(bytes.into())).unwrap();
            let names = schema.fields().iter().map(|field| format!(" {}", field.name()));
            names.collect::<String>()
        };
        let of_row = |row: usize| {
            let columns = if tables.num_columns() > 4 { columns(row) } else { String::new() };
            format!("{}.{} {}{columns}", text(1, row), text(2, row), text(3, row))
        };
        (0..tables.num_rows()).map(of_row).collect()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tables_and_views_are_told_with_their_columns() {
        let directory = tempfile::tempdir().unwrap();
        let session = session(&directory).await;
        let all = || CommandGetTables { include_schema: true, ..CommandGetTables::default() };
        let views = CommandGetTables { table_types: vec![VIEW.to_owned()], ..all() };
        let of_keyspace =
            CommandGetTables { db_schema_filter_pattern: Some("k_".to_owned()), ..all() };
        let elsewhere = CommandGetTables { catalog: Some("other".to_owned()), ..all() };
        for (query, wanted) in [
            (all(), &["default.t TABLE k v", "default.w VIEW v", "k2.t TABLE a b c v"][..]),
            (CommandGetTables::default(), &["default.t TABLE", "default.w VIEW", "k2.t TABLE"]),
            (views, &["default.w VIEW v"]),
            (of_keyspace, &["k2.t TABLE a b c v"]),
            (elsewhere, &[]),
        ] {
            let answer = tables(query, &session, Form::default()).await.unwrap();
            assert_eq!(told(&answer), wanted);
        }
    }

    /// The texts of the first columns, row by row.
    fn texts(batch: &RecordBatch, columns: usize) -> Vec<String> {
        let cell = |column: usize, row: usize| batch.column(column).as_string::<i32>().value(row);
        let of_row =
            |row: usize| (0..columns).map(|column| cell(column, row)).collect::<Vec<_>>().join(".");
        (0..batch.num_rows()).map(of_row).collect()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn catalogs_keyspaces_and_tables_are_those_that_are_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let session = session(&directory).await;
        session.execute("CREATE KEYSPACE k_2").await.unwrap();
        let catalog = session.database().catalog();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(texts(&catalogs(CommandGetCatalogs {}).unwrap(), 1), ["tidegate"]);
        assert_eq!(texts(&table_types(CommandGetTableTypes {}).unwrap(), 1), ["TABLE", "VIEW"]);
        for (asked, pattern, wanted) in [
            (None, text("k2"), &["tidegate.k2"][..]),
            (text("tidegate"), text("k%"), &["tidegate.k2", "tidegate.k_2"]),
            (None, text("k_"), &["tidegate.k2"]),
            (None, text("k__"), &["tidegate.k_2"]),
            (None, text("def%"), &["tidegate.default"]),
            (None, text("2"), &[]),
            (text("other"), None, &[]),
        ] {
            let db_schema_filter_pattern = pattern;
            let query = CommandGetDbSchemas { catalog: asked, db_schema_filter_pattern };
            let answer = schemas(query.clone(), &catalog).unwrap();
            assert_eq!(texts(&answer, 2), wanted, "{query:?}");
        }
        let all = texts(&schemas(CommandGetDbSchemas::default(), &catalog).unwrap(), 2);
        for name in ["default", "k2", "k_2"] {
            assert!(all.contains(&format!("tidegate.{name}")), "{all:?}");
        }
        let both = || vec![TABLE.to_owned(), VIEW.to_owned()];
        for (pattern, table_types, wanted) in [
            (text("t"), Vec::new(), &["default.t TABLE", "k2.t TABLE"][..]),
            (text("_"), both(), &["default.t TABLE", "default.w VIEW", "k2.t TABLE"]),
            (text("w%"), vec![TABLE.to_owned()], &[]),
            (text("w%"), both(), &["default.w VIEW"]),
            (None, vec!["SYSTEM TABLE".to_owned()], &[]),
        ] {
            let query = CommandGetTables {
                table_name_filter_pattern: pattern,
                table_types,
                ..CommandGetTables::default()
            };
            let answer = tables(query.clone(), &session, Form::default()).await.unwrap();
            assert_eq!(told(&answer), wanted, "{query:?}");
        }
    }

    /// By the numbers that ODBC gives types.
    #[test]
    fn types_are_told_by_the_number_that_drivers_know_them_by() {
        for (data_type, wanted) in [
            (XdbcDataType::XdbcBit, &["boolean"][..]),
            (XdbcDataType::XdbcTinyint, &["tinyint"]),
            (XdbcDataType::XdbcSmallint, &["smallint"]),
            (XdbcDataType::XdbcInteger, &["int"]),
            (XdbcDataType::XdbcBigint, &["bigint"]),
            (XdbcDataType::XdbcReal, &["float"]),
            (XdbcDataType::XdbcDouble, &["double"]),
            (XdbcDataType::XdbcDecimal, &["decimal"]),
            (XdbcDataType::XdbcVarchar, &["inet", "text", "timeuuid", "uuid"]),
            (XdbcDataType::XdbcVarbinary, &["blob"]),
            (XdbcDataType::XdbcDate, &["date"]),
            (XdbcDataType::XdbcTime, &["time"]),
            (XdbcDataType::XdbcTimestamp, &["timestamp"]),
            (XdbcDataType::XdbcInterval, &[]),
        ] {
            let query = CommandGetXdbcTypeInfo { data_type: Some(data_type as i32) };
            let mut found = texts(&type_info(query).unwrap(), 1);
            found.sort();
            assert_eq!(found, wanted, "{data_type:?}");
        }
        let all = type_info(CommandGetXdbcTypeInfo { data_type: None }).unwrap();
        assert_eq!(all.num_rows(), 16);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn keys_are_told_in_their_order_the_partition_key_first() {
        let directory = tempfile::tempdir().unwrap();
        let session = session(&directory).await;
        let text = |text: &str| Some(text.to_owned());
        for (catalog, db_schema, table, wanted) in [
            (None, text("k2"), "t", &["k2.t a 1", "k2.t b 2", "k2.t c 3"][..]),
            (text(CATALOG), text("default"), "t", &["default.t k 1"]),
            (text(""), None, "t", &["default.t k 1", "k2.t a 1", "k2.t b 2", "k2.t c 3"]),
            (text("other"), None, "t", &[]),
            (None, None, "w", &[]),
        ] {
            let query = CommandGetPrimaryKeys { catalog, db_schema, table: table.to_owned() };
            let keys = primary_keys(&query, &session.database().catalog()).unwrap();
            let name = |column: usize, row: usize| {
                keys.column(column).as_string::<i32>().value(row).to_owned()
            };
            let place = |row: usize| keys.column(4).as_primitive::<Int32Type>().value(row);
            let of_row = |row: usize| {
                format!("{}.{} {} {}", name(1, row), name(2, row), name(3, row), place(row))
            };
            let found: Vec<String> = (0..keys.num_rows()).map(of_row).collect();
            assert_eq!(found, wanted, "{query:?}");
        }
    }

    /// Kinds of columns of each table of an answer.
    fn types(tables: &RecordBatch) -> Vec<Schema> {
        let bytes = tables.column(4).as_binary::<i32>().iter().flatten();
        bytes.map(|bytes| Schema::try_from(IpcMessage(bytes.to_vec().into())).unwrap()).collect()
    }

    /// A client plans by what it is told of tables.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn columns_of_tables_and_views_are_told_in_the_types_in_which_rows_leave() {
        let directory = tempfile::tempdir().unwrap();
        let session = session(&directory).await;
        for text in [
            "CREATE TABLE k2.forms (k int PRIMARY KEY, m timestamp, n varint, d duration, s text)",
            "CREATE VIEW k2.of_forms AS SELECT k, m, n, d, s FROM k2.forms",
        ] {
            session.execute(text).await.unwrap();
        }
        let told = async |form: Form| {
            let query = CommandGetTables {
                include_schema: true,
                table_name_filter_pattern: Some("%forms".to_owned()),
                ..CommandGetTables::default()
            };
            types(&tables(query, &session, form).await.unwrap())
        };
        let plain = Form::default();
        let as_it_is = told(plain).await;
        assert_eq!(as_it_is.len(), 2);
        for (form, column) in [
            (Form { without_zone: true, ..plain }, 1),
            (Form { wide_as_text: true, ..plain }, 2),
            (Form { duration_as_text: true, ..plain }, 3),
        ] {
            let found = told(form).await;
            for (found, before) in found.iter().zip(&as_it_is) {
                let differs =
                    |at: &usize| found.field(*at).data_type() != before.field(*at).data_type();
                let changed: Vec<usize> = (0..5).filter(differs).collect();
                assert_eq!(changed, [column], "{form:?}: {found:?}");
                assert_eq!(*found, *form.schema(before), "{form:?}");
            }
        }
    }
}
