"""A policy from this machine to a running service, beside the one in charge: `tidegate serve`, then this.

Usage: upload_policy.py HOST:PORT COMPONENT NAME [USER PASSWORD]. Needs `pip install pyarrow`.
"""

import sys

import pyarrow as pa
import pyarrow.flight as flight


def act(client, options, action, **columns):
    """Does an action of operators: its body is a row of Arrow, its answer is a sentence."""
    row = pa.RecordBatch.from_pylist([columns])
    body = pa.BufferOutputStream()
    with pa.ipc.new_stream(body, row.schema) as writer:
        writer.write(row)
    (answer,) = client.do_action(flight.Action(action, body.getvalue()), options)
    return answer.body.to_pybytes().decode()


def main(address, path, name, *credentials):
    client = flight.connect(f"grpc://{address}")
    options = flight.FlightCallOptions()
    if credentials:
        options = flight.FlightCallOptions(headers=[client.authenticate_basic_token(*credentials)])
    with open(path, "rb") as file:
        component = file.read()
    print(act(client, options, "UploadPolicy", name=name, component=component, shadow=True, sample=1))
    print(f"EXPLAIN POLICY {name} says what it would do; ALTER CACHE SET POLICY = {name} puts it in charge")


if __name__ == "__main__":
    main(*sys.argv[1:])
