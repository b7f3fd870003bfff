# SPDX-License-Identifier: Apache-2.0
"""A virtual copy of the cluster, in which nodes go and come and pods move at no cost but that of the target.

For each kind of pod the hosts with room for one more are known as a set, kept up to date host by host. Everything that
is done is written down, so that a try that gains nothing is taken back. Hosts are numbered: first the nodes that
stand, in their order, then those bought.

The cost of the copy is what bought nodes cost less what removed nodes gain; that of the cluster as it is, is zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import log2
from operator import sub

from karpenter.consolidation.search.fitting import Fits
from karpenter.consolidation.search.hostrules import HostRules
from karpenter.consolidation.search.terrain import Size, Terrain
from karpenter.model.catalogue import bits

__all__ = ["Bought", "Contents", "Copy", "Purchase", "together"]

# How many hosts of the fitting shape are compared before one is chosen.
_LOOKS = 8
# Hosts are told apart by the ratio of two free resources, in steps of half an octave; more than so far is the same.
_STEPS = 12
_STEPS_PER_OCTAVE = 2
_NOWHERE = 2 * _STEPS + 1
# Of a kind that fits n times, n / 4 pods enter at once, so that the mix stays even.
_SHARE = 4
_PLENTY = 1 << 30
# What stands in the journal instead of a kind when a host itself comes or goes: one just bought, or any other.
_NEW = -1
_OLD = -2

# Pods as numbers by kind.
Contents = dict[int, int]
# A node to buy: source, offering, pods.
Purchase = tuple[int, int, Contents]


class Bought:
    """A node that was bought in the copy: where, as what, at what cost; ``price`` is without the surcharge."""

    __slots__ = ("cost", "position", "price", "room", "source")

    def __init__(self, source: int, position: int, room: Size, price: float, surcharge: float) -> None:
        self.source = source
        self.position = position
        self.room = room
        self.price = price
        self.cost = price * (1.0 + surcharge)


class Copy:
    """Hosts with what is free on them and who would come.

    Attributes:
        guests: For each host the pods that came, by kind.
        is_open: For each host whether it is there.
        bought: The nodes bought, in the order of their numbers.
        cost: What the rearrangement costs per hour; below zero it pays.
    """

    def __init__(self, terrain: Terrain) -> None:
        self.terrain = terrain
        self._fits = Fits([kind.size for kind in terrain.kinds])
        self._rules = HostRules(terrain.kinds)
        standing = len(terrain.nodes)
        self.standing = standing
        self.guests: list[Contents] = [{} for _ in range(standing)]
        self.is_open = [True] * standing
        self._open = (1 << standing) - 1
        self.bought: list[Bought] = []
        self.cost = 0.0
        self._free: list[Size] = [node.free for node in terrain.nodes]
        self._bits = [1 << host for host in range(standing)]
        self._admits = self._admitted()
        self._fit = [0] * standing
        self._room = [0] * len(terrain.kinds)
        self._scales = self._ratio_scales()
        self._step = [_NOWHERE] * standing
        # The last class is for hosts that are not there, and never looked at.
        self._steps = [0] * (_NOWHERE + 1)
        # For each class the others, the most like it first.
        self._nearest_steps = [_by_distance(step) for step in range(_NOWHERE)]
        self._steps_of = [self._step_of(kind.size) for kind in terrain.kinds]
        self._journal: list[tuple[int, int, int]] = []
        for host in range(standing):
            self._refresh(host)

    def _admitted(self) -> list[int]:
        found = [0] * self.standing
        for kind, each in enumerate(self.terrain.kinds):
            for node in bits(each.nodes):
                found[node] |= 1 << kind
        return [kinds if node.receives else 0 for kinds, node in zip(found, self.terrain.nodes, strict=True)]

    def _ratio_scales(self) -> tuple[int, int, float]:
        """Return the places of cpu and memory, and how much memory goes with a unit of cpu on average."""
        first, second = (self.terrain.resources.index(name) for name in ("cpu", "memory"))
        cpu = max(1, sum(node.free[first] for node in self.terrain.nodes))
        memory = max(1, sum(node.free[second] for node in self.terrain.nodes))
        return first, second, memory / cpu

    def _step_of(self, amounts: Size) -> int:
        """Return the class of the ratio of cpu to memory."""
        first, second, scale = self._scales
        cpu, memory = amounts[first], amounts[second]
        if cpu <= 0:
            return 0
        if memory <= 0:
            return 2 * _STEPS
        return min(max(round(log2(cpu * scale / memory) * _STEPS_PER_OCTAVE), -_STEPS), _STEPS) + _STEPS

    # What is there.

    def free(self, host: int) -> Size:
        """Return what is left on a host."""
        return self._free[host]

    def contents(self, host: int) -> Contents:
        """Return the pods that must go elsewhere if the host goes: its own and those that came."""
        found = dict(self.guests[host])
        if host < self.standing:
            for kind, number in self.terrain.nodes[host].contents:
                found[kind] = found.get(kind, 0) + number
        return found

    def worth_of_leaving(self, host: int) -> float:
        """Return by how much the cost falls when the host goes, whatever its pods then need."""
        if host < self.standing:
            return self.terrain.nodes[host].gain + self.terrain.fee
        return self.bought[host - self.standing].cost + self.terrain.fee

    def may_leave(self, host: int) -> bool:
        """Tell whether the host is there and may go."""
        return self.is_open[host] and (host >= self.standing or self.terrain.nodes[host].removable)

    def hosts(self) -> range:
        """Return the numbers of all hosts, those that are gone too."""
        return range(len(self._free))

    def purchases(self) -> list[Bought]:
        """Return the nodes bought that are there."""
        return [
            node for node, is_open in zip(self.bought, self.is_open[self.standing :], strict=True) if is_open
        ]

    def open_hosts(self) -> int:
        """Return the hosts that are there, as a set."""
        return self._open

    def having_room(self, kind: int) -> int:
        """Return the hosts with room for one more pod of a kind, as a set; some of them may be gone."""
        return self._room[kind]

    def has_room(self, contents: Contents, allowed: int) -> bool:
        """Tell whether for each kind some of the allowed hosts has room for one; quick, and only a first look."""
        room = self._room
        return all(room[kind] & allowed for kind in contents)

    # What can be done, each step written down.

    def mark(self) -> int:
        """Return a point to which ``take_back`` can return."""
        return len(self._journal)

    def forget(self) -> None:
        """Keep all that was done; it can no longer be taken back."""
        self._journal.clear()

    def take_back(self, mark: int) -> None:
        """Undo everything since a mark."""
        while len(self._journal) > mark:
            host, kind, number = self._journal.pop()
            if kind >= 0:
                self._put(host, kind, -number)
            else:
                self._set_open(host, is_open=number < 0)
                if kind == _NEW:
                    self._drop_last()

    def put(self, host: int, kind: int, number: int) -> None:
        """Let pods of a kind come to a host, or with a number below zero leave it."""
        self._journal.append((host, kind, number))
        self._put(host, kind, number)

    def close(self, host: int) -> Contents:
        """Take a host away; return the pods that need another place."""
        found = self.contents(host)
        self._journal.append((host, _OLD, -1))
        self._set_open(host, is_open=False)
        for kind, number in list(self.guests[host].items()):
            self.put(host, kind, -number)
        return found

    def open_again(self, host: int) -> None:
        """Bring back a node that stood, with its own pods on it."""
        self._journal.append((host, _OLD, 1))
        self._set_open(host, is_open=True)

    def buy(self, source: int, position: int, contents: Contents) -> int:
        """Put a new node with its pods on the copy; return its number."""
        seller = self.terrain.sources[source]
        room = seller.room(position, self.terrain.resources)
        price = seller.catalogue.prices[position]
        host = len(self._free)
        self.bought.append(Bought(source, position, room, price, self.terrain.surcharge))
        self.guests.append({})
        self.is_open.append(False)
        self._free.append(room)
        self._bits.append(1 << host)
        self._admits.append(self.terrain.admitted(source, position))
        self._fit.append(0)
        self._step.append(_NOWHERE)
        self._journal.append((host, _NEW, 1))
        self._set_open(host, is_open=True)
        for kind, number in contents.items():
            self.put(host, kind, number)
        return host

    def place(self, contents: Contents, allowed: int) -> Contents:
        """Put pods into the room there is, kind by kind; return those that found none.

        Args:
            contents: The pods.
            allowed: The hosts that may be used.
        """
        left: Contents = {}
        for kind in sorted(contents):
            number = self._place(kind, contents[kind], allowed)
            if number:
                left[kind] = number
        return left

    def _place(self, kind: int, number: int, allowed: int) -> int:
        size = self.terrain.kinds[kind].size
        while number:
            candidates = self._room[kind] & allowed
            if not candidates:
                break
            host = self._nearest(kind, candidates)
            free = self._free[host]
            fits = min([have // need for have, need in zip(free, size, strict=True) if need], default=_PLENTY)
            coming = min(number, fits // _SHARE or 1)
            if self._rules.binding >> kind & 1:
                coming = 1
            self.put(host, kind, coming)
            number -= coming
        return number

    def _nearest(self, kind: int, candidates: int) -> int:
        """Return of some hosts with room the one whose free room is most like the pod, then the smallest."""
        steps = self._nearest_steps[self._steps_of[kind]]
        near = next(near for step in steps if (near := self._steps[step] & candidates))
        return min(islice(bits(near), _LOOKS), key=self._free_size)

    def _free_size(self, host: int) -> float:
        first, second, scale = self._scales
        return self._free[host][first] * scale + self._free[host][second]

    # Keeping the books.

    def _put(self, host: int, kind: int, number: int) -> None:
        guests = self.guests[host]
        there = guests.get(kind, 0) + number
        if there:
            guests[kind] = there
        else:
            del guests[kind]
        size = self.terrain.kinds[kind].size
        if number == 1:
            self._free[host] = tuple(map(sub, self._free[host], size))
        else:
            self._free[host] = tuple(
                [have - need * number for have, need in zip(self._free[host], size, strict=True)]
            )
        self._refresh(host)

    def _set_open(self, host: int, *, is_open: bool) -> None:
        self.is_open[host] = is_open
        self._open ^= self._bits[host]
        self.cost += self.worth_of_leaving(host) if is_open else -self.worth_of_leaving(host)
        self._refresh(host)

    def _drop_last(self) -> None:
        """Forget the host that was bought last; it must be gone."""
        self._note(len(self._free) - 1, 0, _NOWHERE)
        self.bought.pop()
        for column in (
            self.guests,
            self.is_open,
            self._free,
            self._bits,
            self._admits,
            self._fit,
            self._step,
        ):
            column.pop()

    def _refresh(self, host: int) -> None:
        """Work out anew who fits on a host, and note what has changed; a host that is gone is left as it was."""
        if not self.is_open[host]:
            return
        free = self._free[host]
        fits = self._fits.into(free) & self._admits[host]
        if fits & self._rules.binding:
            fits &= ~self._shut(host)
        self._note(host, fits, self._step_of(free))

    def _note(self, host: int, fits: int, step: int) -> None:
        """Write down who fits on a host and the class of its free room."""
        bit = self._bits[host]
        changed = fits ^ self._fit[host]
        if changed:
            self._fit[host] = fits
            room = self._room
            for kind in bits(changed):
                room[kind] ^= bit
        before = self._step[host]
        if step != before:
            self._steps[before] ^= bit
            self._steps[step] ^= bit
            self._step[host] = step

    def _shut(self, host: int) -> int:
        """Return the kinds that host rules keep away from a host."""
        counts: dict[int, int] = {}
        caps: dict[int, int] = {}
        if host < self.standing:
            node = self.terrain.nodes[host]
            counts, caps = dict(node.counts), dict(node.caps)
        for kind, number in self.guests[host].items():
            self._rules.enter(counts, caps, kind, number)
        return self._rules.refused(counts, caps)


def _by_distance(step: int) -> list[int]:
    return sorted(range(_NOWHERE), key=lambda other: (abs(other - step), other))


def together(parts: Iterable[Contents]) -> Contents:
    """Return the pods of all parts."""
    found: Contents = {}
    for part in parts:
        for kind, number in part.items():
            found[kind] = found.get(kind, 0) + number
    return found
