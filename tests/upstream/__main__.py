# SPDX-License-Identifier: Apache-2.0
"""Run upstream's end-to-end suites against our controller, or the original, and print what became of each spec."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from karpenter.errors import KarpenterError
from tests.commandline import run_command, say
from tests.e2e.goprovider import build_go_provider
from tests.upstream.measures import comparison
from tests.upstream.planes import CONTROLLERS, PLANES, PlaneOptions
from tests.upstream.reports import Verdict, known_specs, unexpected
from tests.upstream.runs import MEASURED, Options, run_all
from tests.upstream.sources import build
from tests.upstream.specs import Spec, focused, listed, named, quick_specs
from tests.upstream.suites import chosen
from tests.upstream.tables import summary, text

__all__ = ["main"]

_QUICK = "quick"
_BOTH = "both"


@dataclass(frozen=True, slots=True)
class _Given:
    """The command line."""

    suites: str
    focus: str
    plane: str
    controller: str
    jobs: int
    speed: float
    results: Path
    inapplicable: bool
    build_only: bool
    list_only: bool


@click.command(
    help=__doc__,
    epilog="""\b
Examples:
  python -m tests.upstream                              # all suites
  python -m tests.upstream --suites "drift storage"     # two of them
  python -m tests.upstream --suites integration --focus Tags
  python -m tests.upstream --suites performance --controller both

Exit codes: 0 every spec passed or is listed in known.toml, 1 another one failed, 2 the command line is wrong.""",
)
@click.option(
    "--suites", default="", help="Names, separated by blanks; all without it, 'quick' for quick.toml."
)
@click.option("--focus", default="", help="Only specs whose name matches this regular expression.")
@click.option(
    "--plane", type=click.Choice(PLANES), default="sandbox", show_default=True, help="Where they run."
)
@click.option(
    "--controller",
    type=click.Choice((*CONTROLLERS, _BOTH)),
    default="ours",
    show_default=True,
    help="Whose controller; 'both' runs one after the other and compares what the suites measure.",
)
@click.option("--jobs", default=2, show_default=True, help="How many planes run side by side.")
@click.option("--speed", default=10.0, show_default=True, help="How many times as fast machines boot.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("build/upstream"),
    show_default=True,
    help="Where logs, Markdown, JSON and JUnit reports go.",
)
@click.option("--inapplicable", is_flag=True, help="Run also what known.toml says cannot apply.")
@click.option("--build-only", is_flag=True, help="Build the suites and run nothing.")
@click.option("--list", "list_only", is_flag=True, help="Print the names of the specs and run nothing.")
def _command(**given: object) -> None:
    given_all = _Given(**given)  # type: ignore[arg-type]
    specs = _specs(given_all)
    if given_all.list_only:
        for spec in specs:
            click.echo(f"{spec.suite.name}\t{spec.name}")
    if given_all.build_only or given_all.list_only:
        return
    controllers = CONTROLLERS if given_all.controller == _BOTH else (given_all.controller,)
    failed: tuple[Verdict, ...] = ()
    for controller in controllers:
        failed += _run(specs, controller, given_all)
    sides = {each: given_all.results / each / MEASURED for each in CONTROLLERS}
    measured = comparison(sides)
    if measured:
        click.echo(f"\n{measured}")
    if failed:
        raise KarpenterError(
            f"{len(failed)} specs did not pass and are not listed in tests/upstream/known.toml",
            hint=f"logs and reports are in {given_all.results}",
        )


def _specs(given: _Given) -> tuple[Spec, ...]:
    quick = quick_specs() if given.suites == _QUICK else ()
    names = list(dict.fromkeys(suite for suite, _ in quick)) if quick else given.suites.split()
    suites = [build(suite, os.environ, say) for suite in chosen(names)]
    specs = [spec for suite in suites for spec in listed(suite, os.environ)]
    return focused(named(specs, quick) if quick else specs, given.focus)


def _run(specs: Sequence[Spec], controller: str, given: _Given) -> tuple[Verdict, ...]:
    """Run specs with one controller, print and write what became of them, and return those that failed."""
    program = build_go_provider(os.environ, say) if controller == "go" else None
    options = Options(
        results=given.results.resolve() / controller,
        plane=PlaneOptions(given.plane, controller, given.speed, program),
        jobs=given.jobs,
        known=known_specs(controller),
        inapplicable=given.inapplicable,
        title=f"Upstream's suites: plane {given.plane}, controller {controller}",
    )
    verdicts = run_all(specs, os.environ, options, say)
    click.echo(text(verdicts))
    click.echo()
    click.echo(summary(verdicts))
    return unexpected(verdicts)


def main() -> int:
    """Run the command and return its exit code; an error is printed with its hint."""
    # Planes are taken down however the run ends; started in the background, it would not hear an interrupt.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    return run_command(_command, "python -m tests.upstream")


if __name__ == "__main__":
    sys.exit(main())
