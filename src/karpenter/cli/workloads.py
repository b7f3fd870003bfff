# SPDX-License-Identifier: Apache-2.0
"""``karpenter sandbox workloads``: plays kube-controller-manager and kube-scheduler at any API server.

Runs until it is interrupted. Ending it stops the cluster's wheels, nothing else; starting it again takes them up.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from karpenter.cli import output
from karpenter.cli.kubelets import seconds
from karpenter.cli.main import InputError
from karpenter.cli.running import told_to_stop, work_until

if TYPE_CHECKING:
    from karpenter.sandbox.workloads import Manager

__all__ = ["workloads"]

_EXAMPLES = """\b
Examples:
  karpenter sandbox workloads --kubeconfig .sandbox/kubeconfig &
  karpenter sandbox workloads --kubeconfig .sandbox/kubeconfig --no-controllers   # the scheduler alone
"""


@click.command("workloads", epilog=_EXAMPLES)
@click.option(
    "--kubeconfig",
    required=True,
    envvar="KUBECONFIG",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The cluster to work at; its current context counts.",
)
@click.option(
    "--controllers/--no-controllers", default=True, show_default=True, help="Deployments and all the others."
)
@click.option("--scheduler/--no-scheduler", default=True, show_default=True, help="Give pods their nodes.")
@click.option(
    "--provisioner/--no-provisioner", default=True, show_default=True, help="Make volumes for claims."
)
@click.option("--keda/--no-keda", default=True, show_default=True, help="Serve ScaledObjects' cron triggers.")
@seconds("--node-grace", "node_grace_s", "40s", "Until a silent node counts as unreachable.")
@seconds("--gone-node-grace", "gone_node_s", "40s", "Until pods of a deleted node are removed.")
@seconds("--event-ttl", "event_ttl_s", "1h", "How long events stay.")
@seconds("--provision-delay", "provision_s", "500ms", "To make a volume.")
@seconds("--attach-delay", "attach_s", "500ms", "To attach a volume.")
def workloads(kubeconfig: Path, **dials: Any) -> None:
    """Play kube-controller-manager and kube-scheduler.

    Deployments roll, DaemonSets reach every node, Jobs end, silent nodes are tainted, pods get their nodes or hear why
    they do not.
    """
    # Loaded here and not above: the other commands start faster without.
    from karpenter.sandbox.kubelets import KubeconfigError, read_kubeconfig  # noqa: PLC0415
    from karpenter.sandbox.workloads import Manager, Settings  # noqa: PLC0415

    try:
        connection = read_kubeconfig(kubeconfig)
    except KubeconfigError as refused:
        raise InputError(refused.message, hint=refused.hint) from refused
    asyncio.run(_work(Manager(connection, Settings(**dials), tell=output.say)))


async def _work(manager: Manager) -> None:
    failure = await work_until(manager.run(), told_to_stop())
    if failure is not None:
        raise failure
    output.say("stopped")
