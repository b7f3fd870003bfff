# SPDX-License-Identifier: Apache-2.0
"""A fingerprint of what a NodePool says of its nodes: when it changes, nodes made before have drifted.

It covers the template's labels, annotations, taints, node class, expiry and termination grace; not requirements,
which are compared with each node's labels instead, nor budgets and limits, which say nothing of a node. The order
of taints does not matter.

It is the number that the Go Karpenter computes, under the version that it gives it: a cluster may be handed over from
the one to the other and back, and nodes that had drifted have, and the others have not. So a list that is written and
empty counts as it does in Go, as something else than one that is left out. The label by which pods of old select the
nodes of a Provisioner does not count: it is not in the NodePool, and goes with the Provisioner. A claim that carries
another version has not drifted: its fingerprint is written anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from karpenter.api.base import ABSENT, EMPTY
from karpenter.api.core.nodes import Taint
from karpenter.api.labels import PROVISIONER_NAME
from karpenter.api.nodeclaim import NodeClassRef
from karpenter.api.nodepool import NodeClaimTemplate, NodeClaimTemplateSpec, NodePool, TemplateMetadata
from karpenter.kit.durations import Duration, DurationError, parse_nillable_duration
from karpenter.kit.structhash import Record, Value, struct_hash

__all__ = ["POOL_HASH_VERSION", "pool_hash"]

POOL_HASH_VERSION: Final = "v3"

_YEAR_ONE: Final = datetime(1, 1, 1, tzinfo=UTC)
# Pools are few and their claims many, and each claim asks.
_REMEMBERED: Final = 512


def pool_hash(pool: NodePool) -> str:
    """Gives the fingerprint of a pool's template, as a decimal number."""
    return _reckoned(msgspec.json.encode(pool.spec.template, order="sorted"))


@lru_cache(_REMEMBERED)
def _reckoned(written: bytes) -> str:
    template = msgspec.json.decode(written, type=NodeClaimTemplate)
    fields = (("ObjectMeta", _metadata(template.metadata)), ("Spec", _spec(template.spec)))
    return str(struct_hash(Record("NodeClaimTemplate", fields)))


def _metadata(metadata: TemplateMetadata) -> Record | None:
    labels: Mapping[str, str] = metadata.labels
    if PROVISIONER_NAME in labels:
        labels = {key: value for key, value in labels.items() if key != PROVISIONER_NAME} or EMPTY
    fields = (("Labels", _mapping(labels)), ("Annotations", _mapping(metadata.annotations)))
    return None if all(value is None for _, value in fields) else Record("ObjectMeta", fields)


def _spec(spec: NodeClaimTemplateSpec) -> Record:
    grace: Value | None = None
    if spec.termination_grace_period:
        # Unlike the expiry this is no pointer in Go: none at all counts as a zero value.
        grace = Record("Duration", (("Duration", _nanoseconds(spec.termination_grace_period) or None),))
    expiry = _nanoseconds(spec.expire_after)
    fields = (
        ("Taints", _taints(spec.taints)),
        ("StartupTaints", _taints(spec.startup_taints)),
        ("NodeClassRef", _reference(spec.node_class_ref)),
        ("TerminationGracePeriod", grace),
        ("ExpireAfter", None if expiry is None else Record("NillableDuration", (("Duration", expiry),))),
    )
    return Record("NodeClaimTemplateSpec", fields)


def _reference(named: NodeClassRef) -> Record:
    fields = (("Kind", named.kind or None), ("Name", named.name or None), ("Group", named.group or None))
    return Record("NodeClassReference", fields)


def _taints(taints: tuple[Taint, ...]) -> tuple[Value, ...] | None:
    return None if taints is ABSENT else tuple(map(_taint, taints))


def _taint(taint: Taint) -> Record:
    added: Value | None = None
    if taint.time_added is not None:
        added = Record("Time", (("Time", _moment(taint.time_added)),))
    return Record(
        "Taint",
        (
            ("Key", taint.key or None),
            ("Value", taint.value or None),
            ("Effect", taint.effect or None),
            ("TimeAdded", added),
        ),
    )


def _mapping(mapping: Mapping[str, Any]) -> Mapping[str, str] | None:
    return None if mapping is EMPTY else mapping


def _nanoseconds(text: str) -> Value | None:
    """Gives a length of time, None for Never; what nobody can read counts by its letters."""
    try:
        length = parse_nillable_duration(text)
    except DurationError:
        return text
    return length.nanoseconds if isinstance(length, Duration) else None


def _moment(moment: datetime) -> bytes:
    """Gives a time as Go writes it in bytes: a version, seconds since the year one, nanoseconds, minutes off UTC."""
    since = moment.astimezone(UTC) - _YEAR_ONE
    seconds = since.days * 86_400 + since.seconds
    return b"\1" + seconds.to_bytes(8) + (since.microseconds * 1_000).to_bytes(4) + bytes(2)
