# SPDX-License-Identifier: Apache-2.0
"""From the object that someone sent to the object that is stored: read, filled in, judged.

Built-in kinds go by their shapes, defaults and rules; custom ones by their definition's schema and CEL rules. What
depends on other objects (classes, accounts, namespaces) is done by the plugins of ``admission``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from karpenter.api.schema import Problem
from karpenter.api.schema.defaults import apply_defaults as apply_schema_defaults
from karpenter.api.schema.problems import distinct
from karpenter.api.schema.problems import invalid as invalid_problem
from karpenter.sandbox.kube.engine.bodies import unrecognised
from karpenter.sandbox.kube.engine.calls import Call, Options, strict_complaint
from karpenter.sandbox.kube.errors import ApiError, invalid
from karpenter.sandbox.kube.kinds.behaviour import Behaviour, behaviour_of
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.kinds.defaults import apply_defaults
from karpenter.sandbox.kube.kinds.reading import DecodeError, Reader
from karpenter.sandbox.kube.kinds.rules import creation_problems, update_problems
from karpenter.sandbox.kube.kinds.shapes import builtin_facts, builtin_shape

__all__ = ["check_identity", "judged", "prepared", "read_object"]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_KEPT_METADATA: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


def check_identity(resource: Resource, sent: Any, body: bytes = b"") -> dict[str, Any]:
    """Gives the sent object if it is one, of the right kind.

    Raises:
        ApiError: it is not.
    """
    if not isinstance(sent, dict):
        got = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(sent), "number")
        why = (
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {got} into Go value of type struct "
            '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise ApiError.bad_request(unrecognised(why, body, resource.kind))
    version, kind = sent.get("apiVersion"), sent.get("kind")
    for key, value in (("apiVersion", version), ("kind", kind)):
        if value is not None and not isinstance(value, str):
            got = {list: "array", dict: "object", bool: "bool"}.get(type(value), "number")
            why = f"json: cannot unmarshal {got} into Go struct field .{key} of type string"
            why = f"couldn't get version/kind; json parse error: {why}"
            raise ApiError.bad_request(unrecognised(why, body, resource.kind))
    if resource.definition is not None:
        _check_custom_identity(resource, version, kind, sent, body)
        return sent
    version, kind = version or resource.api_version, kind or resource.kind
    if (version, kind) == (resource.api_version, resource.kind):
        return sent
    known = {(facts["version"], facts["kind"]) for facts in _builtin_kinds()}
    short = str(version).rpartition("/")[2]
    if (version, kind) in known:
        group = resource.group.partition(".")[0] or "core"
        why = f"converting ({short}.{kind}) to ({group}.{resource.kind}): unknown conversion"
    else:
        why = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:110"'
    raise ApiError.bad_request(f'{kind} in version "{short}" cannot be handled as a {resource.kind}: {why}')


@lru_cache(maxsize=1)
def _builtin_kinds() -> tuple[dict[str, str], ...]:
    return tuple(
        {"version": group, "kind": each["kind"]}
        for group, listed in builtin_facts()["resources"].items()
        for each in listed
    )


def _check_custom_identity(
    resource: Resource, version: Any, kind: Any, sent: dict[str, Any], body: bytes
) -> None:
    for key, value in (("Kind", kind), ("apiVersion", version)):
        if not value:
            why = f"Object '{key}' is missing in '{body.decode(errors='replace')}'"
            raise ApiError.bad_request(unrecognised(why, body, resource.kind))
    if version != resource.api_version:
        raise ApiError.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    if kind != resource.kind:
        metadata = sent.get("metadata")
        name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
        raise invalid(
            resource.group, str(kind), name, [invalid_problem("kind", kind, f"must be {resource.kind}")]
        )


def read_object(
    resource: Resource,
    sent: dict[str, Any],
    options: Options,
    call: Call,
    known: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Gives a built-in object as the decoder gives it on, filled in; a custom one is only looked at later.

    Args:
        resource: Its kind.
        sent: The object.
        options: Of the write.
        call: The request, which takes warnings.
        known: The stored object, if the sent one was made from it: what they share is not read again.

    Raises:
        ApiError: a value is of the wrong type, or a field unknown and the caller strict.
    """
    if resource.definition is not None:
        return sent
    reader = Reader()
    try:
        read = reader.object(sent, resource.shape, known)
    except DecodeError as error:
        raise ApiError.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        ) from error
    _tell_unknown(call, resource, options.validation, reader.unknown)
    read = {"kind": resource.kind, "apiVersion": resource.api_version, **read}
    read["kind"], read["apiVersion"] = resource.kind, resource.api_version
    metadata = read["metadata"] = dict(read.get("metadata") or {})
    # Someone else's: a client's clock or a copy of another object says nothing here.
    metadata.pop("selfLink", None)
    apply_defaults(read, resource.shape, known)
    return read


def prepared(
    resource: Resource, new: dict[str, Any], old: Mapping[str, Any] | None, subresource: str
) -> dict[str, Any]:
    """Gives a built-in object with what the sender may not set put right: status, identity, generation."""
    behaviour = behaviour_of(resource.storage_key)
    if old is None:
        if resource.has_status and behaviour.resets_status:
            new["status"] = copy.deepcopy(behaviour.initial_status or {})
        if behaviour.generation:
            new["metadata"]["generation"] = 1
        else:
            new["metadata"].pop("generation", None)
        return new
    _keep_identity(new["metadata"], old["metadata"])
    if subresource == "status":
        new = _status_only(new, old, behaviour)
    elif resource.has_status and "status" in old:
        new["status"] = old["status"]
    elif resource.has_status:
        new.pop("status", None)
    _count_generation(resource, new, old, behaviour)
    return new


