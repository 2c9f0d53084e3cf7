//! Writes as messages: what comes is what was sent, in the numbers of the node that takes it.

use tidegate_engine::Tombstone;

use super::*;

struct World {
    _directory: tempfile::TempDir,
    database: Database,
    tables: [SchemaRef; 2],
    terms: Terms,
    clock: Arc<SimulatedClock>,
}

impl World {
    /// A database with two tables alike, and terms with a level and a deadline.
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path())).await.unwrap();
        database.create_service_level("gold", LevelOptions::default(), false).await.unwrap();
        let first = stored_table(&database).await;
        let second =
            TableSchema { keyspace: "default".into(), name: "u".into(), ..(*table()).clone() };
        let second = database.create_table(second, false).await.unwrap();
        let clock = SimulatedClock::new(1_000_000);
        let level = database.catalog().service_level("gold").unwrap().id;
        let deadline = Some(Deadline::after(Duration::from_millis(250), &*clock));
        let (tables, terms) = ([first, second], Terms { level, deadline });
        World { _directory: directory, database, tables, terms, clock }
    }

    /// A write to a table, by its place, that can be told from others.
    fn write(&self, table: usize, key: i32) -> Mutation {
        let table = &self.tables[table];
        let partition = PartitionKey::from_values(table, &[Value::Int(key)]).unwrap();
        let deletion = Some(Tombstone { timestamp: i64::from(key) * 1000, deletion_time: 7 });
        Mutation { deletion, ..Mutation::new(table.id, partition) }
    }

    fn sent(&self, writes: Vec<Mutation>, taking: Taking) -> WriteRequest {
        let request = WriteRequest::of(writes, taking, &self.database.catalog(), &*self.clock);
        WriteRequest::decode(request.encode_to_vec().as_slice()).unwrap()
    }

    fn came(&self, request: &WriteRequest) -> Result<(Vec<Mutation>, Taking)> {
        request.writes(&self.database.catalog(), &*self.clock)
    }
}

#[tokio::test]
async fn writes_go_to_their_tables_and_are_taken_as_they_were_to_be() {
    let world = World::new().await;
    let of = |places: &[(usize, i32)]| -> Vec<Mutation> {
        places.iter().map(|(table, key)| world.write(*table, *key)).collect()
    };
    let Terms { level, deadline } = world.terms;
    for taking in [
        Taking::Plain(Terms::default()),
        Taking::Plain(world.terms),
        Taking::Plain(Terms { deadline, ..Terms::default() }),
        Taking::Plain(Terms { level, deadline: None }),
        Taking::Logged(level),
        Taking::Logged(Terms::default().level),
    ] {
        for (places, tables) in [
            (&[] as &[(usize, i32)], 0),
            (&[(1, 5)], 1),
            (&[(0, 1), (0, 2), (0, 3)], 1),
            (&[(1, 1), (0, 2), (1, 3), (1, 4), (0, 5)], 2),
        ] {
            let request = world.sent(of(places), taking);
            assert_eq!(request.tables.len(), tables, "{places:?}");
            assert_eq!(world.came(&request).unwrap(), (of(places), taking), "{places:?}");
        }
    }
    // What was dropped meanwhile takes none, and the others keep their tables.
    world.database.drop_table("default", "t", false).await.unwrap();
    let request = world.sent(of(&[(0, 1), (1, 2), (0, 3), (1, 4)]), Taking::Logged(level));
    assert_eq!(world.came(&request).unwrap().0, of(&[(1, 2), (1, 4)]));
    world.database.close().await.unwrap();
}

#[tokio::test]
async fn a_write_to_a_table_that_differs_or_is_not_named_is_refused() {
    let world = World::new().await;
    let writes = || vec![world.write(0, 1), world.write(1, 2)];
    let whole = || world.sent(writes(), Taking::Plain(world.terms));
    for table in 0..2 {
        let mut differs = whole();
        differs.tables[table].digest[0] ^= 1;
        let mut is_gone = whole();
        is_gone.tables[table].name = "x".to_owned();
        let mut is_elsewhere = whole();
        is_elsewhere.tables[table].keyspace = "system".to_owned();
        for request in [differs, is_gone, is_elsewhere] {
            let refused = world.came(&request);
            assert!(matches!(refused, Err(Error::Unavailable(_))), "{table}: {refused:?}");
        }
    }
    let mut unnamed = whole();
    unnamed.tables.truncate(1);
    let refused = world.came(&unnamed);
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let mut cut = whole();
    cut.writes[1].pop();
    assert!(world.came(&cut).is_err());
    world.database.close().await.unwrap();
}

