# SPDX-License-Identifier: Apache-2.0
"""Which objects of an input are whose: old ones to convert, current ones, other software's, unreadable ones.

An old object is held against the schema of its own version first, with unknown fields refused: a field that
the old controller ignored in silence is a mistake worth knowing before it is lost. Only name, labels,
annotations, finalizers and spec are looked at, because nothing else is carried over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from karpenter.api.ec2nodeclass import EC2NodeClassSpec
from karpenter.api.labels import AWS_GROUP, GROUP
from karpenter.api.legacy.awsnodetemplate import AWSNodeTemplateSpec
from karpenter.api.legacy.conversion.fields import unknown_fields
from karpenter.api.legacy.conversion.findings import Conversion, Journal, ObjectRef, RawObject, Step
from karpenter.api.legacy.conversion.hints import explained
from karpenter.api.legacy.machine import MachineSpec
from karpenter.api.legacy.provisioner import ProvisionerSpec
from karpenter.api.legacy.v1beta1 import ec2nodeclass as v1beta1_ec2nodeclass
from karpenter.api.legacy.v1beta1 import nodeclaim as v1beta1_nodeclaim
from karpenter.api.legacy.v1beta1 import nodepool as v1beta1_nodepool
from karpenter.api.nodeclaim import NodeClaimSpec
from karpenter.api.nodepool import NodePoolSpec
from karpenter.api.schema import Problem, load_crds
from karpenter.api.schema.problems import NO_FIELD, unknown_field
from karpenter.api.schema.structural import Node

__all__ = [
    "AWS_NODE_TEMPLATE",
    "BETA_CLAIM",
    "BETA_CLASS",
    "BETA_POOL",
    "CURRENT",
    "MACHINE",
    "OLD",
    "PROVISIONER",
    "V1_CLAIM",
    "V1_CLASS",
    "V1_POOL",
    "Document",
    "admits",
    "carried",
    "problems_of",
    "read_documents",
    "refuse_doubles",
    "to_conversion",
]

PROVISIONER = (f"{GROUP}/v1alpha5", "Provisioner")
MACHINE = (f"{GROUP}/v1alpha5", "Machine")
AWS_NODE_TEMPLATE = (f"{AWS_GROUP}/v1alpha1", "AWSNodeTemplate")
BETA_POOL = (f"{GROUP}/v1beta1", "NodePool")
BETA_CLAIM = (f"{GROUP}/v1beta1", "NodeClaim")
BETA_CLASS = (f"{AWS_GROUP}/v1beta1", "EC2NodeClass")
V1_POOL = (f"{GROUP}/v1", "NodePool")
V1_CLAIM = (f"{GROUP}/v1", "NodeClaim")
V1_CLASS = (f"{AWS_GROUP}/v1", "EC2NodeClass")
_OVERLAY = (f"{GROUP}/v1alpha1", "NodeOverlay")

OLD = (PROVISIONER, MACHINE, AWS_NODE_TEMPLATE, BETA_POOL, BETA_CLAIM, BETA_CLASS)
CURRENT = (V1_POOL, V1_CLAIM, V1_CLASS, _OVERLAY)
_SPEC_TYPES: Mapping[tuple[Any, Any], type] = {
    PROVISIONER: ProvisionerSpec,
    MACHINE: MachineSpec,
    AWS_NODE_TEMPLATE: AWSNodeTemplateSpec,
    BETA_POOL: v1beta1_nodepool.NodePoolSpec,
    BETA_CLAIM: v1beta1_nodeclaim.NodeClaimSpec,
    BETA_CLASS: v1beta1_ec2nodeclass.EC2NodeClassSpec,
    V1_POOL: NodePoolSpec,
    V1_CLAIM: NodeClaimSpec,
    V1_CLASS: EC2NodeClassSpec,
}
_CARRIED_METADATA = ("name", "labels", "annotations", "finalizers")


@dataclass(slots=True)
class Document:
    """One object on its way.

    Attributes:
        ref: What to call it.
        manifest: The object as it came.
        version: The apiVersion and kind that it is read as.
        journal: What there is to say about it.
        after: What will be written for it.
    """

    ref: ObjectRef
    manifest: RawObject
    version: tuple[Any, Any]
    journal: Journal
    after: list[RawObject]

    @property
    def passes(self) -> bool:
        """Tells whether the object is written as it came."""
        return self.after[0] is self.manifest

    @property
    def refused(self) -> bool:
        """Tells whether anything about the object was refused."""
        return bool(self.journal.refusals)


def read_documents(objects: Iterable[RawObject]) -> list[Document]:
    """Returns the objects of an input, lists unpacked, with those of unknown versions of our groups refused already."""
    documents: list[Document] = []
    for manifest in _unpacked(objects):
        metadata = manifest.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        ref = ObjectRef(str(manifest.get("kind") or "object"), str(name or ""), len(documents))
        version = manifest.get("apiVersion"), manifest.get("kind")
        document = Document(ref, manifest, version, Journal(ref), [manifest])
        documents.append(document)
        _refuse_unknown(document)
    return documents


def carried(manifest: RawObject) -> RawObject:
    """Return what a conversion reads of an object: no status, no bookkeeping, and no field that says null.

    A field that the object's version does not have stays, also with a null: the API server refuses it too. The result
    is a copy through and through, so converters may build it into what they make.
    """
    metadata = manifest.get("metadata")
    kept = (
        {key: metadata[key] for key in _CARRIED_METADATA if key in metadata}
        if isinstance(metadata, dict)
        else {}
    )
    trimmed = {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": _without_nulls(kept),
    }
    schema = load_crds().definition(manifest["apiVersion"], manifest["kind"]).node.below("spec")
    return trimmed | ({"spec": _without_nulls(manifest["spec"], schema)} if "spec" in manifest else {})


def admits(manifest: RawObject, journal: Journal, prefix: str = "") -> bool:
    """Tells whether the object's own schema takes it, and notes as refusals why not."""
    problems = problems_of(manifest)
    for problem in problems:
        reason, hint = explained(problem, _SPEC_TYPES[manifest["apiVersion"], manifest["kind"]])
        journal.refuse(problem.field, f"{prefix}{reason}", hint)
    return not problems


