# SPDX-License-Identifier: Apache-2.0
"""``karpenter sandbox up``, ``down``, ``status`` and ``reset``: a whole cluster with its account, on this machine.

What a shell can take (``export KUBECONFIG=...``) and JSON go to stdout, everything else to stderr. ``up`` returns when
all is ready and the processes go on; with ``--foreground`` it stays, and they end with it, however it ends.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from karpenter.cli import output
from karpenter.cli.kubelets import SECONDS
from karpenter.cli.main import REFUSED

if TYPE_CHECKING:
    from karpenter.sandbox.stack.lifecycle import Stack, Status
    from karpenter.sandbox.stack.record import Record

__all__ = [
    "FORM",
    "as_data",
    "down",
    "named",
    "next_steps",
    "reset",
    "stack_of",
    "status",
    "until_told",
    "up",
]

Form = Literal["text", "json"]
_LOOK_S: Final = 0.5

_UP_EXAMPLES = """\b
Examples:
  eval "$(karpenter sandbox up)"          # kubectl now talks to it
  karpenter sandbox up --default-pool     # with a NodePool, so that pods get nodes
\b
  # Ten times as fast, with two replicas of the controller, beside the first one.
  karpenter sandbox up --name fast --speed 10 --replicas 2
\b
  # What died is started again; what is in the cluster stays.
  karpenter sandbox up

