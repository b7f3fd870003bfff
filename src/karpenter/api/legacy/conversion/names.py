# SPDX-License-Identifier: Apache-2.0
"""Labels, annotations and metadata under their v1 names.

Decides which metadata a converted object keeps: name, labels, annotations, finalizers. Everything else
belongs to the stored original (uid, resourceVersion, owners, managed fields) and would be wrong on a new
object. Hashes that a controller wrote on the original are dropped as well: they were computed over another
shape and are computed anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from karpenter.api import labels
from karpenter.api.legacy.conversion.findings import Journal, RawObject

__all__ = [
    "GONE_LABELS",
    "RENAMED_LABELS",
    "kept_metadata",
    "old_names_in",
    "renamed_annotations",
    "renamed_labels",
    "renamed_taints",
]

RENAMED_LABELS = {labels.PROVISIONER_NAME: labels.NODEPOOL}
_RENAMED_ANNOTATIONS = {
    labels.DO_NOT_EVICT: labels.DO_NOT_DISRUPT,
    labels.DO_NOT_CONSOLIDATE: labels.DO_NOT_DISRUPT,
}
_RENAMED_TAINTS = {labels.DISRUPTING_TAINT.key: labels.DISRUPTED_TAINT.key}
# What other kinds may still mention: pods select nodes by old labels, tolerate old taints, carry old annotations.
_OLD_NAMES = RENAMED_LABELS | _RENAMED_ANNOTATIONS | _RENAMED_TAINTS
GONE_LABELS = {
    "karpenter.sh/machine-name": "v1 has no such label",
    labels.INSTANCE_PODS: "v1 has no label for the number of pods",
    labels.INSTANCE_AMI_ID: "v1 has no label for the image",
}
_BOOKKEEPING = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        labels.PROVISIONER_HASH,
        labels.NODEPOOL_HASH,
        labels.NODEPOOL_HASH_VERSION,
        labels.NODETEMPLATE_HASH,
        labels.EC2NODECLASS_HASH,
        labels.EC2NODECLASS_HASH_VERSION,
    }
)


def kept_metadata(metadata: RawObject, journal: Journal) -> RawObject:
    """Returns the metadata of the converted object."""
    kept: RawObject = {"name": metadata["name"]}
    if kept_labels := renamed_labels(metadata.get("labels") or {}, "metadata.labels", journal):
        kept["labels"] = kept_labels
    annotations = renamed_annotations(metadata.get("annotations") or {}, "metadata.annotations", journal)
    if annotations:
        kept["annotations"] = annotations
    if metadata.get("finalizers"):
        kept["finalizers"] = list(metadata["finalizers"])
    return kept


def renamed_labels(old: Mapping[str, str], path: str, journal: Journal) -> dict[str, str]:
    """Returns the labels under v1 names, without those that v1 does not know."""
    for key in old:
        if key in GONE_LABELS:
            journal.warn(f"{path}[{key}]", f"dropped: {GONE_LABELS[key]}")
    known = {key: value for key, value in old.items() if key not in GONE_LABELS}
    return _renamed(known, RENAMED_LABELS, path, journal)


def renamed_annotations(annotations: Mapping[str, str], path: str, journal: Journal) -> dict[str, str]:
    """Returns the annotations under v1 names, without what controllers and kubectl keep there for themselves."""
    for key in annotations:
        if key in _RENAMED_ANNOTATIONS:
            journal.warn(
                f"{path}[{key}]",
                f"became {labels.DO_NOT_DISRUPT}, which holds off drift and emptiness as well as consolidation",
            )
    meant = {key: value for key, value in annotations.items() if key not in _BOOKKEEPING}
    return _renamed(meant, _RENAMED_ANNOTATIONS, path, journal)


def _renamed(
    source: Mapping[str, str], renames: Mapping[str, str], path: str, journal: Journal
) -> dict[str, str]:
    kept = {key: value for key, value in source.items() if key not in renames}
    for old, new in renames.items():
        if old in source and kept.setdefault(new, source[old]) != source[old]:
            journal.warn(f"{path}[{old}]", f"dropped: {new} is set as well, to {kept[new]!r}")
    return kept


def renamed_taints(taints: Sequence[RawObject]) -> list[RawObject]:
    """Returns the taints under v1 names."""
    return [{**taint, "key": RENAMED_LABELS.get(taint["key"], taint["key"])} for taint in taints]


def old_names_in(manifest: RawObject) -> Iterator[tuple[str, str, str]]:
    """Yields where an object of another kind still says an old name: its path, the name, and the v1 name.

    A name is passed over where the same object says the v1 name too: then it is written for both worlds.
    """
    found = list(_mentions(manifest, ""))
    said = {name for _, name in found}
    for path, name in found:
        new = _OLD_NAMES.get(name)
        if new is not None and new not in said:
            yield path, name, new


def _mentions(value: Any, path: str) -> Iterator[tuple[str, str]]:
    names = set(_OLD_NAMES) | set(_OLD_NAMES.values())
    # A stack of our own: a hostile document may nest deeper than Python's.
    stack = [(value, path)]
    while stack:
        here, where = stack.pop()
        if isinstance(here, dict):
            yield from ((where, key) for key in here if key in names)
            children = [(child, f"{where}.{key}" if where else str(key)) for key, child in here.items()]
            stack += reversed(children)
        elif isinstance(here, list):
            stack += reversed([(child, f"{where}[{index}]") for index, child in enumerate(here)])
        elif isinstance(here, str) and here in names:
            yield where, here
