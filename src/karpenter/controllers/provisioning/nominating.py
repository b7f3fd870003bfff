# SPDX-License-Identifier: Apache-2.0
"""Tells the scheduler where planned pods go: ``status.nominatedNodeName``, as soon as the node's name is known.

The scheduler looks at the nominated node first and counts pods that are nominated elsewhere as standing there, so a
tight plan is kept. A nomination is only help: it is written once, renewed when the plan changes and cleared when the
promise behind it has ended, or the pod would wait for a node that never comes.

Pods that a hard topology spread counts are nominated a few at a time: on each node the scheduler counts the other
pods nominated to that node, and none of those nominated elsewhere, so more than ``maxSkew`` of them on a node would
keep the spread's owner out; for ever, if they follow it. The next ones are told as the first are bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final

from karpenter.api.core import Pod, TopologySpreadConstraint
from karpenter.kube import Change, Client, KubeError, NotFoundError
from karpenter.kube.kinds import PODS
from karpenter.model.selectors import compile_selector
from karpenter.observe import get_log
from karpenter.scheduling.plan import pod_name
from karpenter.state import Cluster, Member

__all__ = ["Nominator", "nominable"]

_HARD: Final = "DoNotSchedule"
# Few enough that other requests of ours hardly wait behind them for the client's rate limit.
_WRITTEN_AT_ONCE: Final = 30


def nominable(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Gives the pods of one node that may be nominated to it at the same time.

    Those who own a hard spread come first: who is merely counted finds its place after them as well as before.
    """
    rules: dict[int, list[_Counted]] = {}
    chosen: list[Pod] = []
    waiting = sorted(pods, key=lambda pod: (-_priority(pod), not _hard_spreads(pod), pod_name(pod)))
    for pod in waiting:
        rules[id(pod)] = [_Counted(pod, rule) for rule in _hard_spreads(pod)]
        if all(rule.holds((*chosen, pod)) for owner in (*chosen, pod) for rule in rules[id(owner)]):
            chosen.append(pod)
    return tuple(chosen)


class _Counted:
    """Whom a hard spread of a pod counts, of the pods that are nominated to one node."""

    def __init__(self, owner: Pod, rule: TopologySpreadConstraint) -> None:
        self._namespace = owner.metadata.namespace
        self._priority = _priority(owner)
        self._most = rule.max_skew
        self._selector = compile_selector(
            rule.label_selector, owner.metadata.labels, match_keys=rule.match_label_keys
        )

    def holds(self, pods: Iterable[Pod]) -> bool:
        """Tells whether the owner may enter while the pods are nominated; the scheduler passes over lesser ones."""
        counted = sum(
            pod.metadata.namespace == self._namespace
            and _priority(pod) >= self._priority
            and self._selector.matches(pod.metadata.labels)
            for pod in pods
        )
        return counted <= self._most


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def _hard_spreads(pod: Pod) -> list[TopologySpreadConstraint]:
    return [each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == _HARD]


class Nominator:
    """Writes and clears nominations; remembers which are ours."""

    def __init__(self, client: Client, cluster: Cluster, *, is_on: bool = True) -> None:
        self._client = client
        self._cluster = cluster
        self._is_on = is_on
        cluster.nominations.is_telling = is_on
        self._log = get_log("provisioner")
        self._written: dict[str, str] = {}

    def is_ours(self, pod: Pod) -> bool:
        """Tells whether a pod's nomination is one that we wrote, as far as we remember."""
        return self._written.get(pod.metadata.uid) == pod.status.nominated_node_name

    def was_ours(self, change: Change[Pod]) -> bool:
        """Tells whether a change takes a nomination of ours away from a pod that waits."""
        old, new = change.old, change.new
        if old is None or new is None or new.spec.node_name:
            return False
        mine = self._written.get(new.metadata.uid)
        return bool(mine) and old.status.nominated_node_name == mine != new.status.nominated_node_name

    async def renew(self, only: Collection[str] | None = None) -> None:
        """Brings what is written in line with what is promised, one node after the other.

        Args:
            only: Names of claims or nodes to look at, for who knows that nothing else has changed; all if left out.
        """
        if not self._is_on:
            return
        free = asyncio.Semaphore(_WRITTEN_AT_ONCE)
        unbound = {pod.metadata.uid: pod for pod in self._cluster.unbound()}
        self._written = {uid: name for uid, name in self._written.items() if uid in unbound}
        stale = [
            unbound[uid]
            for uid in self._written
            if not self._cluster.nominations.member_of(uid) and unbound[uid].status.nominated_node_name
        ]
        await asyncio.gather(
            *(self._write(pod, "", free) for pod in stale),
            *(self._tell(member, free) for member in self._members(only)),
        )

    def _members(self, only: Collection[str] | None) -> list[Member]:
        """Gives the members whose pods can be told, those that wait for it first."""
        names = self._cluster.nominations.members() if only is None else only
        found = filter(None, map(self._cluster.member, names))
        there = (each for each in found if each.node is not None and not self._cluster.is_leaving(each))
        return sorted(there, key=lambda each: each.is_registered)

    async def _tell(self, member: Member, free: asyncio.Semaphore) -> None:
        pods = [pod for pod in self._cluster.promised_to(member) if not pod.spec.node_name]
        wanted = (pod for pod in nominable(pods) if pod.status.nominated_node_name != member.name)
        await asyncio.gather(*(self._write(pod, member.name, free) for pod in wanted))
        self._cluster.nominations.tell(
            member.claim.metadata.name if member.claim is not None else member.name
        )

    async def _write(self, pod: Pod, node: str, free: asyncio.Semaphore) -> None:
        change = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node or None}}
        namespace, name = pod.metadata.namespace, pod.metadata.name
        try:
            async with free:
                current = self._cluster.informers.pods.get(name, namespace)
                if current is None or current.spec.node_name:
                    # It was bound, or went, while others were told.
                    return
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
