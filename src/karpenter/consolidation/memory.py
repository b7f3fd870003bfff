# SPDX-License-Identifier: Apache-2.0
"""What consolidation remembers from one round to the next, as one frozen value that survives a restart.

Five things, each of them bounded: how long a saving lasts in each pool (the horizon, learnt from regret), how many
replicas there were over the last day (``tides``), which workloads had pods moved lately, how many replicas each
workload had in the last half hour and whether it went up again after it had gone down, and what was promised against
what came of it.

Pure: every change gives a new value, and the time comes in as an argument (seconds since 1970). A text that is not a
memory of ours is refused by an error, never half read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from karpenter.api.base import EMPTY
from karpenter.api.core import Pod
from karpenter.consolidation.tides import Tide
from karpenter.errors import KarpenterError

__all__ = ["Crest", "Memory", "MemoryUnreadableError", "PoolMemory", "Promise", "workload_of"]

HOUR_S: Final = 3600.0

# A launch for waiting pods so soon after a removal says that the removal was a mistake.
REGRET_WITHIN_S: Final = HOUR_S
# A workload holds the room of its peak for so long, once it is known to swing.
PEAK_S: Final = 1800.0
# A rise so soon after a fall makes a workload one that swings, and it stays one for so long.
REBOUND_WITHIN_S: Final = HOUR_S
SWINGS_FOR_S: Final = 2 * HOUR_S
MOVES_KEPT_S: Final = HOUR_S
PROMISES_KEPT: Final = 200
# However soon things change by yesterday's curve, a saving is expected to last for so long.
LEAST_LIFE_H: Final = 0.5

_SHRINK: Final = 1.5
_GROWTH: Final = 1.25
# A crest keeps no more steps down than this; beyond it the oldest, which is the highest, is what matters.
_MOST_STEPS: Final = 32
# Quiet for longer than this teaches no more than this.
_MOST_HOURS: Final = 1000


class Horizons(Protocol):
    """The part of the settings that bounds what is learnt, in hours."""

    @property
    def horizon_h(self) -> float:
        """The horizon of a pool that has taught nothing yet."""

    @property
    def horizon_floor_h(self) -> float:
        """The shortest horizon."""

    @property
    def horizon_ceiling_h(self) -> float:
        """The longest horizon."""


def workload_of(pod: Pod) -> str:
    """Name what a pod is a replica of: its controller, or itself where it has none."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return f"{pod.metadata.namespace}/{owner.kind}/{owner.name}"
    return f"{pod.metadata.namespace}/Pod/{pod.metadata.name}"


class MemoryUnreadableError(KarpenterError):
    """A text that is no memory of ours."""


class PoolMemory(msgspec.Struct, frozen=True):
    """What one pool has taught.

    Attributes:
        horizon_h: For how many hours a saving is expected to last.
        since: From when on the next quiet hour counts.
        removed_at: When consolidation last took a node with pods on it.
        regrets: How often capacity had to be bought back.
    """

    horizon_h: float
    since: float
    removed_at: float | None = None
    regrets: int = 0


class Crest(msgspec.Struct, frozen=True):
    """How many replicas a workload had of late.

    Attributes:
        seen: Numbers, falling, each after the last moment at which there were so many; only what can still be a
            peak is kept.
        fell_at: When it last went down.
        rebound_at: When it last went up again soon after it had gone down.
    """

    seen: tuple[tuple[float, int], ...] = ()
    fell_at: float | None = None
    rebound_at: float | None = None


class Promise(msgspec.Struct, frozen=True):
    """What a command promised to save per hour, and what came of it once that is known."""

    command: str
    at: float
    reason: str
    promised_per_hour: float
    realised_per_hour: float | None = None


