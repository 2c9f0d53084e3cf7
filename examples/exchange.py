"""Reads of a running service, many at once over one stream: `tidegate serve`, then this with its address.

Needs `pip install adbc-driver-flightsql pyarrow`. It makes the table `shelves`.
"""

import sys

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa
import pyarrow.flight as flight

ROWS, PARTITIONS = 1000, 10
MORE, LAST, REFUSED = 0, 1, 2


def field(number, payload):
    """A field of a protobuf message that holds bytes."""
    size, length = len(payload), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload


def command(name, *fields):
    """A command of Flight SQL."""
    kind = b"type.googleapis.com/arrow.flight.protocol.sql." + name
    return field(1, kind) + field(2, b"".join(fields))


def fields(message):
    """The fields of a protobuf message of bytes."""
    at, found = 0, {}
    while at < len(message):
        number, size, shift, at = message[at] >> 3, 0, 0, at + 1
        while True:
            size, shift, at = size | (message[at] & 127) << shift, shift + 7, at + 1
            if message[at - 1] < 128:
                break
        found[number], at = message[at : at + size], at + size
    return found


def prepare(client, text):
    """The handle of a prepared statement."""
    body = command(b"ActionCreatePreparedStatementRequest", field(1, text.encode()))
    answer = next(client.do_action(flight.Action("CreatePreparedStatement", body)))
    return fields(fields(answer.body.to_pybytes())[2])[1]


def main(address):
    with dbapi.connect(f"grpc://{address}", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS shelves (shelf bigint, book bigint, title text, PRIMARY KEY (shelf, book))")
        books = [(n % PARTITIONS, n, f"title {n}") for n in range(ROWS)]
        cursor.executemany("INSERT INTO shelves (shelf, book, title) VALUES (?, ?, ?)", books)

    client = flight.connect(f"grpc://{address}")
    handle = prepare(client, "SELECT title FROM shelves WHERE shelf = ? AND book = ?")
    named = flight.FlightDescriptor.for_command(command(b"CommandPreparedStatementQuery", field(1, handle)))
    writer, reader = client.do_exchange(named)
    schema = pa.schema([("shelf", pa.int64()), ("book", pa.int64())])
    with writer:
        writer.begin(schema)
        titles = {}
        for first in range(0, ROWS, 100):
            # A hundred executions are under way at once. Each carries a tag, which its answer repeats.
            asked = range(first, first + 100)
            for n in asked:
                key = pa.record_batch([[n % PARTITIONS], [n]], schema=schema)
                writer.write_with_metadata(key, str(n).encode())
            for n in asked:
                answer = reader.read_chunk()
                said = answer.app_metadata.to_pybytes()
                assert said[0] == LAST, said
                titles[int(said[1:])] = answer.data.column(0)[0].as_py()
        writer.done_writing()
    assert titles == {n: f"title {n}" for n in range(ROWS)}
    print(f"{len(titles)} titles read by {ROWS} executions over one stream")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:31337")