def problems_of(manifest: RawObject) -> list[Problem]:
    """Returns what the object's own schema has against it."""
    problems = load_crds().admit(manifest, strict=True).problems
    # About the object as a whole the server only adds that there may be more; the others are what to mend.
    told = [problem for problem in problems if problem.field != NO_FIELD] or list(problems)
    version = (manifest["apiVersion"], manifest["kind"])
    if version not in (BETA_POOL, BETA_CLAIM, BETA_CLASS):
        return told
    spec_type = _SPEC_TYPES[version]
    unknown = [unknown_field(path) for path in unknown_fields(manifest.get("spec"), spec_type, "spec")]
    return [problem for problem in unknown if problem not in told] + told


def refuse_doubles(documents: Sequence[Document]) -> None:
    """Refuses a converted object if another one of the output has its kind and name."""
    ours = [
        document for document in documents if not document.refused and document.version in (*OLD, *CURRENT)
    ]
    owners: dict[tuple[str, str], Document] = {}
    # What passes through was there first: it stays, wherever it stands.
    for document in sorted(ours, key=lambda each: not each.passes):
        names = (
            [document.ref.name] if document.passes else [each["metadata"]["name"] for each in document.after]
        )
        for name in names:
            kind = str(document.after[0]["kind"])
            owner = owners.setdefault((kind, name), document)
            if owner is not document and not document.passes:
                document.journal.refuse(
                    "metadata.name",
                    f"{kind} {name} is already made of {owner.ref} (object {owner.ref.position + 1})",
                    "rename one of the two, or remove the one that is out of date",
                )


def to_conversion(documents: Iterable[Document]) -> Conversion:
    """Returns the outcome; of a refused object only the reasons are told."""
    documents = list(documents)
    return Conversion(
        tuple(
            Step(
                document.ref,
                document.manifest,
                () if document.refused else tuple(document.after),
                document.refused,
            )
            for document in documents
        ),
        tuple(warning for each in documents if not each.refused for warning in each.journal.warnings),
        tuple(refusal for each in documents for refusal in each.journal.refusals),
    )


def _unpacked(objects: Iterable[RawObject]) -> Iterator[RawObject]:
    for manifest in objects:
        items = manifest.get("items")
        if str(manifest.get("kind")).endswith("List") and isinstance(items, list):
            yield from (item for item in items if isinstance(item, dict))
        else:
            yield manifest


def _without_nulls(value: Any, schema: Node | None = None) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_nulls(inner, schema.below(key) if schema else None)
            for key, inner in value.items()
            if inner is not None or (schema is not None and not schema.knows(key))
        }
    if isinstance(value, list):
        return [_without_nulls(inner, schema.items if schema else None) for inner in value]
    return value


def _refuse_unknown(document: Document) -> None:
    version, kind = document.version
    for name, value in (("apiVersion", version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            document.journal.refuse(
                name, "Required value", "every Kubernetes object has an apiVersion and a kind"
            )
    group = str(version).partition("/")[0]
    if group not in {GROUP, AWS_GROUP} or document.refused or (version, kind) in (*OLD, *CURRENT):
        return
    known = ", ".join(f"{kind} ({version})" for version, kind in (*OLD, *CURRENT))
    document.journal.refuse("apiVersion", f"{version} knows no {kind}", f"known are {known}")
