# SPDX-License-Identifier: Apache-2.0
"""Makes a terrain of a world: pods become kinds, rules become sets of nodes and offerings, some nodes must stay.

Rules are read as the scheduling reads them, at their strictest. What the search does not weigh is settled the careful
way: a pod that any rule over zones (or another label but the hostname) speaks of stays in the places where it is now,
so that no such count changes; a node stays if a pod on it follows others onto a host, takes a host port, cannot be read
or stands where its own rules would not let it in again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.consolidation.search.terrain import Kind, Size, Source, Standing, Terrain
from karpenter.consolidation.types import World
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType
from karpenter.model.pods import is_reschedulable
from karpenter.model.pools import in_order
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling.board import Board, Host
from karpenter.scheduling.bulk import is_plain
from karpenter.scheduling.classes import PodClass, Profile, fold, profiles_of, read
from karpenter.scheduling.groups import GroupTable
from karpenter.scheduling.packing.menu import menu_for
from karpenter.scheduling.stances import PlaceRule, Stance, Stances
from karpenter.scheduling.templates import NOWHERE, Template, compile_daemons, templates_of

__all__ = ["Survey", "survey"]

_Pins = tuple[tuple[str, str], ...]

# Dollars per hour that a node costs beside its price.
_NODE_FEE = 0.01


@dataclass(frozen=True, slots=True)
class Survey:
    """A terrain, and what its numbers stand for.

    Attributes:
        terrain: The question in whole numbers.
        names: The names of its nodes.
        pods: The pods of a kind on a node, by node and kind.
        templates: What each source is made from.
        positions: For each source the offerings of its template's catalogue that it sells.
        masks: For each kind the offerings of its template's catalogue that it may use.
    """

    terrain: Terrain
    names: tuple[str, ...]
    pods: Mapping[tuple[int, int], tuple[Pod, ...]]
    templates: tuple[Template, ...]
    positions: tuple[tuple[int, ...], ...]
    masks: tuple[int, ...]


def survey(world: World) -> Survey:
    """Return the terrain of a world."""
    return _Surveyor(world).run()


@dataclass(frozen=True, slots=True)
class _Sort:
    """A kind before the offerings are numbered anew."""

    size: Size
    template: int
    mask: int
    nodes: int
    counted: int
    caps: tuple[tuple[int, int], ...]
    ghost: bool


class _Surveyor:
    """One survey."""

    def __init__(self, world: World) -> None:
        self._world = world
        snapshot = world.snapshot
        # By the identity of what is read: the pod as it is, and its node's name.
        self._moving: dict[int, tuple[Pod, str]] = {}
        asking: list[Pod] = []
        for node in snapshot.nodes:
            if node.name in world.removable:
                for pod in node.pods:
                    if is_reschedulable(pod):
                        asking.append(_unbound(pod))
                        self._moving[id(asking[-1])] = (pod, node.name)
        asking += [_unbound(pod) for pod in (*world.waiting, *world.ghosts)]
        readings = read(asking, snapshot.storage)
        self._read = asking
        self._unreadable = {
            self._moving[id(pod)][1] for pod, _ in readings.unreadable if id(pod) in self._moving
        }
        self._table = GroupTable(snapshot.namespaces, _on_every_node(snapshot))
        for each in readings.compiled:
            for spread in each.topology.spreads:
                self._table.number_of_rule(spread, each)
            for affinity in each.topology.affinities:
                self._table.number_of_rule(affinity, each)
        self._number_standing_rules()
        self._classes = fold(readings.compiled, self._table.counting)
        daemons = compile_daemons(snapshot.daemons)
        asked = {"cpu", "memory", "pods"}.union(*(each.requests for each in self._classes))
        asked.update(*(daemon.requests for daemon in daemons))
        self._resources = tuple(sorted(asked))
        wanted = [term.requirements for each in self._classes for term in each.node.alternatives]
        self._board = Board(
            snapshot,
            self._table,
            templates_of(in_order(snapshot.pools), wanted, daemons, self._resources),
            daemons,
            self._resources,
        )
        self._hosts = self._board.hosts
        rooms = zip(*(host.room for host in self._hosts), strict=True)
        self._whole = [max(1, sum(amounts)) for amounts in rooms] or [1] * len(self._resources)
        self._homes = {host.node.name: index for index, host in enumerate(self._hosts) if host.node}
        self._matching: dict[tuple[int, ...], int] = {}
        self._in_place: dict[tuple[str, str], int] = {}
        self._owned = self._owned_groups()
        self._sorts: dict[_Sort, int] = {}
        self._pods: dict[tuple[int, int], list[Pod]] = {}
        self._extra: dict[int, int] = {}
        self._staying: set[int] = set()

    def _number_standing_rules(self) -> None:
        """Number the groups that standing pods keep away from, for moved pods must heed them."""
        found = {group for census in self._world.snapshot.censuses() for group in census.groups_apart()}
        for group in sorted(found, key=repr):
            self._table.number(group)

    def _owned_groups(self) -> int:
        """Return the host groups that some rule or some standing pod has a cap on."""
        found = 0
        for host in self._hosts:
            for group in host.caps:
                found |= 1 << group
        return found

    def run(self) -> Survey:
        """Make the survey."""
        taker = Stances(self._table, self._resources)
        stances = [taker.take(each, 0, _profiles(each)) for each in self._classes]
        for stance in stances:
            for group, _ in stance.caps:
                self._owned |= 1 << group
        self._owned &= self._board.watched_hosts
        for stance in sorted(stances, key=self._smallness):
            self._sort(stance)
        self._staying.update(self._homes[name] for name in self._unreadable)
        sources, positions, kinds = self._sold()
        terrain = Terrain(
            resources=self._resources,
            kinds=kinds,
            nodes=tuple(self._all_standing()),
            sources=sources,
            extra=tuple(sorted(self._extra.items())),
            surcharge=self._world.overlap_h / self._world.horizon_h,
            fee=_NODE_FEE,
        )
        used = sorted({sort.template for sort in self._sorts if sort.template >= 0})
        return Survey(
            terrain=terrain,
            names=tuple(host.node.name for host in self._hosts if host.node is not None),
            pods={key: tuple(pods) for key, pods in self._pods.items()},
            templates=tuple(self._board.templates[place] for place in used),
            positions=positions,
            masks=tuple(sort.mask for sort in self._sorts),
        )

    def _smallness(self, stance: Stance) -> tuple[float, int]:
        """Order classes by size, the largest first: by their share of what all nodes have."""
        share = sum(amount / whole for amount, whole in zip(stance.requests, self._whole, strict=True))
        return (-share, stance.pods.index)

    def _sort(self, stance: Stance) -> None:
        """Part the pods of a class by where they stay, and note the kind of each part."""
        parts: dict[tuple[_Pins, bool], list[Pod]] = {}
        for pod in stance.pods.pods:
            ghost = id(pod) not in self._moving
            pins: _Pins = ()
            if not ghost and stance.keys:
                labels = self._labels(self._homes[self._moving[id(pod)][1]])
                pins = tuple((key, labels.get(key, NOWHERE)) for key in stance.keys)
            parts.setdefault((pins, ghost), []).append(pod)
        for (pins, ghost), pods in parts.items():
            kind = self._kind(stance, pins, ghost=ghost)
            if ghost:
                self._extra[kind] = self._extra.get(kind, 0) + len(pods)
                continue
            for pod in pods:
                bound, name = self._moving[id(pod)]
                home = self._homes[name]
                self._pods.setdefault((home, kind), []).append(bound)
                if not is_plain(stance) or not self._is_at_ease(stance, pins):
                    self._staying.add(home)

    def _is_at_ease(self, stance: Stance, pins: _Pins) -> bool:
        """Tell whether the needs of pods are met where they stay; if not, nobody would let them in there again."""
        return all(
            self._holds(rule, stance, self._board.counts[rule.group].get(place, 0))
            for key, place in pins
            for rule in stance.places.get(key, ())
            if rule.hard
        )

    def _holds(self, rule: PlaceRule, stance: Stance, count: int) -> bool:
        """Tell whether a rule holds where so many pods of its group are, the owner included if it is one."""
        if rule.kind == "together":
            return count > 0
        if rule.kind == "apart":
            return count <= rule.counts_itself
        return count - self._board.emptiest(rule, stance) <= rule.max_skew

    def _labels(self, index: int) -> Mapping[str, str]:
        node = self._hosts[index].node
        return node.labels if node is not None else {}

    def _kind(self, stance: Stance, pins: _Pins, *, ghost: bool) -> int:
        """Return the number of the kind of pods that insist on something and stay in some places."""
        nodes = self._nodes_for(stance, pins)
        place, mask = self._offerings_for(stance, dict(pins))
        sort = _Sort(
            size=stance.requests,
            template=place,
            mask=mask,
            nodes=nodes,
            counted=stance.counted & self._owned,
            caps=stance.caps,
            ghost=ghost,
        )
        return self._sorts.setdefault(sort, len(self._sorts))

    def _nodes_for(self, stance: Stance, pins: _Pins) -> int:
        """Return the standing nodes that the pods may enter."""
        suiting = self._board.admission.matching(stance)
        nodes = self._matching.get(suiting)
        if nodes is None:
            nodes = self._matching[suiting] = _as_bits(suiting)
        for key, place in pins:
            there = self._in_place.get((key, place))
            if there is None:
                there = _as_bits(
                    index
                    for index in range(len(self._hosts))
                    if self._labels(index).get(key, NOWHERE) == place
                )
                self._in_place[key, place] = there
            nodes &= there
        return nodes

    def _offerings_for(self, stance: Stance, pins: Mapping[str, str]) -> tuple[int, int]:
        """Return the template that the pods are bought from, the first that can hold them, and its offerings."""
        for place, template in enumerate(self._board.templates):
            there = template.listed & template.within(pins)
            if self._board.admission.admitted(stance, template) & there:
                return place, self._board.admission.allowed(stance, template) & there
        return -1, 0

    def _sold(self) -> tuple[tuple[Source, ...], tuple[tuple[int, ...], ...], tuple[Kind, ...]]:
        """Return what is sold, without what nobody would buy, and the kinds with their offerings numbered anew."""
        masks: dict[int, set[int]] = {}
        for sort in self._sorts:
            if sort.template >= 0:
                masks.setdefault(sort.template, set()).add(sort.mask)
        sources: list[Source] = []
        positions: list[tuple[int, ...]] = []
        numbers: dict[tuple[int, int], tuple[int, int]] = {(-1, 0): (-1, 0)}
        for place, wanted in sorted(masks.items()):
            template = self._board.templates[place]
            overheads = tuple((mask, amounts) for mask, amounts, _ in template.overheads)
            limits = tuple(sorted(template.pool.limits.items()))
            limited = tuple(name for name, _ in limits if name != "nodes")
            menu = menu_for(template.catalogue, self._resources, overheads, tuple(sorted(wanted)), limited)
            chosen = tuple(sorted(menu.positions))
            for mask in wanted:
                numbers[place, mask] = (len(sources), _renumbered(mask, chosen))
            parts = tuple((_renumbered(mask, chosen), amounts) for mask, amounts in overheads)
            sources.append(
                Source(
                    _small(template.catalogue, chosen),
                    tuple((mask, amounts) for mask, amounts in parts if mask),
                    template.pool.name,
                    limits,
                )
            )
            positions.append(chosen)
        kinds = []
        for sort in self._sorts:
            source, mask = numbers[sort.template, sort.mask]
            kinds.append(Kind(sort.size, source, mask, sort.nodes, sort.counted, sort.caps, ghost=sort.ghost))
        return tuple(sources), tuple(positions), tuple(kinds)

    def _all_standing(self) -> Iterable[Standing]:
        contents: list[list[tuple[int, int]]] = [[] for _ in self._hosts]
        for (home, kind), pods in self._pods.items():
            contents[home].append((kind, len(pods)))
        for index, host in enumerate(self._hosts):
            yield self._standing(index, host, contents[index])

    def _standing(self, index: int, host: Host, contents: Iterable[tuple[int, int]]) -> Standing:
        name = host.node.name if host.node is not None else ""
        removable = self._world.removable.get(name)
        gain = 0.0
        if removable is not None:
            gain = removable.price_per_hour * (1.0 - removable.minimum_saving) - removable.cost
        return Standing(
            free=tuple([have - used for have, used in zip(host.room, host.used, strict=True)]),
            price=removable.price_per_hour if removable is not None else 0.0,
            contents=tuple(sorted(contents)),
            gain=gain,
            removable=removable is not None and index not in self._staying,
            receives=name in self._world.receivers,
            counts=tuple(
                sorted((group, n) for group, n in host.counts.items() if n and self._owned >> group & 1)
            ),
            caps=tuple(sorted(host.caps.items())),
        )


def _unbound(pod: Pod) -> Pod:
    """Return a pod without its node: pods of one workload then have the same text."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))


