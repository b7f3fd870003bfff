# SPDX-License-Identifier: Apache-2.0
"""Why a pod got no place, as values: the constraints that exclude everything, the nearest miss, what would help.

Nothing here is decided or put into words; ``explanation`` does both. Amounts are texts as Kubernetes writes them
(``1500m``, ``14162Mi``), because people read them and programs can parse them back.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = [
    "Cause",
    "Change",
    "ChangeKind",
    "Constraint",
    "Explanation",
    "Fix",
    "Nearest",
    "Reason",
    "Standing",
]


class Cause(StrEnum):
    """What kept the pods out."""

    # No node would help.
    UNREADABLE = "unreadable"
    CONTRADICTION = "contradiction"
    VOLUME = "volume"
    NO_POOLS = "no-pools"
    # What the pod asks for, against what the nodes of a pool are.
    TAINT = "taint"
    REQUIREMENT = "requirement"
    UNDEFINED_LABEL = "undefined-label"
    VOLUME_REACH = "volume-reach"
    RESOURCES = "resources"
    HOST_PORT = "host-port"
    # What the pool and the market allow.
    NO_TYPES = "no-types"
    POOL_REQUIREMENT = "pool-requirement"
    SOLD_OUT = "sold-out"
    LIMIT = "limit"
    MIN_VALUES = "min-values"
    # Other pods.
    SPREAD = "spread"
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    TOPOLOGY = "topology"
    # Standing nodes alone.
    ATTACH_LIMIT = "attach-limit"
    # Nothing excludes it: the solve stopped, or chose otherwise, before it found the place.
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint that takes part in keeping the pods out.

    Attributes:
        cause: Its kind.
        subject: The label, taint, resource, limit or port in question; for rules about other pods, the label
            whose values are the places.
        wanted: What the pods ask for.
        offered: What there is; empty where there is nothing at all.
        facts: Figures by name: a limit's ``limit``, ``in use``, ``left`` and ``needed``, the ``daemons`` part of a
            request, the pods counted in each place.
        hint: What was probably meant, in a few words.
    """

    cause: Cause
    subject: str = ""
    wanted: str = ""
    offered: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    hint: str = ""

    def fact(self, name: str) -> str:
        """Return a figure by its name, empty if it is not there."""
        return dict(self.facts).get(name, "")


@dataclass(frozen=True, slots=True)
class Reason:
    """A smallest set of constraints that together leave nothing of some pools: without any one, something is left.

    Attributes:
        constraints: The pod's part first, then the pool's own requirements.
        pools: The pools that it excludes, in the order in which they are tried; none where no pool is to blame.
        misses: How many constraints the nearest offering of the nearest of these pools fails.
    """

    constraints: tuple[Constraint, ...]
    pools: tuple[str, ...] = ()
    misses: int = 0

    @property
    def cause(self) -> Cause:
        """The kind of the first constraint."""
        return self.constraints[0].cause

    @property
    def subject(self) -> str:
        """The subject of the first constraint."""
        return self.constraints[0].subject

    @property
    def wanted(self) -> str:
        """What the pods ask for, by the first constraint."""
        return self.constraints[0].wanted

    @property
    def offered(self) -> str:
        """What there is, by the first constraint."""
        return self.constraints[0].offered

    @property
    def hint(self) -> str:
        """The first hint that a constraint carries, or nothing."""
        return next((each.hint for each in self.constraints if each.hint), "")


@dataclass(frozen=True, slots=True)
class Nearest:
    """The offering that comes closest.

    Attributes:
        pool: Its pool.
        instance_type: Its type.
        zone: Its zone.
        capacity_type: Its capacity type.
        fits: What of the pod's wants it meets, in short words.
        misses: What it fails.
    """

    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    fits: tuple[str, ...]
    misses: tuple[Constraint, ...]


class ChangeKind(StrEnum):
    """A change that a person could make; in the order in which they are offered, the smallest first."""

    CORRECT_REQUEST = "correct-request"
    RENAME_LABEL = "rename-label"
    CORRECT_VALUE = "correct-value"
    RAISE_LIMIT = "raise-limit"
    ADD_TOLERATION = "add-toleration"
    ALLOW_IN_POOL = "allow-in-pool"
    LOWER_MIN_VALUES = "lower-min-values"
    LOWER_REQUEST = "lower-request"
    RAISE_MAX_SKEW = "raise-max-skew"
    DROP_REQUEST = "drop-request"
    DROP_REQUIREMENT = "drop-requirement"
    DROP_HOST_PORT = "drop-host-port"
    SOFTEN_RULE = "soften-rule"


@dataclass(frozen=True, slots=True)
class Change:
    """One field of one object, as it is and as it should be.

    Attributes:
        kind: What is done.
        object: ``Pod`` or the NodePool, as ``NodePool general``.
        path: The way to the field in the manifest; a NodePool's requirements are found by their label.
        before: What the field says, in words.
        after: What it should say, in words; empty where it goes.
        value: What to write there, as in JSON; None takes the field away.
        note: What makes the change easier to understand, or empty.
    """

    kind: ChangeKind
    object: str
    path: tuple[str | int, ...]
    before: str = ""
    after: str = ""
    value: Any = dataclasses.field(default=None, hash=False)
    note: str = ""

    @property
    def field(self) -> str:
        """The path as people write it: ``spec.containers[0].resources.requests.cpu``."""
        text = ""
        for step in self.path:
            plain = isinstance(step, str) and all(letter not in step for letter in "./")
            text += f".{step}" if plain else f"[{step}]"
        return text.removeprefix(".")


@dataclass(frozen=True, slots=True)
class Fix:
    """Changes that together would place the pods; tried on the model, not guessed."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Why none of the standing nodes took the pods.

    Attributes:
        nodes: How many nodes stand.
        asked: How many of them were looked at.
        obstacles: The first constraint that each node fails, with the number of such nodes, the most frequent first.
    """

    nodes: int = 0
    asked: int = 0
    obstacles: tuple[tuple[Constraint, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything there is to say about pods without a place.

    Attributes:
        reasons: What excludes each pool, equal reasons together, the nearest pools first.
        pools: How many NodePools were asked.
        standing: The nodes that stand.
        nearest: The offering that comes closest, if any comes close at all.
        fixes: What would place the pods, the smallest change first; none where none was found or looked for.
    """

    reasons: tuple[Reason, ...]
    pools: int = 0
    standing: Standing = Standing()
    nearest: Nearest | None = None
    fixes: tuple[Fix, ...] = ()
