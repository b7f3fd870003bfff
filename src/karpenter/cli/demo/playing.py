# SPDX-License-Identifier: Apache-2.0
"""``karpenter demo``: starts a private sandbox, plays the story in it, and hands it over or ends it.

Whatever ends the command ends the sandbox: the user, a signal, a mistake, even SIGKILL, by the leash that its processes
run under.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import click

from karpenter.cli.demo.deciding import Meter
from karpenter.cli.demo.screen import Screen
from karpenter.cli.demo.story import Stage, Story
from karpenter.cli.demo.telling import Line
from karpenter.cli.main import INTERRUPTED
from karpenter.cli.program import program
from karpenter.cli.stack import until_told
from karpenter.sandbox.stack.errors import CallError, StackError, StoppedError
from karpenter.sandbox.stack.home import Home, default_root
from karpenter.sandbox.stack.lifecycle import Stack
from karpenter.sandbox.stack.record import Options, Record
from karpenter.sandbox.stack.replicas import metrics_addresses

__all__ = ["command"]

_MOST_DEMOS: Final = 9
_RETRY_S: Final = 2.0

_EXAMPLES = """\b
Examples:
  karpenter demo           # plays, then it is yours until Ctrl-C
  karpenter demo --yes     # plays and ends by itself

Exit codes: 0 played to the end, 1 something did not happen in time, 130 stopped before the end."""


@click.command("demo", epilog=_EXAMPLES)
@click.option("--yes", is_flag=True, help="End by itself instead of handing the sandbox over.")
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 100),
    default=1.0,
    show_default=True,
    help="How many times as fast machines boot.",
)
@click.option("--replicas", type=click.IntRange(1, 5), default=1, show_default=True, help="Controllers.")
@click.pass_context
def command(ctx: click.Context, *, yes: bool, speed: float, replicas: int) -> None:
    """Show the product at work, without a cluster or an AWS account.

    Starts a Kubernetes API, a model of EC2 and the controller on this machine, scales a Deployment up and down, and
    shows which nodes come and go, why, and at what price. Without a terminal it ends by itself.
    """
    screen = Screen()
    begun = time.monotonic()
    with until_told() as told, _stage(told, lambda words: screen.line(Line(words))) as stack:
        try:
            # A demo that was killed may have left its cluster behind.
            record = stack.up(Options(speed=speed, replicas=replicas), owned=True, fresh=True).record
            screen.text(_head(stack, record, time.monotonic() - begun))
            stage = Stage(
                stack.kube(),
                stack.model(),
                Meter(metrics_addresses(stack.home)),
                screen=screen,
                told=told,
                kubeconfig=stack.home.kubeconfig,
            )
            Story(stage, record.options.region, stack.home.directory).play()
            if not yes and sys.stdout.isatty():
                _hand_over(stage, stack)
            screen.finish()
        except StoppedError:
            screen.finish()
            screen.text()
            ctx.exit(INTERRUPTED)
        finally:
            screen.text("ending all processes ...")
    screen.text("all processes have ended and no port is open. Next:")
    screen.text(
        f"  {program(anew=True)} sandbox up --default-pool    # one that stays, for your own manifests"
    )


@contextlib.contextmanager
def _stage(told: threading.Event, tell: Callable[[str], None]) -> Iterator[Stack]:
    """Gives a sandbox of our own, which ends with the block."""
    root = default_root(os.environ)
    for number in range(1, _MOST_DEMOS + 1):
        home = Home(root, "demo" if number == 1 else f"demo-{number}")
        stack = Stack(home, tell=tell, stopped=told.is_set)
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(stack.owning())
            except StackError:
                continue
            try:
                yield stack
            finally:
                if stack.home.record.exists():
                    stack.down(keep=False)
                stack.home.remove()
            return
    raise StackError(f"{_MOST_DEMOS} demos run at once already", hint="end one of them")


def _head(stack: Stack, record: Record, took_s: float) -> str:
    where = f"API {record.server}, EC2 model {record.ec2}"
    lines = [
        f"karpenter sandbox is up after {took_s:.1f} s  ({where})",
        f"  try it yourself in another terminal:   export KUBECONFIG={stack.home.kubeconfig}",
    ]
    if shutil.which("kubectl") is None:
        lines.append("  kubectl is not installed: what is shown as kubectl is done through the API itself")
    return "\n".join(lines)


def _hand_over(stage: Stage, stack: Stack) -> None:
    screen = stage.screen
    screen.text()
    screen.text("It is yours now; what you do is told here. In another terminal:")
    screen.text(f"  export KUBECONFIG={stack.home.kubeconfig}")
    screen.text("  kubectl scale -n other deployment/inflate --replicas 20")
    screen.text("  kubectl get nodes -L node.kubernetes.io/instance-type")
    screen.text(f"  {program(anew=True)} sandbox status --name {stack.home.name}")
    screen.text("Ctrl-C here ends it and leaves nothing behind.")
    screen.text()
    with contextlib.suppress(StoppedError):
        # A Ctrl-C here is the end that was asked for.
        while True:
            with contextlib.suppress(CallError):
                stage.wait(lambda _: False, 3600.0)
            again = f"{program(anew=True)} sandbox up --name {stack.home.name}"
            screen.line(Line("the API does not answer", again))
            stage.pause(_RETRY_S)
