# SPDX-License-Identifier: Apache-2.0
"""Objects and what the API server says to them: one valid object a version, and one refused object a rule.

Used twice: by the unit tests against our own schema checks, and by the end-to-end tests against a real API
server.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

Manifest = dict[str, Any]


class Refused(NamedTuple):
    """A change to a valid object, and a part of the message that refuses it."""

    base: str
    path: str
    value: Any
    message: str

    @property
    def name(self) -> str:
        return f"{self.base} {self.path}={self.value}"[:120]


_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
_OLD_REF = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default"}
_SPOT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
_SUBNETS = [{"tags": {"karpenter.sh/discovery": "demo"}}]
_GROUPS = [{"name": "nodes"}]

VALID: dict[str, Manifest] = {
    "nodepool": {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "spec": {
            "template": {
                "metadata": {"labels": {"team": "shop"}},
                "spec": {"nodeClassRef": _REF, "requirements": [_SPOT]},
            },
            "disruption": {"consolidateAfter": "30s"},
        },
    },
    "nodeclaim": {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "spec": {"nodeClassRef": _REF, "requirements": [_SPOT], "resources": {"requests": {"cpu": 1}}},
    },
    "nodeoverlay": {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "spec": {"requirements": [_SPOT], "price": "0.05", "capacity": {"example.com/card": 1}},
    },
    "capacitybuffer": {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "spec": {"podTemplateRef": {"name": "unit"}, "replicas": 3},
    },
    "ec2nodeclass": {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": _SUBNETS,
            "securityGroupSelectorTerms": _GROUPS,
            "role": "KarpenterNodeRole-demo",
        },
    },
    "v1beta1 nodepool": {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "spec": {
            "template": {
                "spec": {"nodeClassRef": _OLD_REF, "requirements": [_SPOT], "kubelet": {"maxPods": 20}}
            },
            "disruption": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "Never"},
        },
    },
    "v1beta1 nodeclaim": {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodeClaim",
        "spec": {"nodeClassRef": _OLD_REF, "requirements": [_SPOT], "kubelet": {"maxPods": 20}},
    },
    "v1beta1 ec2nodeclass": {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "spec": {
            "amiFamily": "AL2",
            "subnetSelectorTerms": _SUBNETS,
            "securityGroupSelectorTerms": _GROUPS,
            "role": "KarpenterNodeRole-demo",
        },
    },
    "provisioner": {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "spec": {
            "requirements": [_SPOT],
            "limits": {"resources": {"cpu": 100}},
            "providerRef": {"name": "default"},
            "ttlSecondsAfterEmpty": 30,
        },
    },
    "machine": {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Machine",
        "spec": {"requirements": [_SPOT], "machineTemplateRef": {"name": "default"}},
    },
    "awsnodetemplate": {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "spec": {
            "amiFamily": "AL2023",
            "subnetSelector": {"karpenter.sh/discovery": "demo"},
            "securityGroupSelector": {"aws-ids": "sg-1,sg-2"},
        },
    },
}

_TEMPLATE = "spec.template.spec"
_KUBELET = "spec.kubelet"
_DISKS = "spec.blockDeviceMappings"
_ONE_VALUE = "must have a single positive integer value"


def _requirement(operator: str, *values: str, key: str = "example.com/size", **more: Any) -> Manifest:
    return {"key": key, "operator": operator, "values": list(values), **more}


def _requirements(base: str, path: str) -> list[Refused]:
    return [
        Refused(base, path, [{"key": "a", "operator": "In"}], "operator 'In' must have a value defined"),
        Refused(base, path, [_requirement("Gt", "four")], _ONE_VALUE),
        Refused(base, path, [_requirement("Gt", "-1")], "in body should match"),
        Refused(base, path, [_requirement("Lt", "1", "2")], _ONE_VALUE),
        Refused(base, path, [{"key": "a", "operator": "Gt"}], _ONE_VALUE),
        Refused(base, path, [_requirement("Near", "1")], "Unsupported value"),
        Refused(base, path, [_requirement("In", "x" * 64)], "Too long"),
        Refused(base, path, [_requirement("In", "a b")], "in body should match"),
        Refused(base, path, [_requirement("In", "a", key="-")], "in body should match"),
        Refused(base, path, [_SPOT] * 101, "Too many"),
        Refused(base, path, [_requirement("In", "a", key="kubernetes.io/hostname")], "is restricted"),
        Refused(
            base,
            path,
            [_requirement("In", "a", key="karpenter.sh/own")],
            'domain "karpenter.sh" is restricted',
        ),
        Refused(
            base,
            path,
            [_requirement("In", "a", key="sub.karpenter.sh/own")],
            'domain "karpenter.sh" is restricted',
        ),
        Refused(
            base,
            path,
            [_requirement("In", "a", key="karpenter.k8s.aws/own")],
            'domain "karpenter.k8s.aws" is restricted',
        ),
    ]


def _min_values(base: str, path: str) -> list[Refused]:
    return [
        Refused(base, path, [_requirement("In", "a", minValues=2)], "at least that many values"),
        Refused(base, path, [_requirement("In", "a", minValues=51)], "less than or equal to 50"),
    ]


def _kubelet(base: str, path: str) -> list[Refused]:
    return [
        Refused(
            base,
            path,
            {"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50},
            "imageGCHighThresholdPercent must be greater",
        ),
        Refused(
            base, path, {"evictionSoft": {"memory.available": "1Gi"}}, "matching evictionSoftGracePeriod"
        ),
        Refused(base, path, {"evictionSoftGracePeriod": {"memory.available": "1m"}}, "matching evictionSoft"),
        Refused(base, path, {"evictionHard": {"disk": "1Gi"}}, "valid keys for evictionHard are"),
        Refused(base, path, {"evictionHard": {"memory.available": "101%"}}, "in body should match"),
        Refused(base, path, {"kubeReserved": {"gpu": "1"}}, "valid keys for kubeReserved are"),
        Refused(base, path, {"systemReserved": {"cpu": "-1"}}, "cannot be a negative resource quantity"),
        Refused(base, path, {"maxPods": -1}, "greater than or equal to 0"),
    ]


REFUSED: list[Refused] = [
    *_requirements("nodepool", f"{_TEMPLATE}.requirements"),
    *_requirements("nodeclaim", "spec.requirements"),
    *_requirements("nodeoverlay", "spec.requirements"),
    *_requirements("v1beta1 nodepool", f"{_TEMPLATE}.requirements"),
    *_min_values("nodepool", f"{_TEMPLATE}.requirements"),
    *_min_values("nodeclaim", "spec.requirements"),
    *_kubelet("ec2nodeclass", _KUBELET),
    *_kubelet("v1beta1 nodepool", f"{_TEMPLATE}.kubelet"),
    # NodePool
    Refused(
        "nodepool",
        f"{_TEMPLATE}.requirements",
        [_requirement("In", "a", key="karpenter.sh/nodepool")],
        "restricted",
    ),
    Refused("nodepool", "spec.template.metadata.labels", {"karpenter.sh/nodepool": "a"}, "is restricted"),
    Refused("nodepool", "spec.template.metadata.labels", {"kubernetes.io/hostname": "a"}, "is restricted"),
    Refused("nodepool", "spec.template.metadata.labels", {"karpenter.sh/own": "a"}, "is restricted"),
    Refused("nodepool", "spec.template.metadata.labels", {"karpenter.k8s.aws/own": "a"}, "is restricted"),
    Refused("nodepool", "spec.template.metadata.labels", {"team": "a b"}, "in body should match"),
    Refused("nodepool", f"{_TEMPLATE}.nodeClassRef.group", "", "group may not be empty"),
    Refused("nodepool", f"{_TEMPLATE}.nodeClassRef.group", "a/b", "in body should match"),
    Refused("nodepool", f"{_TEMPLATE}.nodeClassRef.kind", "", "kind may not be empty"),
    Refused("nodepool", f"{_TEMPLATE}.nodeClassRef.name", "", "name may not be empty"),
    Refused("nodepool", f"{_TEMPLATE}.nodeClassRef.apiVersion", "v1", "apiVersion is a field of v1beta1"),
    Refused("nodepool", f"{_TEMPLATE}.kubelet", {"maxPods": 1}, "moved to spec.kubelet of the EC2NodeClass"),
    Refused("nodepool", f"{_TEMPLATE}.resources", {"requests": {"cpu": 1}}, "cannot request resources"),
    Refused("nodepool", f"{_TEMPLATE}.taints", [{"key": "a", "effect": "Never"}], "Unsupported value"),
    Refused("nodepool", f"{_TEMPLATE}.taints", [{"effect": "NoSchedule"}], "Required value"),
    Refused("nodepool", f"{_TEMPLATE}.startupTaints", [{"key": "", "effect": "NoSchedule"}], "should"),
    Refused("nodepool", f"{_TEMPLATE}.expireAfter", "1d", "in body should match"),
    Refused("nodepool", f"{_TEMPLATE}.terminationGracePeriod", "Never", "in body should match"),
    Refused("nodepool", "spec.disruption.expireAfter", "1h", "moved to spec.template.spec.expireAfter"),
    Refused("nodepool", "spec.disruption.consolidateAfter", "soon", "in body should match"),
    Refused("nodepool", "spec.disruption.consolidationPolicy", "WhenUnderutilized", "Unsupported value"),
    Refused("nodepool", "spec.disruption", {"consolidationPolicy": "WhenEmpty"}, "Required value"),
    Refused(
        "nodepool",
        "spec.disruption.budgets",
        [{"schedule": "@daily"}],
        "'schedule' must be set with 'duration'",
    ),
    Refused(
        "nodepool", "spec.disruption.budgets", [{"duration": "1h"}], "'schedule' must be set with 'duration'"
    ),
    Refused(
        "nodepool", "spec.disruption.budgets", [{"schedule": "@often", "duration": "1h"}], "should match"
    ),
    Refused(
        "nodepool", "spec.disruption.budgets", [{"schedule": "@daily", "duration": "30s"}], "should match"
    ),
    Refused("nodepool", "spec.disruption.budgets", [{"nodes": "101%"}], "should match"),
    Refused("nodepool", "spec.disruption.budgets", [{"reasons": ["Interrupted"]}], "Unsupported value"),
    Refused("nodepool", "spec.disruption.budgets", [{"window": "Open"}], "Unsupported value"),
    Refused("nodepool", "spec.disruption.budgets", [{"window": "Allow"}], "need a 'schedule'"),
    Refused("nodepool", "spec.disruption.budgets", [{"timeZone": "Asia/Seoul"}], "need a 'schedule'"),
    Refused("nodepool", "spec.disruption.minimumSaving", "5", "should match"),
    Refused("nodepool", "spec.disruption.budgets", [{"reasons": ["Empty", "Empty"]}], "Duplicate value"),
    Refused("nodepool", "spec.disruption.budgets", [{}] * 51, "Too many"),
    Refused("nodepool", "spec.weight", 0, "greater than or equal to 1"),
    Refused("nodepool", "spec.weight", 101, "less than or equal to 100"),
    Refused("nodepool", "spec.limits", {"cpu": "lots"}, "should match"),
    Refused("nodepool", "spec", {"replicas": 1, "weight": 1}, "Required value"),
    # NodeClaim
    Refused("nodeclaim", _KUBELET, {"maxPods": 1}, "moved to spec.kubelet of the EC2NodeClass"),
    Refused("nodeclaim", "spec.nodeClassRef.apiVersion", "v1", "apiVersion is a field of v1beta1"),
    # NodeOverlay
    Refused(
        "nodeoverlay", "spec.requirements", [{"key": "a", "operator": "NotIn"}], "operator 'NotIn' must have"
    ),
    Refused("nodeoverlay", "spec.priceAdjustment", "+10%", "cannot set both 'price' and 'priceAdjustment'"),
    Refused("nodeoverlay", "spec.price", "-1", "should match"),
    Refused("nodeoverlay", "spec.capacity", {"cpu": 1}, "invalid resource restricted"),
    Refused("nodeoverlay", "spec.weight", 10001, "less than or equal to 10000"),
    # CapacityBuffer
    Refused(
        "capacitybuffer", "spec", {"podTemplateRef": {"name": "unit"}}, "replicas or limits must also be set"
    ),
    Refused("capacitybuffer", "spec.scalableRef", {"kind": "Deployment", "name": "a"}, "but not both"),
    Refused("capacitybuffer", "spec.podTemplateRef.name", "", "should be at least 1"),
    Refused("capacitybuffer", "spec.percentage", -1, "greater than or equal to 0"),
    # EC2NodeClass
    Refused(
        "ec2nodeclass", "spec.instanceProfile", "p", "must specify exactly one of ['role', 'instanceProfile']"
    ),
    Refused("ec2nodeclass", "spec.role", "", "role cannot be empty"),
    Refused("ec2nodeclass", "spec.amiFamily", "Ubuntu", "Unsupported value"),
    Refused(
        "ec2nodeclass", "spec.amiFamily", "AL2", "must be 'AL2023' or 'Custom' when using an AL2023 alias"
    ),
    Refused("ec2nodeclass", "spec.amiSelectorTerms", [], "should have at least 1 items"),
    Refused("ec2nodeclass", "spec.amiSelectorTerms", [{"id": "ami-1"}], "must specify amiFamily"),
    Refused("ec2nodeclass", "spec.amiSelectorTerms", [{"alias": "al2023"}], "'family@version'"),
    Refused("ec2nodeclass", "spec.amiSelectorTerms", [{"alias": "ubuntu@latest"}], "family is not supported"),
    Refused(
        "ec2nodeclass",
        "spec.amiSelectorTerms",
        [{"alias": "windows2022@v1"}],
        "only specify version 'latest'",
    ),
    Refused(
        "ec2nodeclass",
        "spec.amiSelectorTerms",
        [{"alias": "al2@latest"}, {"name": "x"}],
        "other amiSelectorTerms",
    ),
    Refused(
        "ec2nodeclass",
        "spec.amiSelectorTerms",
        [{"alias": "al2@latest", "id": "ami-1"}],
        "'alias' is mutually",
    ),
    Refused(
        "ec2nodeclass",
        "spec.amiSelectorTerms",
        [{"name": "a"}, {"id": "ami-1", "name": "x"}],
        "'id' is mutually",
    ),
    Refused("ec2nodeclass", "spec.amiSelectorTerms", [{"owner": "self"}], "expected at least one, got none"),
    Refused("ec2nodeclass", "spec.subnetSelectorTerms", [], "subnetSelectorTerms cannot be empty"),
    Refused(
        "ec2nodeclass", "spec.subnetSelectorTerms", [{}], "expected at least one, got none, ['tags', 'id']"
    ),
    Refused("ec2nodeclass", "spec.subnetSelectorTerms", [{"tags": {"a": ""}}], "empty tag keys or values"),
    Refused("ec2nodeclass", "spec.subnetSelectorTerms", [{"id": "vpc-1"}], "should match"),
    Refused(
        "ec2nodeclass",
        "spec.subnetSelectorTerms",
        [*_SUBNETS, {"id": "subnet-1", "tags": {"a": "b"}}],
        "'id' is mutually exclusive",
    ),
    Refused(
        "ec2nodeclass", "spec.securityGroupSelectorTerms", [], "securityGroupSelectorTerms cannot be empty"
    ),
    Refused(
        "ec2nodeclass",
        "spec.securityGroupSelectorTerms",
        [{"name": "a", "tags": {"b": "c"}}],
        "'name' is mutually",
    ),
    Refused(
        "ec2nodeclass",
        "spec.securityGroupSelectorTerms",
        [{"id": "sg-1", "tags": {"b": "c"}}],
        "'id' is mutually",
    ),
    Refused(
        "ec2nodeclass",
        "spec.capacityReservationSelectorTerms",
        [{"ownerID": "1" * 12}],
        "expected at least one",
    ),
    Refused(
        "ec2nodeclass",
        "spec.capacityReservationSelectorTerms",
        [{"id": "cr-1", "instanceMatchCriteria": "open"}],
        "'id' is mutually exclusive",
    ),
    Refused(
        "ec2nodeclass", "spec.placementGroupSelector", {}, "expected at least one, got none, ['name', 'id']"
    ),
    Refused(
        "ec2nodeclass", "spec.placementGroupSelector", {"name": "a", "id": "pg-1"}, "are mutually exclusive"
    ),
    Refused("ec2nodeclass", "spec.tags", {"": "a"}, "empty tag keys aren't supported"),
    Refused("ec2nodeclass", "spec.tags", {"kubernetes.io/cluster/a": "owned"}, "restricted tag matching"),
    Refused("ec2nodeclass", "spec.tags", {"eks:eks-cluster-name": "a"}, "restricted tag matching"),
    Refused("ec2nodeclass", "spec.tags", {"karpenter.sh/nodepool": "a"}, "restricted tag matching"),
    Refused("ec2nodeclass", "spec.tags", {"karpenter.sh/nodeclaim": "a"}, "restricted tag matching"),
    Refused("ec2nodeclass", "spec.tags", {"karpenter.k8s.aws/ec2nodeclass": "a"}, "restricted tag matching"),
    Refused(
        "ec2nodeclass", _DISKS, [{"rootVolume": True}] * 2, "only one blockDeviceMappings with rootVolume"
    ),
    Refused(
        "ec2nodeclass", _DISKS, [{"ebs": {"volumeType": "gp3"}}], "snapshotID or volumeSize must be defined"
    ),
    Refused("ec2nodeclass", _DISKS, [{"ebs": {"volumeSize": "59Ti"}}], "should match"),
    Refused("ec2nodeclass", _DISKS, [{"ebs": {"volumeSize": "Ti"}}], "should match"),
    Refused(
        "ec2nodeclass",
        _DISKS,
        [{"ebs": {"volumeSize": "1Gi", "volumeInitializationRate": 100}}],
        "snapshotID must be set",
    ),
    Refused(
        "ec2nodeclass",
        "spec.networkInterfaces",
        [{"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "interface"}],
        "must include a primary interface",
    ),
    Refused(
        "ec2nodeclass",
        "spec.networkInterfaces",
        [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}] * 2,
        "must not have duplicate",
    ),
    Refused("ec2nodeclass", "spec.connectionTracking", {}, "at least one of tcpEstablishedTimeout"),
    Refused("ec2nodeclass", "spec.connectionTracking", {"udpTimeout": 61}, "less than or equal to 60"),
    Refused("ec2nodeclass", "spec.cpuOptions", {"nestedVirtualization": "maybe"}, "Unsupported value"),
    Refused(
        "ec2nodeclass", "spec.metadataOptions", {"httpPutResponseHopLimit": 65}, "less than or equal to 64"
    ),
    # v1beta1
    Refused("v1beta1 nodepool", f"{_TEMPLATE}.nodeClassRef.group", "a", "group is a field of v1"),
    Refused("v1beta1 nodepool", "spec.disruption.consolidateAfter", "30s", "cannot be combined with"),
    Refused("v1beta1 nodepool", "spec.disruption", {"consolidateAfter": "30s"}, "cannot be combined with"),
    Refused(
        "v1beta1 nodepool", "spec.disruption", {"consolidationPolicy": "WhenEmpty"}, "must be specified with"
    ),
    Refused("v1beta1 nodepool", f"{_TEMPLATE}.resources", {"requests": {"cpu": 1}}, "Too many"),
    Refused("v1beta1 nodeclaim", "spec.nodeClassRef.group", "a", "group is a field of v1"),
    Refused("v1beta1 ec2nodeclass", "spec.amiFamily", "Custom", "amiSelectorTerms is required"),
    Refused("v1beta1 ec2nodeclass", "spec.instanceProfile", "p", "must specify exactly one of"),
    Refused("v1beta1 ec2nodeclass", "spec.tags", {"karpenter.sh/managed-by": "a"}, "restricted tag matching"),
    # v1alpha5 and v1alpha1
    Refused("provisioner", "spec.consolidation", {"enabled": True}, "got both: ttlSecondsAfterEmpty"),
    Refused("provisioner", "spec.provider", {"a": 1}, "got both: provider, providerRef"),
    Refused("awsnodetemplate", "spec.launchTemplate", "lt", "got both: launchTemplate, amiFamily"),
    Refused("awsnodetemplate", "spec.amiFamily", "Custom", "amiSelector is required"),
    Refused(
        "awsnodetemplate", "spec.subnetSelector", {"aws::ids": "subnet-1", "a": "b"}, "is mutually exclusive"
    ),
    Refused("awsnodetemplate", "spec.subnetSelector", {"a": ""}, "empty selector keys or values"),
    Refused("awsnodetemplate", "spec", {"securityGroupSelector": {"a": "b"}}, "subnetSelector is required"),
    Refused("awsnodetemplate", "spec", {"subnetSelector": {"a": "b"}}, "securityGroupSelector is required"),
    Refused(
        "awsnodetemplate", "spec.tags", {"karpenter.sh/provisioner-name": "a"}, "restricted tag matching"
    ),
    Refused("awsnodetemplate", _DISKS, [{"deviceName": "/dev/xvda"}], "deviceName and ebs must be defined"),
    Refused("awsnodetemplate", _DISKS, [{"deviceName": "a", "ebs": {}}], "snapshotID or volumeSize"),
]

# What is accepted although a near relative is refused.
ACCEPTED: list[tuple[str, str, Any]] = [
    ("nodepool", "spec.template.metadata.labels", {"karpenter.sh/capacity-type": "spot"}),
    ("nodepool", "spec.template.metadata.labels", {"notkarpenter.sh/own": "a"}),
    (
        "nodepool",
        f"{_TEMPLATE}.requirements",
        [_requirement("In", "a", key="karpenter.k8s.aws/instance-family")],
    ),
    ("nodepool", f"{_TEMPLATE}.requirements", []),
    ("nodepool", "spec.disruption.budgets", [{"schedule": "0 9 * * 1-5", "duration": "8h30m", "nodes": "0"}]),
    ("nodepool", "spec.disruption.consolidationPolicy", "Balanced"),
    ("nodepool", "spec.disruption.expireAfter", "720h"),
    ("nodeclaim", "spec.requirements", [_requirement("In", "a", key="karpenter.sh/nodepool")]),
    ("ec2nodeclass", "spec.amiFamily", "Custom"),
    ("ec2nodeclass", _DISKS, [{"ebs": {"volumeSize": "18Ti"}}]),
    ("v1beta1 nodepool", "spec.disruption", {"consolidateAfter": "Never"}),
    ("v1beta1 nodepool", "spec.disruption", {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}),
    ("awsnodetemplate", "spec.amiFamily", "Ubuntu"),
]


def changed(base: str, path: str = "", value: Any = None, *, name: str = "case") -> Manifest:
    """Return the valid object of that name, with one field set."""
    manifest = copy.deepcopy(VALID[base]) | {"metadata": {"name": name}}
    if path:
        *parents, last = path.split(".")
        place = manifest
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return manifest
