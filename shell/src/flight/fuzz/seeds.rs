//! Inputs that a fuzzer begins with: right ones of each kind.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys,
    CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes,
    CommandGetTables, CommandGetXdbcTypeInfo, CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
    CommandStatementUpdate, ProstMessageExt, TableDefinitionOptions, TableExistsOption,
    TableNotExistOption,
};
use arrow_flight::utils::batches_to_flight_data;
use arrow_flight::{
    Action, CancelFlightInfoRequest, Criteria, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, RenewFlightEndpointRequest,
};
use prost::Message;
use prost::bytes::Bytes;
use tidegate_engine::batch::{Stamp, StampKind};
use tidegate_engine::{
    Cell, ClusteringKey, ColumnId, Comparator, Comparison, Condition, ConditionalWrite, Direction,
    Liveness, Mutation, PartitionKey, Partitions, ReadCommand, Row, RowCondition, SchemaRef, Slice,
    Taking, Terms, Value,
};

use super::{World, descriptor, in_world, input};
use crate::cluster::wire::{DecideRequest, DefineRequest, ReadRequest, WriteRequest};
use crate::flight::outgoing::Form;
use crate::flight::session::option::{OptionValue, SessionOptionValue, SetSessionOptionsRequest};
use crate::flight::ticket::{Bound, Promise, Ticket, Told, write_rows};
use crate::remote::wire::NAMES;

const STATEMENTS: [&str; 16] = [
    "SELECT * FROM t WHERE pk = 1 AND ck >= 1 ORDER BY ck DESC LIMIT 2",
    "SELECT count(*), sum(v) FROM t GROUP BY pk",
    "SELECT t.v, typed.c FROM t JOIN typed ON t.note = typed.pk",
    "SELECT writetime(v), ttl(note) FROM t WHERE pk = 1 AND ck = 1",
    "SELECT * FROM w",
    "INSERT INTO t (pk, ck, v) VALUES (3, 1, 4) USING TTL 60",
    "INSERT INTO t (pk, ck, v) VALUES (3, 1, 4) IF NOT EXISTS",
    "UPDATE t SET v = 5, note = NULL WHERE pk = 1 AND ck IN (1, 2)",
    "DELETE FROM t WHERE pk = 2",
    "CREATE TABLE u (a int, b text, PRIMARY KEY ((a), b)) WITH gc_grace_seconds = 5",
    "ALTER TABLE t ADD x text",
    "EXPLAIN SELECT v FROM t WHERE pk = 1",
    "SHOW CACHE",
    "SELECT * FROM system.tables",
    "SELECT 1.5 + CAST('7' AS int), interval '1' day, 'é' || NULL",
    "BEGIN BATCH INSERT INTO t (pk, ck, v) VALUES (9, 9, 9); APPLY BATCH",
];

