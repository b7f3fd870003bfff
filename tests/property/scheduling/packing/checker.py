# SPDX-License-Identifier: Apache-2.0
"""A slow and obvious judge of packings: pod by pod, offering by offering, no bit tricks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from karpenter.scheduling.packing import Bin, Lot, Packing, Room, Shape

Contents = Sequence[tuple[int, int]]


def faults(lot: Lot, packing: Packing) -> list[str]:
    """Return everything that is wrong with a packing."""
    return [
        *_count_faults(lot, packing),
        *(fault for bought in packing.bins for fault in _bin_faults(lot, bought)),
        *(
            fault
            for room, contents in zip(lot.rooms, packing.rooms, strict=True)
            for fault in _room_faults(lot, room, contents)
        ),
        *_limit_faults(lot, packing),
        *_price_faults(lot, packing),
    ]


def pods_of(lot: Lot, contents: Contents) -> list[Shape]:
    """Return the pods one by one."""
    return [lot.shapes[index] for index, number in contents for _ in range(number)]


def usage(lot: Lot, pods: Iterable[Shape]) -> tuple[int, ...]:
    """Return what the pods take together."""
    total = [0] * len(lot.resources)
    for pod in pods:
        for i, amount in enumerate(pod.size):
            total[i] += amount
    return tuple(total)


def holders(lot: Lot, pods: Sequence[Shape], extra: Sequence[int] = ()) -> list[int]:
    """Return the positions of all offerings that hold the pods, their DaemonSets and extra, and that all may use."""
    found = []
    used = usage(lot, pods)
    for position in range(len(lot.catalogue)):
        allocatable = lot.catalogue.type_at(position).allocatable
        for mask, overhead in lot.overheads:
            if mask >> position & 1 and all(pod.mask >> position & 1 for pod in pods):
                more = extra or (0,) * len(used)
                amounts = [sum(each) for each in zip(used, overhead, more, strict=True)]
                if all(
                    amount <= 0 or amount <= allocatable.get(name, 0)
                    for name, amount in zip(lot.resources, amounts, strict=True)
                ):
                    found.append(position)
    return found


def may_share(pods: Sequence[Shape], room: Room | None = None) -> bool:
    """Tell whether host rules and ports let the pods stand on one node, with what a room has already."""
    counts = dict(room.counts) if room else {}
    for pod in pods:
        for group, limit in pod.caps:
            others = sum(1 for other in pods if other.counted >> group & 1)
            if others + counts.get(group, 0) > limit:
                return False
    for group, cap in room.caps if room else ():
        entering = sum(1 for pod in pods if pod.counted >> group & 1)
        if entering and entering + counts.get(group, 0) > cap:
            return False
    if room and any(pod.port_conflicts & room.ports for pod in pods):
        return False
    return not any(
        one.ports & other.port_conflicts
        for i, one in enumerate(pods)
        for j, other in enumerate(pods)
        if i != j
    )


def _count_faults(lot: Lot, packing: Packing) -> Iterator[str]:
    placed = [0] * len(lot.shapes)
    for contents in (*packing.rooms, *(bought.contents for bought in packing.bins)):
        for index, number in contents:
            if number <= 0:
                yield f"shape {index} has {number} pods in a node"
            placed[index] += number
    for index, each in enumerate(lot.shapes):
        if placed[index] + packing.left[index] != max(0, each.count) or packing.left[index] < 0:
            yield f"shape {index}: {placed[index]} placed and {packing.left[index]} left of {each.count}"
        if packing.left[index] and not lot.limits and holders(lot, [each]) and may_share([each]):
            yield f"shape {index} is left but fits a node of its own"


def _bin_faults(lot: Lot, bought: Bin) -> Iterator[str]:
    pods = pods_of(lot, bought.contents)
    if not pods:
        yield "an empty bin"
    if list(bought.contents) != sorted(bought.contents):
        yield f"contents out of order: {bought.contents}"
    if usage(lot, pods) != bought.used:
        yield f"used {bought.used} is not what {bought.contents} take"
    exact = sum(1 << position for position in holders(lot, pods))
    if bought.mask & ~exact:
        yield f"the mask has offerings that do not hold {bought.contents}"
    if not bought.mask:
        yield f"nothing holds {bought.contents}"
    if not lot.limits and bought.mask != exact:
        yield f"the mask lacks offerings that hold {bought.contents}"
    if not may_share(pods):
        yield f"{bought.contents} may not stand together"


def _room_faults(lot: Lot, room: Room, contents: Contents) -> Iterator[str]:
    pods = pods_of(lot, contents)
    if any(not room.admits >> index & 1 for index, _ in contents):
        yield f"a room holds shapes it does not admit: {contents}"
    if pods and not may_share(pods, room):
        yield f"{contents} may not enter the room"
    if room.mask:
        if pods and not any(room.mask >> position & 1 for position in holders(lot, pods, room.used)):
            yield f"no offering of an open node holds {contents}"
    elif any(used > free for used, free in zip(usage(lot, pods), room.free, strict=True) if used):
        yield f"a room is overfilled by {contents}"


def _limit_faults(lot: Lot, packing: Packing) -> Iterator[str]:
    for name, limit in lot.limits:
        if name == "nodes":
            total = len(packing.bins)
        else:
            total = sum(
                max(
                    lot.catalogue.type_at(position).capacity.get(name, 0)
                    for position in range(len(lot.catalogue))
                    if bought.mask >> position & 1
                )
                for bought in packing.bins
            )
        if packing.bins and total > limit:
            yield f"{total} of {name} break the limit of {limit}"


def _price_faults(lot: Lot, packing: Packing) -> Iterator[str]:
    price = sum(
        min(
            lot.catalogue.offerings[position].price_per_hour
            for position in range(len(lot.catalogue))
            if bought.mask >> position & 1
        )
        for bought in packing.bins
    )
    if abs(price - packing.price_per_hour) > 1e-9 * max(1.0, price):
        yield f"price {packing.price_per_hour} is not {price}"
    if packing.bound_per_hour > packing.price_per_hour + 1e-9:
        yield f"bound {packing.bound_per_hour} above price {packing.price_per_hour}"


def cheapest_price(lot: Lot, pods: Sequence[Shape]) -> float:
    """Return the least price of new nodes for all the pods, by trying every way to part them."""
    best = float("inf")
    for parts in _partitions(list(range(len(pods)))):
        price = 0.0
        for part in parts:
            together = [pods[i] for i in part]
            fitting = holders(lot, together) if may_share(together) else []
            price += min(
                (lot.catalogue.offerings[position].price_per_hour for position in fitting),
                default=float("inf"),
            )
        best = min(best, price)
    return best


def _partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for parts in _partitions(rest):
        yield [[first], *parts]
        for i, part in enumerate(parts):
            yield [*parts[:i], [first, *part], *parts[i + 1 :]]
