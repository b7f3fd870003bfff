# SPDX-License-Identifier: Apache-2.0
"""Everything old in an input as v1.

Each old object is checked, converted by itself, and then finished together: node classes take over the
kubelet settings of the pools that use them, pools point at the class that has theirs. What comes out is held
against v1's schema, so an object that the API server would refuse is refused here, with the reason. Objects
that are v1 already and those of other software pass through untouched, with a warning where the API server or
an old name will trouble them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TypeAlias

from karpenter.api.legacy.conversion import documents as docs
from karpenter.api.legacy.conversion.claims import convert_beta_claim, convert_machine
from karpenter.api.legacy.conversion.classes import convert_beta_class, convert_template, without_own_tags
from karpenter.api.legacy.conversion.disguise import written_through_v1beta1
from karpenter.api.legacy.conversion.documents import Document
from karpenter.api.legacy.conversion.drafts import Context, Draft
from karpenter.api.legacy.conversion.findings import Conversion, Journal, RawObject
from karpenter.api.legacy.conversion.kubelets import ClassUser, Variant, variants_of
from karpenter.api.legacy.conversion.names import old_names_in
from karpenter.api.legacy.conversion.pools import (
    beta_expiry,
    convert_beta_pool,
    convert_provisioner,
    provisioner_expiry,
)
from karpenter.api.legacy.conversion.progress import Progress, counted, silent
from karpenter.api.legacy.conversion.settings import GlobalSettings, is_global_settings, read_global_settings

__all__ = ["convert_to_v1"]

_Drafts: TypeAlias = list[tuple[Document, Draft]]

_CLASSES = (docs.AWS_NODE_TEMPLATE, docs.BETA_CLASS, docs.V1_CLASS)

# Fields that cannot be carried over whatever else the object says.
_REMOVED = {
    docs.AWS_NODE_TEMPLATE: (
        "launchTemplate",
        "a launch template of your own cannot be used in v1",
        "say in the node template what it says: images, user data, security groups, disks, instance profile",
    ),
    docs.PROVISIONER: (
        "provider",
        "AWS settings inside a pool cannot be used in v1",
        "move them to an AWSNodeTemplate and name it in spec.providerRef",
    ),
}


@dataclass(frozen=True, slots=True)
class _Input:
    documents: list[Document]
    old: list[tuple[Document, RawObject]]
    settings: GlobalSettings


def convert_to_v1(
    objects: Sequence[RawObject], *, default_instance_profile: str = "", tell: Progress = silent
) -> Conversion:
    """Returns the input with every old object as v1."""
    given = _read(objects, tell)
    context = Context(
        default_instance_profile=default_instance_profile or given.settings.instance_profile,
        tags=given.settings.tags,
        expiries=_expiries(given.old),
    )
    drafts = [(document, _draft(document, manifest, context)) for document, manifest in given.old]
    drafts = [
        (document, draft)
        for document, draft in counted("converting", drafts, tell)
        if not document.refused and _admits_as_v1(draft.manifest, document.journal)
    ]
    _finish(drafts, given.documents, tell)
    docs.refuse_doubles(given.documents)
    return docs.to_conversion(given.documents)


def _read(objects: Sequence[RawObject], tell: Progress) -> _Input:
    documents = docs.read_documents(objects)
    old = []
    settings = GlobalSettings()
    for document in counted("checking", documents, tell):
        if document.refused:
            continue
        written = _as_written(document)
        if document.version in docs.OLD:
            manifest = docs.carried(written)
            convertible = _prepare(manifest, document)
            if docs.admits(manifest, document.journal) and convertible:
                old.append((document, manifest))
        elif document.version in docs.CURRENT:
            _warn_of_problems(document)
        elif is_global_settings(document.manifest):
            settings = read_global_settings(document.manifest, document.journal)
        else:
            for path, name, new in old_names_in(document.manifest):
                document.journal.warn(path or "object", f"{name} is an old name: in v1 it is {new}")
    return _Input(documents, old, settings)


def _as_written(document: Document) -> RawObject:
    written = written_through_v1beta1(document.manifest)
    # What v1beta1 does not take either is a broken v1 object, and that is what its owner wants to hear.
    if written is None or docs.problems_of(docs.carried(written)):
        return document.manifest
    document.version = (written["apiVersion"], written["kind"])
    document.journal.warn("apiVersion", "says v1, but the object was written as v1beta1 and is read as that")
    return written


def _prepare(manifest: RawObject, document: Document) -> bool:
    """Takes out what is dealt with in better words than the schema has; tells whether converting has a point."""
    spec = manifest.get("spec")
    if not isinstance(spec, dict):
        return False
    name, reason, hint = _REMOVED.get(document.version, ("", "", ""))
    if spec.get(name):
        document.journal.refuse(f"spec.{name}", reason, hint)
        manifest["spec"] = {key: value for key, value in spec.items() if key != name}
        return False
    if document.version in (docs.AWS_NODE_TEMPLATE, docs.BETA_CLASS) and isinstance(spec.get("tags"), dict):
        manifest["spec"] = {**spec, "tags": without_own_tags(spec["tags"], document.journal)}
    return True


def _warn_of_problems(document: Document) -> None:
    for problem in docs.problems_of(document.manifest):
        document.journal.warn(
            problem.field, f"passed through, but the API server will refuse it: {problem.message}"
        )


def _expiries(old: Sequence[tuple[Document, RawObject]]) -> dict[tuple[str, str], str]:
    read = {docs.PROVISIONER: provisioner_expiry, docs.BETA_POOL: beta_expiry}
    return {
        (document.ref.kind, document.ref.name): read[document.version](manifest["spec"])
        for document, manifest in old
        if document.version in read
    }


def _draft(document: Document, manifest: RawObject, context: Context) -> Draft:
    journal = document.journal
    match document.version:
        case docs.PROVISIONER:
            return convert_provisioner(manifest, journal)
        case docs.BETA_POOL:
            return convert_beta_pool(manifest, journal)
        case docs.MACHINE:
            return convert_machine(manifest, context, journal)
        case docs.BETA_CLAIM:
            return convert_beta_claim(manifest, context, journal)
        case docs.AWS_NODE_TEMPLATE:
            return convert_template(manifest, context, journal)
        case _:
            return convert_beta_class(manifest, journal)


def _admits_as_v1(manifest: RawObject, journal: Journal) -> bool:
    return docs.admits(manifest, journal, f"{manifest['kind']} of v1 would be refused: ")


def _finish(drafts: _Drafts, documents: Sequence[Document], tell: Progress) -> None:
    pools = [(document, draft) for document, draft in drafts if draft.class_name]
    classes = [(document, draft) for document, draft in drafts if not draft.class_name]
    users: dict[str, list[ClassUser]] = {}
    for document, draft in pools:
        users.setdefault(draft.class_name, []).append(ClassUser(document.ref, draft.kubelet))
    named = {document.ref.name for document in documents if document.version in _CLASSES}
    taken = set(named)
    chosen: dict[int, str] = {}
    for document, draft in counted("finishing", classes, tell):
        variants = variants_of(document.ref.name, users.get(document.ref.name, []), taken)
        taken.update(variant.name for variant in variants)
        chosen |= {user.ref.position: variant.name for variant in variants for user in variant.users}
        document.after = [_with_kubelet(draft.manifest, variant) for variant in variants]
        for manifest in document.after:
            _admits_as_v1(manifest, document.journal)
        _tell_of_variants(variants, document.journal)
    current = {document.ref.name: document for document in documents if document.version == docs.V1_CLASS}
    for document, draft in pools:
        _point_at_class(document, draft, chosen.get(document.ref.position, draft.class_name))
        if draft.kubelet and (draft.class_name in current or draft.class_name not in named):
            _warn_of_lost_kubelet(draft, current.get(draft.class_name), document.journal)


def _with_kubelet(node_class: RawObject, variant: Variant) -> RawObject:
    manifest = deepcopy(node_class)
    manifest["metadata"]["name"] = variant.name
    if variant.kubelet:
        manifest["spec"]["kubelet"] = deepcopy(variant.kubelet)
    return manifest


def _tell_of_variants(variants: Sequence[Variant], journal: Journal) -> None:
    if len(variants) > 1:
        parts = "; ".join(
            f"{each.name} for {', '.join(str(user.ref) for user in each.users)}" for each in variants
        )
        journal.warn(
            "metadata.name",
            f"became {len(variants)} EC2NodeClasses, as its pools set the kubelet apart: {parts}",
        )


def _point_at_class(document: Document, draft: Draft, class_name: str) -> None:
    manifest = draft.manifest
    spec = manifest["spec"]["template"]["spec"] if manifest["kind"] == "NodePool" else manifest["spec"]
    spec["nodeClassRef"]["name"] = class_name
    document.after = [manifest]


def _warn_of_lost_kubelet(draft: Draft, current: Document | None, journal: Journal) -> None:
    spec = current.manifest.get("spec") if current else None
    if isinstance(spec, dict) and spec.get("kubelet") == draft.kubelet:
        return
    where = "is not in the input" if current is None else "is v1 already and was not touched"
    settings = ", ".join(f"{name}: {value}" for name, value in draft.kubelet.items())
    journal.warn(
        draft.kubelet_path, f"EC2NodeClass {draft.class_name} {where}: add to its spec.kubelet {settings}"
    )
