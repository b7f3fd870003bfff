# SPDX-License-Identifier: Apache-2.0
"""The replicas of the controller: processes of pods on the system node, as that node has written them down.

They are called ``controller``, ``controller-2`` and so on in the order in which they were started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karpenter.sandbox.kubelets.processes import ProcessRecord, records
from karpenter.sandbox.kubelets.systemnode import NODE_GROUP, NODE_GROUP_LABEL
from karpenter.sandbox.stack import children
from karpenter.sandbox.stack.calls import KubeApi, answers
from karpenter.sandbox.stack.errors import CallError
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.installation import CONTAINER, HEALTH_PORT, METRICS_PORT, NAME

__all__ = ["Replica", "are_ready", "is_system_node", "metrics_addresses", "replicas"]


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of the controller; ``lock`` is the name of the file that it locks while it lives."""

    name: str
    record: ProcessRecord
    running: bool
    lock: str

    def address(self, port: int) -> str:
        """Return the address that stands for a port of its container."""
        return f"http://127.0.0.1:{self.record.ports[port]}" if port in self.record.ports else ""

    @property
    def log(self) -> str:
        """Return the file with what it writes, which is another one each time that it is started."""
        return self.record.log

    @property
    def ended_log(self) -> Path:
        """Return the log of the last run that has ended."""
        log = Path(self.log)
        return log.with_name(f"{int(log.stem) - 1}.log") if self.running else log


def replicas(home: Home) -> list[Replica]:
    """Return the replicas of the controller, in the order in which they were started."""
    found = [(path, each) for path, each in records(home.pods) if each is not None]
    found = [
        (path, each) for path, each in found if each.container == CONTAINER and each.pod.startswith(NAME)
    ]
    found.sort(key=lambda each: each[1].started)
    made = []
    for number, (path, record) in enumerate(found, start=1):
        lock = f"{home.pods.name}/{path.name}"
        name = CONTAINER if number == 1 else f"{CONTAINER}-{number}"
        made.append(Replica(name, record, children.is_alive(home, lock), lock))
    return made


def metrics_addresses(home: Home) -> list[str]:
    """Return where the replicas of the controller show what they count."""
    return [f"{each.address(METRICS_PORT)}/metrics" for each in replicas(home)]


def are_ready(api: KubeApi, home: Home, namespace: str) -> bool:
    """Return whether as many replicas are ready as the Deployment in that namespace wants."""
    try:
        found = api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}")
    except CallError as refused:
        if refused.status == 404:
            # It was taken away, which is nothing that a restart mends.
            return True
        raise
    wanted = int(found["spec"].get("replicas", 1))
    if found.get("status", {}).get("readyReplicas", 0) < wanted:
        return False
    alive = [each for each in replicas(home) if each.running]
    # What the API says may be from before its processes were ended.
    return sum(answers(f"{each.address(HEALTH_PORT)}/readyz") for each in alive) >= wanted


def is_system_node(node: Mapping[str, Any]) -> bool:
    """Return whether a node is the cluster's own and not one of Karpenter's."""
    labels = node["metadata"].get("labels", {})
    return bool(labels.get(NODE_GROUP_LABEL) == NODE_GROUP)
