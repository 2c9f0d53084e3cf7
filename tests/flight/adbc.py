"""Drives a running Tidegate service with the ADBC driver and pyarrow.

Usage: adbc.py HOST:PORT. Each step is a function; the first that fails ends the script.
"""

import sys
import threading
import time

import adbc_driver_manager
import pyarrow
import pyarrow.flight
from adbc_driver_flightsql import DatabaseOptions, dbapi

ADDRESS = sys.argv[1]
URI = f"grpc://{ADDRESS}"
CALL_SECONDS_MAX = "30"


def connect():
    """A connection with a session of its own."""
    return dbapi.connect(
        URI,
        db_kwargs={
            "username": "someone",
            "password": "anything",
            DatabaseOptions.TIMEOUT_FETCH.value: CALL_SECONDS_MAX,
            DatabaseOptions.TIMEOUT_QUERY.value: CALL_SECONDS_MAX,
            DatabaseOptions.TIMEOUT_UPDATE.value: CALL_SECONDS_MAX,
        },
        autocommit=True,
    )


def fetch(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def run(connection, sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)


def expect_error(kind, connection, sql, words):
    try:
        fetch(connection, sql)
    except kind as error:
        assert words in str(error), (words, str(error))
    else:
        raise AssertionError(f"no error: {sql}")


def query(connection):
    assert fetch(connection, "SELECT 1 AS one, 'ä' AS text") == [(1, "ä")]


def write_without_fetching(connection):
    """The driver asks for a FlightInfo only; the write must be done all the same, and once."""
    run(
        connection,
        "CREATE TABLE reading (station text, at int, value double, note text,"
        " PRIMARY KEY (station, at))",
    )
    run(connection, "INSERT INTO reading VALUES ('a', 1, 1.5, 'x'), ('a', 2, 2.5, NULL)")
    rows = fetch(connection, "SELECT at, value, note FROM reading WHERE station = 'a' ORDER BY at DESC")
    assert rows == [(2, 2.5, None), (1, 1.5, "x")], rows


def count_of_a_write(connection):
    rows = fetch(connection, "INSERT INTO reading (station, at) VALUES ('b', 1), ('b', 2)")
    assert rows == [(2,)], rows


def parameters(connection):
    rows = fetch(connection, "SELECT at FROM reading WHERE station = ? AND at >= ? ORDER BY at", ("a", 2))
    assert rows == [(2,)], rows
    with connection.cursor() as cursor:
        rows = [("c", at, at / 2, f"note {at}") for at in range(100)]
        cursor.executemany("INSERT INTO reading VALUES (?, ?, ?, ?)", rows)
    assert fetch(connection, "SELECT count(*) FROM reading WHERE station = 'c'") == [(100,)]


def executescript(connection):
    with connection.cursor() as cursor:
        cursor.executescript("DELETE FROM reading WHERE station = 'c'")
    assert fetch(connection, "SELECT count(*) FROM reading WHERE station = 'c'") == [(0,)]


def errors(connection):
    expect_error(dbapi.ProgrammingError, connection, "SELEC 1", "INVALID_ARGUMENT")
    expect_error(dbapi.Error, connection, "SELECT * FROM absent", "NOT_FOUND")
    expect_error(dbapi.Error, connection, "SELECT 1; SELECT 2", "one by one")
    expect_error(
        dbapi.Error, connection, "CREATE TABLE reading (k int PRIMARY KEY)", "ALREADY_EXISTS"
    )
    query(connection)


def metadata(connection):
    objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    assert [o["catalog_name"] for o in objects] == ["tidegate"], objects
    schemas = {s["db_schema_name"]: s for s in objects[0]["catalog_db_schemas"]}
    tables = {t["table_name"]: t for t in schemas["default"]["db_schema_tables"]}
    columns = [c["column_name"] for c in tables["reading"]["table_columns"]]
    assert columns == ["station", "at", "value", "note"], columns
    assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
    schema = connection.adbc_get_table_schema("reading")
    assert schema.field("at").type == pyarrow.int32(), schema
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Tidegate", info


def session_options(connection):
    assert connection.adbc_current_catalog == "tidegate"
    assert connection.adbc_current_db_schema == "default"
    run(connection, "CREATE KEYSPACE weather")
    connection.adbc_connection.set_options(**{"adbc.connection.db_schema": "weather"})
    assert connection.adbc_current_db_schema == "weather"
    expect_error(dbapi.Error, connection, "SELECT * FROM reading", "NOT_FOUND")
    with connect() as other:
        assert other.adbc_current_db_schema == "default"
    connection.adbc_connection.set_options(**{"adbc.connection.db_schema": "default"})


def statement_command(sql):
    """CommandStatementQuery within an Any, as bytes of protobuf."""

    def field(content):
        assert len(content) < 128
        return bytes([len(content)]) + content

    query = b"\x0a" + field(sql.encode())
    name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return b"\x0a" + field(name) + b"\x12" + field(query)


def packed_rows(_):
    """The drivers unpack by themselves, and what a call says overrides its session."""
    wanted = [n % 7 for n in range(1, 20_001)]
    sql = "SELECT n % 7 AS n FROM generate_series(1, 20000) AS s(n)"
    name = "adbc.flight.sql.session.option.result.compression"
    options = pyarrow.flight.FlightCallOptions
    for setting in ["lz4", "zstd", "none"]:
        with connect() as other, other.cursor() as cursor:
            other.adbc_connection.set_options(**{name: setting})
            cursor.execute(sql)
            assert cursor.fetch_arrow_table()["n"].to_pylist() == wanted, setting
        client = pyarrow.flight.connect(URI)
        command = statement_command(sql)
        call = options(headers=[(b"result.compression", setting.encode())])
        info = client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(command), call)
        rows = client.do_get(info.endpoints[0].ticket, call).read_all()
        assert rows["n"].to_pylist() == wanted, setting
    with connect() as other:
        try:
            other.adbc_connection.set_options(**{name: "gzip"})
        except dbapi.Error:
            pass
        else:
            raise AssertionError("gzip is none of them")


