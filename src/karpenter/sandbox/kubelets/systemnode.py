# SPDX-License-Identifier: Apache-2.0
"""The system node: a machine of the cluster's own node group, on which the controller's pods are processes.

A cluster on EKS begins with such a group, tainted so that only what tolerates ``CriticalAddonsOnly`` runs there. The
machine is not in the EC2 model: no list of instances shows it and nothing can end it. Its Node comes back when it is
deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from karpenter.facts import zones
from karpenter.kit.clock import Clock, SystemClock
from karpenter.sandbox.apiclient import Connection
from karpenter.sandbox.kubelets.containers import ProcessKeeper
from karpenter.sandbox.kubelets.endpoint import Endpoint
from karpenter.sandbox.kubelets.fleet import Fleet
from karpenter.sandbox.kubelets.machines import Machine, Overview, Row
from karpenter.sandbox.kubelets.processes import Processes
from karpenter.sandbox.kubelets.settings import Settings

__all__ = ["NODE_GROUP", "NODE_GROUP_LABEL", "SystemNode", "system_machine"]

NODE_GROUP_LABEL: Final = "eks.amazonaws.com/nodegroup"
NODE_GROUP: Final = "system"
_TYPE: Final = "m5.large"
_ID: Final = "i-0000000000000system"
# At the end of the first subnet, where the EC2 model's machines do not come.
_ADDRESS: Final = "10.0.63.250"
# Far from those of the pods on the EC2 model's machines.
_FIRST_POD_ADDRESS: Final = "100.127.0.2"
_USER_DATA: Final = """apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {{name: "{cluster}", apiServerEndpoint: local, certificateAuthority: local, cidr: 10.100.0.0/16}}
  kubelet:
    flags:
      - --node-labels={label}={group},eks.amazonaws.com/capacityType=ON_DEMAND
      - --register-with-taints=CriticalAddonsOnly=true:NoSchedule
"""


def system_machine(region: str, cluster: str, version: str) -> Machine:
    """Return the machine of the system node, which has been running for a while."""
    zone, zone_id = min(zones(region).items())
    domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    data = _USER_DATA.format(cluster=cluster, label=NODE_GROUP_LABEL, group=NODE_GROUP)
    return Machine(
        id=_ID,
        state="running",
        instance_type=_TYPE,
        architecture="x86_64",
        region=region,
        zone=zone,
        zone_id=zone_id,
        image_name=f"amazon-eks-node-al2023-x86_64-standard-{version}-v20260101",
        address=_ADDRESS,
        host_name=f"ip-{_ADDRESS.replace('.', '-')}.{domain}",
        user_data=data.encode(),
        running_since=datetime.fromtimestamp(0, UTC),
        disks={"/dev/xvda": 20},
        root_device="/dev/xvda",
    )


class _One:
    """One machine, which runs for ever."""

    def __init__(self, machine: Machine, cluster: str) -> None:
        self._machine = machine
        self._cluster = cluster

    async def overview(self) -> Overview:
        row = Row(self._machine.id, "running")
        return Overview(datetime.now(UTC), 1.0, (self._cluster,), (row,))

    async def machine(self, machine_id: str) -> Machine | None:
        return self._machine if machine_id == self._machine.id else None


class SystemNode:
    """Plays the kubelet of the system node.

    Args:
        connection: The API server.
        machine: The machine.
        cluster: The name of the cluster.
        settings: The dials.
        processes: Starts the processes of its pods.
        tell: Hears what is worth telling, a line each.
    """

    def __init__(
        self,
        connection: Connection,
        machine: Machine,
        cluster: str,
        settings: Settings,
        *,
        processes: Processes,
        tell: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        self._connection = connection
        self._machines = _One(machine, cluster)
        self._settings = settings
        self._processes = processes
        self._tell = tell
        self._clock = clock or SystemClock()

    async def run(self) -> None:
        """Play it until cancelled; then all processes end."""
        self._processes.open()
        endpoint = Endpoint(self._processes, self._connection.token)
        try:
            port = await endpoint.start()
            fleet = Fleet(
                self._connection,
                self._machines,
                replace(
                    self._settings, kubelet_port=port, first_pod_address=_FIRST_POD_ADDRESS, rejoins=True
                ),
                tell=self._tell,
                clock=self._clock,
                keeper=partial(ProcessKeeper, processes=self._processes),
            )
            await fleet.run()
        finally:
            await endpoint.stop()
            self._processes.close()
