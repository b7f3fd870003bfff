# SPDX-License-Identifier: Apache-2.0
"""Manifests of old and current kinds, valid unless told otherwise; keyword arguments go into the spec."""

from __future__ import annotations

from typing import Any

from karpenter.api.legacy import Conversion, RawObject, convert
from karpenter.api.legacy.conversion.findings import Journal, ObjectRef

DISCOVERY = {"karpenter.sh/discovery": "example"}


def provisioner(name: str = "default", **spec: Any) -> RawObject:
    return _object("karpenter.sh/v1alpha5", "Provisioner", name, {"providerRef": {"name": "default"}, **spec})


def node_template(name: str = "default", **spec: Any) -> RawObject:
    given = {
        "subnetSelector": dict(DISCOVERY),
        "securityGroupSelector": dict(DISCOVERY),
        "instanceProfile": "profile",
        **spec,
    }
    return _object("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", name, given)


def machine(name: str = "default-x7k2p", *, pool: str = "default", **spec: Any) -> RawObject:
    made = _object(
        "karpenter.sh/v1alpha5", "Machine", name, {"machineTemplateRef": {"name": "default"}, **spec}
    )
    return _labelled(made, "karpenter.sh/provisioner-name", pool)


def beta_pool(name: str = "default", *, disruption: RawObject | None = None, **template: Any) -> RawObject:
    spec = {"template": {"spec": {"requirements": [], "nodeClassRef": {"name": "default"}, **template}}}
    return _object(
        "karpenter.sh/v1beta1", "NodePool", name, spec | ({"disruption": disruption} if disruption else {})
    )


def beta_class(name: str = "default", **spec: Any) -> RawObject:
    given = {
        "amiFamily": "AL2023",
        "role": "role",
        "subnetSelectorTerms": [{"tags": dict(DISCOVERY)}],
        "securityGroupSelectorTerms": [{"tags": dict(DISCOVERY)}],
        **spec,
    }
    return _object("karpenter.k8s.aws/v1beta1", "EC2NodeClass", name, given)


def beta_claim(name: str = "default-x7k2p", *, pool: str = "default", **spec: Any) -> RawObject:
    given = {"requirements": [], "nodeClassRef": {"name": "default"}, **spec}
    return _labelled(_object("karpenter.sh/v1beta1", "NodeClaim", name, given), "karpenter.sh/nodepool", pool)


def node_pool(name: str = "default", *, disruption: RawObject | None = None, **template: Any) -> RawObject:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"template": {"spec": {"requirements": [], "nodeClassRef": reference, **template}}}
    return _object(
        "karpenter.sh/v1", "NodePool", name, spec | ({"disruption": disruption} if disruption else {})
    )


def node_class(name: str = "default", **spec: Any) -> RawObject:
    given = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "role",
        "subnetSelectorTerms": [{"tags": dict(DISCOVERY)}],
        "securityGroupSelectorTerms": [{"tags": dict(DISCOVERY)}],
        **spec,
    }
    return _object("karpenter.k8s.aws/v1", "EC2NodeClass", name, given)


def node_claim(name: str = "default-x7k2p", **spec: Any) -> RawObject:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return _object(
        "karpenter.sh/v1", "NodeClaim", name, {"requirements": [], "nodeClassRef": reference, **spec}
    )


def journal() -> Journal:
    return Journal(ObjectRef("Provisioner", "default", 0))


def converted(*objects: RawObject, **options: Any) -> tuple[RawObject, ...]:
    """The outcome of a conversion that refuses nothing."""
    conversion = convert(objects, **options)
    assert conversion.refusals == ()
    return conversion.objects


def refusals(conversion: Conversion) -> list[tuple[str, str]]:
    return [(refusal.field, refusal.reason) for refusal in conversion.refusals]


def warned_fields(conversion: Conversion) -> set[tuple[str, str]]:
    return {(str(warning.object), warning.field) for warning in conversion.warnings}


def _object(api_version: str, kind: str, name: str, spec: RawObject) -> RawObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _labelled(manifest: RawObject, label: str, pool: str) -> RawObject:
    if pool:
        manifest["metadata"]["labels"] = {label: pool}
    return manifest
