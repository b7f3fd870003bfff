# SPDX-License-Identifier: Apache-2.0
"""Pods that are to leave their nodes in turns, one destination after the other. Data only.

Whoever plans where pods go says so here; whoever evicts them asks whether a pod may go now. A pod of which nothing is
planned may always go, and nobody is held for ever: a turn that does not come is no reason to keep a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from karpenter.api.core import Pod
from karpenter.kit.clock import Clock

__all__ = ["Departures"]

# However many turns are before its own, a pod is held no longer than this: in large clusters there are hundreds.
_HELD_S = 180.0
# And no longer than this if nobody gives turns.
_SILENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class _Departure:
    """A pod that is to leave for a destination, and since when it waits for its turn."""

    source: str
    destination: str
    since: float


class Departures:
    """Who is to leave for where, and whose turn it is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._planned: dict[str, _Departure] = {}
        self._open = ""
        self._last_turn_at = -_SILENCE_S
        self._listeners: list[Callable[[str], None]] = []

    def on_open(self, listener: Callable[[str], None]) -> None:
        """Has somebody told, by name, of each node with pods whose turn has come."""
        self._listeners.append(listener)

    def plan(self, pods: Iterable[tuple[Pod, str]]) -> None:
        """Lets pods wait for the turn of the node that they go to."""
        now = self._clock.monotonic()
        for pod, destination in pods:
            self._planned[pod.metadata.uid] = _Departure(pod.spec.node_name, destination, now)

    def may_go(self, pod: Pod) -> bool:
        """Tells whether a pod may be told to go now."""
        found = self._planned.get(pod.metadata.uid)
        return found is None or found.destination == self._open or not self._is_held(found)

    def waiting(self) -> dict[str, list[str]]:
        """Gives the uids of the pods that wait, by destination, in the order in which they were planned."""
        self._planned = {uid: each for uid, each in self._planned.items() if self._is_held(each)}
        found: dict[str, list[str]] = {}
        for uid, each in self._planned.items():
            found.setdefault(each.destination, []).append(uid)
        return found

    def open(self, destination: str) -> None:
        """Lets the pods go that leave for a node, and no others of those that wait."""
        self._open = destination
        self._last_turn_at = self._clock.monotonic()
        self._tell(each for each in self._planned.values() if each.destination == destination)

    def gone(self, uid: str) -> None:
        """Forgets a pod that has been told to go."""
        self._planned.pop(uid, None)

    def clear(self) -> None:
        """Lets everybody go."""
        released, self._planned, self._open = self._planned, {}, ""
        self._tell(released.values())

    def _is_held(self, departure: _Departure) -> bool:
        now = self._clock.monotonic()
        heard_at = max(departure.since, self._last_turn_at)
        return now < departure.since + _HELD_S and now < heard_at + _SILENCE_S

    def _tell(self, departures: Iterable[_Departure]) -> None:
        for source in {each.source for each in departures}:
            for listener in self._listeners:
                listener(source)
