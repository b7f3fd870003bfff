# SPDX-License-Identifier: Apache-2.0
"""All old objects together as the v1 objects that should be there: pure.

The conversion itself is `karpenter.api.legacy`'s, the same that ``karpenter convert`` does on files. Here its outcome
is made fit for a living cluster: marks and owners are added, finalizers are left to whoever set them on the original,
and an object that is on its way out is not made again. A Provisioner that is refused still counts as a user of its
node template, so that a slip in one does not move the kubelet settings of the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from karpenter.api.legacy.conversion import Conversion, RawObject, Refusal, convert
from karpenter.controllers.legacy.following import STORED_PROVISIONERS, STORED_TEMPLATES
from karpenter.controllers.legacy.marks import CONVERSION_HASH, CONVERTED_FROM, owner_reference
from karpenter.controllers.legacy.naming import Standing, kept_names
from karpenter.kube import Kind
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS, Stored

__all__ = ["Original", "Translated", "Wanted", "fulfils", "manifests_of", "originals_of", "translate"]

_V1_KINDS: Final[Mapping[str, Kind[Stored]]] = {
    "NodePool": STORED_NODE_POOLS,
    "EC2NodeClass": STORED_NODE_CLASSES,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PROFILE: Final = "spec.instanceProfile"


@dataclass(frozen=True, slots=True)
class Original:
    """An old object, and which kind it is."""

    kind: Kind[Stored]
    object: Stored

    @property
    def name(self) -> str:
        """Its name."""
        return self.object.metadata.name

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted."""
        return self.object.metadata.deletion_timestamp is not None

    def __str__(self) -> str:
        return f"{self.kind.name} {self.name}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A v1 object as it should be, but for what others write on it."""

    kind: Kind[Stored]
    name: str
    manifest: RawObject

    @property
    def class_name(self) -> str:
        """The node class that a pool points at; empty for a class."""
        template = self.manifest["spec"].get("template")
        return str(template["spec"]["nodeClassRef"]["name"]) if template else ""


@dataclass(frozen=True, slots=True)
class Translated:
    """What should become of one old object; refused, nothing is wanted and what is there stays."""

    original: Original
    wanted: tuple[Wanted, ...] = ()
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def originals_of(provisioners: Iterable[Stored], templates: Iterable[Stored]) -> tuple[Original, ...]:
    """Gives the old objects, the oldest first: who came first keeps the name of a shared node class."""
    found = [Original(STORED_PROVISIONERS, each) for each in sorted(provisioners, key=_age)]
    return (*found, *(Original(STORED_TEMPLATES, each) for each in sorted(templates, key=_age)))


def manifests_of(originals: Iterable[Original]) -> list[RawObject]:
    """Gives of the old objects what a conversion reads."""
    return [
        {
            "apiVersion": each.kind.api_version,
            "kind": each.kind.name,
            "metadata": {
                "name": each.name,
                "labels": dict(each.object.metadata.labels),
                "annotations": dict(each.object.metadata.annotations),
            },
            "spec": dict(each.object.spec),
        }
        for each in originals
    ]


def translate(
    originals: Sequence[Original], default_instance_profile: str, standing: Standing
) -> tuple[Translated, ...]:
    """Gives for each old object what should be there in v1, or why nothing can be.

    Args:
        originals: All old objects of the cluster.
        default_instance_profile: For templates that name none.
        standing: The classes that were made from templates before.
    """
    manifests = manifests_of(originals)
    first = convert(manifests, default_instance_profile=default_instance_profile)
    outcome = first
    if any(step.refused and step.object.kind == STORED_PROVISIONERS.name for step in first.steps):
        outcome = convert(
            _with_stand_ins(manifests, first), default_instance_profile=default_instance_profile
        )
    names = kept_names(outcome, standing)
    return tuple(
        _translated(original, position, first, outcome, names) for position, original in enumerate(originals)
    )


