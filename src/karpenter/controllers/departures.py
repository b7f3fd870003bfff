# SPDX-License-Identifier: Apache-2.0
"""Pods that are to leave their nodes in turns, one destination after the other. Data only.

Whoever plans where pods go says so here; whoever evicts them asks whether a pod may go now. A pod of which nothing is
planned may always go, and nobody is held for long: a turn that does not come is no reason to keep a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from karpenter.api.core import Pod
from karpenter.kit.clock import Clock

__all__ = ["Departures"]

# However many turns are before its own, a pod is held no longer than this.
_HELD_S = 60.0


@dataclass(frozen=True, slots=True)
class _Departure:
    """A pod that is to leave for a destination, and until when it waits for its turn."""

    source: str
    destination: str
    until: float


class Departures:
    """Who is to leave for where, and whose turn it is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._planned: dict[str, _Departure] = {}
        self._open = ""
        self._listeners: list[Callable[[str], None]] = []

    def on_open(self, listener: Callable[[str], None]) -> None:
        """Has somebody told, by name, of each node with pods whose turn has come."""
        self._listeners.append(listener)

    def plan(self, pods: Iterable[tuple[Pod, str]]) -> None:
        """Lets pods wait for the turn of the node that they go to."""
        until = self._clock.monotonic() + _HELD_S
        for pod, destination in pods:
            self._planned[pod.metadata.uid] = _Departure(pod.spec.node_name, destination, until)

    def may_go(self, pod: Pod) -> bool:
        """Tells whether a pod may be told to go now."""
        found = self._planned.get(pod.metadata.uid)
        return found is None or found.destination == self._open or self._clock.monotonic() >= found.until

    def waiting(self) -> dict[str, list[str]]:
        """Gives the uids of the pods that wait, by destination, in the order in which they were planned."""
        now = self._clock.monotonic()
        self._planned = {uid: each for uid, each in self._planned.items() if each.until > now}
        found: dict[str, list[str]] = {}
        for uid, each in self._planned.items():
            found.setdefault(each.destination, []).append(uid)
        return found

    def open(self, destination: str) -> None:
        """Lets the pods go that leave for a node, and no others of those that wait."""
        self._open = destination
        self._tell(each for each in self._planned.values() if each.destination == destination)

    def gone(self, uid: str) -> None:
        """Forgets a pod that has been told to go."""
        self._planned.pop(uid, None)

    def clear(self) -> None:
        """Lets everybody go."""
        released, self._planned, self._open = self._planned, {}, ""
        self._tell(released.values())

    def _tell(self, departures: Iterable[_Departure]) -> None:
        for source in {each.source for each in departures}:
            for listener in self._listeners:
                listener(source)
