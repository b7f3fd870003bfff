# SPDX-License-Identifier: Apache-2.0
"""``karpenter sandbox up``, ``down``, ``status`` and ``reset``: a whole cluster with its account, on this machine.

What a shell can take (``export KUBECONFIG=...``) and JSON go to stdout, everything else to stderr. ``up`` returns when
all is ready and the processes go on; with ``--foreground`` it stays, and they end with it, however it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from karpenter import facts
from karpenter.cli import output
from karpenter.cli.kubelets import SECONDS
from karpenter.cli.main import REFUSED
from karpenter.cli.options import IP_FAMILY, OUTPUT_FORMAT, OutputFormat
from karpenter.cli.program import program
from karpenter.cli.versions import kubernetes_version

if TYPE_CHECKING:
    from karpenter.sandbox.stack.lifecycle import Stack, Started, Status
    from karpenter.sandbox.stack.record import Record

__all__ = [
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

_LOOK_S: Final = 0.5
_CLUSTER_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

_UP_EXAMPLES = """\b
Examples:
  eval "$(karpenter sandbox up)"          # kubectl now talks to it
  karpenter sandbox up --default-pool     # with a NodePool, so that pods get nodes
\b
  # Ten times as fast, with two replicas of the controller, beside the first one.
  karpenter sandbox up --name fast --speed 10 --replicas 2
\b
  # As a cluster of yours: its name, its version, and settings of the controller.
  karpenter sandbox up --cluster-name prod --kubernetes-version 1.32 --region ap-northeast-2 --set log-level=debug
\b
  # What died is started again; what is in the cluster stays.
  karpenter sandbox up