def _keep_identity(metadata: dict[str, Any], before: Mapping[str, Any]) -> None:
    for key in _KEPT_METADATA:
        if key in before:
            # A wrong uid is not put right: it says that another object was meant.
            if key != "uid" or not metadata.get(key):
                metadata[key] = before[key]
        elif key.startswith("deletion"):
            metadata.pop(key, None)


def _status_only(new: dict[str, Any], old: Mapping[str, Any], behaviour: Behaviour) -> dict[str, Any]:
    kept = {key: value for key, value in old.items() if key not in {"status", "metadata"}}
    metadata = new["metadata"]
    if not behaviour.status_takes_metadata:
        managed = metadata.get("managedFields")
        metadata = {key: value for key, value in old["metadata"].items() if key != "managedFields"}
        metadata |= {"managedFields": managed} if managed is not None else {}
    status = {"status": new["status"]} if new.get("status") is not None else {}
    return {**kept, "metadata": metadata, **status}


def _count_generation(
    resource: Resource, new: dict[str, Any], old: Mapping[str, Any], behaviour: Behaviour
) -> None:
    metadata, before = new["metadata"], old["metadata"]
    if not behaviour.generation:
        if "generation" in before:
            metadata["generation"] = before["generation"]
        return
    unlike = any(new.get(key) != old.get(key) for key in (new.keys() | old.keys()) - {"metadata", "status"})
    # A deployment's controller also looks at annotations.
    if resource.storage_key == "apps/deployments":
        unlike = unlike or metadata.get("annotations") != before.get("annotations")
    metadata["generation"] = before.get("generation", 1) + (1 if unlike else 0)


def judged(
    resource: Resource, new: dict[str, Any], old: Mapping[str, Any] | None, subresource: str
) -> dict[str, Any]:
    """Gives an object that may be stored.

    Raises:
        ApiError: it may not be (422); every problem is told.
    """
    if resource.definition is not None:
        return new
    if old is None:
        problems: list[Problem] = creation_problems(resource, new)
    else:
        problems = update_problems(resource, new, old, subresource)
    if problems:
        name = new["metadata"].get("name") or new["metadata"].get("generateName", "")
        raise invalid(resource.group, resource.kind, name, distinct(problems))
    return new


def admit_custom(
    resource: Resource,
    sent: dict[str, Any],
    old: Mapping[str, Any] | None,
    options: Options,
    call: Call,
    *,
    subresource: str,
    namespace: str,
) -> dict[str, Any]:
    """Gives a custom object as it is stored: pruned, filled in, judged by schema and rules.

    Raises:
        ApiError: it is refused.
    """
    assert resource.definition is not None  # noqa: S101 - the caller looked
    told = dict(sent.items())
    told_metadata = dict(told["metadata"]) if isinstance(told.get("metadata"), dict) else told.get("metadata")
    managed = None
    if isinstance(told_metadata, dict):
        managed = told_metadata.pop("managedFields", None)
        told["metadata"] = told_metadata
    before = None
    if old is not None:
        before = {**old, "apiVersion": resource.api_version}
        before["metadata"] = {key: value for key, value in old["metadata"].items() if key != "managedFields"}
    verdict = resource.definition.admit(told, before, subresource=subresource, namespace=namespace)
    if verdict.unreadable:
        raise ApiError.bad_request(_unreadable(resource, told, verdict.problems))
    _tell_unknown(call, resource, options.validation, verdict.pruned)
    if verdict.problems:
        metadata = verdict.object.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName", "")
        raise invalid(resource.group, resource.kind, name, verdict.problems)
    new = dict(verdict.object)
    new["metadata"] = dict(new["metadata"])
    if resource.has_status and "status" not in new:
        # Whoever reads what is stored sees its defaults, also those of a status that nobody has set yet.
        new = apply_schema_defaults(new, resource.definition.node)
    if managed:
        new["metadata"]["managedFields"] = managed
    if before is not None and "deletionGracePeriodSeconds" in before["metadata"]:
        new["metadata"]["deletionGracePeriodSeconds"] = before["metadata"]["deletionGracePeriodSeconds"]
    return _custom_generation(resource, new, before)


def _unreadable(resource: Resource, obj: dict[str, Any], problems: tuple[Problem, ...]) -> str:
    told: Any = problems[0]
    try:
        metadata = obj.get("metadata")
        Reader().object(metadata if isinstance(metadata, dict) else {}, builtin_shape(_META))
    except DecodeError as error:
        told = error
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {told}'


def _custom_generation(
    resource: Resource, new: dict[str, Any], old: Mapping[str, Any] | None
) -> dict[str, Any]:
    metadata = new["metadata"]
    if old is None:
        metadata["generation"] = 1
        return new
    apart = {"metadata", "apiVersion"} | ({"status"} if resource.has_status else set())
    unlike = any(new.get(key) != old.get(key) for key in (new.keys() | old.keys()) - apart)
    metadata["generation"] = old["metadata"].get("generation", 1) + (1 if unlike else 0)
    return new


def _tell_unknown(call: Call, resource: Resource, validation: str, fields: Sequence[str]) -> None:
    """Refuses fields that the kind does not have, or warns of them, as the caller wishes."""
    if fields and validation == "Strict":
        raise ApiError.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {strict_complaint(list(fields))}"
        )
    if validation == "Warn":
        call.warnings += [f'unknown field "{path}"' for path in fields]
