# SPDX-License-Identifier: Apache-2.0
"""What becomes of an object that someone sends to the API server: pruned, defaulted, judged.

Decides from the object, what it was before, and the CustomResourceDefinitions alone, in the server's order:
unreadable metadata ends everything; unknown fields go; defaults come; then metadata, schema and duplicates
are judged together, and rules in CEL only if no type or presence is wrong.

Left to whoever stores objects: names, uids, timestamps, resource versions, and whether the object exists at
all.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Final

import yaml

from karpenter.api.schema import gotext
from karpenter.api.schema.correlation import Correlation
from karpenter.api.schema.defaults import apply_defaults
from karpenter.api.schema.listtypes import duplicate_problems
from karpenter.api.schema.metadata import (
    creation_problems,
    embedded_problems,
    has_embedded,
    read_embedded,
    read_metadata,
    update_problems,
)
from karpenter.api.schema.problems import (
    NO_FIELD,
    Problem,
    ProblemType,
    ValidationFailedError,
    child,
    distinct,
    invalid,
    unknown_field,
)
from karpenter.api.schema.prune import drop_nulls, prune
from karpenter.api.schema.rules import RuleTree, compile_rules, rule_problems
from karpenter.api.schema.structural import Node, SchemaError, compile_schema, json_type
from karpenter.api.schema.validate import schema_problems
from karpenter.errors import KarpenterError

__all__ = ["Admission", "Definition", "Registry", "UnknownKindError", "load_crds"]

_CRDS_PACKAGE: Final = "karpenter.api.crds"
_LARGEST_INT32: Final = 2**31 - 1

# An object with one of these may be of any shape, so rules that rely on its shape are not tried.
_BLOCKING: Final = frozenset(
    {
        ProblemType.NOT_SUPPORTED,
        ProblemType.REQUIRED,
        ProblemType.TOO_LONG,
        ProblemType.TOO_MANY,
        ProblemType.TYPE_INVALID,
    }
)
_RULES_NOT_CHECKED: Final = invalid(
    NO_FIELD,
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation",
)


class UnknownKindError(KarpenterError):
    """An apiVersion and kind that no definition serves."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict on one object.

    Attributes:
        object: What the server would store, without what it gives out itself; the input if it is unreadable.
        pruned: The paths of unknown fields that were left out.
        problems: Everything wrong; none means accepted.
        unreadable: The server could not even decode the object (it answers 400, not 422).
    """

    object: dict[str, Any]
    pruned: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    unreadable: bool = False

    @property
    def accepted(self) -> bool:
        """Return whether the server would take the object."""
        return not self.problems

    def check(self) -> dict[str, Any]:
        """Return the object if it is accepted.

        Raises:
            ValidationFailedError: it is not; the error carries every problem.
        """
        if self.problems:
            metadata = self.object.get("metadata")
            named = metadata if isinstance(metadata, dict) else {}
            name = named.get("name") or named.get("generateName") or ""
            raise ValidationFailedError(str(self.object.get("kind", "")), str(name), self.problems)
        return self.object


class Definition:
    """One served version of one kind; its schema is compiled when first needed."""

    def __init__(self, crd: Mapping[str, Any], version: Mapping[str, Any]) -> None:
        spec = crd["spec"]
        self.group: str = spec["group"]
        self.version: str = version["name"]
        self.kind: str = spec["names"]["kind"]
        self.plural: str = spec["names"]["plural"]
        self.namespaced: bool = spec["scope"] == "Namespaced"
        # Objects of a version that is not stored go through the stored version too, and take its defaults there.
        self.is_stored: bool = version["storage"]
        self._schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
        subresources = version.get("subresources", {})
        self.has_status = subresources.get("status") is not None
        self._scale: Mapping[str, str] = subresources.get("scale", {})

    @property
    def api_version(self) -> str:
        """Return group and version as they stand in a manifest."""
        return f"{self.group}/{self.version}"

    @cached_property
    def node(self) -> Node:
        """Return the compiled schema."""
        return compile_schema(self._schema)

    @cached_property
    def rules(self) -> RuleTree | None:
        """Return the compiled rules."""
        return compile_rules(self.node)

    @cached_property
    def _embeds(self) -> bool:
        return has_embedded(self.node)

    def admit(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None = None,
        *,
        strict: bool = False,
        subresource: str = "",
        namespace: str = "default",
    ) -> Admission:
        """Return what the server would make of the object; see ``Registry.admit``."""
        try:
            return self._admitted(dict(obj), old, strict=strict, subresource=subresource, namespace=namespace)
        except RecursionError:
            text = "is nested too deeply to be read"
            return Admission(dict(obj), problems=(invalid(NO_FIELD, "object", text),), unreadable=True)

    def _admitted(
        self,
        obj: dict[str, Any],
        old: Mapping[str, Any] | None,
        *,
        strict: bool,
        subresource: str,
        namespace: str,
    ) -> Admission:
        new = self._read(obj)
        if new.unreadable:
            return new
        before = None if old is None else self._read(dict(old)).object
        prepared = self._prepared(new.object, before, subresource, namespace)
        problems = self._problems(prepared, before, subresource)
        unknown = [unknown_field(path) for path in new.pruned] if strict else []
        return Admission(prepared, new.pruned, distinct([*unknown, *problems]))

    def _read(self, obj: dict[str, Any]) -> Admission:
        """Return the object pruned and defaulted, as the server's decoder gives it on."""
        metadata = read_metadata(obj.get("metadata"))
        problems = list(metadata.problems)
        pruned = prune(obj, self.node)
        paths = [*metadata.pruned, *pruned.paths]
        content = drop_nulls(pruned.object, self.node)
        if self._embeds:
            content, dropped, unreadable = read_embedded(content, self.node)
            paths += dropped
            problems += unreadable
        if problems:
            return Admission(obj, problems=distinct(problems), unreadable=True)
        head = {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata.metadata}
        return Admission({**head, **apply_defaults({**content, **head}, self.node)}, tuple(paths))

    def _prepared(
        self, new: dict[str, Any], old: dict[str, Any] | None, subresource: str, namespace: str
    ) -> dict[str, Any]:
        """Return what is about to be stored: status and the rest change apart, identity stays."""
        metadata = {**new["metadata"]}
        if not self.namespaced:
            metadata.pop("namespace", None)
        elif "namespace" not in metadata:
            metadata["namespace"] = old["metadata"].get("namespace", namespace) if old else namespace
        prepared = {**new, "metadata": metadata}
        if old is None:
            return {key: value for key, value in prepared.items() if key != "status" or not self.has_status}
        if subresource == "status":
            others = {key: value for key, value in old.items() if key != "status"}
            return {**others, "status": new["status"]} if "status" in new else others
        if self.has_status:
            prepared.pop("status", None)
            prepared |= {"status": old["status"]} if "status" in old else {}
        for key in ("uid", "resourceVersion", "generation", "deletionGracePeriodSeconds"):
            if key in old["metadata"]:
                metadata.setdefault(key, old["metadata"][key])
        for key in ("creationTimestamp", "deletionTimestamp"):
            if key in old["metadata"]:
                metadata[key] = old["metadata"][key]
        return prepared

    def _problems(self, obj: dict[str, Any], old: dict[str, Any] | None, subresource: str) -> list[Problem]:
        correlation = None if old is None else Correlation(obj, old, self.node)
        if old is None:
            problems = creation_problems(obj["metadata"], namespaced=self.namespaced)
        else:
            problems = update_problems(obj["metadata"], old["metadata"], namespaced=self.namespaced)
        if subresource == "status":
            problems += self._status_problems(obj, correlation)
        else:
            problems += schema_problems(obj, self.node, correlation=correlation)
            problems += self._scale_problems(obj, "specReplicasPath")
            problems += embedded_problems(obj, self.node) if self._embeds else []
        problems += self._scale_problems(obj, "statusReplicasPath")
        if old is None or not any(duplicate_problems(old, self.node)):
            problems += duplicate_problems(obj, self.node)
        if self.rules is None:
            return problems
        if any(problem.type in _BLOCKING for problem in problems):
            return [*problems, _RULES_NOT_CHECKED]
        return [*problems, *rule_problems(self.rules, obj, old, correlation)]

    def _status_problems(self, obj: dict[str, Any], correlation: Correlation | None) -> list[Problem]:
        node = self.node.properties.get("status")
        if node is None or "status" not in obj:
            return []
        part = correlation.field("status") if correlation else None
        # The server judges the status by itself and then says where it stands; texts keep the shorter path.
        return [
            replace(problem, field="status" if problem.field == NO_FIELD else child("status", problem.field))
            for problem in schema_problems(obj["status"], node, correlation=part)
        ]

    def _scale_problems(self, obj: dict[str, Any], which: str) -> list[Problem]:
        path = self._scale.get(which)
        if path is None:
            return []
        count: Any = obj
        for step in path.removeprefix(".").split("."):
            if not isinstance(count, dict):
                return [_inaccessible(path, count, "map[string]interface{}")]
            if count.get(step) is None:
                return []
            count = count[step]
        return _count_problems(path, count)


