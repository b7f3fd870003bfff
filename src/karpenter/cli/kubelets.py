# SPDX-License-Identifier: Apache-2.0
"""``karpenter sandbox kubelets``: plays the kubelets of all machines of an EC2 model, at any API server.

Runs until it is interrupted. Ending it is as if all machines hung: their Nodes turn NotReady in the control plane's
own time; starting it again takes them up where they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from karpenter.cli import output
from karpenter.cli.main import InputError
from karpenter.cli.running import run_until_stopped
from karpenter.kit.durations import DurationError, parse_duration

__all__ = ["SECONDS", "kubelets", "seconds"]


class _Seconds(click.ParamType[float]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return max(parse_duration(value).seconds, 0.0)
        except DurationError as wrong:
            self.fail(f"{wrong.message}; {wrong.hint}", param, ctx)


SECONDS = _Seconds()


def seconds(
    flag: str, name: str, default: str, words: str
) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """Give the option for a length of time, which has a default and shows it."""
    return click.option(flag, name, type=SECONDS, default=default, show_default=True, help=words)


_EXAMPLES = """\b
Examples:
  karpenter sandbox ec2 --port 4566 &
  karpenter sandbox kubelets --kubeconfig ~/.kube/config --ec2 http://127.0.0.1:4566 &
  kubectl annotate node NAME sandbox.karpenter.sh/kubelet=not-ready@30s
"""


@click.command("kubelets", epilog=_EXAMPLES)
@click.option(
    "--kubeconfig",
    required=True,
    envvar="KUBECONFIG",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The cluster to join; its current context counts.",
)
@click.option("--ec2", required=True, envvar="AWS_ENDPOINT_URL", help="Address of the EC2 model.")
@seconds("--join-delay", "join_s", "2s", "Until the Node is there.")
@seconds("--ready-delay", "ready_s", "500ms", "From there to Ready.")
@seconds("--device-delay", "devices_s", "1s", "From Ready to nvidia.com/gpu and the like.")
@seconds("--image-pull", "image_pull_s", "0s", "Before a pod's containers.")
@seconds("--pod-start", "pod_start_s", "200ms", "Until containers run.")
@seconds("--pod-stop", "pod_stop_s", "100ms", "Until they have ended.")
@click.option(
    "--job-time",
    "job_s",
    type=SECONDS,
    default=None,
    help="How long the containers of Jobs run. [default: for ever, but for annotations]",
)
@seconds("--lease-period", "lease_s", "10s", "How often a node says that it lives, in real time.")
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    help="Model seconds per second for all of the above. [default: the model's]",
)
@click.option(
    "--memory-loss",
    type=click.FloatRange(0, 0.5),
    default=0.06,
    show_default=True,
    help="Share of a type's memory that its nodes do not have.",
)
@click.option("--cluster", default="", help="Name that user data must give. [default: the model's clusters]")
@click.option("--kubelet-version", default="", help="Such as v1.33.1. [default: by the image]")
@click.option(
    "--devices/--no-devices", default=True, show_default=True, help="Extended resources of the types."
)
@click.option("--csi/--no-csi", default=True, show_default=True, help="CSINodes with the EBS driver's limit.")
@click.option(
    "--cloud-node-lifecycle/--no-cloud-node-lifecycle",
    default=True,
    show_default=True,
    help="Delete Nodes of terminated machines, as AWS's cloud controller does.",
)
@seconds("--cloud-delete-delay", "cloud_delete_s", "15s", "After so long.")
@click.option(
    "--behaviour",
    "rules",
    type=click.Path(dir_okay=False, path_type=Path),
    help="YAML file of what goes wrong with which machines; read again when it changes.",
)
def kubelets(kubeconfig: Path, ec2: str, rules: Path | None, **dials: Any) -> None:
    """Play the kubelets of all machines of an EC2 model.

    Each running machine reads its user data and joins the cluster as a Node; pods that are bound to it run, complete
    and end. Containers are not run: there are no logs, and nothing to exec into.
    """
    # Loaded here and not above: the other commands start faster without.
    from karpenter.sandbox.kubelets import Fleet, KubeconfigError, Settings, read_kubeconfig  # noqa: PLC0415

    try:
        connection = read_kubeconfig(kubeconfig)
    except KubeconfigError as refused:
        raise InputError(refused.message, hint=refused.hint) from refused
    fleet = Fleet(connection, ec2, Settings(**dials), tell=output.say, rules=rules)
    # The address may carry the token, which is nobody's to read in a log.
    server = connection.url.rpartition("@")[2].rpartition("//")[2]
    asyncio.run(run_until_stopped(fleet.run(), f"the kubelets of {ec2} at {server}; Ctrl-C ends them"))