Exit codes: 0 it is up, 1 it could not be brought up, 2 the command line makes no sense."""

_NAME = click.option(
    "--name", default="default", show_default=True, help="Which sandbox; several may run side by side."
)


def _checked_name(_context: click.Context, _option: click.Parameter, value: str) -> str:
    if not _CLUSTER_NAME.fullmatch(value):
        raise click.BadParameter(
            f"{value!r} is not a name that EKS takes: letters, digits, - and _, at most 100"
        )
    return value


def _checked_namespace(_context: click.Context, _option: click.Parameter, value: str) -> str:
    if not _NAMESPACE.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not the name of a namespace: a-z, 0-9 and -, at most 63")
    return value


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
@click.option(
    "--cluster-name",
    default="sandbox",
    show_default=True,
    callback=_checked_name,
    help="Name of the cluster in EKS; roles, queue and discovery tags are named after it.",
)
@kubernetes_version(
    "--kubernetes-version",
    "1.34",
    "Version of the API, of the cluster in EKS and of images; AL2 needs 1.32 or older.",
)
@IP_FAMILY
@click.option(
    "--bare", is_flag=True, help="An account without an installation: no roles, queue, tags or access."
)
@click.option(
    "--default-instance-profile",
    default="",
    metavar="NAME",
    help="Instance profile of AWSNodeTemplates that name none; it is made, unless with --bare.",
)
@click.option(
    "--feature-gates", default="", metavar="GATES", help="Of the controller, such as NodeRepair=true."
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting of the controller, such as log-level=debug; may be given several times.",
)
@click.option(
    "--controller-namespace",
    default="karpenter",
    show_default=True,
    callback=_checked_namespace,
    help="Where the controller's Deployment and lease are.",
)
@click.option(
    "--controller-program",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    default=None,
    metavar="FILE",
    help="Program to run in place of our controller.",
)
@click.option(
    "--eks-addons", is_flag=True, help="DaemonSets and CoreDNS of EKS, which take their room on nodes."
)
@click.option("--keep", is_flag=True, help="Keep what is in it when it is taken down.")
@click.option("--default-pool", is_flag=True, help="Apply a NodePool and an EC2NodeClass 'default'.")
@click.option(
    "--foreground", is_flag=True, help="Stay; Ctrl-C, or whatever ends this command, ends all of it."
)
@click.option("--life", "life_s", type=SECONDS, help="Processes end by themselves after so long.")
@OUTPUT_FORMAT
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
    form: OutputFormat,
    **wishes: Any,
) -> None:
    """Start a cluster with its AWS account, or mend it.

    Starts a Kubernetes API, its controllers and scheduler, a model of EC2, the kubelets of its machines and Karpenter,
    each a process on loopback. What runs already is left alone; what died is started again, with what was in it.
    """
    # Here and not above: the other commands start faster.
    from karpenter.cli.controllerflags import controller_settings  # noqa: PLC0415
    from karpenter.sandbox.stack.record import Options  # noqa: PLC0415

    wishes["controller_program"] = wishes["controller_program"] or ""
    wishes["settings"] = controller_settings(
        wishes.pop("pairs"),
        feature_gates=wishes.pop("feature_gates"),
        default_instance_profile=wishes.pop("default_instance_profile"),
    )
    given = [each for each in wishes if _was_given(ctx, each) or (each == "settings" and wishes[each])]
    ports = {key: value for key, value in (("kube", port), ("ec2", ec2_port)) if value is not None}
    told = threading.Event()
    stack = stack_of(name, told)

    def bring_up(*, owned: bool) -> Record:
        with output.patiently("starting; this takes some seconds ..."):
            started = stack.up(Options(**wishes), ports=ports, owned=owned, pool=default_pool, given=given)
        _tell_up(stack, started, form)
        return started.record

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
@OUTPUT_FORMAT
def down(name: str, keep: bool | None, form: OutputFormat) -> None:
    """End all processes of a sandbox; no port stays open."""
    stack = stack_of(name)
    ended = stack.down(keep=keep)
    if form == "json":
        output.write_data(_as_json({"name": name, "stopped": ended, "kept": stack.home.record.exists()}))
    kept = "; what was in it is kept for the next 'up'" if stack.home.record.exists() else ""
    output.say(f"the sandbox {name!r} is down ({len(ended)} processes ended){kept}")


@click.command("status")
@click.option("--name", default="", help="Which sandbox; without it all of them.")
@OUTPUT_FORMAT
@click.pass_context
def status(ctx: click.Context, name: str, form: OutputFormat) -> None:
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
        output.say(f"there is no sandbox; start one with '{program()} sandbox up'")
    if not found or any(each.state != "up" for each in found):
        ctx.exit(REFUSED)


@click.command("reset")
@_NAME
@click.option("--yes", is_flag=True, help="Do not ask.")
@OUTPUT_FORMAT
def reset(name: str, yes: bool, form: OutputFormat) -> None:
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


@contextlib.contextmanager
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
        "prices": facts.price_region(record.options.region),
        "clusterName": record.options.cluster_name,
        "kubernetesVersion": record.options.kubernetes_version,
        "settings": record.options.settings,
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
    """Return what to type next, a line each."""
    from karpenter.sandbox.stack.pieces import aws_environ  # noqa: PLC0415

    lines = [f"  export KUBECONFIG={shlex.quote(str(stack.home.kubeconfig))}"]
    if shutil.which("kubectl") is None:
        trust = f"--cacert {shlex.quote(str(stack.home.authority))}"
        lines += [
            "  kubectl is not installed; the API answers others too:",
            f"  curl {trust} -H 'Authorization: Bearer {record.token}' {record.server}/api/v1/nodes",
        ]
    else:
        lines += [
            "  kubectl get nodepools,nodes",
            "  kubectl create deployment web --image=nginx --replicas=3",
        ]
    if record.options.bare:
        lines += [
            f"  export {' '.join(f'{name}={value}' for name, value in aws_environ(record).items())}",
            f"  {program()} install aws --cluster-name {record.options.cluster_name}",
        ]
    option = named(record.name)
    return [*lines, f"  {program()} sandbox status{option}", f"  {program()} sandbox down{option}"]


def _was_given(ctx: click.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name not in {"DEFAULT", "DEFAULT_MAP"}


def _tell_up(stack: Stack, started: Started, form: OutputFormat) -> None:
    record = started.record
    if form == "json":
        output.write_data(_as_json(as_data(stack, stack.status())))
    else:
        output.write_data(f"export KUBECONFIG={shlex.quote(str(stack.home.kubeconfig))}\n")
    every = len(record.children)
    where = f"(API {record.server}, EC2 model {record.ec2})"
    if not started.names:
        output.say(f"the sandbox {record.name!r} was up already, all {every} processes")
    elif len(started.names) < every:
        output.say(f"the sandbox {record.name!r} is mended: {', '.join(started.names)} started again")
    elif started.restored:
        output.say(
            f"the sandbox {record.name!r} is up again, with what was in it: {_contents(stack)}  {where}"
        )
    else:
        output.say(f"the sandbox {record.name!r} is up  {where}")
    for what in started.lost:
        output.say(f"{what} is lost: there is no trace of it in {stack.home.directory}", output.WARNING)
    if notice := _price_notice(record.options.region):
        output.say(notice)
    output.say("what to type next:")
    for line in next_steps(stack, record):
        output.say(line)


def _contents(stack: Stack) -> str:
    """Return how much of Karpenter's there is in the cluster and in the account, in a few words."""
    from karpenter.sandbox.stack.errors import CallError  # noqa: PLC0415
    from karpenter.sandbox.stack.replicas import is_system_node  # noqa: PLC0415

    try:
        with contextlib.closing(stack.kube()) as api, contextlib.closing(stack.model()) as model:
            nodes = api.items("/api/v1/nodes")
            own = {each["metadata"]["name"] for each in nodes if is_system_node(each)}
            pods = api.items("/api/v1/pods")
            counts = {
                "nodes": len(nodes) - len(own),
                "pods": sum(each["spec"].get("nodeName") not in own for each in pods),
                "instances": sum(
                    each.get("state") not in {"terminated", "shutting-down"}
                    for each in model.state()["ec2"]["instances"]
                ),
            }
    except CallError as refused:
        return refused.message
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _price_notice(region: str) -> str:
    used = facts.price_region(region)
    return (
        ""
        if used == region
        else f"prices are the list prices of {used}: those of {region} are not known here"
    )


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
                hint = f"'{program()} sandbox up{named(found.record.name)}' starts it again"
                output.say("its node starts it again" if each.is_pod else hint, output.HINT)
        dead = {each.name for each in found.pieces if not each.running}


def _table(stack: Stack, found: Status) -> str:
    record = found.record
    notice = _price_notice(record.options.region)
    head = f"{record.name}: {found.state}   KUBECONFIG={stack.home.kubeconfig}{notice and f'   ({notice})'}"
    if not found.pieces:
        return f"{head}   (kept; '{program()} sandbox up{named(record.name)}' brings it back)\n"
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
