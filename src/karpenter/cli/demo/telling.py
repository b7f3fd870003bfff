# SPDX-License-Identifier: Apache-2.0
"""What has changed between two moments, as lines for people: what happened, and what it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from karpenter.cli.demo.money import hourly
from karpenter.cli.demo.seeing import Machine, Picture, Pod, State
from karpenter.kit.quantity import Format, Quantity

__all__ = ["Line", "bar", "changes"]

_EIGHTHS = " ▏▎▍▌▋▊▉"
_BOUGHT = (State.LAUNCHED, State.JOINED, State.READY)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: what happened, what it is about, and on lines of their own what there is to add."""

    what: str
    about: str = ""
    more: tuple[str, ...] = ()


def changes(
    before: Picture,
    after: Picture,
    why: Callable[[Machine], Sequence[str]],
    decided: Callable[[], tuple[float | None, float | None]],
) -> Iterator[Line]:
    """Gives what has happened, in the order in which it does.

    Args:
        before: The cluster at the last look.
        after: The cluster now.
        why: Explains a machine that was bought.
        decided: Gives how many milliseconds the last decision took, and the dollars an hour that no plan can go below.
    """
    yield from _waiting(before, after)
    yield from _ended(before, after)
    known = {each.claim: each for each in before.machines}
    yield from _ordered([each for each in after.machines if each.claim not in known], decided)
    for machine in after.machines:
        yield from _machine(known.get(machine.claim), machine, why)
        yield from _removal(known.get(machine.claim), machine, before, after)
    there = {each.claim for each in after.machines}
    for machine in before.machines:
        if machine.claim not in there:
            yield Line("gone", f"{_called(machine)}, {machine.instance or 'never launched'}")


def _waiting(before: Picture, after: Picture) -> Iterator[Line]:
    known = {each.key for each in before.pods}
    fresh = [each for each in after.pending if each.key not in known]
    displaced = {each.key for each in before.pods if not each.pending}
    fresh += [each for each in after.pending if each.key in displaced]
    if fresh:
        yield Line(f"{len(fresh)} pod{'s' * (len(fresh) != 1)} pending", ", ".join(_grouped(fresh)))


def _ended(before: Picture, after: Picture) -> Iterator[Line]:
    left = {each.key for each in after.pods}
    gone = [each for each in before.pods if each.key not in left]
    if gone:
        yield Line(f"{len(gone)} pod{'s' * (len(gone) != 1)} ended", ", ".join(_grouped(gone)))


def _ordered(
    fresh: Sequence[Machine], decided: Callable[[], tuple[float | None, float | None]]
) -> Iterator[Line]:
    if not fresh:
        return
    took_ms, bound = decided()
    pods = sum(each.planned_pods for each in fresh)
    count = f"{len(fresh)} more node{'s' * (len(fresh) != 1)}"
    room = f" for {pods} pod{'s' * (pods != 1)}" if pods else ""
    # Without a plan of its own since, it is another's successor, and the bound is of the plan before.
    floor = f"   (no plan for them is below {hourly(bound)})" if bound and took_ms is not None else ""
    names = ", ".join(each.claim for each in fresh[:3]) + (" ..." if len(fresh) > 3 else "")
    what = "decided" if took_ms is None else f"decided in {took_ms:.0f} ms"
    yield Line(what, f"{count}{room}: NodeClaim {names}{floor}")


def _grouped(pods: Sequence[Pod]) -> list[str]:
    alike = Counter((each.workload, each.memory_bytes, each.cpu_milli) for each in pods)
    return [
        f"{workload}  {count} x {_amounts(memory, cpu)}" for (workload, memory, cpu), count in alike.items()
    ]


def _amounts(memory_bytes: int, cpu_milli: int) -> str:
    words = [f"memory {Quantity.from_value(memory_bytes, Format.BINARY_SI)}"] if memory_bytes else []
    words += [f"cpu {cpu_milli / 1000:g}"] if cpu_milli else []
    return ", ".join(words) or "asks for nothing"


def _machine(old: Machine | None, new: Machine, why: Callable[[Machine], Sequence[str]]) -> Iterator[Line]:
    was = old.state if old is not None else None
    if new.state in _BOUGHT and was in {None, State.ORDERED}:
        price = hourly(new.price_per_hour)
        about = f"{new.instance_type} {new.capacity_type} {new.zone}  {price}  {new.instance}"
        yield Line("launched", about, tuple(why(new)))
    if new.state in {State.JOINED, State.READY} and was in {None, State.ORDERED, State.LAUNCHED}:
        yield Line("joined the cluster", new.shown)
    if new.state == State.READY and was != State.READY:
        yield Line("node ready", _called(new))
    if new.state == State.JOINED and was == State.READY:
        yield Line("node not ready", _called(new))


def _removal(old: Machine | None, new: Machine, before: Picture, after: Picture) -> Iterator[Line]:
    if new.state != State.LEAVING:
        return
    was = old.state if old is not None else None
    told = (after.removals or {}).get(new.claim, "").removeprefix("Disrupting Node: ")
    if was == State.LEAVING and told and new.claim not in (before.removals or {}):
        # The controller's event may come a moment after the deletion that it speaks of.
        yield Line("because", told)
    if was != State.LEAVING:
        yield Line(
            "removing a node", f"{_called(new)}  {hourly(new.price_per_hour)}", (told,) if told else ()
        )


def _called(machine: Machine) -> str:
    return f"{machine.shown} ({machine.instance_type})" if machine.instance_type else machine.shown


def bar(share: float, width: int = 20) -> str:
    """Gives a bar of that width, filled by eighths of a character."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)