fn rows() -> RecordBatch {
    let number = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as _;
    let note = Arc::new(StringArray::from(vec![Some("a"), None])) as _;
    let columns = [
        ("pk", number(vec![Some(5), Some(6)])),
        ("ck", number(vec![Some(1), Some(2)])),
        ("v", number(vec![Some(1), None])),
        ("note", note),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .expect("columns of one length")
}

fn parameters() -> RecordBatch {
    let column = Arc::new(Int64Array::from(vec![1])) as _;
    RecordBatch::try_from_iter([("$1", column)]).expect("one column")
}

/// A stream of rows whose first message says what it is for.
fn stream(command: &impl ProstMessageExt, rows: &RecordBatch) -> Vec<Vec<u8>> {
    let messages = batches_to_flight_data(rows.schema_ref(), vec![rows.clone()]);
    let mut messages = messages.expect("rows that can be sent");
    messages[0].flight_descriptor = Some(descriptor(command));
    messages[1].app_metadata = Bytes::from_static(b"tag");
    messages.iter().map(FlightData::encode_to_vec).collect()
}

fn action(name: &str, body: impl Into<Bytes>) -> Vec<u8> {
    Action::new(name, body.into()).encode_to_vec()
}

fn asked(query: &str) -> Vec<u8> {
    let query = CommandStatementQuery { query: query.to_owned(), transaction_id: None };
    descriptor(&query).encode_to_vec()
}

/// The info of a statement.
fn info(world: &mut World, query: &str) -> FlightInfo {
    let link = world.connect();
    let answer = world.call(&link, "GetFlightInfo", &[&asked(query)]);
    FlightInfo::decode(&*answer.messages[0]).expect("an info")
}

fn prepared(world: &mut World, query: &str) -> Bytes {
    let request =
        ActionCreatePreparedStatementRequest { query: query.to_owned(), transaction_id: None };
    let body = request.as_any().encode_to_vec();
    let link = world.connect();
    let answer = world.call(&link, "DoAction", &[&action("CreatePreparedStatement", body)]);
    let result = arrow_flight::Result::decode(&*answer.messages[0]).expect("a result");
    let any = Any::decode(&*result.body).expect("a message");
    let made: Option<ActionCreatePreparedStatementResult> = any.unpack().expect("of its type");
    made.expect("of its type").prepared_statement_handle
}

/// Calls of clients.
pub(crate) fn calls() -> Vec<Vec<u8>> {
    in_world(|world| {
        let mut seeds = calls_of_metadata();
        for text in STATEMENTS {
            seeds.push(input("GetFlightInfo", &[asked(text)]));
            seeds.push(input("GetSchema", &[asked(text)]));
            let update = CommandStatementUpdate { query: text.to_owned(), transaction_id: None };
            seeds.push(input("DoPut", &[super::first(&update)]));
        }
        seeds.push(input("PollFlightInfo", &[asked("SELECT 1")]));
        let info = info(world, "SELECT * FROM t WHERE pk = 1");
        let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
        seeds.push(input("DoGet", &[ticket.encode_to_vec()]));
        seeds.extend(calls_of_prepared(world));
        seeds.extend(actions(info));
        seeds
    })
}

fn calls_of_metadata() -> Vec<Vec<u8>> {
    let (catalog, schema) = (Some("tidegate".to_owned()), Some("def%".to_owned()));
    let (schema_of, table) = (Some("default".to_owned()), "t".to_owned());
    let by_key = CommandGetPrimaryKeys {
        catalog: catalog.clone(),
        db_schema: schema_of.clone(),
        table: table.clone(),
    };
    let tables = CommandGetTables {
        catalog: catalog.clone(),
        db_schema_filter_pattern: schema.clone(),
        table_name_filter_pattern: Some("t_%".to_owned()),
        table_types: vec!["TABLE".to_owned()],
        include_schema: true,
    };
    let exported = CommandGetExportedKeys {
        catalog: catalog.clone(),
        db_schema: schema_of.clone(),
        table: table.clone(),
    };
    let imported = CommandGetImportedKeys { catalog: catalog.clone(), db_schema: schema_of, table };
    let schemas = CommandGetDbSchemas { catalog, db_schema_filter_pattern: schema };
    let mut descriptors = vec![
        descriptor(&by_key),
        descriptor(&tables),
        descriptor(&exported),
        descriptor(&imported),
        descriptor(&schemas),
        descriptor(&CommandGetCrossReference::default()),
        descriptor(&CommandGetCatalogs {}),
        descriptor(&CommandGetTableTypes {}),
        descriptor(&CommandGetSqlInfo { info: vec![0, 8, 500] }),
        descriptor(&CommandGetXdbcTypeInfo { data_type: Some(4) }),
    ];
    // The same command is what its ticket holds.
    let tickets = descriptors.iter().map(|known| {
        input("DoGet", &[arrow_flight::Ticket::new(known.cmd.clone()).encode_to_vec()])
    });
    let mut seeds: Vec<Vec<u8>> = tickets.collect();
    descriptors.push(FlightDescriptor::new_path(vec!["default".into(), "t".into()]));
    descriptors.push(FlightDescriptor::new_path(vec!["w".into()]));
    seeds.extend(descriptors.iter().map(|known| input("GetFlightInfo", &[known.encode_to_vec()])));
    seeds.push(input("Handshake", &[HandshakeRequest::default().encode_to_vec()]));
    seeds.push(input(
        "ListFlights",
        &[Criteria { expression: Bytes::from_static(b"default") }.encode_to_vec()],
    ));
    seeds.push(input("ListActions", &[Vec::new()]));
    seeds
}

fn calls_of_prepared(world: &mut World) -> Vec<Vec<u8>> {
    let query = CommandPreparedStatementQuery {
        prepared_statement_handle: prepared(world, "SELECT v FROM t WHERE pk = ?"),
    };
    let update = CommandPreparedStatementUpdate {
        prepared_statement_handle: prepared(
            world,
            "INSERT INTO t (pk, ck, v, note) VALUES (?, ?, ?, ?)",
        ),
    };
    let ingest = |table: &str, mode| CommandStatementIngest {
        table_definition_options: Some(mode),
        table: table.to_owned(),
        schema: None,
        catalog: None,
        temporary: false,
        transaction_id: None,
        options: HashMap::from([("ingest.primary_key".to_owned(), "pk, ck".to_owned())]),
    };
    let append = TableDefinitionOptions {
        if_not_exist: TableNotExistOption::Fail.into(),
        if_exists: TableExistsOption::Append.into(),
    };
    let create = TableDefinitionOptions {
        if_not_exist: TableNotExistOption::Create.into(),
        if_exists: TableExistsOption::Fail.into(),
    };
    vec![
        input("GetFlightInfo", &[descriptor(&query).encode_to_vec()]),
        input("DoPut", &stream(&query, &parameters())),
        input("DoPut", &stream(&update, &rows())),
        input("DoPut", &stream(&ingest("t", append), &rows())),
        input("DoPut", &stream(&ingest("made", create), &rows())),
        input("DoExchange", &stream(&query, &parameters())),
        input("DoExchange", &stream(&update, &rows())),
    ]
}

fn actions(info: FlightInfo) -> Vec<Vec<u8>> {
    let endpoint = info.endpoint.first().cloned();
    let query = info.encode_to_vec().into();
    let request = ActionCreatePreparedStatementRequest {
        query: "SELECT v FROM t WHERE pk = ?".to_owned(),
        transaction_id: None,
    };
    let close = ActionClosePreparedStatementRequest { prepared_statement_handle: Bytes::new() };
    let option = |value| SessionOptionValue { option_value: Some(value) };
    let options = SetSessionOptionsRequest {
        session_options: HashMap::from([
            ("schema".to_owned(), option(OptionValue::Text("default".to_owned()))),
            ("result.compression".to_owned(), option(OptionValue::Text("zstd".to_owned()))),
            ("result.endpoints".to_owned(), option(OptionValue::Integer(2))),
        ]),
    };
    let names = |names: &[(&str, &str)]| {
        let columns = names
            .iter()
            .map(|(name, value)| (*name, Arc::new(StringArray::from(vec![Some(*value)])) as _));
        write_rows(&RecordBatch::try_from_iter(columns).expect("a row")).expect("a row")
    };
    let policy = names(&[("name", "p"), ("component", "\0asm"), ("parameters", "")]);
    [
        ("CreatePreparedStatement", request.as_any().encode_to_vec().into()),
        ("ClosePreparedStatement", close.as_any().encode_to_vec().into()),
        ("CancelQuery", ActionCancelQueryRequest { info: query }.as_any().encode_to_vec().into()),
        ("CancelFlightInfo", CancelFlightInfoRequest::new(info).encode_to_vec().into()),
        ("RenewFlightEndpoint", RenewFlightEndpointRequest { endpoint }.encode_to_vec().into()),
        ("SetSessionOptions", options.encode_to_vec().into()),
        ("GetSessionOptions", Bytes::new()),
        ("CloseSession", Bytes::new()),
        (NAMES, Bytes::new()),
        ("Flush", names(&[("table", "t")])),
        ("Compact", names(&[("keyspace", "default"), ("table", "t")])),
        ("Snapshot", names(&[("name", "s")])),
        ("UploadPolicy", policy),
    ]
    .map(|(name, body)| input("DoAction", &[action(name, body)]))
    .into()
}

/// Contents of tickets and handles, and forged ones.
pub(crate) fn carried() -> Vec<Vec<u8>> {
    let bound = |text: &str, rows: Option<&RecordBatch>| {
        let keyspace = "default".to_owned();
        let bound = Bound { text: text.to_owned(), keyspace, parameters: None };
        match rows {
            Some(rows) => bound.with_rows(rows).expect("rows"),
            None => bound,
        }
    };
    let reads = bound("SELECT v FROM t WHERE pk = ?", Some(&parameters()));
    let writes = bound("INSERT INTO t (pk, ck, v, note) VALUES (?, ?, ?, ?)", Some(&rows()));
    let (schema, whole) = in_world(|world| {
        let info = info(world, "SELECT * FROM t");
        let mut seal = info.endpoint[0].ticket.clone().expect("a ticket").ticket.to_vec();
        // Nearly right.
        *seal.last_mut().expect("bytes") ^= 1;
        (info.schema, seal)
    });
    let ticket = |bound, told| Ticket::query(bound, told, Form::default()).expect("randomness");
    let query = |bound| ticket(bound, Told::Schema(schema.clone()));
    let all = query(bound("SELECT * FROM t", None));
    let mut seeds = vec![[&[0], whole.as_slice()].concat()];
    let tickets = [
        query(reads.clone()),
        ticket(reads.clone(), Told::Digest(Bytes::from_static(&[7; 16]))),
        all.clone().parts(2).remove(1),
        all,
        Ticket::done(Promise::Count(3)),
        Ticket::done(Promise::Message("done".to_owned())),
        Ticket::done(Promise::Decided(write_rows(&rows()).expect("rows"))),
    ];
    seeds.extend(tickets.iter().map(|ticket| [&[1], ticket.encode_to_vec().as_slice()].concat()));
    let handles = [reads, writes, bound("SELECT 1", None), bound("DROP TABLE t", None)];
    seeds.extend(handles.iter().map(|handle| [&[2], handle.encode_to_vec().as_slice()].concat()));
    seeds
}

/// Messages of other nodes.
pub(crate) fn nodes() -> Vec<Vec<u8>> {
    in_world(|world| {
        let (catalog, clock) = (world.database.catalog(), Arc::clone(world.database.clock()));
        let table = catalog.table("default", "t").expect("it was made");
        let key = PartitionKey::from_values(table, &[Value::BigInt(1)]).expect("a key");
        let row = ClusteringKey::from_values(table, &[Value::BigInt(1)]).expect("a row");
        let asked = |partitions| {
            let request = ReadRequest::of(&read(table, partitions), &catalog, &*clock);
            request.encode_to_vec()
        };
        let write = || {
            let cells = vec![(ColumnId(2), Cell::live(7, 4_i64.to_be_bytes()))];
            let written = Row { liveness: Some(Liveness::at(7)), cells, ..Row::default() };
            let mut write = Mutation::new(table.id, key.clone());
            write.rows.push((row.clone(), written));
            write
        };
        let taking = Taking::Logged(Terms::default().level);
        let comparator = Comparator::In(vec![Some(Value::BigInt(10)), None]);
        let condition = Condition::All(vec![Comparison { column: ColumnId(2), comparator }]);
        let conditions = vec![RowCondition { row: Some(row.clone()), condition }];
        let decided = ConditionalWrite { mutation: write(), conditions };
        let lease = |text: &str| DefineRequest {
            lease: b"lease".to_vec(),
            text: Some(text.to_owned()),
            ..DefineRequest::default()
        };
        let first = tidegate_engine::schema::Token(i64::MIN);
        let last = tidegate_engine::schema::Token(i64::MAX);
        let tokens = Partitions::Tokens { shard: 0, min: first, max: last };
        let writes = WriteRequest::of(vec![write(), write()], taking, &catalog, &*clock);
        let deciding = DecideRequest::of(decided, Terms::default(), &catalog, &*clock);
        [
            (0, asked(Partitions::Keys(vec![key.clone()]))),
            (0, asked(tokens)),
            (1, writes.encode_to_vec()),
            (2, deciding.encode_to_vec()),
            (3, DefineRequest { lease: b"lease".to_vec(), ..Default::default() }.encode_to_vec()),
            (3, lease("CREATE TABLE u (a int PRIMARY KEY)").encode_to_vec()),
        ]
        .map(|(call, message)| [&[call], message.as_slice()].concat())
        .into()
    })
}

fn read(table: &SchemaRef, partitions: Partitions) -> ReadCommand {
    ReadCommand {
        schema: Arc::clone(table),
        partitions,
        slice: Slice::full(Direction::Reversed),
        columns: vec![ColumnId(2), ColumnId(0)],
        stamps: vec![Stamp { column: ColumnId(2), kind: StampKind::WriteTime }],
        row_limit: Some(5),
        partition_limit: None,
        deadline: None,
        level: Terms::default().level,
        past_cache: false,
        filter: None,
    }
}