Exit codes: 0 it is up, 1 it could not be brought up, 2 the command line makes no sense."""

_NAME = click.option(
    "--name", default="default", show_default=True, help="Which sandbox; several may run side by side."
)
FORM = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the output.",
)


@click.command("up", epilog=_UP_EXAMPLES)
@_NAME
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the API; without it a free one.")
@click.option("--ec2-port", type=click.IntRange(1, 65535), help="Port of the EC2 model; likewise.")
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 1000),
    default=1.0,
    show_default=True,
    help="How many times as fast machines boot and time-outs end.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 5),
    default=1,
    show_default=True,
    help="Replicas of the controller; one leads.",
)
@click.option("--region", default="us-west-2", show_default=True, help="The region to model.")
@click.option("--keep", is_flag=True, help="Keep what is in the cluster when it is taken down.")
@click.option("--default-pool", is_flag=True, help="Apply a NodePool and an EC2NodeClass 'default'.")
@click.option(
    "--foreground", is_flag=True, help="Stay; Ctrl-C, or whatever ends this command, ends all of it."
)
@click.option("--life", "life_s", type=SECONDS, help="Processes end by themselves after so long.")
@FORM
@click.pass_context
def up(
    ctx: click.Context,
    /,
    *,
    name: str,
    port: int | None,
    ec2_port: int | None,
    default_pool: bool,
    foreground: bool,
    form: Form,
    **wishes: Any,
) -> None:
    """Start a cluster with its AWS account, or mend it.

    Starts a Kubernetes API, its controllers and scheduler, a model of EC2, the kubelets of its machines and Karpenter,
    each a process on loopback. What runs already is left alone; what died is started again.
    """
    from karpenter.sandbox.stack.record import Options  # noqa: PLC0415 - the other commands start faster

    given = [each for each in wishes if _was_given(ctx, each)]
    ports = {key: value for key, value in (("kube", port), ("ec2", ec2_port)) if value is not None}
    told = threading.Event()
    stack = stack_of(name, told)

    def bring_up(*, owned: bool) -> Record:
        with output.patiently("starting; this takes some seconds ..."):
            record, started = stack.up(
                Options(**wishes), ports=ports, owned=owned, pool=default_pool, given=given
            )
        _tell_up(stack, record, started, form)
        return record

    if not foreground:
        bring_up(owned=False)
        return
    with until_told(told), stack.owning():
        try:
            bring_up(owned=True)
            output.say("Ctrl-C ends it")
            _watch(stack, told)
        finally:
            if stack.home.record.exists():
                stack.down()
    output.say("stopped")


@click.command("down")
@_NAME
@click.option(
    "--keep/--no-keep", default=None, help="Whether what is in the cluster stays. [default: as 'up' was told]"
)
@FORM
def down(name: str, keep: bool | None, form: Form) -> None:
    """End all processes of a sandbox; no port stays open."""
    stack = stack_of(name)
    ended = stack.down(keep=keep)
    if form == "json":
        output.write_data(_as_json({"name": name, "stopped": ended, "kept": stack.home.record.exists()}))
    kept = "; what was in it is kept for the next 'up'" if stack.home.record.exists() else ""
    output.say(f"the sandbox {name!r} is down ({len(ended)} processes ended){kept}")


@click.command("status")
@click.option("--name", default="", help="Which sandbox; without it all of them.")
@FORM
@click.pass_context
def status(ctx: click.Context, name: str, form: Form) -> None:
    """Show each process of a sandbox: whether it runs, since when, where, and its last error.

    Exit codes: 0 all of it runs, 1 something does not, or there is none.
    """
    from karpenter.sandbox.stack.home import default_root, homes  # noqa: PLC0415

    stacks = [stack_of(name)] if name else [stack_of(each.name) for each in homes(default_root(os.environ))]
    found = [each.status() for each in stacks]
    if form == "json":
        output.write_data(_as_json([as_data(stack, each) for stack, each in zip(stacks, found, strict=True)]))
    else:
        for stack, each in zip(stacks, found, strict=True):
            output.write_data(_table(stack, each))
    if not found:
        output.say("there is no sandbox; start one with 'karpenter sandbox up'")
    if not found or any(each.state != "up" for each in found):
        ctx.exit(REFUSED)


@click.command("reset")
@_NAME
@click.option("--yes", is_flag=True, help="Do not ask.")
@FORM
def reset(name: str, yes: bool, form: Form) -> None:
    """Begin anew with an empty cluster and an empty account, at the same addresses."""
    stack = stack_of(name)
    stack.status()
    if not yes:
        click.confirm(f"Remove everything in the sandbox {name!r}?", abort=True, err=True)
    with output.patiently("starting anew; this takes some seconds ..."):
        record = stack.reset()
    if form == "json":
        output.write_data(_as_json(as_data(stack, stack.status())))
    output.say(f"the sandbox {name!r} is empty; its API is at {record.server} as before")


def stack_of(name: str, told: threading.Event | None = None) -> Stack:
    """Gives the sandbox of that name, which may not be there; the event says that the user wants no more."""
    from karpenter.sandbox.stack.home import Home, default_root  # noqa: PLC0415
    from karpenter.sandbox.stack.lifecycle import Stack  # noqa: PLC0415

    return Stack(
        Home(default_root(os.environ), name),
        # Where somebody looks, they see what takes the time.
        tell=output.say if sys.stderr.isatty() else lambda _: None,
        stopped=told.is_set if told is not None else lambda: False,
    )


def named(name: str) -> str:
    """Gives the option that names a sandbox, empty for the one without."""
    return "" if name == "default" else f" --name {name}"


@contextmanager
def until_told(told: threading.Event | None = None) -> Iterator[threading.Event]:
    """Gives an event that SIGINT, SIGTERM and SIGHUP set for the length of a block, instead of ending us."""
    told = told or threading.Event()

    def hear(_number: int, _frame: FrameType | None) -> None:
        told.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, hear) for number in numbers}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def as_data(stack: Stack, found: Status) -> dict[str, Any]:
    """Gives a sandbox as JSON has it."""
    record = found.record
    return {
        "name": record.name,
        "state": found.state,
        "kubeconfig": str(stack.home.kubeconfig),
        "server": record.server,
        "ec2": record.ec2,
        "region": record.options.region,
        "speed": record.options.speed,
        "replicas": record.options.replicas,
        "keep": record.options.keep,
        "processes": [
            {
                "name": each.name,
                "running": each.running,
                "pid": each.pid,
                "since": each.since.isoformat(timespec="seconds"),
                "address": each.address,
                "error": each.error,
                "log": each.log,
            }
            for each in found.pieces
        ],
    }


def next_steps(stack: Stack, record: Record) -> list[str]:
    """Gives what to type next, a line each."""
    lines = [f"  export KUBECONFIG={shlex.quote(str(stack.home.kubeconfig))}"]
    if shutil.which("kubectl") is None:
        lines += [
            "  kubectl is not installed; the API answers others too:",
            f"  curl -H 'Authorization: Bearer {record.token}' {record.server}/api/v1/nodes",
        ]
    else:
        lines += [
            "  kubectl get nodepools,nodes",
            "  kubectl create deployment web --image=nginx --replicas=3",
        ]
    option = named(record.name)
    return [*lines, f"  karpenter sandbox status{option}", f"  karpenter sandbox down{option}"]


def _was_given(ctx: click.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name not in {"DEFAULT", "DEFAULT_MAP"}


def _tell_up(stack: Stack, record: Record, started: list[str], form: Form) -> None:
    if form == "json":
        output.write_data(_as_json(as_data(stack, stack.status())))
    else:
        output.write_data(f"export KUBECONFIG={shlex.quote(str(stack.home.kubeconfig))}\n")
    every = len(record.children)
    if not started:
        output.say(f"the sandbox {record.name!r} was up already, all {every} processes")
    elif len(started) < every:
        output.say(f"the sandbox {record.name!r} is mended: {', '.join(started)} started again")
    else:
        output.say(f"the sandbox {record.name!r} is up  (API {record.server}, EC2 model {record.ec2})")
    output.say("what to type next:")
    for line in next_steps(stack, record):
        output.say(line)


def _watch(stack: Stack, told: threading.Event) -> None:
    """Stays until told to end, and says which processes have ended."""
    dead: set[str] = set()
    while not told.wait(_LOOK_S):
        found = stack.status()
        for each in found.pieces:
            if not each.running and each.name not in dead:
                output.say(
                    f"{each.name} has ended: {each.error or 'there is no error in its log'}", output.WARNING
                )
                output.say(f"'karpenter sandbox up{named(found.record.name)}' starts it again", output.HINT)
        dead = {each.name for each in found.pieces if not each.running}


def _table(stack: Stack, found: Status) -> str:
    record = found.record
    head = f"{record.name}: {found.state}   KUBECONFIG={stack.home.kubeconfig}"
    if not found.pieces:
        return f"{head}   (kept; 'karpenter sandbox up{named(record.name)}' brings it back)\n"
    rows = [("PROCESS", "STATE", "PID", "SINCE", "ADDRESS", "LAST ERROR")]
    for each in found.pieces:
        state = "running" if each.running else "dead"
        error = each.error or ("-" if each.running else "none in its log; it may have been killed")
        rows.append((each.name, state, str(each.pid), _age(each.since), each.address or "-", _cut(error)))
    return f"{head}\n{columns(rows)}"


def _cut(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Gives rows as lines whose cells stand below each other."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _age(since: datetime, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> str:
    seconds = int((now() - since).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


def _as_json(document: Any) -> str:
    return json.dumps(document, indent=2) + "\n"
