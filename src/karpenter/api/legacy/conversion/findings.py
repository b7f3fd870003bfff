# SPDX-License-Identifier: Apache-2.0
"""What a conversion has to say: warnings where a meaning moves, refusals where it cannot be kept.

Both are values that name the object and the field, so that the command, a controller and a test read the same
thing. Nothing here decides what deserves a warning; the modules beside this one do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Conversion", "ConversionWarning", "Journal", "ObjectRef", "RawObject", "Refusal", "Step"]

# An object as YAML or JSON has it: wire names, nothing decoded.
RawObject: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object of the input, by what a person calls it and by where it stands."""

    kind: str
    name: str
    position: int

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.name}" if self.name else f"{self.kind} (object {self.position + 1}, no name)"
        )


@dataclass(frozen=True, slots=True)
class ConversionWarning:
    """Something in a converted object that means more, less or something else than it did."""

    object: ObjectRef
    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.object}: {self.field}: {self.text}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why an object was not converted; ``hint`` says what to do about it."""

    object: ObjectRef
    field: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        # An unknown field is named by its reason already, in the API server's words.
        named = f'"{self.field}"' in self.reason
        return f"{self.object}: {self.reason}" if named else f"{self.object}: {self.field}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one object of the input; a refused object leaves nothing behind."""

    object: ObjectRef
    before: RawObject
    after: tuple[RawObject, ...]
    refused: bool = False

    @property
    def converted(self) -> bool:
        """Tells whether the object was rewritten, as opposed to passed through or refused."""
        return not self.refused and self.after != (self.before,)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The outcome for a whole input, in its order."""

    steps: tuple[Step, ...]
    warnings: tuple[ConversionWarning, ...]
    refusals: tuple[Refusal, ...]

    @property
    def objects(self) -> tuple[RawObject, ...]:
        """The objects to write: converted and passed-through ones, each where its original stood."""
        return tuple(manifest for step in self.steps for manifest in step.after)


@dataclass(slots=True)
class Journal:
    """Gathers the findings about one object while it is converted."""

    object: ObjectRef
    warnings: list[ConversionWarning] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def warn(self, path: str, text: str) -> None:
        """Notes that the meaning of a field moves."""
        self.warnings.append(ConversionWarning(self.object, path, text))

    def refuse(self, path: str, reason: str, hint: str = "") -> None:
        """Notes that a field cannot be carried over, which refuses the whole object."""
        self.refusals.append(Refusal(self.object, path, reason, hint))
