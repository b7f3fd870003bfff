# SPDX-License-Identifier: Apache-2.0
"""Lists: selected, in order, in pages, at a revision.

A list is always of now. An exact older revision can be asked for only while nothing of the kind changed since; what
cannot be given is refused with 410, as a real server does once it has compacted. A continue token holds where the
last page ended and at which revision the first began.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.schema.problems import Problem, ProblemType, not_supported
from karpenter.api.schema.problems import invalid as invalid_problem
from karpenter.sandbox.kube.engine.calls import Call, Target
from karpenter.sandbox.kube.engine.engine import Engine
from karpenter.sandbox.kube.errors import ApiError, invalid
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.storage.selecting import Selector, field_selector, label_selector
from karpenter.sandbox.kube.storage.store import CompactedError, FutureError, Stored

__all__ = ["Page", "list_page", "selector_of"]

_MATCHES: Final = ("Exact", "NotOlderThan")


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list.

    Attributes:
        items: The objects.
        revision: Of the list.
        token: Where the next page begins; empty at the end.
        remaining: How many follow, where that is known.
    """

    items: list[Stored]
    revision: int
    token: str = ""
    remaining: int | None = None


def selector_of(resource: Resource, call: Call, target: Target) -> Selector | None:
    """Gives what a request selects by; None selects all.

    Raises:
        ApiError: a selector cannot be read.
    """
    labels = label_selector(call.query.get("labelSelector", ""))
    extra: tuple[str, ...] = ()
    if resource.version_spec is not None:
        extra = tuple(
            each["jsonPath"].removeprefix(".") for each in resource.version_spec.get("selectableFields") or ()
        )
    fields = field_selector(call.query.get("fieldSelector", ""), resource.storage_key, extra)
    if target.name:
        name = target.name

        def named(obj: Any) -> bool:
            return bool(obj["metadata"]["name"] == name)

        fields = named
    if labels is None or fields is None:
        return labels or fields
    both = (labels, fields)
    return lambda obj: all(each(obj) for each in both)


def list_page(engine: Engine, resource: Resource, target: Target, call: Call) -> Page:
    """Gives the page of a list that a request asks for.

    Raises:
        ApiError: the options contradict each other, or the revision cannot be given.
    """
    limit = _limit(call)
    token = call.query.get("continue", "")
    _check_options(call, token)
    after, revision, skipped = _place(engine, resource, call, token)
    selects = selector_of(resource, call, target)
    found = engine.store.items(resource.storage_key, target.namespace, after)
    if not limit:
        items = list(found) if selects is None else [each for each in found if selects(each.obj)]
        return Page(items, revision)
    items = []
    for each in found:
        if selects is None or selects(each.obj):
            items.append(each)
            if len(items) > limit:
                break
    if len(items) <= limit:
        return Page(items, revision)
    last = items[limit - 1].obj["metadata"]
    total = _count(engine, resource, target)
    return Page(
        items[:limit],
        revision,
        _encoded(revision, (last.get("namespace", ""), last["name"]), skipped + limit),
        None if selects is not None else total - skipped - limit,
    )


def _count(engine: Engine, resource: Resource, target: Target) -> int:
    if not target.namespace:
        return engine.store.count(resource.storage_key)
    return sum(1 for _ in engine.store.items(resource.storage_key, target.namespace))


def _limit(call: Call) -> int:
    text = call.query.get("limit", "") or "0"
    if not text.lstrip("-").isdigit():
        raise ApiError.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(int(text), 0)


def _check_options(call: Call, token: str) -> None:
    match = call.query.get("resourceVersionMatch", "")
    version = call.query.get("resourceVersion", "")
    problems: list[Problem] = []
    if match:
        if token:
            problems.append(
                Problem(
                    "resourceVersionMatch",
                    ProblemType.FORBIDDEN,
                    "",
                    "resourceVersionMatch is forbidden when continue is provided",
                )
            )
        if not version:
            problems.append(
                Problem(
                    "resourceVersionMatch",
                    ProblemType.FORBIDDEN,
                    "",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                )
            )
        if match not in _MATCHES:
            problems.append(
                not_supported(
                    "resourceVersionMatch",
                    match,
                    ["Exact", "NotOlderThan", ""],
                )
            )
        elif match == "Exact" and version == "0":
            problems.append(
                Problem(
                    "resourceVersionMatch",
                    ProblemType.FORBIDDEN,
                    "",
                    'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
                )
            )
    if problems:
        raise invalid("meta.k8s.io", "ListOptions", "", problems)
    if version and not version.isdigit():
        problem = invalid_problem(
            "resourceVersion", version, f'strconv.ParseUint: parsing "{version}": invalid syntax'
        )
        raise ApiError.bad_request(f"invalid resource version: {problem}")


def _place(
    engine: Engine, resource: Resource, call: Call, token: str
) -> tuple[tuple[str, str] | None, int, int]:
    store = engine.store
    if token:
        after, revision, skipped = _decoded(token)
        if revision < store.compacted:
            raise ApiError.expired(
                "The provided continue parameter is too old to display a consistent list result. You must start a new "
                "list without the continue parameter."
            )
        return after, revision, skipped
    version = call.query.get("resourceVersion", "")
    wanted = int(version) if version else 0
    if wanted > store.revision:
        raise ApiError(
            504,
            "Timeout",
            f"Too large resource version: {wanted}, current: {store.revision}",
            details={
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
        )
    exact = call.query.get("resourceVersionMatch") == "Exact" or (
        wanted and _limit(call) and not call.query.get("resourceVersionMatch")
    )
    if wanted and exact and wanted != store.revision:
        with contextlib.suppress(CompactedError, FutureError):
            if not store.since(resource.storage_key, wanted):
                return None, wanted, 0
        raise ApiError.expired("The resourceVersion for the provided list is too old.")
    return None, store.revision, 0


def _encoded(revision: int, after: tuple[str, str], skipped: int) -> str:
    told = json.dumps(
        {"v": "meta.k8s.io/v1", "rv": revision, "start": list(after), "n": skipped}, separators=(",", ":")
    )
    return base64.urlsafe_b64encode(told.encode()).decode().rstrip("=")


def _decoded(token: str) -> tuple[tuple[str, str], int, int]:
    try:
        told = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = told["start"]
        return (str(namespace), str(name)), int(told["rv"]), int(told["n"])
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise ApiError.bad_request(f"invalid continue token: continue key is not valid: {error}") from error
