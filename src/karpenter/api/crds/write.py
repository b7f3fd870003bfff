# SPDX-License-Identifier: Apache-2.0
"""Writes the definitions as YAML files into the package, or tells which of them are out of date.

The files are data of the package, so that a chart, the sandbox and the schema checks need no generator. They
are never edited by hand: a test compares them with what the types say.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from karpenter.api.crds.generate import definition
from karpenter.api.crds.kinds import KINDS
from karpenter.api.crds.vocabulary import Kind

__all__ = ["main", "outdated", "render"]

_HERE = Path(__file__).parent
_HEADER = "# Made by `python -m karpenter.api.crds` from the types in karpenter.api; do not edit.\n"


def render(kind: Kind) -> str:
    """Return the YAML text of the definition of a kind."""
    return _HEADER + yaml.dump(
        definition(kind), Dumper=_Plain, sort_keys=False, width=110, allow_unicode=True
    )


def outdated(directory: Path = _HERE) -> list[str]:
    """Return the names of the files that are missing, stale, or of a kind that we no longer define."""
    wanted = {kind.file_name: render(kind) for kind in KINDS}
    present = {path.name: path.read_text(encoding="utf-8") for path in directory.glob("*.yaml")}
    return sorted(name for name in wanted | present if wanted.get(name) != present.get(name))


def main(arguments: Sequence[str], directory: Path = _HERE) -> int:
    """Write the files, or with ``--check`` name those that would change; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m karpenter.api.crds", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if a file is out of date"
    )
    options = parser.parse_args(arguments)
    stale = outdated(directory)
    if options.check:
        for name in stale:
            print(f"error: {name} is out of date", file=sys.stderr)  # noqa: T201  talk goes to stderr
        if stale:
            print("hint:  make crds", file=sys.stderr)  # noqa: T201  same
        return 1 if stale else 0
    wanted = {kind.file_name: kind for kind in KINDS}
    for name in stale:
        path = directory / name
        if name in wanted:
            path.write_text(render(wanted[name]), encoding="utf-8")
        else:
            path.unlink()
        print(name)  # noqa: T201  what was written is the data
    return 0


class _Plain(yaml.SafeDumper):
    """A dumper that repeats shared values instead of pointing at them, which people do not follow."""

    def ignore_aliases(self, data: object) -> bool:
        """Return that nothing is aliased."""
        del data
        return True