#[tokio::test]
async fn a_conditional_write_is_one_write_with_its_conditions_in_their_order() {
    let world = World::new().await;
    let (catalog, clock) = (world.database.catalog(), &*world.clock);
    let row = |n| Some(ClusteringKey::from_values(&world.tables[1], &[Value::Int(n)]).unwrap());
    let comparison = |column, comparator| Comparison { column: ColumnId(column), comparator };
    let all = Condition::All(vec![
        comparison(2, Comparator::LessOrEqual(Value::Int(5))),
        comparison(3, Comparator::NotEqual(None)),
    ]);
    let conditions = vec![
        RowCondition { row: row(2), condition: all },
        RowCondition { row: row(1), condition: Condition::NotExists },
        RowCondition { row: None, condition: Condition::Exists },
    ];
    let write = ConditionalWrite { mutation: world.write(1, 9), conditions };
    let sent = DecideRequest::of(write.clone(), world.terms, &catalog, clock);
    let came = DecideRequest::decode(sent.encode_to_vec().as_slice()).unwrap();
    assert_eq!(came.write(&catalog, clock).unwrap(), (write, world.terms));
    let with = |change: fn(&mut WriteRequest)| {
        let mut broken = sent.clone();
        change(broken.write.as_mut().unwrap());
        broken
    };
    let mut unknown = sent.clone();
    unknown.conditions[1].kind = 4;
    for (what, broken) in [
        ("no write", DecideRequest { write: None, ..sent.clone() }),
        ("nothing written", with(|write| write.writes.clear())),
        ("two writes", with(|write| write.writes.push(write.writes[0].clone()))),
        ("a logged one", with(|write| write.is_logged = true)),
        ("an unknown condition", unknown),
    ] {
        let refused = broken.write(&catalog, clock);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{what}: {refused:?}");
    }
    let differs = with(|write| write.tables[0].digest[0] ^= 1);
    let refused = differs.write(&catalog, clock);
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    world.database.close().await.unwrap();
}

/// A value is read back as the type of the column that the comparison names.
#[test]
fn a_comparison_has_its_value_whatever_the_type_of_its_column() {
    let decimal = DataType::Decimal { precision: 10, scale: 2 };
    let integer = |n: i32| (DataType::Int, Value::Int(n));
    let types = [
        (DataType::Boolean, Value::Boolean(false)),
        (DataType::TinyInt, Value::TinyInt(-128)),
        (DataType::SmallInt, Value::SmallInt(-300)),
        integer(i32::MIN),
        (DataType::BigInt, Value::BigInt(i64::MIN)),
        (DataType::Float, Value::Float(-0.5)),
        (DataType::Double, Value::Double(1e300)),
        (decimal, Value::Decimal { unscaled: -150, scale: 2 }),
        (DataType::Text, Value::Text(String::new())),
        (DataType::Text, Value::Text("änn".to_owned())),
        (DataType::Blob, Value::Blob(vec![0, 255])),
        (DataType::Date, Value::Date(-1)),
        (DataType::Time, Value::Time(86_399_999_999_999)),
        (DataType::Timestamp, Value::Timestamp(-1)),
        (DataType::Uuid, Value::Uuid([7; 16])),
        (DataType::Inet, Value::Inet("10.0.0.1".parse().unwrap())),
        (DataType::Inet, Value::Inet("2001:db8::1".parse().unwrap())),
        integer(7),
    ];
    let mut schema = (*table()).clone();
    let first = schema.columns.len() as u16;
    schema.columns.extend(types.iter().enumerate().map(|(number, (ty, _))| Column {
        name: format!("c{number}"),
        ty: ty.clone(),
        kind: ColumnKind::Regular,
    }));
    for (place, (ty, value)) in (first..).zip(types) {
        let (some, column) = (Some(value.clone()), ColumnId(place));
        for comparator in [
            Comparator::Equal(some.clone()),
            Comparator::NotEqual(some.clone()),
            Comparator::Less(value.clone()),
            Comparator::LessOrEqual(value.clone()),
            Comparator::Greater(value.clone()),
            Comparator::GreaterOrEqual(value),
            Comparator::In(vec![None, some.clone(), some]),
        ] {
            let comparison = Comparison { column, comparator };
            let sent = ComparisonEntry::of(&comparison).encode_to_vec();
            let came = ComparisonEntry::decode(sent.as_slice()).unwrap();
            assert_eq!(came.comparison(&schema).unwrap(), comparison, "{ty:?}");
        }
    }
}
