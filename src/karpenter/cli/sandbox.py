# SPDX-License-Identifier: Apache-2.0
"""``karpenter sandbox``: stand-ins for what a node autoscaler needs around it, all together or one by one.

``up``, ``down``, ``status`` and ``reset`` are about all of them, see ``cli.stack``; ``scenario`` plays faults against
them, see ``cli.scenarios``. The others are one program each.

``karpenter sandbox ec2`` serves the EC2 model on loopback until it is interrupted. The first line on stdout is the
setting that points the AWS SDKs and the aws CLI at it; what to type next is said on stderr. ``karpenter sandbox
kubelets`` makes Nodes of its machines, see ``cli.kubelets``; ``karpenter sandbox system-node`` is a node whose pods are
processes, see ``cli.systemnode``; ``karpenter sandbox workloads`` plays the controllers and the scheduler, see
``cli.workloads``; ``karpenter sandbox kube`` serves the API that they and kubectl talk to, see ``cli.kubeapi``.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from karpenter.cli import output
from karpenter.cli.groups import CommandGroup
from karpenter.cli.kubeapi import kube
from karpenter.cli.kubelets import kubelets
from karpenter.cli.main import InputError
from karpenter.cli.options import IP_FAMILY
from karpenter.cli.running import told_to_stop
from karpenter.cli.scenarios import scenario
from karpenter.cli.stack import down, reset, status, up
from karpenter.cli.systemnode import system_node
from karpenter.cli.versions import kubernetes_version
from karpenter.cli.workloads import workloads

if TYPE_CHECKING:
    from karpenter.sandbox.ec2.server import Server
    from karpenter.sandbox.ec2.world import World

__all__ = ["command"]

_EC2_EXAMPLES = """\b
Examples:
  karpenter sandbox ec2 --port 4566 &
  export AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_REGION=us-west-2
  aws ec2 describe-subnets --filters Name=tag:karpenter.sh/discovery,Values=sandbox"""


@click.group("sandbox", cls=CommandGroup)
def command() -> None:
    """A cluster with its AWS account, on this machine.

    'up' starts all of it, and is all that most people need; 'kube', 'ec2', 'workloads', 'kubelets' and 'system-node'
    are its parts.
    """


for _each in (up, down, status, reset, scenario, kube, kubelets, system_node, workloads):
    command.add_command(_each)


@command.command("ec2", epilog=_EC2_EXAMPLES)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1; without it a free one."
)
@click.option(
    "--scenario",
    "scenario_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="YAML file that says what happens and when (docs/tasks/ec2-model.md).",
)
@click.option("--region", default="us-west-2", show_default=True, help="The region to model.")
@click.option(
    "--speed", type=float, default=None, help="Model seconds per second; 0 stands still. [default: 1]"
)
@click.option(
    "--start",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"]),
    help="Model time at the start, UTC; without it now.",
)
@kubernetes_version("--cluster-version", "1.33", "Kubernetes version of the cluster.")
@IP_FAMILY
@click.option(
    "--bare", is_flag=True, help="A cluster without an installation: no roles, queue, tags or access."
)
@click.option(
    "--instance-profile",
    "instance_profiles",
    multiple=True,
    help="Instance profile to begin with, with the node role in it; may be given several times.",
)
@click.option("--cluster-name", default="sandbox", show_default=True, help="Name of the modelled cluster.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all chance in the model.")
@click.option(
    "--journal",
    "journal_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write every change to, and to go on from when it is there.",
)
@click.option("--throttling/--no-throttling", default=True, show_default=True, help="EC2's request buckets.")
def ec2(  # noqa: PLR0913, PLR0917 - one argument an option
    port: int,
    scenario_file: Path | None,
    region: str,
    speed: float | None,
    start: datetime | None,
    cluster_version: str,
    ip_family: str,
    bare: bool,
    instance_profiles: tuple[str, ...],
    cluster_name: str,
    seed: int,
    journal_file: Path | None,
    throttling: bool,
) -> None:
    """Serve a model of EC2, and of what goes with it, to the AWS SDKs.

    Any credentials are accepted. There is a VPC with subnets in three zones and a security group, both tagged
    karpenter.sh/discovery=sandbox, an EKS cluster, a node role and a queue named after it, machine images, prices.
    """
    # Loaded here and not above: nothing else of the product touches the sandbox, and the other commands start faster.
    from karpenter.sandbox.ec2.behaviour import scenario as scenarios  # noqa: PLC0415
    from karpenter.sandbox.ec2.behaviour.throttling import Limits  # noqa: PLC0415
    from karpenter.sandbox.ec2.clock import ModelClock  # noqa: PLC0415
    from karpenter.sandbox.ec2.journal import Hands, Journal  # noqa: PLC0415
    from karpenter.sandbox.ec2.seeds import seeded  # noqa: PLC0415
    from karpenter.sandbox.ec2.server import Server  # noqa: PLC0415
    from karpenter.sandbox.ec2.world import Options  # noqa: PLC0415

    if bare and instance_profiles:
        raise click.UsageError("--instance-profile needs the node role, which --bare leaves out")
    try:
        told = scenarios.load(scenario_file) if scenario_file else scenarios.Scenario("", ())
    except scenarios.ScenarioError as refused:
        raise InputError(refused.message, hint=refused.hint) from refused
    options = Options(
        region=region,
        cluster=cluster_name,
        cluster_version=cluster_version,
        ip_family=ip_family,
        bare=bare,
        instance_profiles=tuple(dict.fromkeys(instance_profiles)),
        seed=seed,
        limits=Limits(enabled=throttling),
    )
    pace = next((each for each in (speed, told.speed) if each is not None), 1.0)
    beginning = start.replace(tzinfo=UTC) if start else told.start

    hands = Hands()

    def made(clock: ModelClock) -> World:
        world = seeded(clock, options)
        scenarios.plan(world, told)
        return world

    journal = Journal(journal_file, hands) if journal_file else None
    world = journal.resume(options, made) if journal else None
    if world is None:
        world = made(ModelClock(beginning, speed=pace, real=hands))
        if journal:
            journal.begin(world)
    elif speed is not None:
        world.clock.set_speed(speed)

    def fresh(old: World) -> World:
        return made(old.clock.restarted())

    asyncio.run(_serve(Server(world, port=port, fresh=fresh, journal=journal)))


async def _serve(server: Server) -> None:
    stop = told_to_stop()
    await server.start()
    try:
        output.write_data(f"AWS_ENDPOINT_URL={server.url}\n")
        _tell(server)
        await stop.wait()
    finally:
        await server.stop()
    output.say("stopped")


def _tell(server: Server) -> None:
    region = server.world.region
    output.say(
        f"the EC2 model serves {region} with the cluster {server.world.options.cluster!r}; Ctrl-C ends it"
    )
    output.say("in another terminal:")
    output.say(
        f"  export AWS_ENDPOINT_URL={server.url} AWS_REGION={region} AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x"
    )
    cluster = server.world.options.cluster
    output.say(f"  aws ec2 describe-subnets --filters Name=tag:karpenter.sh/discovery,Values={cluster}")
    output.say(f"  curl {server.url}/_model     # what can be changed while it runs")
