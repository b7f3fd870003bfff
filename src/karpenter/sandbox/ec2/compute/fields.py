# SPDX-License-Identifier: Apache-2.0
"""Reads a change that a person wrote: typed fields by name, and refusals that name the field.

A field that nobody asked for is a typing mistake and is refused, with the names that exist. Names are written in
camel case; ``instance_type`` and ``for_s`` are read as ``instanceType`` and ``forSeconds``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from karpenter.errors import KarpenterError
from karpenter.sandbox.ec2.compute.capacity import PoolPattern
from karpenter.sandbox.ec2.compute.settings import Lag

__all__ = ["ChangeError", "Fields", "camel"]


class ChangeError(KarpenterError, ValueError):
    """A change of the model that cannot be made; ``field`` is the path of what is wrong."""

    def __init__(self, field: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{field}: {message}", hint=hint)
        self.field = field


class Fields:
    """One mapping of a change, read field by field; ``close`` refuses what was not read."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, Mapping):
            raise ChangeError(path, f"must be a mapping, not {_name(value)}")
        self.path = path
        self._value: Mapping[str, Any] = {camel(str(key)): inner for key, inner in value.items()}
        self._asked: list[str] = []

    def __contains__(self, name: str) -> bool:
        return self._value.get(name) is not None

    def of(self, name: str) -> str:
        """Gives the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def text(self, name: str, default: str | None = None, among: Sequence[str] = ()) -> str:
        """Reads a text; without a default it must be there."""
        value = self._get(name, default)
        if not isinstance(value, str):
            raise ChangeError(self.of(name), f"must be a text, not {_name(value)}")
        if among and value not in among:
            raise ChangeError(self.of(name), f"{value!r} is not one of {', '.join(among)}")
        return value

    def number(self, name: str, default: float | None = None, least: float = 0) -> float:
        """Reads a number that is not below ``least``."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
            raise ChangeError(self.of(name), f"must be a number, not {_name(value)}")
        if value < least:
            raise ChangeError(self.of(name), f"{value} is below {least}")
        return value

    def whole(self, name: str, default: int | None = None, least: int = 0) -> int:
        """Reads a whole number that is not below ``least``."""
        value = self.number(name, default, least)
        if int(value) != value:
            raise ChangeError(self.of(name), f"must be a whole number, not {value}")
        return int(value)

    def count(self, name: str) -> int | None:
        """Reads a whole number, or None where the field is left out or null."""
        if name not in self:
            self._asked.append(name)
            return None
        return self.whole(name)

    def truth(self, name: str, default: bool | None = None) -> bool:  # noqa: FBT001 - mirrors its siblings
        """Reads true or false."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise ChangeError(self.of(name), f"must be true or false, not {_name(value)}")
        return value

    def moment(self, name: str) -> datetime | None:
        """Reads a time with its zone, None where it is left out."""
        value = self._get(name, "")
        if value == "":
            return None
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        except ValueError:
            raise ChangeError(
                self.of(name), f"{value!r} is no time", hint="write it as 2026-01-01T00:00:00Z"
            ) from None
        if moment.tzinfo is None:
            raise ChangeError(self.of(name), f"{value!r} has no zone", hint="add Z for UTC")
        return moment

    def lag(self, name: str, default: Lag) -> Lag:
        """Reads seconds, or the least and the most seconds: ``5`` or ``[0, 60]``."""
        value = self._get(name, list(default))
        pair = value if isinstance(value, list | tuple) else [value, value]
        good = len(pair) == 2 and all(isinstance(each, int | float) and each >= 0 for each in pair)
        if not good or pair[0] > pair[1]:
            raise ChangeError(
                self.of(name),
                f"{value!r} is neither seconds nor a pair of least and most",
                hint="5 or [0, 60]",
            )
        return float(pair[0]), float(pair[1])

    def texts(self, name: str) -> list[str]:
        """Reads a list of texts, empty where it is left out."""
        value = self._get(name, [])
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise ChangeError(self.of(name), f"must be a list of texts, not {_name(value)}")
        return list(value)

    def tags(self, name: str) -> dict[str, str]:
        """Reads a mapping of texts, empty where it is left out."""
        value = self._get(name, {})
        if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
            raise ChangeError(self.of(name), f"must map texts to texts, not {_name(value)}")
        return dict(value)

    def rows(self, name: str) -> list[Fields]:
        """Reads a list of mappings; a single mapping is a list of one."""
        value = self._get(name, [])
        if isinstance(value, Mapping):
            value = [value]
        if not isinstance(value, list | tuple):
            raise ChangeError(self.of(name), f"must be a list of mappings, not {_name(value)}")
        return [Fields(each, f"{self.of(name)}[{index}]") for index, each in enumerate(value)]

    def pools(self) -> PoolPattern:
        """Reads ``instanceType``, ``zone`` and ``capacityType``, each a pattern, ``*`` where left out."""
        kinds = ("*", "on-demand", "spot", "reserved", "capacity-block")
        return PoolPattern(
            self.text("instanceType", "*"), self.text("zone", "*"), self.text("capacityType", "*", kinds)
        )

    def close(self) -> None:
        """Refuses fields that were never read."""
        strange = [name for name in self._value if name not in self._asked]
        if strange:
            raise ChangeError(
                self.of(str(strange[0])),
                "is not known",
                hint=f"known here: {', '.join(sorted(set(self._asked)))}",
            )

    def _get(self, name: str, default: object) -> Any:
        self._asked.append(name)
        value = self._value.get(name)
        if value is not None:
            return value
        if default is None:
            raise ChangeError(self.of(name), "is missing")
        return default


def camel(name: str) -> str:
    """Gives a name of ours as changes and overviews spell it: ``pending_s`` becomes ``pendingSeconds``."""
    first, *rest = re.sub(r"_s$", "_seconds", name).split("_")
    return first + "".join(part.capitalize() for part in rest)


def _name(value: object) -> str:
    return f"{value!r} ({type(value).__name__})"
