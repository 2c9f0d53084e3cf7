"""Asks DuckDB what the test of answers asked, and compares.

    pip install duckdb
    mkdir dump && TIDEGATE_ANSWERS_DUMP=$PWD/dump cargo test --test answers
    python3 tests/answers/duckdb.py dump

Statements that DuckDB refuses are counted, and are a failure when they are more than a fifth.
"""

import collections
import datetime
import decimal
import json
import math
import pathlib
import re
import sys
import uuid

# This file has the library's name, and Python looks here first.
HERE = pathlib.Path(__file__).parent.resolve()
sys.path = [path for path in sys.path if pathlib.Path(path or ".").resolve() != HERE]
import duckdb  # noqa: E402

SETTINGS = [
    "SET integer_division = true",
    "SET default_null_order = 'nulls_last_on_asc_first_on_desc'",
    "SET timezone = 'UTC'",
]
REFUSED_MAX = 0.2


# DuckDB reads an offset from UTC only where it stands in a TIMESTAMPTZ.
ZONED = re.compile(r"'(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)([+-]\d\d):00'")


def utc(match):
    moment = datetime.datetime.fromisoformat(match.group(1)) - datetime.timedelta(hours=int(match.group(2)))
    return f"'{moment.isoformat(timespec='microseconds')}'"


def translate(sql):
    sql = ZONED.sub(utc, sql)
    sql = re.sub(r"X'((?:[0-9a-f]{2})*)'", blob, sql)
    return sql.replace("btrim(", "trim(").replace("character_length(", "length(")


def blob(match):
    digits = match.group(1)
    return "'" + "".join("\\x" + digits[at : at + 2] for at in range(0, len(digits), 2)) + "'::BLOB"


def number(value):
    value = float(value)
    if math.isnan(value):
        return "n:nan"
    # Zeros are one number, and doubles beside decimals round.
    return f"n:{value:.9g}" if value else "n:0"


def ours(cell):
    if cell is None or cell[0] not in "nd":
        return cell
    if cell[0] == "n":
        return number(cell[2:])
    return "d:" + cell[2:].replace("T", " ")


def theirs(value):
    if value is None:
        return None
    if isinstance(value, bool):
        return "b:true" if value else "b:false"
    if isinstance(value, (int, float, decimal.Decimal)):
        return number(value)
    if isinstance(value, (bytes, bytearray)):
        return "x:" + value.hex()
    if isinstance(value, uuid.UUID):
        return f"t:{value}"
    if isinstance(value, (datetime.date, datetime.time, datetime.datetime)):
        text = str(value)
        # As many threes of digits behind the point as it takes.
        return "d:" + (text[:-3] if "." in text and text.endswith("000") else text)
    return f"t:{value}"


def rows(of, cell):
    return collections.Counter(tuple(cell(value) for value in row) for row in of)


def main(folder):
    asked, refused, differences = 0, collections.Counter(), []
    for path in sorted(pathlib.Path(folder).glob("*.jsonl")):
        database = duckdb.connect()
        for setting in SETTINGS:
            database.execute(setting)
        for line in path.read_text().splitlines():
            line = json.loads(line)
            if "run" in line:
                database.execute(translate(line["run"]))
                continue
            sql = translate(line["ask"])
            asked += 1
            try:
                found = database.execute(sql).fetchall()
            except duckdb.Error as error:
                refused[str(error).split("\n")[0][:90]] += 1
                continue
            ask, answer = rows(line["rows"], ours), rows(found, theirs)
            if ask != answer:
                only = [list(rows.items())[:3] for rows in (ask - answer, answer - ask)]
                text = f"{path.name}: {sql}\n  only ours: {only[0]}\n  only DuckDB: {only[1]}"
                differences.append(text)
    for message, count in refused.most_common(10):
        print(f"refused {count}: {message}")
    print(f"{asked} statements, {sum(refused.values())} refused by DuckDB, {len(differences)} differences")
    print("\n".join(differences[:40]))
    too_many = sum(refused.values()) > REFUSED_MAX * asked
    sys.exit(1 if differences or too_many or not asked else 0)


main(sys.argv[1])
