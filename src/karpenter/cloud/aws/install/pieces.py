# SPDX-License-Identifier: Apache-2.0
"""What every piece of an installation can do: be found, made, mended and removed, and be told in a line."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any

from karpenter.cloud.aws.install.account import Account

__all__ = ["MARK", "Found", "Piece", "Standing", "same_json"]

# The tag of all that an installation made; its value is the cluster's name.
MARK = "karpenter.sh/installed-for"


class Standing(Enum):
    """How a piece stands against what is wanted."""

    ABSENT = "absent"
    RIGHT = "right"
    DIFFERS = "differs"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of a piece, and in which ways it is not what is wanted."""

    standing: Standing
    differences: tuple[str, ...] = ()

    @classmethod
    def compared(cls, differences: list[str]) -> Found:
        """Give what follows from a list of differences."""
        return cls(Standing.DIFFERS if differences else Standing.RIGHT, tuple(differences))


ABSENT = Found(Standing.ABSENT)


class Piece(ABC):
    """One thing in AWS that an installation needs."""

    kind: str
    name: str

    @property
    @abstractmethod
    def purpose(self) -> str:
        """Say in a few words what it is for."""

    @abstractmethod
    def find(self, account: Account) -> Found:
        """Look at what there is."""

    @abstractmethod
    def make(self, account: Account) -> None:
        """Make what is absent, or mend what differs; doing it twice changes nothing."""

    @abstractmethod
    def remove(self, account: Account) -> None:
        """Remove what carries our mark; what is gone already is no error."""

    def foreign(self, what: str) -> Found:
        """Give the finding for something that has our name and not our mark."""
        return Found(Standing.FOREIGN, (f"{what} exists and was not made by this installation",))


def same_json(one: Any, other: Any) -> bool:
    """Tell whether two documents say the same, whether given as text or read; a list of one equals its member."""
    return bool(_normal(one) == _normal(other))


def _normal(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in {"{", "["}:
        return _normal(json.loads(value))
    if isinstance(value, dict):
        return {key: _normal(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        listed = sorted((_normal(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
        return listed[0] if len(listed) == 1 else listed
    return value
