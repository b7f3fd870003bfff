# SPDX-License-Identifier: Apache-2.0
"""What the pods of a node amount to, counted once and kept with the node.

Decides from the pods alone, and refuses nothing but a quantity that cannot be read (``QuantityError``). A pod that is
over takes nothing and counts for nobody; one that is on its way out still takes its room.
"""

from __future__ import annotations

from collections.abc import Iterable

from karpenter.api.core import Pod
from karpenter.model.pods import is_terminal, is_terminating
from karpenter.model.ports import NO_PORTS, HostPorts, host_ports
from karpenter.model.resources import Resources, pod_requests, total
from karpenter.model.topology import CountGroup, topology_rules
from karpenter.model.volumes import NO_ATTACHMENTS, Attachments, Storage, attachments

__all__ = ["Crowd", "NodeCensus"]

# Pods of one namespace with the same labels, in the order of the keys: whoever counts one of them counts all.
Crowd = tuple[str, tuple[tuple[str, str], ...]]


class NodeCensus:
    """What the pods of one node amount to.

    Attributes:
        requests: What they take together.
        ports: The host ports they take.
        owners: The uids of their owners.
        crowds: How many pods that count there are, by namespace and labels.
        apart: The groups that pods there need to keep away from, and how many pods do.
    """

    __slots__ = ("_attached", "_mounting", "apart", "crowds", "owners", "ports", "requests")

    def __init__(self, pods: Iterable[Pod]) -> None:
        everybody = tuple(pods)
        there = [pod for pod in everybody if not is_terminal(pod)]
        self.requests: Resources = total(map(pod_requests, there))
        self.ports: HostPorts = NO_PORTS
        self.owners = frozenset(owner.uid for pod in everybody for owner in pod.metadata.owner_references)
        self.crowds: dict[Crowd, int] = {}
        self.apart: dict[CountGroup, int] = {}
        self._mounting = tuple(pod for pod in there if pod.spec.volumes)
        # The claims attached, and the storage that they were looked up in.
        self._attached: tuple[Storage | None, Attachments] = (None, NO_ATTACHMENTS)
        for pod in there:
            self.ports = self.ports.union(host_ports(pod))
            if not is_terminating(pod):
                self._count(pod)

    def _count(self, pod: Pod) -> None:
        meta = pod.metadata
        crowd = (meta.namespace, tuple(sorted(meta.labels.items())))
        self.crowds[crowd] = self.crowds.get(crowd, 0) + 1
        if pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None:
            for rule in topology_rules(pod).affinities:
                if rule.anti and rule.hard:
                    self.apart[rule.group] = self.apart.get(rule.group, 0) + 1

    def attached(self, storage: Storage) -> Attachments:
        """Return the claims that the pods have attached."""
        known, found = self._attached
        if known is not storage:
            found = NO_ATTACHMENTS
            for pod in self._mounting:
                found = found.union(attachments(pod, storage))
            self._attached = (storage, found)
        return found
