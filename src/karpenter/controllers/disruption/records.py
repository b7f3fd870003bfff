# SPDX-License-Identifier: Apache-2.0
"""What a command writes on the claims that it concerns, so that whoever comes next can go on: pure.

One annotation, JSON, on each claim that is to go and on each that was ordered in its place. It names the command, the
stage and everybody who takes part in the stage. Names of replacements are settled before they are created and follow
from the command and the moment of the decision: to order them twice is to order them once.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec

from karpenter.api.labels import DISRUPTION_COMMAND
from karpenter.api.nodeclaim import NodeClaim
from karpenter.consolidation.types import Reason

__all__ = ["Record", "record_of", "replacement_name"]

_SUFFIX: Final = 8
# What names of objects may hold; letters that make words are left out, as Kubernetes does.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_NAME: Final = 253


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part that a claim has in a command.

    Attributes:
        command: The command's id.
        decided_at: When it was decided, in seconds since 1970; with the id it tells two rounds apart.
        role: Whether the claim goes or comes.
        reason: Why, as budgets spell it.
        stage: Which stage it belongs to, from 0.
        remove: The claims of the stage that go.
        launch: The claims of the stage that come before.
        is_settled: Whether the stage was looked at again, so that those whom it names are final: it is gone on with if
            all of its replacements are there.
        saving_per_hour: What the stage promised.
    """

    command: str
    decided_at: float
    role: Literal["remove", "launch"] = "remove"
    reason: str = ""
    stage: int = 0
    remove: tuple[str, ...] = ()
    launch: tuple[str, ...] = ()
    is_settled: bool = False
    saving_per_hour: float = 0.0

    def text(self) -> str:
        """Gives the annotation's value."""
        return msgspec.json.encode(self).decode()


def record_of(claim: NodeClaim) -> Record | None:
    """Gives what is written on a claim; None if nothing is, or nothing that makes sense."""
    text = claim.metadata.annotations.get(DISRUPTION_COMMAND, "")
    if not text:
        return None
    try:
        record = msgspec.json.decode(text, type=Record)
    except msgspec.MsgspecError:
        return None
    # Anyone with the right to patch the claim can write here: a reason that is not ours was not written by us.
    return record if record.reason in set(Reason) else None


def replacement_name(pool: str, command: str, decided_at: float, stage: int, position: int) -> str:
    """Gives the name of a replacement."""
    text = f"{command}/{decided_at!r}/{stage}/{position}"
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    letters = []
    for _ in range(_SUFFIX):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return f"{pool[: _LONGEST_NAME - _SUFFIX - 1]}-{''.join(letters)}"
