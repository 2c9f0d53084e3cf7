#!/usr/bin/env python3
"""Draws the dashboard of Grafana from a load: docs/grafana-dashboard.json as a picture.

This program starts a Prometheus, which asks a service for its metrics each second. It loads the
service for some minutes, in phases that an operator knows. Then it asks Prometheus for every
expression of the dashboard, as Grafana would, and draws the panels where the dashboard has them.

    apt-get install prometheus                              # any 2.x in PATH; Grafana is not needed
    pip install matplotlib adbc-driver-flightsql pyarrow
    cargo build --release
    benches/dashboard.py target/release/tidegate docs/grafana-dashboard.png

The picture is all that it writes: data and samples go to a temporary directory, which it removes.
A panel without a sample is an error, and so is an expression that Prometheus refuses.
"""

import argparse
import collections
import contextlib
import io
import itertools
import json
import math
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import partial

import pyarrow as pa
import pyarrow.flight as flight
from adbc_driver_flightsql import dbapi
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREPARATION = (
    "CREATE TABLE orders (customer bigint, item bigint, note text, PRIMARY KEY (customer, item))",
    "CREATE TABLE readings (station bigint, at bigint, note text, PRIMARY KEY (station, at))",
    # Limits stand for a slow disk, so that requests wait on a fast one too.
    "ALTER IO CLASS compaction SET bandwidth = '4 MiB'",
    "ALTER IO CLASS query SET bandwidth = '48 MiB'",
    "CREATE SERVICE LEVEL page WITH timeout = 200ms AND workload_type = 'interactive'",
)
# Policies and their parameters; codel and latency let in less than the burst asks for.
POLICIES = {"s3_fifo": {}, "scan_guard": {}, "codel": {"busy": 5}}
POLICIES["latency"] = {"least": 1, "most": 2, "start": 1, "wait": 30}
CUSTOMERS, ITEMS, STATIONS, HOT_ROWS = 500, 400, 16, 1_500
COLORS = "#73bf69 #f2cc0c #5794f2 #ff780a #f2495c #b877d9 #8ab8ff #ffa6b0 #37872d #c4162a".split()


def start(stack, words, **options):
    """Starts a program, which ends with the stack."""

    def end():
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()

    process = stack.enter_context(subprocess.Popen(words, **options))
    stack.callback(end)
    return process