class Registry:
    """The definitions in force, by apiVersion and kind."""

    def __init__(self, crds: Iterable[Mapping[str, Any]]) -> None:
        self._definitions: dict[tuple[str, str], Definition] = {}
        for crd in crds:
            if crd.get("kind") != "CustomResourceDefinition":
                raise SchemaError(f"{crd.get('kind')} is not a CustomResourceDefinition")
            for version in crd["spec"]["versions"]:
                if version.get("served"):
                    definition = Definition(crd, version)
                    self._definitions[definition.api_version, definition.kind] = definition

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """Return every served version of every kind."""
        return tuple(self._definitions.values())

    def definition(self, api_version: str, kind: str) -> Definition:
        """Return the definition of a kind.

        Raises:
            UnknownKindError: none serves it; the hint names what was probably meant.
        """
        found = self._definitions.get((api_version, kind))
        if found is None:
            raise self._unknown(api_version, kind)
        return found

    def admit(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None = None,
        *,
        strict: bool = False,
        subresource: str = "",
        namespace: str = "default",
    ) -> Admission:
        """Return what the server would make of the object; neither input is changed.

        Args:
            obj: The object as sent.
            old: The stored object, for an update. Its resource version stands in for a missing one, as in a
                patch.
            strict: Unknown fields are problems, as with kubectl; otherwise ``pruned`` alone lists them.
            subresource: ``status`` for a write to that subresource; all but status is then kept as it was.
            namespace: Where a namespaced object without a namespace goes.

        Raises:
            UnknownKindError: no definition serves its apiVersion and kind.
        """
        definition = self.definition(_text(obj.get("apiVersion")), _text(obj.get("kind")))
        return definition.admit(obj, old, strict=strict, subresource=subresource, namespace=namespace)

    def _unknown(self, api_version: str, kind: str) -> UnknownKindError:
        names = sorted(f"{version} {name}" for version, name in self._definitions)
        wanted = f"{api_version} {kind}".strip()
        if not api_version or not kind:
            missing = "apiVersion" if not api_version else "kind"
            return UnknownKindError(f"the object has no {missing}", hint=f"known are {', '.join(names)}")
        near = difflib.get_close_matches(wanted, names, n=1) or [
            f"{version} {name}" for version, name in self._definitions if name.lower() == kind.lower()
        ]
        meant = f"did you mean {near[0]}? " if near else ""
        return UnknownKindError(
            f"{wanted} is not a kind we serve", hint=f"{meant}known are {', '.join(names)}"
        )


@lru_cache(maxsize=1)
def load_crds() -> Registry:
    """Return the registry of the definitions that come with this package, read when first asked for."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    files = sorted(
        (file for file in resources.files(_CRDS_PACKAGE).iterdir() if file.name.endswith(".yaml")),
        key=lambda file: file.name,
    )
    crds = []
    for file in files:
        crds += [crd for crd in yaml.load_all(file.read_text(encoding="utf-8"), loader) if crd]
    return Registry(crds)


def _count_problems(path: str, count: Any) -> list[Problem]:
    if json_type(count) != "integer":
        return [_inaccessible(path, count, "int64")]
    if count < 0:
        return [invalid(path, count, "should be a non-negative integer")]
    if count > _LARGEST_INT32:
        return [invalid(path, count, f"should be less than or equal to {_LARGEST_INT32}")]
    return []


def _inaccessible(path: str, value: Any, wanted: str) -> Problem:
    found = f"{gotext.plain(value)} is of the type {gotext.type_name(value)}, expected {wanted}"
    return invalid(path, 0, f"{path} accessor error: {found}")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
