# SPDX-License-Identifier: Apache-2.0
"""Provisioner and v1beta1 NodePool as v1 NodePool.

Decides the requirements (with the defaults that the old webhook filled in, written out), how nodes expire and
consolidate, and what is lost: containerRuntime, graceful expiry. Refuses an inline provider, whose settings
belong in a node class, and a reference to a kind that is no AWSNodeTemplate or EC2NodeClass.
"""

from __future__ import annotations

from collections.abc import Sequence

from karpenter.api import labels
from karpenter.api.legacy.conversion.drafts import Draft, class_reference, duration_text
from karpenter.api.legacy.conversion.findings import Journal, RawObject
from karpenter.api.legacy.conversion.names import (
    kept_metadata,
    renamed_annotations,
    renamed_labels,
    renamed_taints,
)
from karpenter.api.legacy.conversion.requirements import converted_requirements, default_requirements
from karpenter.kit import cron

__all__ = [
    "beta_expiry",
    "convert_beta_pool",
    "convert_provisioner",
    "kubelet_settings",
    "provisioner_expiry",
    "referred_class",
    "template_spec",
]

_FORCEFUL_EXPIRY = (
    "nodes that expire are drained at once in v1, without a replacement being ready first "
    "and without regard to disruption budgets"
)


def convert_provisioner(old: RawObject, journal: Journal) -> Draft:
    """Returns the NodePool that a v1alpha5 Provisioner means."""
    spec = old["spec"]
    template = template_spec(spec, "spec", journal)
    given = [requirement["key"] for requirement in template["requirements"]] + list(spec.get("labels") or ())
    template["requirements"] += default_requirements(given)
    class_name = _provider_class(spec, journal)
    template["nodeClassRef"] = class_reference(class_name)
    template["expireAfter"] = provisioner_expiry(spec)
    if template["expireAfter"] != "Never":
        journal.warn("spec.ttlSecondsUntilExpired", _FORCEFUL_EXPIRY)
    body: RawObject = {
        "template": _template(spec, "spec", template, journal),
        "disruption": _provisioner_disruption(spec, journal),
    }
    if limits := (spec.get("limits") or {}).get("resources"):
        body["limits"] = dict(limits)
    if spec.get("weight"):
        body["weight"] = spec["weight"]
    path = "spec.kubeletConfiguration"
    kubelet = kubelet_settings(spec.get("kubeletConfiguration") or {}, path, journal)
    return Draft(_node_pool(old, body, journal), class_name, kubelet, path)


def convert_beta_pool(old: RawObject, journal: Journal) -> Draft:
    """Returns the v1 NodePool that a v1beta1 NodePool means."""
    spec = old["spec"]
    old_template = spec["template"]
    path = "spec.template.spec"
    template = template_spec(old_template["spec"], path, journal)
    class_name = referred_class(
        old_template["spec"].get("nodeClassRef") or {}, f"{path}.nodeClassRef", journal
    )
    template["nodeClassRef"] = class_reference(class_name)
    template["expireAfter"] = beta_expiry(spec)
    if template["expireAfter"] != "Never":
        journal.warn("spec.disruption.expireAfter", _FORCEFUL_EXPIRY)
    body: RawObject = {
        "template": _template(
            old_template.get("metadata") or {}, "spec.template.metadata", template, journal
        ),
        "disruption": _beta_disruption(spec.get("disruption") or {}, journal),
    }
    body |= {name: spec[name] for name in ("limits", "weight") if spec.get(name)}
    kubelet = kubelet_settings(old_template["spec"].get("kubelet") or {}, f"{path}.kubelet", journal)
    return Draft(_node_pool(old, body, journal), class_name, kubelet, f"{path}.kubelet")


def template_spec(spec: RawObject, path: str, journal: Journal) -> RawObject:
    """Returns what pools and claims have in common: requirements, taints, startup taints."""
    template: RawObject = {
        "requirements": converted_requirements(
            spec.get("requirements") or (), f"{path}.requirements", journal
        )
    }
    for name in ("taints", "startupTaints"):
        if spec.get(name):
            template[name] = renamed_taints(spec[name])
    return template


