"""One scan, read by several processes: `tidegate serve`, then this with its address.

Usage: parallel_scan.py HOST:PORT STATEMENT [PROCESSES]
Each process reads endpoints of the result over a connection of its own. Needs
`pip install adbc-driver-flightsql pyarrow`.
"""

import concurrent.futures
import multiprocessing
import sys

import adbc_driver_flightsql.dbapi as dbapi


def read(address, part):
    """Rows and bytes of one endpoint."""
    with dbapi.connect(f"grpc://{address}", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_read_partition(part)
        table = cursor.fetch_arrow_table()
        return table.num_rows, table.nbytes


def main(address, statement, processes="2"):
    with dbapi.connect(f"grpc://{address}", autocommit=True) as connection, connection.cursor() as cursor:
        parts, _schema = cursor.adbc_execute_partitions(statement)
    # A driver has threads, which a forked process would lack.
    start = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(int(processes), mp_context=start) as pool:
        found = list(pool.map(read, [address] * len(parts), parts))
    for number, (rows, size) in enumerate(found, 1):
        print(f"endpoint {number} of {len(parts)}: {rows} rows, {size} bytes")
    print(f"{sum(rows for rows, _ in found)} rows in all")


if __name__ == "__main__":
    main(*sys.argv[1:])
