# SPDX-License-Identifier: Apache-2.0
"""What a CustomResourceDefinition may say: its name fits, one version is stored, and its schemas can be served.

A schema that a real server takes and the engine of ``karpenter.api.schema`` does not know is refused here, when it is
defined, and not later, when an object comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from karpenter.api.schema import Definition, Problem, SchemaError
from karpenter.api.schema.problems import child, indexed, required
from karpenter.api.schema.problems import invalid as invalid_problem
from karpenter.sandbox.kube.kinds.checks import Struct

__all__ = ["definition_problems"]


def definition_problems(crd: Struct, _path: str = "") -> Iterator[Problem]:
    """Gives what is wrong with a definition."""
    yield from _problems(crd)


def _problems(crd: Struct) -> list[Problem]:
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    problems: list[Problem] = []
    name = crd["metadata"].get("name", "")
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if name != wanted:
        problems.append(invalid_problem("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if not spec.get("group"):
        problems.append(required("spec.group"))
    problems += [required(f"spec.names.{key}") for key in ("plural", "kind") if not names.get(key)]
    versions = spec.get("versions") or []
    if not versions:
        problems.append(required("spec.versions", "must have exactly one version marked as storage version"))
    elif sum(1 for each in versions if each.get("storage")) != 1:
        problems.append(
            invalid_problem(
                "spec.versions",
                _versions(versions),
                "must have exactly one version marked as storage version",
            )
        )
    for place, version in enumerate(versions):
        path = indexed("spec.versions", place)
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            problems.append(required(child(path, "schema.openAPIV3Schema"), "schemas are required"))
            continue
        if problems:
            continue
        try:
            definition = Definition(crd, version)
            _ = definition.node, definition.rules
        except (SchemaError, KeyError, TypeError, AttributeError, ValueError) as error:
            problems.append(invalid_problem(child(path, "schema.openAPIV3Schema"), "", str(error)))
    return problems


def _versions(versions: list[Any]) -> list[str]:
    return [each.get("name", "") for each in versions]
