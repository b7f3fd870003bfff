# SPDX-License-Identifier: Apache-2.0
"""The board of one solve: every node that stands or is to be bought, what is on it, who is counted where.

The board knows what a pod may do and keeps the books when it does. It does not choose: who is tried where, and in
which order, is the business of its users. Counts only grow, so a refusal for lack of room or by a cap is final.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from karpenter.api.base import EMPTY
from karpenter.api.labels import HOSTNAME
from karpenter.model.catalogue import bits, lowest_bit
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling.admission import Admission
from karpenter.scheduling.domains import Domains
from karpenter.scheduling.ground import stand
from karpenter.scheduling.groups import GroupTable
from karpenter.scheduling.hosts import Entry, Host, HostMemory, Memory, capacity_of, counted_capacity
from karpenter.scheduling.stances import PlaceRule, Stance
from karpenter.scheduling.templates import NOWHERE, Daemon, Template

__all__ = ["Board", "Entry", "Host", "Memory"]


class Board:
    """Nodes, counts and rules of one solve."""

    def __init__(
        self,
        snapshot: Snapshot,
        table: GroupTable,
        templates: Sequence[Template],
        daemons: Sequence[Daemon],
        resources: Sequence[str],
        *,
        best_effort: bool = False,
    ) -> None:
        self.table = table
        self.templates = templates
        self.resources = tuple(resources)
        self.snapshot = snapshot
        self.hosts: list[Host] = []
        # Per group: pods counted by place, and owners of needed anti-affinity by place.
        self.counts: list[dict[str, int]] = [{} for _ in table.groups]
        self.kept_apart: list[dict[str, int]] = [{} for _ in table.groups]
        self.total: list[int] = [0] * len(table.groups)
        # Per group: pods on nodes that lack the label, and so stand in no place.
        self.nowhere: list[int] = [0] * len(table.groups)
        # Groups counted per node, as bits.
        self.watched_hosts = sum(1 << group.index for group in table.groups if group.by_host)
        # Capacity of the nodes to be bought, by pool and limited resource.
        self.spent: dict[str, dict[str, int]] = {template.pool.name: {} for template in templates}
        # How many new nodes draw on each reservation.
        self.drawn: dict[str, int] = {}
        self.best_effort = best_effort
        # Whether a place is chosen by its price, as long as every rule allows it, rather than by who is there.
        self.cheapest_first = False
        # Whether a place was chosen though another was cheaper; whoever wants to know sets it back.
        self.passed_over_cheaper = False
        stand(snapshot, daemons, self)
        # Standing nodes come first; those to be bought follow.
        self.standing = len(self.hosts)
        self.admission = Admission(templates, self.hosts)
        self._domains = Domains(templates, table.groups, self.hosts)
        # What standing nodes were like before anybody entered, as far as anybody ever did.
        self._untouched: dict[int, HostMemory] = {}

    # What a pod may do.

    def breadth(self, stance: Stance) -> int:
        """Return on how many nodes, standing or to be bought, a pod of the class is worth trying."""
        return self.admission.vacant(stance) + len(self.hosts) - self.standing

    def entry(self, stance: Stance, host: Host, below: float = math.inf) -> Entry | None:
        """Return what it would settle if one more pod of the class entered the host; None if it may not.

        None also if it would make a node to be bought dearer, and not by less than ``below``.
        """
        mask = host.mask
        template = host.template
        if template is not None:
            mask &= self.admission.admitted(stance, template) if mask else 0
            if not mask:
                return None
        used = tuple(map(int.__add__, host.used, stance.requests))
        if template is not None:
            mask &= template.fitting(used)
            if mask and template.pool.limits:
                mask &= self.affordable(template, host)
            if not mask or template.price(mask) - template.price(host.mask) >= below:
                return None
        elif any(map(int.__gt__, used, host.room)) or not self.admission.matches(stance, host):
            return None
        if not self._host_rules_hold(stance, host) or not self._devices_free(stance, host):
            return None
        return self._places(stance, host, mask)

    def opening(self, stance: Stance, template: Template, among: int | None = None) -> Entry | None:
        """Return what a new node would be if a pod of the class opened it; None if it may not.

        It is bought on the market, unless it is to be ``among`` some offerings.
        """
        return self._opening(stance, template, template.listed if among is None else among)

    def reserved_opening(
        self, stance: Stance, template: Template, pins: Mapping[str, str] | None = None
    ) -> tuple[str, Entry] | None:
        """Return the first reservation with room on which a pod of the class may open a new node.

        With ``pins`` the pod's places are settled and counted already.
        """
        for reservation, mask in sorted(template.reserved.items(), key=lambda each: lowest_bit(each[1])):
            if self.left_of_reservation(reservation, template) > 0:
                entry = self._opening(stance, template, mask, pins)
                if entry is not None:
                    return reservation, entry
        return None

    def left_of_reservation(self, reservation: str, template: Template) -> int:
        """Return how many more nodes may draw on a reservation."""
        return template.catalogue.reservation_capacity(reservation) - self.drawn.get(reservation, 0)

    def _opening(
        self, stance: Stance, template: Template, among: int, pins: Mapping[str, str] | None = None
    ) -> Entry | None:
        mask = self.admission.admitted(stance, template) & self.affordable(template) & among
        if pins:
            mask &= template.within(pins)
        if not mask:
            return None
        if pins is not None:
            return Entry(mask, pins) if self.keeps_min_values(template, mask) else None
        empty = Host(-1, template=template, mask=mask, used=(0,) * len(self.resources))
        if not self._host_rules_hold(stance, empty):
            return None
        return self._places(stance, empty, mask)

    def capacity_for(self, stance: Stance, host: Host, pins: Mapping[str, str], most: int) -> int:
        """Return how many pods of a class, at most so many, may enter a host together in places settled before."""
        if host.node is not None:
            if any(host.node.labels.get(key, NOWHERE) != place for key, place in pins.items()):
                return 0
            for have, used, ask in zip(host.room, host.used, stance.requests, strict=True):
                if ask:
                    most = min(most, max(have - used, 0) // ask)
            if most <= 0 or not self.admission.matches(stance, host) or not self._devices_free(stance, host):
                return 0
        most = self._allowed_by_caps(stance, host, most)
        if host.node is None:
            while most > 0 and not self.mask_with(stance, host, pins, most):
                most //= 2
        return most

    def mask_with(self, stance: Stance, host: Host, pins: Mapping[str, str], number: int) -> int:
        """Return what a node to be bought can still be with more pods of a class on it; nothing for a standing one."""
        template = host.template
        if template is None:
            return 0
        mask = host.mask & self.admission.admitted(stance, template)
        mask &= template.within(pins)
        if not mask:
            return 0
        mask &= template.fitting(
            tuple(have + number * ask for have, ask in zip(host.used, stance.requests, strict=True))
        )
        if mask and template.pool.limits:
            mask &= self.affordable(template, host)
        return mask if self.keeps_min_values(template, mask) else 0

    def _allowed_by_caps(self, stance: Stance, host: Host, most: int) -> int:
        for group, cap in stance.caps:
            room = cap - host.counts.get(group, 0)
            if stance.counted >> group & 1:
                most = min(most, room)
            elif room < 0:
                return 0
        for group, cap in host.caps.items():
            if stance.counted >> group & 1:
                most = min(most, cap - host.counts.get(group, 0))
        return max(most, 0)

    def affordable(self, template: Template, host: Host | None = None) -> int:
        """Return the offerings that the pool's limits allow for one more node, or for a node already counted."""
        if not template.pool.limits:
            return template.mask
        own = counted_capacity(host) if host is not None else {}
        return self._within_limits(template, own)

    def _within_limits(self, template: Template, own: Mapping[str, int] = EMPTY) -> int:
        """Return the offerings that what is left of the pool's limits, and ``own`` besides, allows for one node."""
        mask = template.mask
        for resource, amount in self.left_of_limits(template).items():
            if resource == "nodes":
                mask = mask if amount + own.get(resource, 0) >= 1 else 0
            else:
                mask &= template.catalogue.at_most(resource, amount + own.get(resource, 0))
        return mask

    def left_of_limits(self, template: Template) -> dict[str, int]:
        """Return what the nodes bought so far leave of the pool's limits."""
        limits = template.pool.limits
        if not limits:
            return {}
        spent = self.spent[template.pool.name]
        return {resource: limit - spent.get(resource, 0) for resource, limit in limits.items()}

    def _host_rules_hold(self, stance: Stance, host: Host) -> bool:
        for group, cap in stance.caps:
            if host.counts.get(group, 0) + (stance.counted >> group & 1) > cap:
                return False
        for group, cap in host.caps.items():
            if stance.counted >> group & 1 and host.counts.get(group, 0) >= cap:
                return False
        return all(host.counts.get(rule.group, 0) or self.may_found(rule, stance) for rule in stance.near)

    def _devices_free(self, stance: Stance, host: Host) -> bool:
        pods = stance.pods
        if pods.ports and host.ports.conflict(pods.ports) is not None:
            return False
        if not pods.volumes.attachments.claims or host.node is None:
            return True
        attached = host.attached.union(pods.volumes.attachments)
        return attached.exceeded(host.node.volume_limits) is None

    def _places(self, stance: Stance, host: Host, mask: int) -> Entry | None:
        """Settle, key by key, the place of a pod in the host's reach: the emptiest of those that every rule allows."""
        pins: dict[str, str] = {}
        for key in stance.keys:
            places = self._reach(host, key, mask)
            open_places = [
                place
                for place, part in places.items()
                if self.is_open(stance, key, place)
                and (host.template is None or self.keeps_min_values(host.template, part))
            ]
            if not open_places:
                return None
            chosen = open_places[0]
            if len(open_places) > 1:
                chosen = self._most_appealing(stance, key, {place: places[place] for place in open_places})
            pins[key] = chosen
            mask &= places[chosen]
        for group in bits(stance.ambiguous):
            inside = mask & self._places_of_group(group, host)
            if inside and mask & ~inside:
                # Counted or not depends on the offering: settle it the cheaper way.
                mask = inside if lowest_bit(inside) == lowest_bit(mask) else mask & ~inside
        if host.template is not None and not self.keeps_min_values(host.template, mask):
            return None
        return Entry(mask, pins)

    def _most_appealing(self, stance: Stance, key: str, places: Mapping[str, int]) -> str:
        """Return the place that appeals most; note whether another would have been cheaper."""
        chosen = min(places, key=lambda place: self._appeal(stance, key, place, places[place]))
        if any(lowest_bit(mask) < lowest_bit(places[chosen]) for mask in places.values()):
            self.passed_over_cheaper = True
        return chosen

    def _places_of_group(self, group: int, host: Host) -> int:
        """Return the offerings with which a node to be bought is a place of a group; all or none if it stands."""
        places = self.table.groups[group].places
        if host.node is not None:
            node = host.node
            return -1 if places.admits(node.labels, node.taints, node.name) else 0
        assert host.template is not None
        return host.template.places_of(places)

    def _reach(self, host: Host, key: str, mask: int) -> dict[str, int]:
        """Return the places a host can be in, each with the offerings that put it there."""
        if host.node is not None:
            return {host.node.labels.get(key, NOWHERE): mask}
        assert host.template is not None
        if key in host.pins:
            return {host.pins[key]: mask}
        return {place: part & mask for place, part in host.template.reach(key).items() if part & mask}

    def is_open(self, stance: Stance, key: str, place: str) -> bool:
        """Tell whether every rule over a key lets a pod of the class into a place."""
        if place == NOWHERE:
            return all(rule.kind == "apart" for rule in stance.places.get(key, ()))
        for group in stance.counted_by.get(key, ()):
            if self.kept_apart[group].get(place):
                return False
        for rule in stance.places.get(key, ()):  # noqa: SIM110 - asked for every pod and place, twice as fast
            if not self.rule_holds(rule, stance, place):
                return False
        return True

    def rule_holds(self, rule: PlaceRule, stance: Stance, place: str) -> bool:
        """Tell whether a rule lets one more pod of the class into a place."""
        count = self.counts[rule.group].get(place, 0)
        if rule.kind == "apart":
            return count == 0
        if rule.kind == "together":
            return count > 0 or self.may_found(rule, stance)
        return count + rule.counts_itself - self.emptiest(rule, stance) <= rule.max_skew

    def may_found(self, rule: PlaceRule, stance: Stance) -> bool:
        """Tell whether a pod of the class may be the first of a group that it follows.

        It must be of the group itself, and nobody whom its needs make it follow may stand in any place.
        """
        if not rule.counts_itself or self.total[rule.group]:
            return False
        return not rule.hard or not any(self.total[group] for group in stance.followed)

    def emptiest(self, rule: PlaceRule, stance: Stance) -> int:
        """Return the count of the emptiest place of a spread rule; nothing where there are too few places."""
        places = self.eligible(rule.group, stance)
        if len(places) < rule.min_domains or not places:
            return 0
        counts = self.counts[rule.group]
        return min([counts.get(place, 0) for place in places])

    def eligible(self, group: int, stance: Stance) -> tuple[str, ...]:
        """Return the places of a group for a class: those that count, standing or to be bought."""
        return self._domains.of(group, stance)

    def _appeal(self, stance: Stance, key: str, place: str, mask: int) -> tuple[int, int, int, str]:
        """Order places: fewest pods of the class's own spreads, of spreads that count it, then the cheapest."""
        rules = stance.places.get(key, ())
        own = sum(self.counts[rule.group].get(place, 0) for rule in rules if rule.kind == "spread")
        others = sum(
            self.counts[group].get(place, 0)
            for group in stance.counted_by.get(key, ())
            if self.table.levelled >> group & 1
        )
        if self.cheapest_first:
            return (lowest_bit(mask), own, others, place)
        return (own, others, lowest_bit(mask), place)

    # Keeping the books.

    def open(self, template: Template, reservation: str = "") -> Host:
        """Put a new, empty node on the board; it counts against the pool's limits once a pod enters."""
        mask = template.reserved[reservation] if reservation else 0
        host = Host(len(self.hosts), template=template, mask=mask, used=(0,) * len(self.resources))
        self.hosts.append(host)
        if reservation:
            self.drawn[reservation] = self.drawn.get(reservation, 0) + 1
        return host

    def enter(
        self, stance: Stance, host: Host, entry: Entry, number: int = 1, *, counted: bool = False
    ) -> None:
        """Let pods of a class enter a host; ``counted`` says that their places have been counted before."""
        if host.index < self.standing and host.index not in self._untouched:
            self._untouched[host.index] = host.remember()
        if host.template is not None and host.template.pool.limits:
            self._book(host.template, counted_capacity(host), capacity_of(host.template, entry.mask))
        host.mask = entry.mask
        host.pins.update(entry.pins)
        host.used = tuple([have + number * ask for have, ask in zip(host.used, stance.requests, strict=True)])
        host.contents[stance] = host.contents.get(stance, 0) + number
        host.ports = host.ports.union(stance.pods.ports)
        host.attached = host.attached.union(stance.pods.volumes.attachments)
        away = self.not_counted_on(stance, host)
        self._count_on_host(stance, host, number, away)
        if not counted:
            self.count(stance, entry.pins, number, away)

    def move_in(self, host: Host, entry: Entry, pods: Mapping[Stance, int], used: tuple[int, ...]) -> None:
        """Let pods of many classes enter an empty new node together; their places have been counted before.

        Args:
            host: The node.
            entry: What they settle together.
            pods: How many pods of each class; no class that a rule counts on some nodes only.
            used: What they take together.
        """
        if host.template is not None and host.template.pool.limits:
            self._book(host.template, counted_capacity(host), capacity_of(host.template, entry.mask))
        host.mask = entry.mask
        host.pins.update(entry.pins)
        host.used = used
        host.contents.update(pods)
        for stance, number in pods.items():
            host.attached = host.attached.union(stance.pods.volumes.attachments)
            self._count_on_host(stance, host, number, 0)

    def leave(self, stance: Stance, host: Host, number: int) -> None:
        """Take pods of a class off a host again; what they alone had settled or taken is free again."""
        away = self.not_counted_on(stance, host)
        self.count(stance, self._pins_of(stance, host), -number, away)
        for group in stance.counted_by.get(HOSTNAME, ()):
            if away >> group & 1:
                continue
            host.counts[group] -= number
            self.total[group] -= number
        host.used = tuple(have - number * ask for have, ask in zip(host.used, stance.requests, strict=True))
        before = counted_capacity(host)
        host.contents[stance] -= number
        if not host.contents[stance]:
            del host.contents[stance]
        host.take_stock()
        if host.template is not None:
            self._reopen(host, host.template, before)

    def _pins_of(self, stance: Stance, host: Host) -> dict[str, str]:
        labels: Mapping[str, str] = host.pins if host.node is None else host.node.labels
        return {key: labels.get(key, NOWHERE) for key in stance.keys}

    def _reopen(self, host: Host, template: Template, before: Mapping[str, int]) -> None:
        """Work out anew what a node to be bought can be, and what it counts against the limits."""
        self._book(template, before, {})
        if not host.contents:
            # Not needed after all; whoever comes next opens another.
            for reservation, mask in template.reserved.items():
                if mask & host.mask:
                    self.drawn[reservation] -= 1
            host.mask = 0
            return
        among = next((mask for mask in template.reserved.values() if mask & host.mask), template.listed)
        mask = self.within_reach(host, template, among & self._within_limits(template))
        if self.keeps_min_values(template, mask):
            host.mask = mask
        self._book(template, {}, counted_capacity(host))

    def within_reach(self, host: Host, template: Template, among: int) -> int:
        """Return the offerings among some that a node to be bought could be as well, with the pods that it has."""
        mask = among & template.fitting(host.used) & template.within(host.pins)
        for stance in host.contents:
            mask &= self.admission.admitted(stance, template)
            for group in bits(stance.ambiguous):
                inside = self._places_of_group(group, host)
                mask &= inside if inside & host.mask else ~inside
        return mask

    def _book(self, template: Template, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Book what a node counts against its pool's limits instead of what it counted before."""
        spent = self.spent[template.pool.name]
        for resource in template.pool.limits:
            spent[resource] = spent.get(resource, 0) + after.get(resource, 0) - before.get(resource, 0)

    def not_counted_on(self, stance: Stance, host: Host) -> int:
        """Return the groups that would count the class elsewhere, but for which this host is no place."""
        away = 0
        for group in bits(stance.ambiguous):
            inside = self._places_of_group(group, host)
            if not (inside if host.node is not None else inside & host.mask):
                away |= 1 << group
        return away

    def _count_on_host(self, stance: Stance, host: Host, number: int, away: int) -> None:
        for group in stance.counted_by.get(HOSTNAME, ()):
            if away >> group & 1:
                continue
            host.counts[group] = host.counts.get(group, 0) + number
            self.total[group] += number
        host.heed(stance)

    def count(self, stance: Stance, pins: Mapping[str, str], number: int, away: int = 0) -> None:
        """Count pods of a class in their places, and keep others apart from them where their rules say so.

        Args:
            stance: The class.
            pins: The places by key.
            number: How many pods; fewer than none takes them back.
            away: Groups that do not count them after all, as bits.
        """
        for key, place in pins.items():
            if place == NOWHERE:
                continue
            for group in stance.counted_by.get(key, ()):
                if away >> group & 1:
                    continue
                self.counts[group][place] = self.counts[group].get(place, 0) + number
                self.total[group] += number
            for rule in stance.places.get(key, ()):
                if rule.kind == "apart" and rule.hard:
                    apart = self.kept_apart[rule.group]
                    apart[place] = apart.get(place, 0) + number

    def keeps_min_values(self, template: Template, mask: int) -> bool:
        """Tell whether a set of offerings keeps as many different values open as the pool asks for."""
        return self.best_effort or self.has_min_values(template, mask)

    def has_min_values(self, template: Template, mask: int) -> bool:
        """Tell the same, however strictly it is taken."""
        if not template.min_values:
            return True
        mask = template.as_small_as_cheapest(mask)
        return all(
            sum(1 for part in template.catalogue.values(requirement.key).values() if part & mask)
            >= (requirement.min_values or 0)
            for requirement in template.min_values
        )

    def price(self) -> float:
        """Return what the nodes to be bought cost per hour."""
        return sum(
            host.template.price(host.mask)
            for host in self.hosts[self.standing :]
            if host.template is not None and host.contents
        )

    def occupied(self) -> list[Host]:
        """Return, in order, the nodes that pods have entered, without a look at all the others of a large cluster."""
        return [host for host in self._changed() if host.contents]

    def _changed(self) -> Iterator[Host]:
        """Yield, in order, the nodes that may differ from what they were in the beginning."""
        for index in sorted(self._untouched):
            yield self.hosts[index]
        yield from self.hosts[self.standing :]

    def remember(self) -> Memory:
        """Return all that changes when pods enter and leave, to be restored later."""
        return Memory(
            self.hosts[self.standing :],
            {host.index: host.remember() for host in self._changed()},
            [dict(each) for each in self.counts],
            [dict(each) for each in self.kept_apart],
            list(self.total),
            {pool: dict(each) for pool, each in self.spent.items()},
            dict(self.drawn),
        )

    def restore(self, memory: Memory) -> None:
        """Make everything as it was."""
        self.hosts[self.standing :] = memory.bought
        for host in self._changed():
            host.restore(memory.hosts.get(host.index) or self._untouched[host.index])
        self.counts = [dict(each) for each in memory.counts]
        self.kept_apart = [dict(each) for each in memory.kept_apart]
        self.total = list(memory.total)
        self.spent = {pool: dict(each) for pool, each in memory.spent.items()}
        self.drawn = dict(memory.drawn)
