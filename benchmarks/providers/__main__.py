# SPDX-License-Identifier: Apache-2.0
"""Compares our AWS provider with the Go Karpenter's own packages: `python -m benchmarks.providers`.

Instance types, launches, errors of fleets and hashes of node classes, all on one EC2 model. The table of differences
goes to standard output, progress to standard error. Every difference must be one that docs/reference/differences.md
lists; the exit code is 1 if another is found. Without Go there is nothing to compare with, and it says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence

from benchmarks.console import positive, say
from benchmarks.peers.toolchain import PeerUnavailableError, karpenter_version
from benchmarks.providers.asking import GO_SOURCES, build_go
from benchmarks.providers.listed import row_of
from benchmarks.providers.running import Sizes, compare_providers


def main(arguments: Sequence[str]) -> int:
    """Run the comparison and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.providers", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=1, help="of node classes and NodeClaims (default %(default)s)"
    )
    parser.add_argument(
        "--classes", type=positive, default=20, help="node classes to draw (default %(default)s)"
    )
    parser.add_argument("--launches", type=positive, default=30, help="more NodeClaims (default %(default)s)")
    parser.add_argument(
        "--examples", type=positive, default=1, help="shown of each difference (default %(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        program = build_go(os.environ, say)
    except PeerUnavailableError as error:
        say(f"nothing is compared: {error}")
        return 0
    begun = time.monotonic()
    sizes = Sizes(options.seed, options.classes, options.launches)
    tally = asyncio.run(compare_providers(program, sizes, say))
    unlisted = [name for name in tally.names if row_of(name, tally.differences[name]) is None]
    print(
        f"Go Karpenter {karpenter_version(GO_SOURCES)}, {tally.compared:,} values in {time.monotonic() - begun:.0f} s"
    )
    for name in tally.names:
        found = tally.differences[name]
        print(f"{name}: {len(found):,} times; {row_of(name, found) or 'NOT LISTED'}")
        for each in found[: options.examples]:
            print(f"  {each.case}: Go {json.dumps(each.go)}, ours {json.dumps(each.ours)}")
    print(
        f"{len(tally.names)} differences, {len(unlisted)} of them not listed in docs/reference/differences.md"
    )
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
