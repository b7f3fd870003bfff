# SPDX-License-Identifier: Apache-2.0
"""``karpenter sandbox scenario``: plays faults by timetable against a sandbox that runs.

The file is read and checked before the first step. A step that the sandbox refuses is told and passed over; the others
follow. What was done stays done when playing is interrupted.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from karpenter.cli import output
from karpenter.cli.main import INTERRUPTED, REFUSED, InputError
from karpenter.cli.options import OUTPUT_FORMAT, OutputFormat
from karpenter.cli.stack import stack_of, until_told
from karpenter.errors import KarpenterError

if TYPE_CHECKING:
    from karpenter.sandbox.stack.scenario import Play, Timed

__all__ = ["scenario"]

_EXAMPLES = """\b
Examples:
  karpenter sandbox scenario examples/scenarios/interruptions.yaml
  karpenter sandbox scenario mine.yaml --check     # read it, do nothing

Exit codes: 0 every step was done, 1 the sandbox refused some, 2 the file cannot be read, 130 interrupted."""


@click.command("scenario", epilog=_EXAMPLES)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--name", default="default", show_default=True, help="Which sandbox.")
@click.option("--check", is_flag=True, help="Only read the file.")
@OUTPUT_FORMAT
@click.pass_context
def scenario(ctx: click.Context, /, *, file: Path, name: str, check: bool, form: OutputFormat) -> None:
    """Play capacity errors, interruptions, node failures and price changes against a sandbox that runs.

    FILE is YAML; a step has one action and perhaps a time after the start. See docs/tasks/sandbox.md.
    """
    from karpenter.sandbox.stack.scenario import (  # noqa: PLC0415 - the other commands start faster
        Play,
        ScenarioError,
        read_scenario,
        timetable,
    )

    try:
        steps = timetable(read_scenario(file))
    except ScenarioError as refused:
        raise InputError(refused.message, hint=refused.hint) from refused
    if check:
        output.say(f"{file}: {len(steps)} steps, nothing is wrong with them")
        return
    stack = stack_of(name)
    speed = stack.status().record.options.speed
    play = Play(stack, file)
    try:
        done = _play(play, steps, speed, form)
    finally:
        play.close()
    if form == "json":
        output.write_data(json.dumps(done, indent=2) + "\n")
    failed = sum(not each["done"] for each in done)
    output.say(f"{len(done) - failed} of {len(steps)} steps done")
    if len(done) < len(steps):
        ctx.exit(INTERRUPTED)
    if failed:
        ctx.exit(REFUSED)


def _play(play: Play, steps: list[Timed], speed: float, form: OutputFormat) -> list[dict[str, Any]]:
    begun = time.monotonic()
    done: list[dict[str, Any]] = []
    with until_told() as told:
        for step in steps:
            wait_s = step.at_s / speed - (time.monotonic() - begun)
            if told.wait(max(wait_s, 0.0)):
                output.say("interrupted; what was done stays done", output.WARNING)
                break
            outcome, error = "", ""
            try:
                outcome = play.do(step)
            except KarpenterError as refused:
                error = refused.message
            done.append(
                {
                    "atSeconds": step.at_s,
                    "line": step.line,
                    "action": step.action,
                    "document": step.document,
                    "done": not error,
                    "outcome": outcome or error,
                }
            )
            if form == "text":
                shown = f"{step.shown}  ({outcome})" if outcome else step.shown
                output.write_data(f"{_clock(step.at_s)}  {step.action.ljust(12)} {shown}\n")
            if error:
                output.say(f"line {step.line}: {error}", output.WARNING)
    return done


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:3d}:{rest:02d}"
