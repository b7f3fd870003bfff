# SPDX-License-Identifier: Apache-2.0
"""A command under way: what is to be done, how far it has come, and what the API knows of it. Data only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from karpenter.consolidation.types import Command, Move, Reason, Stage
from karpenter.controllers.disruption.records import Record, replacement_name
from karpenter.controllers.disruption.telling import Act

__all__ = ["Part", "Phase", "Running", "adopted", "begun"]


class Phase(StrEnum):
    """What comes next for the stage that is being carried out."""

    MARK = "mark"
    WAIT = "wait"
    VALIDATE = "validate"
    LAUNCH = "launch"
    AWAIT = "await"
    CHECK = "check"
    DELETE = "delete"
    ROLL_BACK = "roll back"
    FINISH = "finish"


@dataclass(slots=True)
class Part:
    """One stage of a command.

    Attributes:
        stage: The stage as it was decided, and after the second look as it is carried out.
        claims: The claim of each node that goes, by node.
        launch: The names of the claims that come before.
        prices: What each claim that goes costs an hour; None where nobody knows.
        is_deleted: Whether its claims were deleted.
    """

    stage: Stage
    claims: dict[str, str]
    launch: tuple[str, ...] = ()
    prices: dict[str, float | None] = field(default_factory=dict)
    is_deleted: bool = False

    @property
    def uids(self) -> frozenset[str]:
        """The pods that it moves."""
        return frozenset(move.uid for move in self.stage.moves)

    def moves_to(self) -> Iterable[tuple[Move, str]]:
        """Gives each move with the claim or node that has room for the pod."""
        for move in self.stage.moves:
            yield move, self.launch[move.launch] if move.launch >= 0 else move.target


@dataclass(slots=True)
class Running:
    """A command under way.

    Attributes:
        id: The command's id.
        decided_at: When it was decided, in seconds since 1970.
        reason: Why.
        words: One sentence.
        parts: Its stages.
        first: Which of the command's stages the first part is: stages that go side by side are a command each, and so
            are those that another process has begun.
        price_before: Dollars an hour of all that goes.
        price_after: Dollars an hour of all that comes.
        current: Which stage is being carried out.
        phase: What comes next.
        until: By the monotonic clock, when the phase is over or has failed.
        settled_at: By the monotonic clock, until when nothing is deleted.
        problem: Why it is taken back.
        is_blameless: Whether it is taken back for no fault of its nodes, so that they may be tried again at once.
        pools: The pools that its nodes belong to.
        realised_per_hour: What it saves, once it is over and if all prices are known.
    """

    id: str
    decided_at: float
    reason: Reason
    words: str
    parts: list[Part]
    first: int = 0
    price_before: float = 0.0
    price_after: float = 0.0
    current: int = 0
    phase: Phase = Phase.MARK
    until: float = 0.0
    settled_at: float = 0.0
    problem: str = ""
    is_blameless: bool = False
    pools: frozenset[str] = frozenset()
    realised_per_hour: float | None = None

    @property
    def part(self) -> Part:
        """The stage that is being carried out."""
        return self.parts[self.current]

    @property
    def key(self) -> str:
        """Tells it apart from a later command of the same content."""
        return f"{self.id}@{self.decided_at!r}/{self.first}"

    @property
    def claims(self) -> tuple[str, ...]:
        """Every claim that goes, or was to go."""
        return tuple(claim for part in self.parts for claim in part.claims.values())

    @property
    def concerned(self) -> frozenset[str]:
        """Every claim that goes or comes."""
        return frozenset((*self.claims, *(name for part in self.parts for name in part.launch)))

    @property
    def act(self) -> Act:
        """What is said of it."""
        return Act(
            id=self.id,
            reason=str(self.reason),
            claims=self.claims,
            replacements=sum(len(part.launch) for part in self.parts),
            pods=sum(len(part.stage.moves) for part in self.parts),
            price_before=self.price_before,
            price_after=self.price_after,
            words=self.words,
        )

    def names_of(self, index: int) -> tuple[str, ...]:
        """Gives the names of the claims that come before a stage."""
        return tuple(
            replacement_name(node.pool, self.id, self.decided_at, self.first + index, position)
            for position, node in enumerate(self.parts[index].stage.launch)
        )

    def record(self, index: int, *, role: str = "remove", is_settled: bool = False) -> Record:
        """Gives what is written on the claims of a stage."""
        part = self.parts[index]
        return Record(
            command=self.id,
            decided_at=self.decided_at,
            role="launch" if role == "launch" else "remove",
            reason=str(self.reason),
            stage=self.first + index,
            remove=tuple(part.claims.values()),
            launch=part.launch,
            is_settled=is_settled,
            saving_per_hour=part.stage.saving_per_hour,
        )


def begun(
    command: Command, claims: dict[str, str], prices: dict[str, float | None], now: float
) -> tuple[Running, ...]:
    """Gives a command as it begins; ``claims`` has the claim of each node, ``prices`` what each costs.

    Stages that something is bought for go side by side, each by itself: none waits for the machines of another. The
    stages before them need nothing but room, and follow each other.
    """
    first = next((index for index, stage in enumerate(command.stages) if stage.launch), len(command.stages))
    groups = [range(first)] if first else []
    groups += [range(index, index + 1) for index in range(first, len(command.stages))]
    return tuple(_begun(command, group, claims, prices, now) for group in groups)


def _begun(
    command: Command,
    group: range,
    claims: dict[str, str],
    prices: dict[str, float | None],
    now: float,
) -> Running:
    parts, before, saving = [], 0.0, 0.0
    for stage in command.stages[group.start : group.stop]:
        own = {node: claims[node] for node in stage.remove}
        parts.append(Part(stage, own, prices={own[node]: prices.get(node) for node in own}))
        before += sum(prices.get(node) or 0.0 for node in own)
        saving += stage.saving_per_hour
    running = Running(
        id=command.id,
        decided_at=now,
        reason=command.reason,
        words=command.words,
        parts=parts,
        first=group.start,
        price_before=before,
        price_after=before - saving,
    )
    for index, part in enumerate(parts):
        part.launch = running.names_of(index)
    return running


def adopted(record: Record, nodes: dict[str, str], prices: dict[str, float | None]) -> Running:
    """Gives a command that another process has begun, at the point where its replacements are waited for.

    Args:
        record: What is written on its claims.
        nodes: The claim of each node of the stage that is still there.
        prices: What each claim costs an hour.
    """
    stage = Stage(remove=tuple(nodes), saving_per_hour=record.saving_per_hour)
    part = Part(stage, nodes, record.launch, prices)
    before = sum(each or 0.0 for each in prices.values())
    return Running(
        id=record.command,
        decided_at=record.decided_at,
        reason=Reason(record.reason),
        words=f"command {record.command} is gone on with",
        parts=[part],
        first=record.stage,
        price_before=before,
        price_after=before - record.saving_per_hour,
        phase=Phase.AWAIT,
    )
