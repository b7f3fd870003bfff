# SPDX-License-Identifier: Apache-2.0
"""Compares all pieces with what there is, and carries out what is missing, in order.

All is looked at before anything is done. One foreign piece, and nothing is done at all. A step that fails ends the run;
what was done before stays, and the next run goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from karpenter.cloud.aws.install.account import Account, InstallError
from karpenter.cloud.aws.install.pieces import Found, Piece, Standing

__all__ = ["ConflictError", "Step", "carry_out", "look", "remove"]

_VERBS = {
    Standing.ABSENT: "create",
    Standing.DIFFERS: "change",
    Standing.RIGHT: "keep",
    Standing.FOREIGN: "conflict",
}


class ConflictError(InstallError):
    """Something that is not ours stands in the way."""


@dataclass(frozen=True, slots=True)
class Step:
    """One piece, and what has to be done about it."""

    piece: Piece
    found: Found

    @property
    def verb(self) -> str:
        """Say what is done: create, change, keep, or that it is in conflict."""
        return _VERBS[self.found.standing]

    def as_json(self) -> dict[str, Any]:
        """Give the step as data."""
        return {
            "action": self.verb,
            "kind": self.piece.kind,
            "name": self.piece.name,
            "purpose": self.piece.purpose,
            "differences": list(self.found.differences),
        }


def look(account: Account, pieces: Iterable[Piece]) -> tuple[Step, ...]:
    """Look at every piece; changes nothing."""
    return tuple(Step(piece, piece.find(account)) for piece in pieces)


def carry_out(account: Account, steps: Sequence[Step], tell: Callable[[Step], None]) -> int:
    """Make and mend what is missing, and say how much that was.

    Raises:
        ConflictError: Something foreign is in the way; nothing was done.
        InstallError: A step failed; those before it are done.
    """
    foreign = [text for step in steps for text in step.found.differences if step.verb == "conflict"]
    if foreign:
        raise ConflictError(
            "\n".join(foreign),
            hint="nothing was done; rename or remove what is in the way, or install by hand with --emit",
        )
    wanted = [step for step in steps if step.verb != "keep"]
    for step in wanted:
        step.piece.make(account)
        tell(step)
    return len(wanted)


def remove(account: Account, steps: Sequence[Step], tell: Callable[[Step], None]) -> int:
    """Remove what is ours, the last made first, and say how much that was."""
    there = [step for step in reversed(steps) if step.found.standing in {Standing.RIGHT, Standing.DIFFERS}]
    for step in there:
        step.piece.remove(account)
        tell(step)
    return len(there)