def kubelet_settings(kubelet: RawObject, path: str, journal: Journal) -> RawObject:
    """Returns kubelet settings as v1 takes them: no containerRuntime, and quantities as text."""
    if kubelet.get("containerRuntime"):
        journal.warn(
            f"{path}.containerRuntime", "dropped: nodes run containerd, there is no other choice in v1"
        )
    settings = {name: value for name, value in kubelet.items() if name != "containerRuntime"}
    for name in ("systemReserved", "kubeReserved"):
        if name in settings:
            settings[name] = {resource: str(amount) for resource, amount in settings[name].items()}
    return settings


def provisioner_expiry(spec: RawObject) -> str:
    """Returns expireAfter of a Provisioner: absent meant never, where v1 would fill in 720h."""
    seconds = spec.get("ttlSecondsUntilExpired")
    return "Never" if seconds is None else duration_text(seconds)


def beta_expiry(spec: RawObject) -> str:
    """Returns expireAfter of a v1beta1 NodePool: absent meant 720h."""
    return str((spec.get("disruption") or {}).get("expireAfter", "720h"))


def referred_class(reference: RawObject, path: str, journal: Journal) -> str:
    """Returns the class that a v1beta1 nodeClassRef names; another kind than EC2NodeClass is refused."""
    group = str(reference.get("apiVersion") or labels.AWS_GROUP).partition("/")[0]
    kind = reference.get("kind") or "EC2NodeClass"
    if (group, kind) != (labels.AWS_GROUP, "EC2NodeClass"):
        journal.refuse(
            path, f"refers to {kind} of {group}, only EC2NodeClass of {labels.AWS_GROUP} can be converted"
        )
    return str(reference.get("name", ""))


def _provider_class(spec: RawObject, journal: Journal) -> str:
    reference = spec.get("providerRef")
    if not reference:
        journal.refuse(
            "spec.providerRef",
            "Required value: v1 needs a node class to refer to",
            "write the AWS settings as an AWSNodeTemplate and name it in providerRef",
        )
        return ""
    if (reference.get("kind") or "AWSNodeTemplate") != "AWSNodeTemplate":
        journal.refuse(
            "spec.providerRef.kind", f"{reference['kind']} cannot be converted, only AWSNodeTemplate"
        )
    return str(reference.get("name", ""))


def _provisioner_disruption(spec: RawObject, journal: Journal) -> RawObject:
    seconds = spec.get("ttlSecondsAfterEmpty")
    if (spec.get("consolidation") or {}).get("enabled"):
        path, policy, after = "spec.consolidation.enabled", "WhenEmptyOrUnderutilized", "0s"
    elif seconds is not None:
        path, policy, after = "spec.ttlSecondsAfterEmpty", "WhenEmpty", duration_text(seconds)
    else:
        # With neither, an old Provisioner left empty nodes alone for ever; v1's own default would remove them.
        return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    journal.warn(
        path, "v1 disrupts at most 10% of the pool's nodes at a time; spec.disruption.budgets changes that"
    )
    return {"consolidationPolicy": policy, "consolidateAfter": after}


def _beta_disruption(disruption: RawObject, journal: Journal) -> RawObject:
    policy = disruption.get("consolidationPolicy", "WhenUnderutilized")
    converted: RawObject = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized" if policy == "WhenUnderutilized" else policy,
        "consolidateAfter": disruption.get("consolidateAfter", "0s"),
    }
    if "budgets" in disruption:
        converted["budgets"] = disruption["budgets"]
        _check_schedules(disruption["budgets"], journal)
    return converted


def _check_schedules(budgets: Sequence[RawObject], journal: Journal) -> None:
    # The schema looks at the number of fields alone, and a pool with a schedule that cannot be read is not used.
    scheduled = [(index, budget["schedule"]) for index, budget in enumerate(budgets) if "schedule" in budget]
    for index, schedule in scheduled:
        try:
            cron.parse(schedule)
        except cron.CronError as error:
            journal.refuse(f"spec.disruption.budgets[{index}].schedule", error.message, error.hint)


def _template(metadata: RawObject, path: str, spec: RawObject, journal: Journal) -> RawObject:
    kept = {
        "labels": renamed_labels(metadata.get("labels") or {}, f"{path}.labels", journal),
        "annotations": renamed_annotations(metadata.get("annotations") or {}, f"{path}.annotations", journal),
    }
    kept = {name: entries for name, entries in kept.items() if entries}
    return ({"metadata": kept} if kept else {}) | {"spec": spec}


def _node_pool(old: RawObject, spec: RawObject, journal: Journal) -> RawObject:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": kept_metadata(old["metadata"], journal),
        "spec": spec,
    }
