"""Computes the stored answers of the TPC-H queries with DuckDB.

    pip install duckdb
    python3 tests/tpch/answers.py FOLDER SCALE

FOLDER holds the eight tables as CSV with headings, as `TIDEGATE_TPCH_TABLES=FOLDER cargo test --test
tpch` leaves them there. Writes tests/tpch/answers/sfSCALE/qNN.csv: rows in order, nulls as NULL,
decimals exact, doubles with all digits.
"""

import pathlib
import sys

import duckdb

HERE = pathlib.Path(__file__).parent
DATE = {"o_orderdate", "l_shipdate", "l_commitdate", "l_receiptdate"}
DECIMAL = {
    "p_retailprice", "s_acctbal", "ps_supplycost", "c_acctbal", "o_totalprice", "l_quantity",
    "l_extendedprice", "l_discount", "l_tax",
}
TABLES = ["nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]


def column_type(name):
    if name in DATE:
        return "DATE"
    if name in DECIMAL:
        return "DECIMAL(15, 2)"
    whole = name.endswith(("key", "size", "availqty", "linenumber", "shippriority"))
    return "BIGINT" if whole else "VARCHAR"


def cell(value):
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, float) else str(value)
    if any(c in text for c in ',"\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def main(folder, scale):
    database = duckdb.connect()
    for table in TABLES:
        path = pathlib.Path(folder) / f"{table}.csv"
        with path.open() as file:
            names = file.readline().strip().split(",")
        columns = {name: column_type(name) for name in names}
        database.execute(
            f"CREATE TABLE {table} AS SELECT * FROM read_csv('{path}', header=true, columns={columns})"
        )
    out = HERE / "answers" / f"sf{scale}"
    out.mkdir(parents=True, exist_ok=True)
    for query in sorted((HERE / "queries").glob("q*.sql")):
        fraction = format(0.0001 / float(scale), ".10f")
        text = query.read_text().replace("{fraction}", fraction)
        rows = database.execute(text).fetchall()
        lines = [",".join(cell(value) for value in row) + "\n" for row in rows]
        (out / f"{query.stem}.csv").write_text("".join(lines))
        print(query.stem, len(rows))


main(*sys.argv[1:])
