#!/usr/bin/env python3
"""Compares two builds of a benchmark: both run at the same time, each on one core, and change cores.

Runs one after the other say little on a machine whose speed changes from minute to minute. Two that
run at once have the same minute. Build both first, keep the binaries, and name one row, so that both
do the same at the same moment:

    cargo bench --no-run --bench cache      # prints the binary's path; copy it, build the other
    benches/pairs.py before after --pairs 8 "absent row"

A row has the geometric mean of after / before and its standard error; of rates it is before / after.
So more than 1 is worse. A binary beside a copy of itself shows what the machine can tell.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading


def start(binary, core, words):
    """Starts a quick run on one core."""
    return subprocess.Popen(
        [os.path.abspath(binary), "--quick", "--json", *words],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )


def rows(output):
    """Figures and units of the rows that have a figure above zero, by name."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {
        row["name"]: (row["figure"], row.get("unit", ""))
        for row in lines
        if "name" in row and (row.get("figure") or 0) > 0
    }


def run_both(binaries, cores, words):
    """The rows of both binaries, which run at the same time."""
    outputs = ["", ""]
    processes = [start(binary, core, words) for binary, core in zip(binaries, cores)]

    def read(at):
        outputs[at] = processes[at].communicate()[0]

    threads = [threading.Thread(target=read, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for binary, process in zip(binaries, processes):
        if process.returncode != 0:
            sys.exit(f"{binary} ended with {process.returncode}")
    return [rows(output) for output in outputs]


def compare(binaries, pairs, words):
    """Ratios of each row, a pair each, by name."""
    allowed = sorted(os.sched_getaffinity(0))
    first, second = allowed[0], allowed[-1]
    ratios = {}
    for pair in range(pairs):
        cores = (first, second) if pair % 2 == 0 else (second, first)
        before, after = run_both(binaries, cores, words)
        for name in before.keys() & after.keys():
            (old, unit), (new, _) = before[name], after[name]
            ratios.setdefault(name, []).append(old / new if "/s" in unit else new / old)
    return ratios


def summary(ratios):
    """Geometric mean and its standard error."""
    logs = [math.log(ratio) for ratio in ratios]
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return math.exp(statistics.mean(logs)), error


def check():
    """Compares two programs that say what they cost."""
    with tempfile.TemporaryDirectory() as folder:
        binaries = []
        for name, cost, rate in [("before", 2.0, 100.0), ("after", 3.0, 50.0)]:
            binary = os.path.join(folder, name)
            lines = [
                {"name": "a cost", "unit": "CPU us", "figure": cost},
                {"name": "a rate", "unit": "k/s", "figure": rate},
                {"name": "nothing", "unit": "I/O", "figure": 0.0},
            ]
            text = "".join(f"echo '{json.dumps(line)}'\n" for line in lines)
            with open(binary, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n" + text)
            os.chmod(binary, 0o755)
            binaries.append(binary)
        ratios = compare(binaries, 2, [])
    wanted = {"a cost": [1.5, 1.5], "a rate": [2.0, 2.0]}
    assert ratios == wanted, f"{ratios}, not {wanted}"
    assert summary([1.5, 1.5]) == (1.5, 0.0), summary([1.5, 1.5])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", nargs="?", help="binary of the benchmark before a change")
    parser.add_argument("after", nargs="?", help="binary after it")
    parser.add_argument("words", nargs="*", help="a part of the row's name")
    parser.add_argument("--pairs", type=int, default=8, help="pairs of runs (8)")
    parser.add_argument("--check", action="store_true", help="check this program itself")
    arguments = parser.parse_intermixed_args()
    if arguments.check:
        return check()
    if not arguments.before or not arguments.after:
        parser.error("two binaries are compared; see --help")
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("each binary has a core of its own; this process may use one only")
    ratios = compare((arguments.before, arguments.after), arguments.pairs, arguments.words)
    if not ratios:
        sys.exit(f"no row of both binaries has {' '.join(arguments.words)!r} in its name")
    for name, values in sorted(ratios.items()):
        mean, error = summary(values)
        print(f"{name:<60} {mean:6.3f} ± {error:.3f}")
    return None


if __name__ == "__main__":
    main()
