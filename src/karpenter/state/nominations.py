# SPDX-License-Identifier: Apache-2.0
"""Which pending pod is promised to which member, until when.

A pod that was planned onto a member which is still on its way is neither pending nor bound: another solve must
count it where it will go, or it would order a second node for it. A promise ends when the pod is bound or gone,
when its member is gone, or when its time is up; then the pod is pending again and nobody has to notice.

Where the scheduler is told of promises, a member is *told* once it has been: before that, pods that were planned
elsewhere must not come to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from karpenter.kit.clock import Clock

__all__ = ["Nomination", "Nominations"]


@dataclass(frozen=True, slots=True)
class Nomination:
    """One promise: a pod by uid, to a member by the name of its claim (or of its node, if it has no claim)."""

    pod_uid: str
    member: str
    until: float


class Nominations:
    """All promises that stand, by pod and by member."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_pod: dict[str, Nomination] = {}
        self._by_member: dict[str, dict[str, None]] = {}
        self._told: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []
        # Whether anybody tells the scheduler.
        self.is_telling = False

    def __len__(self) -> int:
        return len(self._by_pod)

    def promise(self, pod_uids: Iterable[str], member: str, for_s: float) -> None:
        """Promises pods to a member for so many seconds; an earlier promise of a pod is taken back."""
        until = self._clock.monotonic() + for_s
        self._told.discard(member)
        for uid in pod_uids:
            self.withdraw(uid)
            self._by_pod[uid] = Nomination(uid, member, until)
            self._by_member.setdefault(member, {})[uid] = None

    def hasten(self, member: str, for_s: float) -> None:
        """Lets the promises of a member that is ready end in so many seconds, if they would last longer."""
        until = self._clock.monotonic() + for_s
        for uid in self._by_member.get(member, ()):
            found = self._by_pod[uid]
            if found.until > until:
                self._by_pod[uid] = replace(found, until=until)

    def withdraw(self, pod_uid: str) -> Nomination | None:
        """Takes a promise back and gives it, if there was one."""
        found = self._by_pod.pop(pod_uid, None)
        if found is not None:
            pods = self._by_member[found.member]
            del pods[pod_uid]
            if not pods:
                del self._by_member[found.member]
                self._told.discard(found.member)
        return found

    def withdraw_all(self, member: str) -> tuple[str, ...]:
        """Takes back every promise of a member and gives the pods that it concerned."""
        pods = tuple(self._by_member.get(member, ()))
        for uid in pods:
            self.withdraw(uid)
        return pods

    def members(self) -> tuple[str, ...]:
        """Names the members that pods are promised to."""
        return tuple(self._by_member)

    def tell(self, member: str) -> None:
        """Notes that the scheduler knows which pods are promised to a member."""
        if member in self._by_member and member not in self._told:
            self._told.add(member)
            for listener in self._listeners:
                listener(member)

    def untell(self, member: str) -> None:
        """Notes that the scheduler has forgotten a promise to a member."""
        self._told.discard(member)

    def is_told(self, member: str) -> bool:
        """Tells whether the scheduler knows of a member's pods, or need not, or is not told at all."""
        return not self.is_telling or member in self._told or not self.pods_of(member)

    def on_told(self, listener: Callable[[str], None]) -> None:
        """Adds a listener, which hears of each member that was told."""
        self._listeners.append(listener)

    def member_of(self, pod_uid: str) -> str:
        """Names the member that a pod is promised to, or gives an empty text."""
        found = self._by_pod.get(pod_uid)
        if found is None:
            return ""
        if self._clock.monotonic() >= found.until:
            self.withdraw(pod_uid)
            return ""
        return found.member

    def pods_of(self, member: str) -> tuple[str, ...]:
        """Gives the uids of the pods promised to a member; such a member must not be disrupted."""
        return tuple(uid for uid in tuple(self._by_member.get(member, ())) if self.member_of(uid))
