# SPDX-License-Identifier: Apache-2.0
"""Deletion: at once, after a grace period, or once finalizers and dependents are gone.

Who removes dependents is the garbage collector's matter; here the finalizer it looks for is set. Pods that run
somewhere stay until whoever runs them deletes them with no grace left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from karpenter.api.schema.problems import not_supported
from karpenter.sandbox.kube.engine.bodies import parse_body
from karpenter.sandbox.kube.engine.calls import Call, Target
from karpenter.sandbox.kube.engine.engine import Engine, Object, is_over
from karpenter.sandbox.kube.errors import ApiError, invalid
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.kinds.reading import DecodeError, Reader, written_time
from karpenter.sandbox.kube.kinds.shapes import builtin_shape
from karpenter.sandbox.kube.storage.store import Stored

__all__ = ["delete", "delete_options", "deletion_status"]

_OPTIONS: Final = builtin_shape("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
_FINALIZERS: Final = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
_POLICIES: Final = ("Foreground", "Background", "Orphan")
_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
# Beyond what calendars can say nobody waits anyway.
_LONGEST_GRACE_S: Final = 10**9


def delete_options(call: Call) -> Object:  # noqa: C901 - one option after the other
    """Reads the options of a deletion from body and query.

    Raises:
        ApiError: they cannot be read or contradict each other.
    """
    try:
        body = parse_body(call.body, call.content_type) if call.body else {}
    except ApiError as error:
        raise ApiError(500, "", error.message) from error
    try:
        options: Object = Reader().object(body, _OPTIONS) if isinstance(body, dict) else {}
    except DecodeError as error:
        raise ApiError.bad_request(
            f'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: {error}'
        ) from error
    for name in ("propagationPolicy", "dryRun"):
        if call.query.get(name):
            options.setdefault(name, call.query[name])
    if call.query.get("gracePeriodSeconds"):
        text = call.query["gracePeriodSeconds"]
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise ApiError.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        if not -(2**63) <= int(text) < 2**63:
            raise ApiError.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
        options.setdefault("gracePeriodSeconds", int(text))
    if call.query.get("orphanDependents"):
        options.setdefault("orphanDependents", call.flag("orphanDependents"))
    if isinstance(options.get("dryRun"), str):
        options["dryRun"] = [options["dryRun"]]
    policy = options.get("propagationPolicy")
    problems = []
    if policy is not None and policy not in _POLICIES:
        problems.append(not_supported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    if options.get("dryRun") and options["dryRun"] != ["All"]:
        problems.append(not_supported("dryRun", options["dryRun"], ["All"]))
    if problems:
        raise invalid("meta.k8s.io", "DeleteOptions", "", problems)
    return options


def delete(
    engine: Engine, resource: Resource, target: Target, options: Mapping[str, Any]
) -> tuple[Object, bool]:
    """Deletes an object, or begins to.

    Returns:
        The object as it is now, and whether it is gone.

    Raises:
        ApiError: it is not there, or not the one that was meant.
    """
    found = engine.stored(resource, target)
    if resource.storage_key == "/namespaces" and target.name in _IMMORTAL:
        why = "this namespace may not be deleted"
        raise ApiError.forbidden(resource.group, resource.plural, target.name, why)
    _check_preconditions(resource, target, found, options)
    metadata = found.obj["metadata"]
    dry = bool(options.get("dryRun"))
    grace = _grace(engine, resource, found.obj, options)
    orphans = engine.behaviour(resource).orphans
    finalizers = _finalizers(metadata.get("finalizers") or [], options, orphans=orphans)
    new_metadata = dict(metadata)
    if finalizers:
        new_metadata["finalizers"] = finalizers
    else:
        new_metadata.pop("finalizers", None)
    begun = metadata.get("deletionTimestamp")
    if not begun or grace < (metadata.get("deletionGracePeriodSeconds") or 0):
        when = engine.moment() + timedelta(seconds=min(grace, _LONGEST_GRACE_S))
        new_metadata["deletionTimestamp"] = written_time(when)
        if resource.storage_key != "/namespaces":
            new_metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in new_metadata and not begun:
            new_metadata["generation"] += 1
    new = {**found.obj, "metadata": new_metadata}
    if resource.storage_key == "/namespaces":
        new["status"] = {**(found.obj.get("status") or {}), "phase": "Terminating"}
    if is_over(new):
        if not dry:
            gone = engine.store.remove(resource.storage_key, target.namespace, target.name, found.revision)
            return (new if engine.behaviour(resource).graceful else gone.obj), True
        return (new if engine.behaviour(resource).graceful else found.obj), True
    if new == found.obj or dry:
        return new, False
    return engine.store.put(resource.storage_key, new, found.revision).obj, False


def _check_preconditions(
    resource: Resource, target: Target, found: Stored, options: Mapping[str, Any]
) -> None:
    wanted = options.get("preconditions") or {}
    metadata = found.obj["metadata"]
    for key, name, word in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        if wanted.get(key) is not None and wanted[key] != metadata[key]:
            why = (
                f"the {name} in the precondition ({wanted[key]}) does not match the {name} in record "
                f"({metadata[key]}). The object might have been {word}"
            )
            raise ApiError.conflict(resource.group, resource.kind, target.name, why)


def _grace(engine: Engine, resource: Resource, obj: Object, options: Mapping[str, Any]) -> int:
    if not engine.behaviour(resource).graceful:
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    # What was never placed, or has ended, has nobody to wait for.
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    asked = options.get("gracePeriodSeconds")
    grace = spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked
    if grace < 0:
        grace = 1
    begun = obj["metadata"].get("deletionGracePeriodSeconds")
    return int(grace) if begun is None or asked is not None else int(begun)


def _finalizers(present: list[str], options: Mapping[str, Any], *, orphans: bool) -> list[str]:
    policy = options.get("propagationPolicy")
    orphan = options.get("orphanDependents")
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    if policy is None:
        if not orphans or set(_FINALIZERS.values()) & set(present):
            return present
        policy = "Orphan"
    wanted = _FINALIZERS.get(policy)
    kept = [each for each in present if each not in _FINALIZERS.values() or each == wanted]
    return kept if wanted is None or wanted in kept else [*kept, wanted]


def deletion_status(resource: Resource, obj: Mapping[str, Any]) -> Object:
    """Gives the answer to a deletion that is done."""
    metadata = obj["metadata"]
    details: Object = {"name": metadata["name"]}
    details |= {"group": resource.group} if resource.group else {}
    details |= {"kind": resource.plural, "uid": metadata["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
