# SPDX-License-Identifier: Apache-2.0
"""``python -m tools.facts rebuild|check``: makes the tables of ``karpenter.facts`` anew from public packages.

The sources are the package moto and the Go module github.com/aws/karpenter-provider-aws::

    python -m venv /tmp/facts && /tmp/facts/bin/pip install --no-deps moto==5.2.5
    go mod download -json github.com/aws/karpenter-provider-aws@v1.14.1      # prints its "Dir"
    python -m tools.facts rebuild --moto /tmp/facts/lib/python3.11/site-packages/moto --karpenter DIR

Every difference from the committed tables goes to standard output, one a line; ``check`` writes nothing and ends
with 1 if there is any. The same sources always give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from karpenter.errors import KarpenterError
from tools.facts.changes import changes
from tools.facts.tables import build, load, save

__all__ = ["main"]

DATA: Final = Path(__file__).parents[2] / "src" / "karpenter" / "facts" / "data"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code: 0 for done, 1 for differences found by ``check``, 2 for errors."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.facts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("rebuild", "check"))
    parser.add_argument("--moto", type=Path, required=True, help="folder of the installed package moto")
    parser.add_argument(
        "--karpenter", type=Path, required=True, help="root of the Go module karpenter-provider-aws"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the tables (default: %(default)s)")
    given = parser.parse_args(arguments)
    try:
        before, after = load(given.data), build(given.moto, given.karpenter)
    except KarpenterError as error:
        sys.stderr.write(f"error: {error.message}\nhint:  {error.hint}\n")
        return 2
    lines = list(changes(before, after))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    offers = sum(
        len(names) * len(z) for region in after.regions.values() for z, names in region["offered"].items()
    )
    sys.stderr.write(
        f"{len(after.types)} types, {len(after.regions)} regions, {offers} offers, "
        f"{sum(map(len, after.prices.values()))} prices; {len(lines)} differences\n"
    )
    if given.action == "check":
        return 1 if lines else 0
    save(after, given.data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
