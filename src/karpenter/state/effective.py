# SPDX-License-Identifier: Apache-2.0
"""NodePools and node classes as they are meant, whichever version of their kind wrote them.

v1 and v1beta1 share a CRD and no webhook converts between them (ADR 3), so a stored object may speak the older
language. Pools are converted together with the classes beside them, because kubelet settings moved from the one
to the other. What cannot be converted is left out and named; the rest is not held up by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from karpenter.api.base import to_wire
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import PROVISIONER_NAME
from karpenter.api.legacy.conversion import convert
from karpenter.api.legacy.conversion.disguise import written_through_v1beta1
from karpenter.api.nodepool import NodePool
from karpenter.state.informers import Stored

__all__ = ["Effective", "Misread", "effective"]


T = TypeVar("T", NodePool, EC2NodeClass)


@dataclass(frozen=True, slots=True)
class Misread:
    """An object that could not be understood, and why."""

    kind: str
    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class Effective:
    """The pools and classes that count, all in v1, by name; the originals' metadata and status are kept."""

    pools: Mapping[str, NodePool] = field(default_factory=dict)
    classes: Mapping[str, EC2NodeClass] = field(default_factory=dict)
    misread: tuple[Misread, ...] = ()


def effective(pools: Iterable[Stored], classes: Iterable[Stored]) -> Effective:
    """Gives the pools and classes in v1."""
    stored_pools, stored_classes = tuple(pools), tuple(classes)
    found_pools: dict[str, NodePool] = {}
    found_classes: dict[str, EC2NodeClass] = {}
    misread: list[Misread] = []
    old: list[dict[str, Any]] = []
    beside: list[dict[str, Any]] = []
    for item in (*stored_pools, *stored_classes):
        manifest = _manifest(item)
        if written_through_v1beta1(manifest) is not None:
            # As it is read, through v1: the conversion knows what v1 has filled in besides.
            old.append(manifest)
        elif item.kind == "NodePool":
            _decode(manifest, NodePool, found_pools, misread)
        else:
            beside.append(manifest)
            _decode(manifest, EC2NodeClass, found_classes, misread)
    if old:
        # Classes written in v1 take part: an old pool may point at one of them.
        outcome = convert([*old, *beside])
        misread += [
            Misread(refusal.object.kind, refusal.object.name, str(refusal)) for refusal in outcome.refusals
        ]
        for manifest in outcome.objects:
            if manifest.get("kind") == "NodePool":
                _decode(manifest, NodePool, found_pools, misread)
            elif manifest.get("kind") == "EC2NodeClass":
                _decode(manifest, EC2NodeClass, found_classes, misread)
    return _with_originals(found_pools, found_classes, stored_pools, stored_classes, tuple(misread))


def _manifest(item: Stored) -> dict[str, Any]:
    whole: dict[str, Any] = to_wire(item)
    group = item.api_version.rpartition("/")[0]
    return {**whole, "apiVersion": f"{group}/v1", "kind": item.kind}


def _decode(manifest: Any, kind: type[Any], into: dict[str, Any], misread: list[Misread]) -> None:
    name = str(manifest.get("metadata", {}).get("name", ""))
    try:
        into[name] = msgspec.convert(manifest, kind, strict=False)
    except msgspec.ValidationError as error:
        misread.append(Misread(kind.__name__, name, str(error)))


def _with_originals(
    pools: Mapping[str, NodePool],
    classes: Mapping[str, EC2NodeClass],
    stored_pools: tuple[Stored, ...],
    stored_classes: tuple[Stored, ...],
    misread: tuple[Misread, ...],
) -> Effective:
    """Puts back what a conversion of manifests drops: identity, generation and status are still the object's own."""
    of_pool = {item.metadata.name: item for item in stored_pools}
    pools = {name: _named_of_old(pool, of_pool.get(name)) for name, pool in pools.items()}
    of_class = {item.metadata.name: item for item in stored_classes}
    kept_pools = {name: _as(pool, of_pool[name]) for name, pool in pools.items() if name in of_pool}
    # A class that the conversion made, for kubelet settings of a pool, has no original.
    kept_classes = {
        name: _as(each, of_class[name]) if name in of_class else each for name, each in classes.items()
    }
    return Effective(kept_pools, kept_classes, misread)


def _named_of_old(pool: NodePool, original: Stored | None) -> NodePool:
    """Gives the nodes of a pool that stands for a Provisioner the label that pods of its day select by."""
    owners = original.metadata.owner_references if original is not None else ()
    owner = next((each.name for each in owners if each.kind == "Provisioner"), "")
    if not owner:
        return pool
    replace = msgspec.structs.replace
    template = pool.spec.template
    labels = {**template.metadata.labels, PROVISIONER_NAME: owner}
    template = replace(template, metadata=replace(template.metadata, labels=labels))
    return replace(pool, spec=replace(pool.spec, template=template))


def _as(item: T, original: Stored) -> T:
    metadata = msgspec.structs.replace(
        original.metadata, labels=item.metadata.labels, annotations=item.metadata.annotations
    )
    status = msgspec.convert(dict(original.status), type(item.status), strict=False)
    return msgspec.structs.replace(item, metadata=metadata, status=status)