def fulfils(stored: Stored, wanted: Wanted) -> bool:
    """Tells whether an object holds everything that is wanted, and was asked for nothing else by us before."""
    asked = wanted.manifest["metadata"]
    owners = [{"uid": each.uid, "name": each.name} for each in stored.metadata.owner_references]
    return (
        _holds(stored.metadata.annotations, asked["annotations"])
        and _holds(stored.metadata.labels, asked.get("labels", {}))
        and all({"uid": each["uid"], "name": each["name"]} in owners for each in asked["ownerReferences"])
        and _holds(stored.spec, wanted.manifest["spec"])
    )


def _translated(
    original: Original, position: int, first: Conversion, outcome: Conversion, names: Mapping[str, str]
) -> Translated:
    # What was refused at first has a stand-in in the final outcome, which speaks for nobody.
    refusals = tuple(_words(each) for each in first.refusals if each.object.position == position)
    if refusals or original.is_leaving:
        return Translated(original, refusals=refusals)
    warnings = tuple(
        f"{each.field}: {each.text}" for each in outcome.warnings if each.object.position == position
    )
    refusals = tuple(_words(each) for each in outcome.refusals if each.object.position == position)
    made = tuple(_wanted(original, each, names) for each in outcome.steps[position].after)
    return Translated(original, made, refusals, warnings)


def _wanted(original: Original, manifest: RawObject, names: Mapping[str, str]) -> Wanted:
    kind = _V1_KINDS[manifest["kind"]]
    metadata = manifest["metadata"]
    name = str(metadata["name"])
    if kind is STORED_NODE_CLASSES:
        name = names.get(name, name)
    else:
        reference = manifest["spec"]["template"]["spec"]["nodeClassRef"]
        reference["name"] = names.get(reference["name"], reference["name"])
    content = {"labels": metadata.get("labels", {}), "spec": manifest["spec"]}
    marks = {
        CONVERTED_FROM: f"{original.kind.name}/{original.name}",
        CONVERSION_HASH: _digest({**content, "annotations": metadata.get("annotations", {})}),
    }
    marked = {
        "annotations": {**metadata.get("annotations", {}), **marks},
        "ownerReferences": [owner_reference(original.kind, original.object)],
    }
    if metadata.get("labels"):
        marked["labels"] = metadata["labels"]
    return Wanted(kind, name, {"metadata": marked, "spec": manifest["spec"]})


def _with_stand_ins(manifests: Sequence[RawObject], outcome: Conversion) -> list[RawObject]:
    """Puts in place of each refused Provisioner one that says no more than which kubelet its class must set up."""
    stood_in = []
    for manifest, step in zip(manifests, outcome.steps, strict=True):
        if step.refused and manifest["kind"] == STORED_PROVISIONERS.name:
            kept = ("providerRef", "kubeletConfiguration")
            spec = {name: manifest["spec"][name] for name in kept if name in manifest["spec"]}
            stood_in.append({**manifest, "metadata": {"name": manifest["metadata"]["name"]}, "spec": spec})
        else:
            stood_in.append(manifest)
    return stood_in


def _words(refusal: Refusal) -> str:
    named = f'"{refusal.field}"' in refusal.reason
    words = refusal.reason if named else f"{refusal.field}: {refusal.reason}"
    if refusal.field == _PROFILE and refusal.hint:
        # The conversion of files has other ways to learn the profile than a controller has.
        return f"{words}; set it, or start the controller with --default-instance-profile"
    return f"{words}; {refusal.hint}" if refusal.hint else words


def _age(item: Stored) -> tuple[datetime, str]:
    return item.metadata.creation_timestamp or _EPOCH, item.metadata.name


def _digest(content: Any) -> str:
    canonical = msgspec.json.encode(content, order="deterministic")
    return hashlib.blake2b(canonical, digest_size=8).hexdigest()


def _holds(stored: Any, wanted: Any) -> bool:
    """Compares as the server merges: it adds defaults to mappings, and leaves lists and plain values alone."""
    if isinstance(wanted, Mapping):
        return isinstance(stored, Mapping) and all(
            key in stored and _holds(stored[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(stored, list)
            and len(stored) == len(wanted)
            and all(_holds(*pair) for pair in zip(stored, wanted, strict=True))
        )
    return bool(stored == wanted)
