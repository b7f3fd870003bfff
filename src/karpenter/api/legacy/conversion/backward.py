# SPDX-License-Identifier: Apache-2.0
"""v1 objects as v1beta1, for who must go back.

v1 can say more than v1beta1, and what v1beta1 cannot say is refused: draining by force, a delay before
consolidating underused nodes, budgets by reason, pinned image versions and every field that came with v1.
Kubelet settings go back from the class to the pools that use it. Defaults that differ are written out, so
converting there and back changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

from karpenter.api.labels import AWS_GROUP, V1BETA1_UBUNTU
from karpenter.api.legacy.conversion import documents as docs
from karpenter.api.legacy.conversion.documents import Document
from karpenter.api.legacy.conversion.findings import Conversion, Journal, RawObject
from karpenter.api.legacy.conversion.images import ALIASES, UBUNTU_DISKS
from karpenter.api.legacy.conversion.names import kept_metadata
from karpenter.api.legacy.conversion.progress import Progress, counted, silent

__all__ = ["convert_to_v1beta1"]

_V1_HOP_LIMIT = 1
_FAMILIES = {alias: family for family, alias in ALIASES.items()}
_ALPHA = (docs.PROVISIONER, docs.MACHINE, docs.AWS_NODE_TEMPLATE)


def convert_to_v1beta1(objects: Sequence[RawObject], tell: Progress = silent) -> Conversion:
    """Returns the input with every v1 object as v1beta1."""
    documents = docs.read_documents(objects)
    current = {}
    for document in counted("checking", documents, tell):
        if document.version in _ALPHA:
            document.journal.refuse(
                "apiVersion",
                f"{document.version[0]} is converted to v1 only",
                "convert to v1 first, then to v1beta1",
            )
        elif document.version in (docs.V1_POOL, docs.V1_CLAIM, docs.V1_CLASS):
            manifest = docs.carried(document.manifest)
            if docs.admits(manifest, document.journal):
                current[document.ref.position] = manifest
    classes = {
        manifest["metadata"]["name"]: manifest
        for manifest in current.values()
        if manifest["kind"] == "EC2NodeClass"
    }
    used = _used_classes(current)
    for position, manifest in counted("converting", list(current.items()), tell):
        document = documents[position]
        if document.version == docs.V1_CLASS:
            converted = _beta_class(manifest, used, document.journal)
        elif document.version == docs.V1_POOL:
            converted = _beta_pool(manifest, classes, document.journal)
        else:
            converted = _beta_claim(manifest, classes, document.journal)
        _check(converted, document)
    docs.refuse_doubles(documents)
    return docs.to_conversion(documents)


def _check(converted: RawObject, document: Document) -> None:
    if not document.refused:
        docs.admits(converted, document.journal, f"{converted['kind']} of v1beta1 cannot say this: ")
    document.after = [converted]


def _used_classes(current: Mapping[int, RawObject]) -> set[str]:
    used = set()
    for manifest in current.values():
        if manifest["kind"] != "EC2NodeClass":
            spec = (
                manifest["spec"]["template"]["spec"] if manifest["kind"] == "NodePool" else manifest["spec"]
            )
            used.add(spec["nodeClassRef"]["name"])
    return used


def _beta_pool(manifest: RawObject, classes: Mapping[str, RawObject], journal: Journal) -> RawObject:
    spec = manifest["spec"]
    template = spec["template"]
    body: RawObject = {"template": {}}
    if template.get("metadata"):
        body["template"]["metadata"] = template["metadata"]
    body["template"]["spec"] = _node_spec(template["spec"], "spec.template.spec", classes, journal)
    body["disruption"] = _beta_disruption(spec.get("disruption") or {}, journal)
    if template["spec"].get("expireAfter"):
        body["disruption"]["expireAfter"] = template["spec"]["expireAfter"]
    body |= {name: spec[name] for name in ("limits", "weight") if spec.get(name)}
    if "nodes" in body.get("limits", {}):
        journal.refuse("spec.limits.nodes", "v1beta1 cannot limit the number of nodes")
    if spec.get("replicas") is not None:
        journal.refuse("spec.replicas", "v1beta1 has no static pools")
    return _beta(manifest, "karpenter.sh/v1beta1", body, journal)


def _beta_claim(manifest: RawObject, classes: Mapping[str, RawObject], journal: Journal) -> RawObject:
    spec = manifest["spec"]
    body = _node_spec(spec, "spec", classes, journal)
    # v1beta1 demands the field; no requests is what an absent one means in v1.
    body["resources"] = spec.get("resources") or {"requests": {}}
    journal.warn("spec.expireAfter", "dropped: in v1beta1 a node expires by the settings of its NodePool")
    journal.warn(
        "status", "dropped: applying the NodeClaim orders a new instance, it does not adopt a running one"
    )
    return _beta(manifest, "karpenter.sh/v1beta1", body, journal)


def _node_spec(spec: RawObject, path: str, classes: Mapping[str, RawObject], journal: Journal) -> RawObject:
    for index, requirement in enumerate(spec["requirements"]):
        if requirement["operator"] in {"Gte", "Lte"}:
            strict = "Gt with one less" if requirement["operator"] == "Gte" else "Lt with one more"
            journal.refuse(
                f"{path}.requirements[{index}].operator",
                f"v1beta1 has no {requirement['operator']}",
                f"{strict} says the same",
            )
    if spec.get("terminationGracePeriod"):
        journal.refuse(f"{path}.terminationGracePeriod", "v1beta1 cannot end a drain by force")
    reference = spec["nodeClassRef"]
    if (reference["group"], reference["kind"]) != (AWS_GROUP, "EC2NodeClass"):
        journal.refuse(f"{path}.nodeClassRef", f"only EC2NodeClass of {AWS_GROUP} can be converted")
    body = {
        name: spec[name] for name in ("requirements", "taints", "startupTaints") if spec.get(name) is not None
    }
    kubelet = (classes.get(reference["name"]) or {"spec": {}})["spec"].get("kubelet")
    if kubelet:
        body["kubelet"] = deepcopy(kubelet)
    if reference["name"] not in classes:
        journal.warn(
            f"{path}.nodeClassRef",
            f"EC2NodeClass {reference['name']} is not in the input; kubelet settings that it has belong here",
        )
    body["nodeClassRef"] = {
        "apiVersion": f"{reference['group']}/v1beta1",
        "kind": reference["kind"],
        "name": reference["name"],
    }
    return body


def _beta_disruption(disruption: RawObject, journal: Journal) -> RawObject:
    policy = disruption.get("consolidationPolicy", "WhenEmptyOrUnderutilized")
    after = disruption.get("consolidateAfter", "0s")
    path = "spec.disruption"
    if policy == "WhenEmpty":
        converted: RawObject = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": after}
    elif policy == "WhenEmptyOrUnderutilized":
        converted = {"consolidationPolicy": "WhenUnderutilized"}
        if after == "Never":
            converted["consolidateAfter"] = "Never"
        elif after != "0s":
            journal.refuse(
                f"{path}.consolidateAfter",
                f"v1beta1 cannot wait {after} before it consolidates underused nodes",
                "set it to 0s, or consolidate WhenEmpty only",
            )
    else:
        converted = {}
        journal.refuse(f"{path}.consolidationPolicy", f"v1beta1 has no policy {policy}")
    if "budgets" in disruption:
        converted["budgets"] = disruption["budgets"]
        for index, budget in enumerate(disruption["budgets"]):
            if budget.get("reasons"):
                journal.refuse(f"{path}.budgets[{index}].reasons", "v1beta1 has no budgets by reason")
    return converted


def _beta_class(manifest: RawObject, used: set[str], journal: Journal) -> RawObject:
    spec = manifest["spec"]
    if spec.get("kubelet") and manifest["metadata"]["name"] not in used:
        journal.refuse(
            "spec.kubelet",
            "v1beta1 has kubelet settings on pools, and no pool in the input uses this class",
            "add the NodePools that use it to the input",
        )
    apart = {"kubelet", "amiFamily", "amiSelectorTerms", "metadataOptions"}
    body = {name: value for name, value in spec.items() if name not in apart}
    options = spec.get("metadataOptions") or {}
    body["metadataOptions"] = {"httpPutResponseHopLimit": _V1_HOP_LIMIT, **options}
    converted = _beta(manifest, "karpenter.k8s.aws/v1beta1", body, journal)
    _put_beta_images(converted, spec, journal)
    return converted


def _put_beta_images(converted: RawObject, spec: RawObject, journal: Journal) -> None:
    body = converted["spec"]
    terms = spec["amiSelectorTerms"]
    if "alias" in terms[0]:
        alias, _, version = terms[0]["alias"].partition("@")
        body["amiFamily"] = _FAMILIES.get(alias, alias)
        if version != "latest":
            journal.refuse(
                "spec.amiSelectorTerms[0].alias",
                f"v1beta1 cannot pin version {version} of {alias}",
                "select the images by id or name",
            )
        elif spec.get("amiFamily", body["amiFamily"]) != body["amiFamily"]:
            journal.refuse("spec.amiFamily", f"v1beta1 cannot boot images of {alias} as {spec['amiFamily']}")
        return
    body["amiSelectorTerms"] = terms
    body["amiFamily"] = spec.get("amiFamily", "")
    annotations = converted["metadata"].get("annotations", {})
    remembered = annotations.pop(V1BETA1_UBUNTU, "").split(",")
    if not annotations:
        converted["metadata"].pop("annotations", None)
    if "amiFamily" in remembered and body["amiFamily"] == "AL2":
        body["amiFamily"] = "Ubuntu"
        if "blockDeviceMappings" in remembered and body.get("blockDeviceMappings") == UBUNTU_DISKS:
            del body["blockDeviceMappings"]


def _beta(manifest: RawObject, version: str, spec: RawObject, journal: Journal) -> RawObject:
    return {
        "apiVersion": version,
        "kind": manifest["kind"],
        "metadata": kept_metadata(manifest["metadata"], journal),
        "spec": spec,
    }