def _profiles(each: PodClass) -> tuple[Profile, ...]:
    return profiles_of(each, respect_preferences=True, taint_wishes=True)


def _on_every_node(snapshot: Snapshot) -> frozenset[str]:
    """Return labels that no node lacks, standing or to be bought."""
    bought = (ZONE, CAPACITY_TYPE, INSTANCE_TYPE)
    return frozenset(
        (HOSTNAME, *(key for key in bought if all(key in node.labels for node in snapshot.nodes)))
    )


def _as_bits(places: Iterable[int]) -> int:
    found = bytearray()
    for place in places:
        byte = place >> 3
        if byte >= len(found):
            found.extend(bytes(byte + 1 - len(found)))
        found[byte] |= 1 << (place & 7)
    return int.from_bytes(found, "little")


def _renumbered(mask: int, chosen: Iterable[int]) -> int:
    """Return a set of offerings as places among the chosen ones."""
    return sum(1 << place for place, position in enumerate(chosen) if mask >> position & 1)


def _small(catalogue: Catalogue, positions: Iterable[int]) -> Catalogue:
    """Return a catalogue of some offerings only; they keep their order."""
    offerings: dict[int, list[int]] = {}
    for position in positions:
        offerings.setdefault(catalogue.type_of[position], []).append(position)
    return Catalogue(
        InstanceType(
            kind.name,
            kind.labels,
            kind.capacity,
            kind.allocatable,
            tuple(catalogue.offerings[position] for position in chosen),
        )
        for kind, chosen in ((catalogue.types[index], chosen) for index, chosen in offerings.items())
    )
