# SPDX-License-Identifier: Apache-2.0
"""Tells the scheduler where planned pods go: ``status.nominatedNodeName``, as soon as the node's name is known.

The scheduler looks at the nominated node first and counts pods that are nominated elsewhere as standing there, so a
tight plan is kept. A nomination is only help: it is written once, renewed when the plan changes and cleared when the
promise behind it has ended, or the pod would wait for a node that never comes.

Pods that a hard topology spread counts are nominated a few at a time: on each node the scheduler counts the other
pods nominated to that node, and none of those nominated elsewhere, so more of them on a node than its place takes by
now would keep the spread's owner out; for ever, if they follow it. The next ones are told as others are bound, wherever
that is, and a pod that was told too early is told otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from karpenter.api.core import Pod
from karpenter.controllers.provisioning.levels import Crowd, Levels, PodRules, Site, crowds_of, rules_of
from karpenter.controllers.provisioning.waiting import turn
from karpenter.kube import Change, Client, KubeError, NotFoundError
from karpenter.kube.kinds import PODS
from karpenter.model.topology import SpreadRule
from karpenter.observe import get_log
from karpenter.scheduling.groups import NodeFilter
from karpenter.state import Cluster, Member

__all__ = ["Nominator", "nominable"]

# Few enough that other requests of ours hardly wait behind them for the client's rate limit.
_WRITTEN_AT_ONCE: Final = 30


# How many more pods that a hard spread counts its owner's place takes.
Room: TypeAlias = Callable[[SpreadRule, NodeFilter], int]


def nominable(
    pods: Iterable[Pod],
    room: Room = lambda rule, _places: rule.max_skew,
    compiled: Callable[[Pod], PodRules] = rules_of,
) -> tuple[Pod, ...]:
    """Gives the pods of one node that may be nominated to it at the same time.

    Whom others follow comes first, or it may go elsewhere and leave them behind. Then come those who own a hard spread:
    who is merely counted finds its place after them as well as before. Owners whose place does not take them yet come
    last, and keep nobody waiting.

    Args:
        pods: The pods that are to go to the node.
        room: What a spread's place takes now; where nobody knows, as if all places were level.
        compiled: Gives what a pod needs of others, for who remembers it.
    """
    crowd = tuple(pods)
    needs = {id(pod): compiled(pod) for pod in crowd}
    leaders = _leaders(crowd, needs)
    rules = {
        id(pod): [_Counted(pod, rule, room(rule, places)) for rule, places in needs[id(pod)].spreads]
        for pod in crowd
    }

    def order(pod: Pod) -> tuple[object, ...]:
        own = rules[id(pod)]
        return not all(rule.is_open for rule in own), id(pod) not in leaders, not own, turn(pod)

    chosen: list[Pod] = []
    for pod in sorted(crowd, key=lambda pod: (-_priority(pod), order(pod))):
        with_it = (*chosen, pod)
        # Of those who have been chosen only rules that count the newcomer can be broken by it.
        concerned = [rule for owner in chosen for rule in rules[id(owner)] if rule.counts(pod)]
        if all(rule.holds(with_it) for rule in (*concerned, *rules[id(pod)])):
            chosen.append(pod)
    return tuple(chosen)


class _Counted:
    """Whom a hard spread of a pod counts, of the pods that are nominated to one node."""

    def __init__(self, owner: Pod, rule: SpreadRule, room: int) -> None:
        self._group = rule.group
        self._priority = _priority(owner)
        self._most = room
        self.is_open = self.counts(owner) <= self._most
        if not self.is_open:
            # Once it takes the owner, all places will be level.
            self._most = rule.max_skew

    def holds(self, pods: Iterable[Pod]) -> bool:
        """Tells whether the owner may enter while the pods are nominated."""
        return sum(map(self.counts, pods)) <= self._most

    def counts(self, pod: Pod) -> bool:
        """Tells whether a pod counts if it is nominated; the scheduler passes over those of lesser priority."""
        return _priority(pod) >= self._priority and self._group.counts(
            pod.metadata.namespace, pod.metadata.labels, {}
        )


def _leaders(pods: Collection[Pod], needs: Mapping[int, PodRules]) -> set[int]:
    """Gives, by their identity, the pods that others need beside them without being needed in return."""
    followers = [pod for pod in pods if needs[id(pod)].near]

    def follows(one: Pod, other: Pod) -> bool:
        # In whichever namespace: this only decides who is told first.
        return any(group.selector.matches(other.metadata.labels) for group in needs[id(one)].near)

    return {
        id(pod) for pod in pods if any(follows(each, pod) and not follows(pod, each) for each in followers)
    }


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


class Nominator:
    """Writes and clears nominations; remembers which are ours."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        *,
        is_on: bool = True,
        spares: Callable[[Pod], bool] = lambda _: False,
    ) -> None:
        """Makes one that has written nothing yet.

        Args:
            client: Where nominations are written.
            cluster: What there is, and what is promised.
            is_on: Whether the scheduler is to be told at all.
            spares: Tells whether somebody else is about to bind a pod, so that the scheduler need not hear of it.
        """
        self._client = client
        self._spares = spares
        self._cluster = cluster
        self._is_on = is_on
        cluster.nominations.is_telling = is_on
        self._log = get_log("provisioner")
        self._written: dict[str, str] = {}
        # What pods that wait need of others, which never changes.
        self._rules: dict[str, PodRules] = {}
        # Members with pods whose turn has not come: whoever is bound anywhere may change that.
        self._held: set[str] = set()
        # What was on each node when its pods were last counted.
        self._crowds: dict[str, tuple[tuple[Pod, ...], Mapping[Crowd, int]]] = {}

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
        levels = Levels(self._sites)
        unbound = {pod.metadata.uid: pod for pod in self._cluster.unbound()}
        self._written = {uid: name for uid, name in self._written.items() if uid in unbound}
        self._rules = {uid: rules for uid, rules in self._rules.items() if uid in unbound}
        stale = [
            unbound[uid]
            for uid in self._written
            if not self._cluster.nominations.member_of(uid) and unbound[uid].status.nominated_node_name
        ]
        await asyncio.gather(
            *(self._write(pod, "", free) for pod in stale),
            *(self._tell(member, levels, free) for member in self._members(only)),
        )

    def _members(self, only: Collection[str] | None) -> list[Member]:
        """Gives the members whose pods can be told, those that wait for it first."""
        names = self._cluster.nominations.members() if only is None else {*only, *self._held}
        found = {each.name: each for each in map(self._cluster.member, names) if each is not None}
        self._held &= found.keys()
        there = (
            each for each in found.values() if each.node is not None and not self._cluster.is_leaving(each)
        )
        return sorted(there, key=lambda each: each.is_registered)

    def _remembered_rules(self, pod: Pod) -> PodRules:
        known = self._rules.get(pod.metadata.uid)
        if known is None:
            known = self._rules[pod.metadata.uid] = rules_of(pod)
        return known

    def _sites(self) -> Iterator[Site]:
        """Yields every node with who is bound to it, counted anew where that has changed."""
        before, self._crowds = self._crowds, {}
        for node in self._cluster.informers.nodes:
            name = node.metadata.name
            pods = self._cluster.pods_on(name)
            known = before.get(name)
            counted = known[1] if known is not None and known[0] == pods else crowds_of(pods)
            self._crowds[name] = (pods, counted)
            yield Site(name, node.metadata.labels, node.spec.taints, counted)

    async def _tell(self, member: Member, levels: Levels, free: asyncio.Semaphore) -> None:
        pods = [pod for pod in self._cluster.promised_to(member) if not pod.spec.node_name]
        due = nominable(
            pods, lambda rule, places: levels.room(rule, places, member.name), self._remembered_rules
        )
        chosen = {pod.metadata.uid for pod in due}
        (self._held.add if len(chosen) < len(pods) else self._held.discard)(member.name)
        named = [(pod, pod.status.nominated_node_name == member.name) for pod in pods]
        wanted = [pod for pod, is_named in named if pod.metadata.uid in chosen and not is_named]
        early = [pod for pod, is_named in named if pod.metadata.uid not in chosen and is_named]
        await asyncio.gather(
            *(self._write(pod, "", free) for pod in early if self.is_ours(pod)),
            *(self._write(pod, member.name, free) for pod in wanted if not self._spares(pod)),
        )
        self._cluster.nominations.tell(
            member.claim.metadata.name if member.claim is not None else member.name
        )

    async def _write(self, pod: Pod, node: str, free: asyncio.Semaphore) -> None:
        uid, namespace, name = pod.metadata.uid, pod.metadata.namespace, pod.metadata.name
        change = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node or None}}
        async with free:
            current = self._cluster.informers.pods.get(name, namespace)
            if current is None or current.spec.node_name:
                # It was bound, or went, while others were told.
                return
            before = self._written.get(uid, "")
            # Before anybody hears of it, or it would look as if the scheduler had taken it away.
            self._note(uid, node)
            try:
                written = await self._client.patch(PODS, name, change, namespace, subresource="status")
            except NotFoundError:
                self._note(uid, "")
                return
            except KubeError as error:
                # A nomination is help, not need: the pod is bound without it, perhaps elsewhere.
                self._note(uid, before)
                self._log.debug(
                    "could not nominate pod", Pod={"namespace": namespace, "name": name}, error=error
                )
                return
        self._cluster.informers.pods.observe(written)

    def _note(self, uid: str, node: str) -> None:
        """Remembers which nomination of ours a pod has, if any."""
        if node:
            self._written[uid] = node
        else:
            self._written.pop(uid, None)