def rows_for_ingest(count):
    table = pyarrow.table(
        {
            "station": pyarrow.array([f"s{n % 7}" for n in range(count)]),
            "at": pyarrow.array(range(count), pyarrow.int64()),
            "value": pyarrow.array([n / 4 for n in range(count)], pyarrow.float64()),
            "seen": pyarrow.array([n * 1_000_000 for n in range(count)], pyarrow.timestamp("us", "UTC")),
        }
    )
    return table.replace_schema_metadata({"tidegate.primary_key": "station; at"})


def ingest(connection):
    count = 20_000
    with connection.cursor() as cursor:
        assert cursor.adbc_ingest("bulk", rows_for_ingest(count), mode="create") == count
        assert cursor.adbc_ingest("bulk", rows_for_ingest(count), mode="append") == count
    assert fetch(connection, "SELECT count(*), sum(value) FROM bulk") == [
        (count, sum(n / 4 for n in range(count)))
    ]
    with connection.cursor() as cursor:
        try:
            cursor.adbc_ingest("bulk", rows_for_ingest(1), mode="create")
        except dbapi.Error as error:
            assert "ALREADY_EXISTS" in str(error), error
        else:
            raise AssertionError("a table was made twice")
        try:
            cursor.adbc_ingest("keyless", pyarrow.table({"a": [1]}), mode="create")
        except dbapi.Error as error:
            assert "primary key" in str(error), error
        else:
            raise AssertionError("a table was made without a key")
        assert cursor.adbc_ingest("bulk", rows_for_ingest(10), mode="replace") == 10
    assert fetch(connection, "SELECT count(*) FROM bulk") == [(10,)]


def large_message(connection):
    """One batch beyond the 4 MiB that gRPC servers take by default."""
    count = 200_000
    with connection.cursor() as cursor:
        assert cursor.adbc_ingest("bulk", rows_for_ingest(count), mode="append") == count
    assert fetch(connection, "SELECT count(*) FROM bulk") == [(count,)]


def streaming(connection):
    """Batches arrive while the query runs, and a reader that leaves stops it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM generate_series(1, 1000000000000)")
        reader = cursor.fetch_record_batch()
        assert reader.read_next_batch().num_rows > 0


def cancel(connection):
    with connection.cursor() as cursor:
        timer = threading.Timer(0.5, cursor.adbc_cancel)
        started = time.monotonic()
        timer.start()
        try:
            cursor.execute("SELECT count(*) FROM generate_series(1, 1000000000000)")
            cursor.fetchall()
        except (dbapi.Error, adbc_driver_manager.Error, OSError) as error:
            assert "ancel" in str(error), error
        else:
            raise AssertionError("an endless query ended")
        finally:
            timer.join()
        assert time.monotonic() - started < 15
    query(connection)


def plain_pyarrow(_):
    """The Flight client of pyarrow: a handshake, and a list of actions."""
    with pyarrow.flight.connect(URI) as client:
        header, token = client.authenticate_basic_token("someone", "anything")
        assert header == b"authorization" and token.startswith(b"Bearer "), (header, token)
        options = pyarrow.flight.FlightCallOptions(headers=[(header, token)], timeout=30)
        names = {action.type for action in client.list_actions(options=options)}
        assert {"CreatePreparedStatement", "CloseSession", "SetSessionOptions"} <= names, names


def without_a_session(_):
    with dbapi.connect(URI, autocommit=True) as connection:
        query(connection)


def partitions(connection):
    """Both shards are read side by side, each row by one of two readers."""
    run(connection, "CREATE TABLE wide (k bigint, c bigint, PRIMARY KEY (k, c))")
    run(connection, "INSERT INTO wide SELECT n / 10, n FROM generate_series(0, 19999) AS s(n)")
    with connection.cursor() as cursor:
        parts, schema = cursor.adbc_execute_partitions("SELECT c FROM wide")
        assert len(parts) == 2 and schema.names == ["c"], (len(parts), schema)
        found = [None] * len(parts)

        def read(number):
            with connect() as own, own.cursor() as reader:
                reader.adbc_read_partition(parts[number])
                found[number] = reader.fetch_arrow_table()["c"].to_pylist()

        readers = [threading.Thread(target=read, args=[number]) for number in range(len(parts))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert all(found), [part and len(part) for part in found]
        assert sorted(found[0] + found[1]) == list(range(20000))
        # The driver fetches all parts of a query that is executed as a whole.
        cursor.execute("SELECT c FROM wide")
        assert sorted(cursor.fetch_arrow_table()["c"].to_pylist()) == list(range(20000))
        parts, _ = cursor.adbc_execute_partitions("SELECT c FROM wide ORDER BY c")
        assert len(parts) == 1, len(parts)
        connection.adbc_connection.set_options(
            **{"adbc.flight.sql.session.option.result.endpoints": "one"}
        )
        parts, _ = cursor.adbc_execute_partitions("SELECT c FROM wide")
        assert len(parts) == 1, len(parts)


STEPS = [
    query,
    write_without_fetching,
    count_of_a_write,
    parameters,
    executescript,
    errors,
    metadata,
    session_options,
    packed_rows,
    ingest,
    partitions,
    large_message,
    streaming,
    cancel,
    plain_pyarrow,
    without_a_session,
]


def main():
    with connect() as connection:
        for step in STEPS:
            step(connection)
            print("passed:", step.__name__, flush=True)
    print("all steps passed")


main()
