# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks and prints one table: `python -m benchmarks [NAME ...] [-o json]`."""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks import decode_pods, list_instances, solve_without
from benchmarks.measure import Row

BENCHMARKS = {
    "decode-pods": decode_pods.run,
    "solve-without": solve_without.run,
    "list-instances": list_instances.run,
}


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, or all of them, and print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHMARKS)} (default: all)"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    rows: list[Row] = []
    for name in options.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows.extend(BENCHMARKS[name]())
    if options.output == "json":
        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        _print_table(rows)
    return 0


def _print_table(rows: list[Row]) -> None:
    head = ("BENCHMARK", "WHAT", "CPU MS", "YARDSTICK MS", "RATIO", "PEAK MIB", "PROMISE")
    lines = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
