# SPDX-License-Identifier: Apache-2.0
"""The words in which a type says what its CustomResourceDefinition says about it.

A field carries ``Annotated[T, Schema("One sentence.", pattern=...)]``; a class carries ``RULES``, a tuple of
CEL rules. Both are for the generator alone: decoding ignores them, because an object that reached us has
passed its schema. Only what structural schemas know is sayable here; there is no ``oneOf`` and no ``$ref``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

__all__ = ["Column", "Kind", "Rule", "Scale", "Schema", "Version"]


@dataclass(frozen=True)
class Rule:
    """A CEL rule and what a person reads when it does not hold."""

    rule: str
    message: str
    field_path: str = ""


@dataclass(frozen=True)
class Schema:
    """What the CRD says about one field beyond its Python type.

    ``required`` follows from the Python field having no default unless it is given. ``default`` is what the
    API server fills in, as it stands on the wire. ``items`` speaks about list items and map values.
    ``fields`` speaks, by wire name, about the fields of a type that is described elsewhere or not at all.
    """

    description: str = ""
    _: KW_ONLY
    required: bool | None = None
    default: Any = field(default=None, hash=False)
    format: str | None = None
    pattern: str | None = None
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    max_properties: int | None = None
    list_type: Literal["atomic", "set", "map"] | None = None
    list_keys: tuple[str, ...] = ()
    map_type: Literal["atomic", "granular"] | None = None
    rules: tuple[Rule, ...] = ()
    items: Schema | None = None
    fields: Mapping[str, Schema] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Column:
    """A column of ``kubectl get``; priority 1 shows it only with ``-o wide``."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0


@dataclass(frozen=True)
class Scale:
    """Where the scale subresource finds the wanted and the present count."""

    spec_path: str
    status_path: str


@dataclass(frozen=True)
class Version:
    """One served version of a kind."""

    name: str
    type: type
    _: KW_ONLY
    columns: tuple[Column, ...] = ()
    scale: Scale | None = None
    storage: bool = False
    deprecation: str = ""


@dataclass(frozen=True)
class Kind:
    """Everything about a kind that is not in its schema."""

    group: str
    name: str
    plural: str
    versions: tuple[Version, ...]
    _: KW_ONLY
    scope: Literal["Cluster", "Namespaced"] = "Cluster"
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ("karpenter",)

    @property
    def singular(self) -> str:
        """Return the lower-case name that ``kubectl get`` takes for one object."""
        return self.name.lower()

    @property
    def crd_name(self) -> str:
        """Return the name of the CustomResourceDefinition object."""
        return f"{self.plural}.{self.group}"

    @property
    def file_name(self) -> str:
        """Return the name of the YAML file that holds the CustomResourceDefinition."""
        return f"{self.group}_{self.plural}.yaml"
