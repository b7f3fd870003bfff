# SPDX-License-Identifier: Apache-2.0
"""AWSNodeTemplate and v1beta1 EC2NodeClass as v1 EC2NodeClass.

Decides selectors, images, disks, tags, the instance profile and the metadata service's hop limit, whose old
default of 2 is written out because v1's is 1. Refuses a launch template (everything it said must be said in
the class), a template without any instance profile, and what the modules for selectors and images refuse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from karpenter.api import labels
from karpenter.api.legacy.conversion.drafts import Context, Draft
from karpenter.api.legacy.conversion.findings import Journal, RawObject
from karpenter.api.legacy.conversion.images import put_images
from karpenter.api.legacy.conversion.names import kept_metadata
from karpenter.api.legacy.conversion.selectors import terms_from_selector
from karpenter.kit.quantity import QuantityError, parse_quantity

__all__ = ["convert_beta_class", "convert_template", "without_own_tags"]

_OLD_HOP_LIMIT = 2

_GIB = 2**30
_V1_SIZE = re.compile(r"[1-9][0-9]{0,4}(Gi|G|Ti|T)")
# Karpenter sets these itself; what stood here never had the last word.
_OWN_TAGS = frozenset(
    {
        labels.EKS_CLUSTER_NAME_TAG,
        labels.MANAGED_BY,
        labels.PROVISIONER_NAME,
        labels.NODEPOOL_TAG,
        labels.NODECLAIM_TAG,
        labels.EC2NODECLASS_TAG,
    }
)
_CLUSTER_TAG = "kubernetes.io/cluster"
# How people write a class: what to boot, where, as whom; then the rest.
_ORDER = (
    "amiFamily",
    "amiSelectorTerms",
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "role",
    "instanceProfile",
)
_SAME_FIELDS = ("userData", "detailedMonitoring", "context")
_SAME_BETA_FIELDS = (
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "role",
    "instanceProfile",
    *_SAME_FIELDS,
    "associatePublicIPAddress",
    "tags",
    "instanceStorePolicy",
)


def convert_template(old: RawObject, context: Context, journal: Journal) -> Draft:
    """Returns the EC2NodeClass that a v1alpha1 AWSNodeTemplate means."""
    spec = old["spec"]
    node_class = _node_class(old, journal)
    body = node_class["spec"]
    body["subnetSelectorTerms"] = terms_from_selector(
        spec.get("subnetSelector") or {}, "spec.subnetSelector", journal
    )
    body["securityGroupSelectorTerms"] = terms_from_selector(
        spec.get("securityGroupSelector") or {}, "spec.securityGroupSelector", journal
    )
    body["instanceProfile"] = _profile(spec, context, journal)
    _put_same(body, spec, _SAME_FIELDS)
    _put_disks(body, spec, journal)
    if tags := {**without_own_tags(context.tags, journal), **(spec.get("tags") or {})}:
        body["tags"] = tags
    _put_template_metadata_options(body, spec, journal)
    family = spec.get("amiFamily") or "AL2"
    terms = terms_from_selector(spec.get("amiSelector") or {}, "spec.amiSelector", journal, images=True)
    # A selector that was refused leaves no terms; the family must not be refused for that as well.
    if terms or not spec.get("amiSelector"):
        put_images(node_class, family, terms, journal)
    if not terms and "amiSelectorTerms" in body:
        journal.warn("spec.amiFamily", _latest_warning(family))
    return Draft(_in_order(node_class))


def convert_beta_class(old: RawObject, journal: Journal) -> Draft:
    """Returns the v1 EC2NodeClass that a v1beta1 EC2NodeClass means."""
    spec = old["spec"]
    node_class = _node_class(old, journal)
    body = node_class["spec"]
    _put_same(body, spec, _SAME_BETA_FIELDS)
    _put_disks(body, spec, journal)
    options = spec.get("metadataOptions") or {}
    body["metadataOptions"] = {
        **options,
        "httpPutResponseHopLimit": options.get("httpPutResponseHopLimit", _OLD_HOP_LIMIT),
    }
    put_images(node_class, spec["amiFamily"], spec.get("amiSelectorTerms") or [], journal)
    return Draft(_in_order(node_class))


def without_own_tags(tags: Mapping[str, str], journal: Journal) -> dict[str, str]:
    """Returns the tags without those that Karpenter sets itself; another cluster's tag is refused."""
    kept = {}
    for key, value in tags.items():
        path = f"spec.tags[{key}]"
        if key in _OWN_TAGS or (str(key).startswith(_CLUSTER_TAG) and value == "owned"):
            journal.warn(path, "dropped: Karpenter puts this tag on its instances itself")
        elif str(key).startswith(_CLUSTER_TAG):
            journal.refuse(
                path,
                f"v1 refuses tags that begin with {_CLUSTER_TAG}",
                "remove it, or tag the instances by other means",
            )
        else:
            kept[key] = value
    return kept


def _profile(spec: RawObject, context: Context, journal: Journal) -> str:
    profile = spec.get("instanceProfile") or context.default_instance_profile
    if not profile:
        journal.refuse(
            "spec.instanceProfile",
            "Required value: v1 has no default instance profile, the old one stood in the global settings",
            "add the ConfigMap karpenter-global-settings to the input, or give --default-instance-profile",
        )
    return str(profile)


def _put_same(body: RawObject, spec: RawObject, names: tuple[str, ...]) -> None:
    for name in names:
        if spec.get(name) is not None:
            body[name] = spec[name]


def _put_disks(body: RawObject, spec: RawObject, journal: Journal) -> None:
    disks = spec.get("blockDeviceMappings") or []
    for index, disk in enumerate(disks):
        ebs = disk.get("ebs") or {}
        if ebs.get("volumeSize") is not None:
            path = f"spec.blockDeviceMappings[{index}].ebs.volumeSize"
            ebs["volumeSize"] = _size(ebs["volumeSize"], path, journal)
    if disks:
        body["blockDeviceMappings"] = disks


def _size(written: str | float, path: str, journal: Journal) -> str:
    # v1 takes whole G, Gi, T and Ti alone; EC2 was asked for whole GiB, rounded up, all along.
    if isinstance(written, str) and _V1_SIZE.fullmatch(written):
        return written
    try:
        return f"{-(-parse_quantity(str(written)).value() // _GIB)}Gi"
    except QuantityError as error:
        journal.refuse(path, error.message, error.hint)
        return str(written)


def _put_template_metadata_options(body: RawObject, spec: RawObject, journal: Journal) -> None:
    options = spec.get("metadataOptions")
    if options is None:
        body["metadataOptions"] = {"httpPutResponseHopLimit": _OLD_HOP_LIMIT}
        return
    body["metadataOptions"] = dict(options)
    # Once the block was there, EC2's own defaults ruled its gaps: one hop, as in v1, and tokens optional, unlike v1.
    if "httpTokens" not in options:
        journal.warn(
            "spec.metadataOptions.httpTokens",
            "required in v1 unless said otherwise; EC2's own default ruled before",
        )


def _latest_warning(family: str) -> str:
    text = (
        "drift is always on in v1: nodes are replaced when a newer image comes out, unless you pin a version"
    )
    return f"{text}; there are no AL2 images for Kubernetes 1.33 and newer" if family == "AL2" else text


def _node_class(old: RawObject, journal: Journal) -> RawObject:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": kept_metadata(old["metadata"], journal),
        "spec": {},
    }


def _in_order(node_class: RawObject) -> RawObject:
    spec = node_class["spec"]
    first = {name: spec[name] for name in _ORDER if name in spec}
    return {**node_class, "spec": first | spec}