class Memory(msgspec.Struct, frozen=True):
    """Everything remembered; ``Memory()`` knows nothing yet.

    Attributes:
        pools: By pool.
        moves: When pods of a workload were last moved by us, by workload.
        crests: Recent numbers of replicas, by workload.
        tide: How many replicas all workloads together had over the last day.
        promises: The last commands, oldest first.
    """

    pools: Mapping[str, PoolMemory] = EMPTY
    moves: Mapping[str, float] = EMPTY
    crests: Mapping[str, Crest] = EMPTY
    tide: Tide = Tide()
    promises: tuple[Promise, ...] = ()

    def horizon_h(self, pool: str, horizons: Horizons) -> float:
        """Return for how many hours a saving in the pool is expected to last.

        That is what the pool has taught, but no longer than things stay as they are if today is like yesterday.
        """
        known = self.pools.get(pool)
        wanted = horizons.horizon_h if known is None else known.horizon_h
        learnt = min(max(wanted, horizons.horizon_floor_h), horizons.horizon_ceiling_h)
        return min(learnt, max(self.tide.life_h(), LEAST_LIFE_H))

    def removed(self, pools: Iterable[str], now: float, horizons: Horizons) -> Memory:
        """Note that consolidation took nodes with pods on them from these pools."""
        changed = dict(self.pools)
        for pool in pools:
            changed[pool] = replace(self._pool(pool, now, horizons), removed_at=now)
        return replace(self, pools=changed)

    def launched(self, pools: Iterable[str], now: float, horizons: Horizons) -> Memory:
        """Note that nodes were bought for waiting pods: regret, where one was removed within the hour before.

        A removal is regretted once.
        """
        changed = dict(self.pools)
        for pool in pools:
            known = changed.get(pool)
            if (
                known is not None
                and known.removed_at is not None
                and now - known.removed_at <= REGRET_WITHIN_S
            ):
                changed[pool] = replace(self._regret(pool, now, horizons), removed_at=None)
        return replace(self, pools=changed)

    def missed(self, pools: Iterable[str], now: float, horizons: Horizons) -> Memory:
        """Note that a command did not save what it promised, in these pools: regret too."""
        changed = dict(self.pools)
        for pool in pools:
            changed[pool] = self._regret(pool, now, horizons)
        return replace(self, pools=changed)

    def hour_passed(self, pools: Iterable[str], now: float, horizons: Horizons) -> Memory:
        """Lengthen the horizon of each pool by what full quiet hours teach, and forget what is too old to matter.

        May be called as often as one likes: an hour counts once. A pool that is not named is forgotten. Before a whole
        day is known, quiet hours teach nothing: they may be those of the night.
        """
        changed = {}
        for pool in pools:
            known = self._pool(pool, now, horizons)
            hours = min(max(0, int((now - known.since) // HOUR_S)), _MOST_HOURS)
            longer = known.horizon_h * _GROWTH**hours if self.tide.knows_a_day else known.horizon_h
            changed[pool] = replace(
                known,
                horizon_h=min(longer, horizons.horizon_ceiling_h),
                since=known.since + hours * HOUR_S,
            )
        return replace(
            self,
            pools=changed,
            moves={key: at for key, at in self.moves.items() if now - at <= MOVES_KEPT_S},
        )

    def moved(self, pods: Iterable[Pod], now: float) -> Memory:
        """Note that pods were moved by us: their successors weigh more for an hour."""
        return replace(self, moves={**self.moves, **{workload_of(pod): now for pod in pods}})

    def was_moved(self, pod: Pod, now: float) -> bool:
        """Tell whether the pod is there because we moved one of its workload within the last hour."""
        at = self.moves.get(workload_of(pod))
        if at is None or now - at > MOVES_KEPT_S:
            return False
        created = pod.metadata.creation_timestamp
        return created is not None and created.timestamp() >= at

    def counted(self, replicas: Mapping[str, int], now: float) -> Memory:
        """Note how many replicas each workload is to have; a workload that is not named is forgotten.

        The numbers are those that were asked for (``spec.replicas``), not the pods there are: while pods are being
        moved there are too few or too many of them.
        """
        crests = {
            workload: _seen(self.crests.get(workload, Crest()), number, now)
            for workload, number in replicas.items()
        }
        return replace(self, crests=crests, tide=self.tide.seen(float(sum(replicas.values())), now))

    def ghosts(self, now: float) -> dict[str, int]:
        """Return for how many more replicas than it has each swinging workload keeps its room."""
        found = {}
        for workload, crest in self.crests.items():
            if crest.rebound_at is None or now - crest.rebound_at > SWINGS_FOR_S:
                continue
            recent = [number for until, number in crest.seen if now - until <= PEAK_S]
            more = max(recent, default=0) - crest.seen[-1][1]
            if more > 0:
                found[workload] = more
        return found

    def promised(self, command: str, reason: str, saving_per_hour: float, now: float) -> Memory:
        """Note what a command promises to save."""
        entry = Promise(command, now, reason, saving_per_hour)
        return replace(self, promises=(*self.promises, entry)[-PROMISES_KEPT:])

    def realised(self, command: str, saving_per_hour: float) -> Memory:
        """Note what came of a promise."""
        return replace(
            self,
            promises=tuple(
                replace(each, realised_per_hour=saving_per_hour) if each.command == command else each
                for each in self.promises
            ),
        )

    def to_json(self) -> str:
        """Write it down; the same memory gives the same text."""
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str) -> Memory:
        """Read what ``to_json`` wrote.

        Raises:
            MemoryUnreadableError: It is something else.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise MemoryUnreadableError(
                f"the memory of consolidation cannot be read: {error}",
                hint="delete it; horizons and recent moves are then learnt anew",
            ) from error

    def _pool(self, pool: str, now: float, horizons: Horizons) -> PoolMemory:
        return self.pools.get(pool) or PoolMemory(horizons.horizon_h, now)

    def _regret(self, pool: str, now: float, horizons: Horizons) -> PoolMemory:
        known = self._pool(pool, now, horizons)
        shorter = max(known.horizon_h / _SHRINK, horizons.horizon_floor_h)
        return replace(known, horizon_h=shorter, since=now, regrets=known.regrets + 1)


def _seen(crest: Crest, number: int, now: float) -> Crest:
    before = crest.seen[-1][1] if crest.seen else number
    # Until this moment there were as many as before.
    steps = (*crest.seen[:-1], (now, before))
    higher = [(until, many) for until, many in steps if many > number and now - until <= PEAK_S]
    fell_at, rebound_at = crest.fell_at, crest.rebound_at
    if number < before:
        fell_at = now
    elif number > before and fell_at is not None and now - fell_at <= REBOUND_WITHIN_S:
        rebound_at = now
    return Crest((*higher[:_MOST_STEPS], (now, number)), fell_at, rebound_at)
