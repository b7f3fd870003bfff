# SPDX-License-Identifier: Apache-2.0
"""Tells the scheduler where planned pods go: ``status.nominatedNodeName``, as soon as the node's name is known.

The scheduler looks at the nominated node first and counts pods that are nominated elsewhere as standing there, so a
tight plan is kept. A nomination is only help: it is written once, renewed when the plan changes and cleared when the
promise behind it has ended, or the pod would wait for a node that never comes.

Pods with a hard topology spread are nominated a few at a time: on each node the scheduler counts the other pods
nominated to that node, and none of those nominated elsewhere, so more than ``maxSkew`` of one spread on a node would
keep each other out for ever. The next ones follow as the first are bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from karpenter.api.core import Pod, TopologySpreadConstraint
from karpenter.kube import Client, KubeError, NotFoundError
from karpenter.kube.kinds import PODS
from karpenter.model.selectors import compile_selector
from karpenter.observe import get_log
from karpenter.state import Cluster, Member

__all__ = ["Nominator", "nominable"]

_HARD: Final = "DoNotSchedule"


def nominable(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Gives the pods of one node that may be nominated to it at the same time."""
    chosen: list[Pod] = []
    spreading: list[Pod] = []
    for pod in sorted(pods, key=lambda each: (each.metadata.namespace, each.metadata.name)):
        if _hard_spreads(pod):
            if not _bear_each_other((*spreading, pod)):
                continue
            spreading.append(pod)
        chosen.append(pod)
    return tuple(chosen)


def _hard_spreads(pod: Pod) -> list[TopologySpreadConstraint]:
    return [each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == _HARD]


def _bear_each_other(pods: Sequence[Pod]) -> bool:
    """Tells whether pods with hard spreads, all nominated to one node, leave each other within their skew."""
    for owner in pods:
        for rule in _hard_spreads(owner):
            selector = compile_selector(
                rule.label_selector, owner.metadata.labels, match_keys=rule.match_label_keys
            )
            counted = sum(
                pod.metadata.namespace == owner.metadata.namespace and selector.matches(pod.metadata.labels)
                for pod in pods
            )
            if counted > rule.max_skew:
                return False
    return True


class Nominator:
    """Writes and clears nominations; remembers which are ours."""

    def __init__(self, client: Client, cluster: Cluster) -> None:
        self._client = client
        self._cluster = cluster
        self._log = get_log("provisioner")
        self._written: dict[str, str] = {}

    def is_ours(self, pod: Pod) -> bool:
        """Tells whether a pod's nomination is one that we wrote, as far as we remember."""
        return self._written.get(pod.metadata.uid) == pod.status.nominated_node_name

    async def renew(self) -> None:
        """Brings what is written in line with what is promised."""
        wanted: dict[str, tuple[Pod, str]] = {}
        for member in self._cluster.members():
            if member.node is None or self._cluster.is_leaving(member):
                continue
            for pod in nominable(self._unbound(member)):
                wanted[pod.metadata.uid] = (pod, member.name)
        unbound = {pod.metadata.uid: pod for pod in self._cluster.unbound()}
        self._written = {uid: name for uid, name in self._written.items() if uid in unbound}
        changes = [
            (pod, name) for uid, (pod, name) in wanted.items() if pod.status.nominated_node_name != name
        ]
        changes += [
            (unbound[uid], "")
            for uid in self._written
            if not self._cluster.nominations.member_of(uid) and unbound[uid].status.nominated_node_name
        ]
        await asyncio.gather(*(self._write(pod, name) for pod, name in changes))

    def _unbound(self, member: Member) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._cluster.promised_to(member) if not pod.spec.node_name)

    async def _write(self, pod: Pod, node: str) -> None:
        change = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node or None}}
        namespace, name = pod.metadata.namespace, pod.metadata.name
        try:
            written = await self._client.patch(PODS, name, change, namespace, subresource="status")
        except NotFoundError:
            self._written.pop(pod.metadata.uid, None)
            return
        except KubeError as error:
            # A nomination is help, not need: the pod is bound without it, perhaps elsewhere.
            self._log.debug("could not nominate pod", Pod={"namespace": namespace, "name": name}, error=error)
            return
        self._cluster.informers.pods.observe(written)
        if node:
            self._written[pod.metadata.uid] = node
        else:
            self._written.pop(pod.metadata.uid, None)
