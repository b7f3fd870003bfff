# SPDX-License-Identifier: Apache-2.0
"""Run upstream's end-to-end suites against our controller and print what became of each spec."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from karpenter.errors import KarpenterError
from tests.commandline import run_command, say
from tests.upstream.reports import known_specs, summary, table, unexpected
from tests.upstream.runs import Options, run_all
from tests.upstream.sources import build
from tests.upstream.suites import QUICK, chosen

__all__ = ["main"]


@click.command(
    help=__doc__,
    epilog="""\b
Examples:
  python -m tests.upstream                              # all suites
  python -m tests.upstream --suites "drift storage"     # two of them
  python -m tests.upstream --suites integration --focus Tags

Exit codes: 0 every spec passed or is listed in known.toml, 1 another one failed, 2 the command line is wrong.""",
)
@click.option(
    "--suites", default="", help="Names, separated by blanks; all without it, 'quick' for the quick ones."
)
@click.option("--focus", default="", help="Only specs whose name matches this regular expression.")
@click.option("--jobs", default=2, show_default=True, help="How many suites run side by side.")
@click.option("--speed", default=10.0, show_default=True, help="How many times as fast machines boot.")
@click.option("--limit-minutes", default=60.0, show_default=True, help="After how long a suite is ended.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("build/upstream"),
    show_default=True,
    help="Where logs, JSON and JUnit reports go.",
)
@click.option("--build-only", is_flag=True, help="Build the suites and run nothing.")
def _command(**given: object) -> None:
    names = list(QUICK) if given["suites"] == "quick" else str(given["suites"]).split()
    suites = [build(suite, os.environ, say) for suite in chosen(names)]
    if given["build_only"]:
        return
    options = Options(
        results=Path(str(given["results"])).resolve(),
        focus=str(given["focus"]),
        jobs=int(str(given["jobs"])),
        speed=float(str(given["speed"])),
        limit_s=60 * float(str(given["limit_minutes"])),
    )
    verdicts = run_all(suites, os.environ, options, say)
    known = known_specs()
    click.echo(table(verdicts, known))
    click.echo()
    click.echo(summary(verdicts))
    failed = unexpected(verdicts, known)
    if failed:
        raise KarpenterError(
            f"{len(failed)} specs did not pass and are not listed in tests/upstream/known.toml",
            hint=f"logs and reports are in {options.results}",
        )


def main() -> int:
    """Run the command and return its exit code; an error is printed with its hint."""
    return run_command(_command, "python -m tests.upstream")


if __name__ == "__main__":
    sys.exit(main())
