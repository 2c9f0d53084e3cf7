"""Writes by one node of a cluster and reads by each.

    examples/cluster    starts three nodes and runs this with their ports
"""

import sys

import adbc_driver_flightsql.dbapi as dbapi


def ask(port, *statements):
    """Runs statements at a node; returns the rows of the last one."""
    with dbapi.connect(f"grpc://127.0.0.1:{port}", autocommit=True) as db, db.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            table = cursor.fetch_arrow_table()
        return table.to_pylist()


ports = sys.argv[1:]
ask(
    ports[0],
    "CREATE TABLE IF NOT EXISTS weather (station int, day int, temp double, PRIMARY KEY (station, day))",
    "INSERT INTO weather SELECT g / 30, g % 30, (g * 7919) % 400 / 10.0 FROM generate_series(0, 2999) AS s(g)",
)
for port in ports:
    one = ask(port, "SELECT temp FROM weather WHERE station = 42 ORDER BY day DESC LIMIT 1")
    every = ask(port, "SELECT count(*) AS rows, round(avg(temp), 2) AS mean, max(temp) AS most FROM weather")
    print(f"port {port}: station 42 had {one[0]['temp']} at last; of all {every[0]}")