def start_service(stack, program, folder):
    """Starts the service; gives the addresses of clients and of metrics."""
    words = [program, "--data", folder / "data", "--shards", "2", "--memory", "1GiB"]
    words += ["--memtable-bytes", "12MiB", "--cache-bytes", "32MiB", "--commitlog-bytes", "256MiB"]
    subprocess.run([*words[:3], "iotune"], check=True, stdout=subprocess.DEVNULL)
    words += ["serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    log = folder / "log"
    with log.open("w") as stderr:
        service = start(stack, words, stderr=stderr)
    told = r"listening on (\S+)\nmetrics on http://(\S+)/metrics\n"
    while not (found := re.search(told, log.read_text())):
        if service.poll() is not None:
            sys.exit(f"{program} ended: {log.read_text()}")
        time.sleep(0.1)
    return found.groups()


def start_prometheus(stack, folder, metrics):
    """Starts Prometheus on a free port; gives its URL once it has samples."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    jobs = [{"job_name": "tidegate", "static_configs": [{"targets": [metrics]}]}]
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
    (path := folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML too
    words = ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder / 'samples'}"]
    words += [f"--web.listen-address={address}", "--log.level=error"]
    start(stack, words)
    for _ in range(100):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://{address}/-/ready", timeout=5).close()
            url, now = f"http://{address}", time.time()
            if list(ask(url, "rate(tidegate_cache_hits_total[10s])", now, now)):
                return url
        time.sleep(0.2)
    sys.exit("Prometheus has no samples after 20 seconds")


class Load:
    """Clients of the service, and when each phase of them began."""

    def __init__(self, address, seconds):
        self.uri, self.seconds = f"grpc://{address}", seconds
        self.began, self.rows = [], 0
        self.notes = [random.randbytes(100).hex() for _ in range(2_000)]
        self.run(*PREPARATION)
        for name, parameters in POLICIES.items():
            self.upload(name, parameters)

    def run(self, *statements):
        with dbapi.connect(self.uri, autocommit=True) as db, db.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def upload(self, name, parameters):
        """Sends a component of plugins/dist as a policy of the same name."""
        component = (ROOT / f"plugins/dist/{name}.wasm").read_bytes()
        columns = {"name": name, "component": component, "parameters": parameters or None}
        row, body = pa.RecordBatch.from_pylist([columns]), pa.BufferOutputStream()
        with pa.ipc.new_stream(body, row.schema) as writer:
            writer.write(row)
        with flight.connect(self.uri) as client:
            list(client.do_action(flight.Action("UploadPolicy", body.getvalue())))

    def client(self, work, seed, until, counts, errors):
        """Does a work again and again, on a connection of its own."""
        dice = random.Random(seed)
        try:
            # One cursor for all, so that a statement is prepared once.
            with dbapi.connect(self.uri, autocommit=True) as db, db.cursor() as cursor:
                while time.time() < until and not errors:
                    try:
                        work(cursor, dice)
                        counts["done"] += 1
                    except dbapi.Error as error:
                        found = re.search("ResourceExhausted|DeadlineExceeded", str(error))
                        if not found:
                            raise
                        counts[found[0]] += 1
        except Exception as error:  # the main thread raises it
            errors.append(error)

    def clients(self, until, works):
        """Runs works until a moment, a thread each; says how statements ended."""
        counts, errors = collections.Counter(), []
        threads = [
            threading.Thread(target=self.client, args=(*each, until, counts, errors), daemon=True)
            for each in zip(works, itertools.count())  # the number is a seed
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return ", ".join(f"{count} {how}" for how, count in counts.items())

    def ingest(self, cursor, _, count, pause):
        """A batch for each table; orders come again, so that merges have work."""
        rows = range(self.rows, self.rows + count)
        self.rows += count
        notes = pa.array(random.choices(self.notes, k=count))
        items = [n // CUSTOMERS % ITEMS for n in rows]
        orders = {"customer": [n % CUSTOMERS for n in rows], "item": items}
        readings = {"station": [n % STATIONS for n in rows], "at": list(rows)}
        for table, keys in (("orders", orders), ("readings", readings)):
            cursor.adbc_ingest(table, pa.table({**keys, "note": notes}), mode="append")
        time.sleep(pause)

    def point(self, cursor, dice, using=""):
        """A row of a hot set, in which some rows are far more popular than others."""
        item, customer = divmod(int(HOT_ROWS * dice.random() ** 3), CUSTOMERS)
        sql = f"SELECT note FROM orders WHERE customer = ? AND item = ?{using}"
        cursor.execute(sql, (customer, item)).fetchall()

    def scan(self, cursor, dice, using=""):
        """The rows of a station, far more than a small cache holds."""
        sql = f"SELECT max(note) FROM readings WHERE station = ?{using}"
        cursor.execute(sql, (dice.randrange(STATIONS),)).fetchall()
        time.sleep(0.3)

    def whole(self, cursor, _, sql):
        """A statement for whole tables, now and then."""
        cursor.execute(sql).fetchall()
        time.sleep(4)

    def phases(self):
        """Runs the phases: name, part of the time, statements, works of clients."""
        fill = partial(self.ingest, count=4_000, pause=0.3)
        trickle = partial(self.ingest, count=1_000, pause=0.5)
        flush = partial(self.whole, sql="FLUSH")
        report = partial(self.whole, sql="SELECT count(*), max(note) FROM readings")
        points = [self.point] * 5
        flood = [*points, self.scan, report, trickle]
        alter = "ALTER {} SET POLICY = {}".format
        limits = [alter("READ ADMISSION", "latency"), alter("LOAD SHEDDING", "codel")]
        level = " USING SERVICE LEVEL page"
        burst = [partial(self.point, using=level), partial(self.scan, using=level)] * 20
        for name, part, statements, works in (
            ("load", 0.2, [], [fill, flush]),
            ("hot reads", 0.15, [], [*points, trickle]),
            ("scans, LRU", 0.15, ["ALTER CACHE SET CAPACITY = '4 MiB'"], flood),
            ("S3-FIFO", 0.15, ["ALTER CACHE SET POLICY = s3_fifo"], flood),
            ("scan guard", 0.13, ["ALTER CACHE SET ADMISSION = scan_guard"], flood),
            ("burst", 0.13, limits, [*burst, trickle]),
            ("calm", 0.09, [], [*points, trickle, flush]),
        ):
            self.began.append((name, began := time.time()))
            self.run(*statements)
            told = self.clients(began + part * self.seconds, works)
            print(f"{name}: {time.time() - began:.0f} s, {told}", flush=True)


def ask(url, expression, first, last):
    """Series of an expression: labels, times, values. A rate is taken over ten scrapes."""
    query = {"query": expression.replace("$__rate_interval", "10s"), "step": 1}
    query |= {"start": first, "end": last}
    where = f"{url}/api/v1/query_range?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(where, timeout=60) as answer:
            found = json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{expression}: {json.load(error)['error']}")
    for series in found:
        times, values = zip(*series["values"])
        yield series["metric"], [at - first for at in times], [float(value) for value in values]


# Units of Grafana: what one is shown as, how many make the next, and their names.
UNITS = {
    "short": (1, 1000, ("", " K", " Mil")),
    "bytes": (1, 1024, (" B", " KiB", " MiB", " GiB", " TiB")),
    "Bps": (1, 1000, (" B/s", " kB/s", " MB/s", " GB/s")),
    "ops": (1, 1000, (" ops/s", "K ops/s", "M ops/s")),
    "percentunit": (100, 1000, ("%",)),
    "µs": (1, 1000, (" µs", " ms", " s")),
}


def scale(axes, unit, top):
    """Gives an axis ticks that are round in the largest unit that the highest value fills."""
    factor, step, names = UNITS[unit]
    at = min(int(math.log(max(top * factor, 1), step)), len(names) - 1)
    size = step**at / factor
    ticks = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(0, top / size)
    ticks = [tick for tick in ticks if tick * size <= top * 1.01]
    labels = [f"{tick:.3g}{names[at]}" if tick else "0" for tick in ticks]
    axes.set_yticks([tick * size for tick in ticks], labels)
    axes.set_ylim(0, top * 1.05)


def lines_of(panel, url, first, last):
    """Names, times and values of the lines of a panel."""
    for target in panel["targets"]:
        found = list(ask(url, target["expr"], first, last))
        if not any(math.isfinite(value) for _, _, values in found for value in values):
            sys.exit(f"panel '{panel['title']}' has no sample of {target['expr']}")
        for labels, times, values in found:
            words = re.split(r"{{\s*(\w+)\s*}}", target["legendFormat"])
            words[1::2] = [labels.get(label, "") for label in words[1::2]]
            yield "".join(words), times, values


def draw(axes, panel, url, began, last):
    """Draws a panel of the dashboard as Grafana would."""
    first, defaults = began[0][1], panel["fieldConfig"]["defaults"]
    lines = list(lines_of(panel, url, first, last))
    if defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal":
        names, times, values = zip(*lines)
        shown = axes.stackplot(times[0], *values, labels=names, colors=COLORS, alpha=0.75)
    else:
        shown = [
            axes.plot(times, values, label=name, color=color, lw=1.4)[0]
            for (name, times, values), color in zip(lines, itertools.cycle(COLORS))
        ]
    scale(axes, defaults["unit"], defaults.get("max", axes.dataLim.ymax or 1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at // 60:.0f}:{at % 60:02.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 1.5, 3, 6]))
    axes.set(xlim=(0, last - first), axisbelow=True)
    axes.set_title(panel["title"], loc="left", fontsize=11, fontweight="bold", pad=18)
    above = {"transform": axes.get_xaxis_transform(), "fontsize": 8, "color": "#9a9a9a"}
    for name, at in began:
        axes.axvline(at - first, color="#888888", lw=0.8, ls=":")
        axes.text(at - first, 1.02, f" {name}", **above)
    # Of many lines, the eight highest are in the legend.
    peaks = [max(filter(math.isfinite, values), default=0) for _, _, values in lines]
    named = sorted(sorted(range(len(lines)), key=lambda at: -peaks[at])[:8])
    look = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1), "ncols": 4, "fontsize": 8}
    look |= {"frameon": False, "handlelength": 1.2}
    axes.legend([shown[at] for at in named], [lines[at][0] for at in named], **look)


def picture(dashboard, url, began, last, path):
    """Draws all panels on the grid of the dashboard, which has 24 columns."""
    panels = dashboard["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    colors = dict.fromkeys(("axes.edgecolor", "grid.color"), "#2c3035")
    style.use(["dark_background", {"axes.facecolor": "#181b1f", "axes.grid": True, **colors}])
    figure = Figure(figsize=(14, rows * 0.34), dpi=100, facecolor="#111217")
    for panel in panels:
        place = panel["gridPos"]
        left, width = place["x"] / 24 + 0.064, place["w"] / 24 - 0.076
        bottom, height = 1 - (place["y"] + place["h"] - 2.1) / rows, (place["h"] - 3.6) / rows
        draw(figure.add_axes((left, bottom, width, height)), panel, url, began, last)
    figure.savefig(drawn := io.BytesIO())
    Image.open(drawn).convert("RGB").quantize(128).save(path, optimize=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", help="the program of the service")
    parser.add_argument("picture", type=pathlib.Path, help="file that takes the picture, a PNG")
    parser.add_argument("--seconds", type=float, default=240, help="length of the load (240)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    dashboard = json.loads((ROOT / "docs/grafana-dashboard.json").read_text())
    try:
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            clients, metrics = start_service(stack, arguments.program, folder)
            url = start_prometheus(stack, folder, metrics)
            (load := Load(clients, arguments.seconds)).phases()
            picture(dashboard, url, load.began, time.time(), arguments.picture)
    except (OSError, subprocess.SubprocessError, dbapi.Error, flight.FlightError) as error:
        sys.exit(f"dashboard.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"{arguments.picture}: {arguments.picture.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
