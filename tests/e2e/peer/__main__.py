# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.e2e.peer FIRST LAST``: the table of a range of seeds; exit 1 if a difference is not explained."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.peers.toolchain import build_peer

from tests.e2e.peer.running import compared


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def main(first: str, last: str) -> int:
    """Print the table."""
    program = build_peer(os.environ, _say)
    with tempfile.TemporaryDirectory() as folder:
        tally = compared(program, range(int(first), int(last)), Path(folder))
    sys.stdout.writelines(line + "\n" for line in tally.lines())
    return 1 if tally.unexplained else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
