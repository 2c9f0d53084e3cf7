//! Columns with a cell an element: kept over a restart, and refused where they do not fit.

use super::*;
use crate::batch::{WriteOptions, put_value, value_at};
use crate::mutation::{CellPath, MultiCell};
use crate::schema::UserType;

fn user() -> UserType {
    let fields = [("a", DataType::Int), ("b", DataType::list_of(DataType::Text))];
    UserType::new("default", "u", fields.map(|(name, ty)| (name.to_owned(), ty)))
}

/// `pk text, at int | v list<int>, u u, c counter, n int`
fn definition() -> TableSchema {
    let mut schema = super::definition();
    schema.columns[2].ty = DataType::list_of(DataType::Int);
    schema.columns.extend([
        column("u", DataType::User(Box::new(user())), ColumnKind::Regular),
        column("c", DataType::Counter, ColumnKind::Regular),
        column("n", DataType::Int, ColumnKind::Regular),
    ]);
    schema
}

#[tokio::test]
async fn elements_are_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::new(directory.path());
    options.commitlog_segment_bytes = 1 << 20;
    let database = Database::open(options.clone()).await.unwrap();
    database.create_type(user(), false).await.unwrap();
    assert!(database.create_type(user(), false).await.is_err());
    let schema = database.create_table(definition(), false).await.unwrap();
    let list = |ints: &[i32]| Value::List(ints.iter().map(|int| Value::Int(*int)).collect());
    let fields =
        Value::Tuple(vec![Some(Value::Int(7)), Some(Value::List(vec![Value::Text("x".into())]))]);
    for (timestamp, ints) in [(10, list(&[1, 2])), (20, list(&[3, 1, 3]))] {
        let mut mutation = Mutation::new(schema.id, key(&schema, "a"));
        let mut row = Row { liveness: Some(Liveness::at(timestamp)), ..Row::default() };
        let options = WriteOptions { timestamp, ttl: None, now_seconds: 1 };
        for (id, value) in [(ColumnId(2), &ints), (ColumnId(3), &fields)] {
            put_value(&mut row, id, schema.column(id), Some(value), &options, None).unwrap();
        }
        mutation.rows.push((ck(&schema, 1), row));
        database.apply(mutation).await.unwrap();
        // The older version is in an SSTable, the newer one in a memtable.
        if timestamp == 10 {
            database.flush(None).await.unwrap();
        }
    }
    for opened in [Some(database), None, None] {
        let database = match opened {
            Some(database) => database,
            None => Database::open(options.clone()).await.unwrap(),
        };
        let catalog = database.catalog();
        assert_eq!(catalog.user_type("default", "u"), Some(&user()));
        let schema = catalog.table("default", "t").unwrap().clone();
        let command = ReadCommand {
            schema: schema.clone(),
            partitions: Partitions::Keys(vec![key(&schema, "a")]),
            slice: Slice::full(Direction::Reversed),
            columns: vec![ColumnId(2), ColumnId(3)],
            stamps: Vec::new(),
            row_limit: None,
            partition_limit: None,
            deadline: None,
            level: Default::default(),
            past_cache: false,
            filter: None,
        };
        let batches: Vec<RecordBatch> = database.read(command).try_collect().await.unwrap();
        let value = |column: usize| {
            let ty = &schema.columns[column + 2].ty;
            value_at(batches[0].column(column), 0, ty).unwrap()
        };
        assert_eq!(value(0), Some(list(&[3, 1, 3])));
        assert_eq!(value(1).as_ref(), Some(&fields));
        database.close().await.unwrap();
    }
}

#[tokio::test]
async fn cells_of_the_wrong_shape_are_refused_before_they_are_logged() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::new(directory.path());
    options.commitlog_segment_bytes = 1 << 20;
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let cell = |id: u16, cell: Cell| Row { cells: vec![(ColumnId(id), cell)], ..Row::default() };
    let multi =
        |id: u16, multi: MultiCell| Row { multi: vec![(ColumnId(id), multi)], ..Row::default() };
    let elements = MultiCell {
        deletion: None,
        cells: vec![(CellPath::from_ordered([1]), Cell::live(1, *b"\0\0\0\x07"))],
    };
    let wrong = [
        (cell(2, Cell::live(1, *b"\0\0\0\x07")), "column 'v' of default.t is list<int>"),
        (multi(5, elements.clone()), "column 'n' of default.t is int: it is written as one cell"),
        (multi(2, MultiCell::default()), "nothing is written"),
        (cell(4, Cell::live(1, *b"12345678")), "a counter takes steps, and no values"),
        (cell(5, Cell::counter(1, *b"\0\0")), "it does not count"),
        (cell(5, Cell::live(1, *b"123")), "3 bytes are no value"),
        (cell(1, Cell::live(1, *b"1234")), "none of the row's columns"),
        (cell(9, Cell::live(1, *b"1234")), "none of the row's columns"),
    ];
    for (row, wanted) in wrong {
        let mut mutation = Mutation::new(schema.id, key(&schema, "a"));
        mutation.rows.push((ck(&schema, 1), row));
        let error = database.apply(mutation).await.unwrap_err();
        assert!(matches!(error, crate::Error::Invalid(_)), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let mut mutation = Mutation::new(schema.id, key(&schema, "a"));
    mutation.rows.push((ck(&schema, 1), multi(2, elements)));
    database.apply(mutation).await.unwrap();
    database.close().await.unwrap();
}
