# SPDX-License-Identifier: Apache-2.0
"""``karpenter sandbox system-node``: plays a node of the cluster's own, whose pods are processes of this machine.

Runs until it is interrupted; the processes of its pods end with it, however it ends.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from karpenter.cli import output
from karpenter.cli.kubelets import seconds
from karpenter.cli.main import InputError
from karpenter.cli.running import run_until_stopped
from karpenter.cli.versions import kubernetes_version

__all__ = ["system_node"]

_EXAMPLES = """\b
Examples:
  # Pods of the image 'karpenter', whatever its tag, are processes of our controller.
  karpenter sandbox system-node --kubeconfig .sandbox/kubeconfig --program karpenter=karpenter &
\b
  # The same pods are another program.
  karpenter sandbox system-node --kubeconfig .sandbox/kubeconfig --program karpenter=/usr/local/bin/controller &
"""


def _table(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for each in values:
        image, separator, program = each.partition("=")
        if not (image and separator and program):
            raise click.BadParameter(f"{each!r} is not of the form IMAGE=PROGRAM")
        found[image] = program
    return found


@click.command("system-node", epilog=_EXAMPLES)
@click.option(
    "--kubeconfig",
    required=True,
    envvar="KUBECONFIG",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The cluster to join; its current context counts.",
)
@click.option(
    "--program",
    "programs",
    multiple=True,
    callback=_table,
    metavar="IMAGE=PROGRAM",
    help="File or Python module that containers of an image run; several times.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".sandbox"),
    show_default=True,
    help="Directory for the logs of its pods.",
)
@click.option("--region", default="us-west-2", show_default=True, help="Where the node stands.")
@click.option("--cluster-name", default="sandbox", show_default=True, help="Name of the cluster.")
@kubernetes_version("--kubernetes-version", "1.34", "Version of its kubelet.")
@seconds("--lease-period", "lease_s", "10s", "How often the node says that it lives.")
def system_node(
    kubeconfig: Path,
    programs: dict[str, str],
    state: Path,
    region: str,
    cluster_name: str,
    kubernetes_version: str,
    lease_s: float,
) -> None:
    """Play a node of the cluster's own node group, whose pods are processes of this machine.

    The node has the taint CriticalAddonsOnly. Containers whose image has a program are run and restarted, with logs and
    ports; all others take time and do nothing else.
    """
    # Loaded here and not above: the other commands start faster without.
    from karpenter.sandbox.kubelets import KubeconfigError, Settings, read_kubeconfig  # noqa: PLC0415
    from karpenter.sandbox.kubelets.processes import Processes  # noqa: PLC0415
    from karpenter.sandbox.kubelets.systemnode import SystemNode, system_machine  # noqa: PLC0415

    try:
        connection = read_kubeconfig(kubeconfig)
    except KubeconfigError as refused:
        raise InputError(refused.message, hint=refused.hint) from refused
    node = SystemNode(
        connection,
        system_machine(region, cluster_name, kubernetes_version),
        cluster_name,
        Settings(join_s=0.0, ready_s=0.0, pod_start_s=0.0, speed=1.0, lease_s=lease_s),
        processes=Processes(state.absolute(), programs),
        tell=output.say,
    )
    asyncio.run(run_until_stopped(node.run(), f"the system node of {cluster_name}; Ctrl-C ends it"))
