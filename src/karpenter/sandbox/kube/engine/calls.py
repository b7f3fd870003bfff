# SPDX-License-Identifier: Apache-2.0
"""One request to the API, taken apart: which resource, object and subresource, with which options.

Paths and options that no resource could have are refused here, in the API server's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from karpenter.api.schema import Problem, gotext
from karpenter.api.schema.problems import forbidden, not_supported, required, too_long
from karpenter.sandbox.kube.errors import invalid

__all__ = ["Call", "Options", "Target", "User", "parse_target", "write_options"]

_VALIDATIONS: Final = ("Ignore", "Warn", "Strict")
_LONGEST_MANAGER: Final = 128


@dataclass(frozen=True, slots=True)
class Target:
    """What a path points at; the empty name is the collection."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """What a write says besides its body."""

    dry_run: bool = False
    validation: str = "Warn"
    manager: str = ""
    force: bool = False


@dataclass(slots=True)
class Call:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    user: User
    target: Target | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def content_type(self) -> str:
        """Gives the form of the body, without parameters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def flag(self, name: str) -> bool:
        """Tells whether a query parameter is set to true."""
        return self.query.get(name, "").lower() in {"true", "1", "t"}


def parse_target(path: str) -> Target | None:
    """Gives what a path under ``/api`` or ``/apis`` points at; None where that is no resource."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if (
        rest[0] == "namespaces"
        and len(rest) > 2
        and not (not group and rest[2] in {"status", "finalize"} and len(rest) == 3)
    ):
        if len(rest) > 5:
            return None
        tail = [*rest[2:], "", "", ""]
        return Target(group, version, tail[0], rest[1], tail[1], tail[2])
    if len(rest) > 3:
        return None
    tail = [*rest, "", "", ""]
    return Target(group, version, tail[0], "", tail[1], tail[2])


def write_options(call: Call, kind: str) -> Options:
    """Reads the query of a write.

    Raises:
        ApiError: an option has a value that it cannot have.
    """
    problems: list[Problem] = []
    dry_run = call.query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        problems.append(not_supported("dryRun", [dry_run], ["All"]))
    validation = call.query.get("fieldValidation", "") or "Warn"
    if validation not in _VALIDATIONS:
        problems.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    manager = call.query.get("fieldManager", "")
    applies = call.content_type in {"application/apply-patch+yaml", "application/apply-patch+cbor"}
    if call.method == "PATCH":
        if applies and not manager:
            problems.append(required("fieldManager", "is required for apply patch"))
        if not applies and call.query.get("force"):
            problems.append(forbidden("force", "may not be specified for non-apply patch"))
    if len(manager) > _LONGEST_MANAGER:
        problems.append(too_long("fieldManager", _LONGEST_MANAGER))
    if problems:
        raise invalid("meta.k8s.io", f"{kind}Options", "", problems)
    return Options(
        dry_run=bool(dry_run),
        validation=validation,
        manager=manager
        or call.headers.get("User-Agent", "").partition("/")[0][:_LONGEST_MANAGER]
        or "unknown",
        force=call.flag("force"),
    )


def strict_complaint(unknown: list[str]) -> str:
    """Gives the words for fields that no schema knows."""
    return ", ".join(f"unknown field {gotext.quote(path)}" for path in unknown)
