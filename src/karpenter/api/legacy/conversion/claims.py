# SPDX-License-Identifier: Apache-2.0
"""Machine and v1beta1 NodeClaim as v1 NodeClaim.

A claim is an order for one instance. Its status, which ties it to an instance that runs, cannot be carried in
a manifest: applying the converted claim orders a new instance, and every conversion says so. How long the
node lives stood on the pool before and stands on the claim in v1; it is taken from the pool if the input has
it.
"""

from __future__ import annotations

from karpenter.api import labels
from karpenter.api.legacy.conversion.drafts import Context, Draft, class_reference
from karpenter.api.legacy.conversion.findings import Journal, RawObject
from karpenter.api.legacy.conversion.names import kept_metadata
from karpenter.api.legacy.conversion.pools import kubelet_settings, referred_class, template_spec

__all__ = ["convert_beta_claim", "convert_machine"]


def convert_machine(old: RawObject, context: Context, journal: Journal) -> Draft:
    """Returns the NodeClaim that a v1alpha5 Machine means."""
    spec = old["spec"]
    reference = spec.get("machineTemplateRef") or {}
    if (reference.get("kind") or "AWSNodeTemplate") != "AWSNodeTemplate":
        journal.refuse(
            "spec.machineTemplateRef.kind", f"{reference['kind']} cannot be converted, only AWSNodeTemplate"
        )
    if not reference.get("name"):
        journal.refuse("spec.machineTemplateRef.name", "Required value: v1 needs a node class to refer to")
    name = str(reference.get("name", ""))
    kubelet = kubelet_settings(spec.get("kubelet") or {}, "spec.kubelet", journal)
    expiry = _expiry(old, "Provisioner", labels.PROVISIONER_NAME, context, journal)
    return Draft(_claim(old, name, expiry, journal), name, kubelet, "spec.kubelet")


def convert_beta_claim(old: RawObject, context: Context, journal: Journal) -> Draft:
    """Returns the v1 NodeClaim that a v1beta1 NodeClaim means."""
    spec = old["spec"]
    name = referred_class(spec.get("nodeClassRef") or {}, "spec.nodeClassRef", journal)
    expiry = _expiry(old, "NodePool", labels.NODEPOOL, context, journal)
    kubelet = kubelet_settings(spec.get("kubelet") or {}, "spec.kubelet", journal)
    return Draft(_claim(old, name, expiry, journal), name, kubelet, "spec.kubelet")


def _expiry(old: RawObject, pool_kind: str, label: str, context: Context, journal: Journal) -> str:
    pool = (old["metadata"].get("labels") or {}).get(label, "")
    known = context.expiries.get((pool_kind, pool))
    if known is None:
        journal.warn(
            "spec.expireAfter",
            f"set to Never: {pool_kind} {pool} is not in the input"
            if pool
            else "set to Never: the claim has no pool",
        )
    return known or "Never"


def _claim(old: RawObject, class_name: str, expire_after: str, journal: Journal) -> RawObject:
    journal.warn(
        "status", "dropped: applying the NodeClaim orders a new instance, it does not adopt a running one"
    )
    spec = template_spec(old["spec"], "spec", journal)
    if old["spec"].get("resources"):
        spec["resources"] = old["spec"]["resources"]
    spec |= {"nodeClassRef": class_reference(class_name), "expireAfter": expire_after}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": kept_metadata(old["metadata"], journal),
        "spec": spec,
    }
