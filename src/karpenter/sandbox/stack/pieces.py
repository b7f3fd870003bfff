# SPDX-License-Identifier: Apache-2.0
"""Which programs a sandbox consists of, how each is called, and by what one sees that it is ready.

===============  ============================================================================================
``kube``         the Kubernetes API
``ec2``          the EC2 model
``workloads``    the controllers of Kubernetes and its scheduler
``kubelets``     the kubelets of the model's machines
``system-node``  the kubelet of the system node, which runs Karpenter's pods as its own processes
===============  ============================================================================================

Karpenter itself is a Deployment of the cluster, see ``installation``. The first two come first: the others need their
addresses answered, and our definitions installed. A speed of 10 makes boots and time-outs ten times as short: the model
and its kubelets by their clock, Kubernetes and Karpenter by their settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.installation import IMAGE
from karpenter.sandbox.stack.record import Options, Record

__all__ = [
    "FIRST",
    "SYSTEM_NODE",
    "Piece",
    "aws_environ",
    "pieces",
]

FIRST: Final = ("kube", "ec2")
SYSTEM_NODE: Final = "system-node"
_NODE_GRACE_S: Final = 40.0
_JOB_TIME: Final = "5s"
_LEAST_GRACE_S: Final = 8.0
_VOLUME_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Piece:
    """One program.

    Attributes:
        name: What it is called here.
        about: What it is, in words.
        arguments: What follows ``karpenter`` on its command line.
        address: Where it answers; empty if it only calls.
        probe: An address that answers 200 once it is ready; empty if words tell.
        says: The words in its log once it is ready.
        authority: The certificate by which its address is known; None where it serves plain HTTP.
        environ: What it finds in its environment besides ours.
        module: The program; our own but in tests.
    """

    name: str
    about: str
    arguments: tuple[str, ...]
    address: str = ""
    probe: str = ""
    says: str = ""
    authority: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    module: str = "karpenter"


def aws_environ(record: Record) -> dict[str, str]:
    """Gives what points AWS's libraries and its CLI at the model."""
    return {
        "AWS_ENDPOINT_URL": record.ec2,
        "AWS_REGION": record.options.region,
        "AWS_ACCESS_KEY_ID": "sandbox",
        "AWS_SECRET_ACCESS_KEY": "sandbox",
    }


def pieces(home: Home, record: Record) -> list[Piece]:
    """Gives the programs in the order in which they are started."""
    options = record.options
    return [
        _kube(home, record),
        _ec2(home, record),
        _workloads(home, options),
        _kubelets(home, record),
        _system_node(home, record),
    ]


def _kube(home: Home, record: Record) -> Piece:
    return Piece(
        "kube",
        "the Kubernetes API",
        (
            *("sandbox", "kube", "--port", str(record.ports["kube"])),
            *("--kubeconfig-out", str(home.kubeconfig), "--state", str(home.data)),
            *("--kubernetes-version", record.options.kubernetes_version),
        ),
        address=record.server,
        probe=f"{record.server}/readyz",
        authority=home.authority,
        # Not on the command line, which everybody on the machine can read.
        environ={"KARPENTER_SANDBOX_TOKEN": record.token},
    )


def _ec2(home: Home, record: Record) -> Piece:
    options = record.options
    return Piece(
        "ec2",
        "the model of EC2",
        (
            *("sandbox", "ec2", "--port", str(record.ports["ec2"]), "--region", options.region),
            *("--speed", f"{options.speed:g}", "--cluster-version", options.kubernetes_version),
            *("--ip-family", options.ip_family),
            *("--cluster-name", options.cluster_name, "--journal", str(home.journal)),
            *(("--bare",) if options.bare else ()),
            *(word for each in options.instance_profiles for word in ("--instance-profile", each)),
        ),
        address=record.ec2,
        probe=f"{record.ec2}/_model/clock",
    )


def _workloads(home: Home, options: Options) -> Piece:
    grace, volume = _duration(_grace_s(options)), _duration(_VOLUME_S / options.speed)
    return Piece(
        "workloads",
        "the controllers of Kubernetes and its scheduler",
        (
            *("sandbox", "workloads", "--kubeconfig", str(home.kubeconfig)),
            *("--node-grace", grace, "--gone-node-grace", grace),
            *("--provision-delay", volume, "--attach-delay", volume),
        ),
        says="are at work at",
    )


def _kubelets(home: Home, record: Record) -> Piece:
    return Piece(
        "kubelets",
        "the kubelets of the model's machines",
        (
            *("sandbox", "kubelets", "--kubeconfig", str(home.kubeconfig), "--ec2", record.ec2),
            *("--job-time", _JOB_TIME),
            *("--lease-period", _duration(_grace_s(record.options) / 4)),
        ),
        says="the kubelets of",
    )


def _system_node(home: Home, record: Record) -> Piece:
    options = record.options
    return Piece(
        SYSTEM_NODE,
        "the system node with Karpenter",
        (
            *("sandbox", "system-node", "--kubeconfig", str(home.kubeconfig), "--state", str(home.directory)),
            *("--region", options.region, "--cluster-name", options.cluster_name),
            *("--kubernetes-version", options.kubernetes_version),
            *("--program", f"{IMAGE}={options.controller_program or 'karpenter'}"),
            *("--lease-period", _duration(_grace_s(options) / 4)),
        ),
        says="the system node of",
        environ={
            "KUBECONFIG": str(home.kubeconfig),
            **aws_environ(record),
            "AWS_EC2_METADATA_DISABLED": "true",
        },
    )


def _grace_s(options: Options) -> float:
    # A node renews its lease four times in this; shorter, a busy machine would lose healthy nodes.
    return max(_NODE_GRACE_S / options.speed, _LEAST_GRACE_S)


def _duration(seconds: float) -> str:
    return f"{max(round(seconds * 1000), 1)}ms"
