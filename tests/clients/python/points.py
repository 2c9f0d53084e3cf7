"""What Python's clients need of the service: ADBC, pyarrow, pandas, polars and SQLAlchemy.

Usage: points.py HOST:PORT. Each step is a function; the first that fails ends the script. A step
whose package is not installed says so and is left out.
"""

import datetime
import decimal
import importlib.util
import sys

import pyarrow
import pyarrow.flight
from adbc_driver_flightsql import dbapi

ADDRESS = sys.argv[1]
URI = f"grpc://{ADDRESS}"
OPTION = "adbc.flight.sql.session.option."


def connect(user="someone", **options):
    """A connection; with a user it makes a handshake."""
    known = {"username": user, "password": "anything"} if user else {}
    return dbapi.connect(URI, db_kwargs=known, conn_kwargs=options, autocommit=True)


def fetch(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def table(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetch_arrow_table()


def run(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.rowcount


def refused(call, words):
    """The text of the error that `call` must end with."""
    try:
        call()
    except Exception as error:  # Each client has its own kinds.
        # pandas tells the reason only as the cause of its own error.
        text = f"{error} {error.__cause__}"
        assert any(word in text for word in words), (words, text)
        return text
    raise AssertionError("it was not refused")


def parameters_in_the_select_list(connection):
    run(connection, "CREATE TABLE point (k int PRIMARY KEY, year int, temp double)")
    run(connection, "INSERT INTO point VALUES (1, 2000, NULL)")
    for sql, parameter, wanted in [
        ("SELECT ?", 7, 7),
        ("SELECT ?", "x", "x"),
        ("SELECT year + ? FROM point", 1, 2001),
        ("SELECT coalesce(temp, ?) FROM point", 1.5, 1.5),
        ("SELECT CAST(? AS bigint)", 7, 7),
    ]:
        assert fetch(connection, sql, (parameter,)) == [(wanted,)], sql


def parameters_of_every_type(connection):
    run(
        connection,
        "CREATE TABLE typed (k int PRIMARY KEY, i int, s smallint, t tinyint, f float, d double,"
        " at time, day date, ts timestamp, m map<text, int>, l list<int>, span duration)",
    )
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9, 123000, datetime.timezone.utc)
    noon = datetime.time(12, 0, 0, 123456)
    row = (1, 2, 3, 4, 0.1, 0.1, noon, moment.date(), moment, {"a": 1}, [1, 2], datetime.timedelta(seconds=3))
    marks = ", ".join("?" * len(row))
    assert run(connection, f"INSERT INTO typed VALUES ({marks})", row) == 1
    for column in ["i", "s", "t", "f", "d", "at", "day", "ts"]:
        index = ["k", "i", "s", "t", "f", "d", "at", "day", "ts"].index(column)
        found = fetch(connection, f"SELECT k FROM typed WHERE {column} = ?", (row[index],))
        assert found == [(1,)], column
    found = fetch(connection, "SELECT m, l, at FROM typed")
    assert found == [([("a", 1)], [1, 2], noon)], found
    assert table(connection, "SELECT span FROM typed")["span"][0].as_py().nanoseconds == 3_000_000_000
    refused(lambda: run(connection, "UPDATE typed SET s = ? WHERE k = 1", (40000,)), ["out of range"])
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO typed (k, m) VALUES (?, ?)", [(2, {"a": 1}), (3, {"b": 2})]
        )
    assert fetch(connection, "SELECT m FROM typed WHERE k = 3") == [([("b", 2)],)]


def forged_tickets(connection):
    client = pyarrow.flight.connect(URI)
    before = fetch(connection, "SELECT count(*) FROM point")
    prefix = b"\n;type.googleapis.com/arrow.flight.protocol.sql.TicketStatementQuery\x12"
    for text in [b"QINSERT INTO point VALUES (99, 1, 1)", b"QDROP TABLE point", b"Cx", b"", b"\xff"]:
        inner = b"\n" + bytes([len(text)]) + text
        for ticket in [text, prefix + bytes([len(inner)]) + inner]:
            call = lambda: client.do_get(pyarrow.flight.Ticket(ticket)).read_all()
            text_of_error = refused(call, ["no ticket", "no command", "not given out"])
            assert "DecodeError" not in text_of_error, text_of_error
    assert fetch(connection, "SELECT count(*) FROM point") == before


def sessions_without_a_user(connection):
    run(connection, "CREATE KEYSPACE elsewhere")
    with connect(None) as first, connect(None) as second:
        run(first, "USE elsewhere")
        assert fetch(second, "SELECT count(*) FROM point") == [(1,)]
        refused(lambda: fetch(first, "SELECT count(*) FROM point"), ["NOT_FOUND"])
        assert second.adbc_current_db_schema == "default"


def many_handshakes(connection):
    with connect("crowd") as live:
        run(live, "USE elsewhere")
        for _ in range(1100):
            connect("crowd").close()
        assert live.adbc_current_db_schema == "elsewhere"


def partitions(connection):
    run(connection, "CREATE TABLE part (k int PRIMARY KEY, v int)")
    run(connection, "INSERT INTO part VALUES (1, 10), (2, 20)")
    with connection.cursor() as cursor, connect() as other, other.cursor() as reader:
        pieces, _ = cursor.adbc_execute_partitions("SELECT sum(v) AS s FROM part WHERE k < ?", (3,))
        run(connection, "USE elsewhere")
        reader.adbc_read_partition(pieces[0])
        assert reader.fetchall() == [(30,)]
        run(connection, 'USE "default"')
        pieces, _ = cursor.adbc_execute_partitions("SELECT * FROM part")
        run(connection, "DROP TABLE part")
        run(connection, "CREATE TABLE part (k int PRIMARY KEY, v text)")
        def read():
            reader.adbc_read_partition(pieces[0])
            reader.fetchall()
        refused(read, ["GetFlightInfo again"])


def types_that_leave(connection):
    text = table(connection, "SELECT CAST(k AS text) AS t, upper('a') AS u FROM point")
    assert text.schema.types == [pyarrow.string(), pyarrow.string()], text.schema
    run(connection, "CREATE TABLE wide (k int PRIMARY KEY, v varint, span duration, ts timestamp)")
    insert = "INSERT INTO wide VALUES (1, 12345678901234567890123, INTERVAL '1 month 2 days', '2024-01-01T00:00:00Z')"
    run(connection, insert)
    query = "SELECT v, span, ts FROM wide"
    own = table(connection, query).schema.types
    assert own == [
        pyarrow.decimal256(76, 0), pyarrow.month_day_nano_interval(), pyarrow.timestamp("ms", "UTC")
    ], own
    options = {"result.varint": "text", "result.duration": "text", "result.timestamp": "naive"}
    with connect() as other:
        other.adbc_connection.set_options(**{OPTION + name: value for name, value in options.items()})
        rows = table(other, query)
        assert rows.schema.types == [pyarrow.string(), pyarrow.string(), pyarrow.timestamp("ms")]
        assert rows["v"][0].as_py() == "12345678901234567890123"
        if has("polars"):
            import polars

            frame = polars.read_database(query, other)
            assert frame["v"][0] == "12345678901234567890123", frame
            assert frame["span"][0].startswith("1 mons 2 days"), frame


def affected_rows(connection):
    assert run(connection, "INSERT INTO point (k) VALUES (10), (11), (12)") == 3
    assert run(connection, "CREATE TABLE counted (k int PRIMARY KEY)") == -1
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO counted VALUES (?)", [(n,) for n in range(5)])
        assert cursor.rowcount == 5, cursor.rowcount


def collections_of_an_ingest(connection):
    rows = pyarrow.table(
        {
            "k": [1, 2, 3],
            "l": pyarrow.array([[], [1], None], pyarrow.list_(pyarrow.int32())),
            "m": pyarrow.array([[], [("a", 1)], None], pyarrow.map_(pyarrow.string(), pyarrow.int32())),
            "span": pyarrow.array([datetime.timedelta(hours=n) for n in (1, 2, 3)]),
        }
    ).replace_schema_metadata({"tidegate.primary_key": "k"})
    with connection.cursor() as cursor:
        assert cursor.adbc_ingest("collected", rows, mode="create") == 3
    found = fetch(connection, "SELECT k, l, m FROM collected ORDER BY k")
    assert found == [(1, [], []), (2, [1], [("a", 1)]), (3, None, None)], found


def keys_of_new_tables(connection):
    rows = pyarrow.table({"k": [1, 2], "c": [3, 4], "v": ["a", "b"]})
    with connection.cursor() as cursor:
        text = refused(lambda: cursor.adbc_ingest("keyed", rows, mode="create"), ["primary key"])
        assert "ingest.primary_key" in text, text
    run(connection, "CREATE TABLE keyed (k bigint, c bigint, v text, PRIMARY KEY (k, c))"
        " WITH CLUSTERING ORDER BY (c DESC)")
    run(connection, "INSERT INTO keyed VALUES (9, 9, 'old')")
    with connection.cursor() as cursor:
        without = rows.drop_columns(["c"])
        refused(lambda: cursor.adbc_ingest("keyed", without, mode="replace"), ["no column 'c'"])
        assert fetch(connection, "SELECT v FROM keyed") == [("old",)], "dropped all the same"
        assert cursor.adbc_ingest("keyed", rows, mode="replace") == 2
    assert fetch(connection, "SELECT k, c, v FROM keyed ORDER BY k") == [(1, 3, "a"), (2, 4, "b")]
    described = fetch(connection, "DESCRIBE keyed")
    kinds = {name: kind for name, _, kind in described if kind != "option"}
    assert kinds == {"k": "partition key", "c": "clustering key, descending", "v": "regular"}, kinds
    with connect() as other, other.cursor() as cursor:
        other.adbc_connection.set_options(**{OPTION + "ingest.primary_key": "c; k"})
        assert cursor.adbc_ingest("by_option", rows, mode="create") == 2


def discovery(connection):
    client = pyarrow.flight.connect(URI)
    listed = {tuple(info.descriptor.path): info for info in client.list_flights()}
    path = (b"default", b"point")
    assert path in listed, listed
    assert listed[path].schema.names == ["k", "year", "temp"]
    rows = client.do_get(listed[path].endpoints[0].ticket).read_all()
    assert rows.num_rows == fetch(connection, "SELECT count(*) FROM point")[0][0]
    assert not list(client.list_flights(b"elsewhere"))
    descriptor = pyarrow.flight.FlightDescriptor.for_path("default", "point")
    assert client.get_schema(descriptor).schema.names == ["k", "year", "temp"]
    assert client.get_flight_info(descriptor).schema.names == ["k", "year", "temp"]
    names = {action.type for action in client.list_actions()}
    assert {"CancelFlightInfo", "RenewFlightEndpoint", "CloseSession"} <= names, names
    assert not {name for name in names if "Transaction" in name or "Savepoint" in name}, names
    with connection.cursor() as cursor:
        assert cursor.adbc_execute_schema("SELECT k FROM point").names == ["k"]
    command = pyarrow.flight.FlightDescriptor.for_command(b"\xff\xff")
    refused(lambda: client.get_flight_info(command), ["no command of Flight SQL"])


def transactions(connection):
    refused(lambda: run(connection, "BEGIN"), ["there are no transactions"])
    with dbapi.connect(URI, db_kwargs={"username": "x", "password": "y"}) as other:
        # Such a client begins a transaction by itself where the service says that it has them.
        assert fetch(other, "SELECT 1") == [(1,)]


def long_statements(connection):
    nested = "(" * 200 + "1" + ")" * 200
    assert fetch(connection, f"SELECT {nested}") == [(1,)]
    query = "SELECT 1 AS x"
    for n in range(50):
        query = f"SELECT x FROM ({query}) AS t{n}"
    assert fetch(connection, query) == [(1,)]
    ors = " OR ".join(f"k = {n}" for n in range(10_000))
    assert fetch(connection, f"SELECT count(*) FROM point WHERE {ors}") == [(4,)]
    items = ", ".join(str(n) for n in range(1_100_000))
    assert len(items) > 8 << 20
    refused(lambda: fetch(connection, f"SELECT k FROM point WHERE k IN ({items})"), ["at most"])


def has(package):
    if importlib.util.find_spec(package):
        return True
    print("left out:", package, "is not installed", flush=True)
    return False


def pandas(connection):
    if not has("pandas"):
        return
    import pandas

    frame = pandas.DataFrame({"k": [1, 2, 3], "c": [1, 1, 1], "v": ["a", "b", None]})
    run(connection, "CREATE TABLE frame (k bigint, c bigint, v text, PRIMARY KEY (k, c))")
    assert frame.to_sql("frame", connection, index=False, if_exists="append") == 3
    assert frame.to_sql("frame", connection, index=False, if_exists="replace") == 3
    back = pandas.read_sql("SELECT * FROM frame ORDER BY k", connection)
    assert back["v"].tolist()[:2] == ["a", "b"], back
    create = lambda: frame.to_sql("keyless", connection, index=False)
    assert "ingest.primary_key" in refused(create, ["primary key"])


def polars(connection):
    if not has("polars"):
        return
    import polars

    frame = polars.read_database("SELECT k, v FROM frame ORDER BY k", connection)
    assert frame["k"].to_list() == [1, 2, 3], frame
    written = polars.DataFrame({"k": [7], "c": [7], "v": ["new"]}).write_database(
        "frame", connection, engine="adbc", if_table_exists="append"
    )
    assert written in (1, -1), written
    assert fetch(connection, "SELECT v FROM frame WHERE k = 7") == [("new",)]


def sqlalchemy(connection):
    if not has("sqlalchemy_adbc"):
        return
    import sqlalchemy as alchemy

    url = f"adbc+flightsql://{ADDRESS}?tls=false&username=alchemist&password=any"
    engine = alchemy.create_engine(url)
    columns = alchemy.inspect(engine).get_columns("frame", schema="default")
    assert [column["name"] for column in columns] == ["k", "c", "v"], columns
    with engine.connect() as client:
        insert = alchemy.text("INSERT INTO frame VALUES (:k, :c, :v)")
        client.execute(insert, [{"k": n, "c": n, "v": f"row {n}"} for n in range(100, 103)])
        query = alchemy.text("SELECT v FROM frame WHERE k = :k")
        assert client.execute(query, {"k": 101}).all() == [("row 101",)]
        # A tool that says BEGIN, COMMIT or ROLLBACK by itself goes on without transactions.
        client.commit()


STEPS = [
    parameters_in_the_select_list,
    parameters_of_every_type,
    forged_tickets,
    sessions_without_a_user,
    many_handshakes,
    partitions,
    types_that_leave,
    affected_rows,
    collections_of_an_ingest,
    keys_of_new_tables,
    discovery,
    transactions,
    long_statements,
    pandas,
    polars,
    sqlalchemy,
]


def main():
    only = sys.argv[2:]
    with connect() as connection:
        for step in STEPS:
            if only and step.__name__ not in only:
                continue
            step(connection)
            print("passed:", step.__name__, flush=True)
    print("all steps passed")


main()
