# SPDX-License-Identifier: Apache-2.0
"""Manifests with every field set, as a person writes them: they fix the names on the wire, apart from any generator."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from karpenter.api.base import Frozen, to_wire
from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.ec2nodeclass import EC2NodeClass, MetadataOptions
from karpenter.api.legacy.awsnodetemplate import AWSNodeTemplate
from karpenter.api.legacy.machine import Machine
from karpenter.api.legacy.provisioner import Provisioner
from karpenter.api.legacy.v1beta1 import ec2nodeclass as ec2nodeclass_v1beta1
from karpenter.api.legacy.v1beta1 import nodeclaim as nodeclaim_v1beta1
from karpenter.api.legacy.v1beta1 import nodepool as nodepool_v1beta1
from karpenter.api.nodeclaim import NodeClaim, NodeClassRef
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import Budget, Disruption, NodePool

CONDITIONS = """
  conditions:
  - {type: Ready, status: "True", reason: Ready, message: fine, lastTransitionTime: "2026-01-02T03:04:05Z",
     observedGeneration: 2}
"""
KUBELET = """
    clusterDNS: [10.0.0.10]
    maxPods: 20
    podsPerCore: 5
    systemReserved: {cpu: 100m}
    kubeReserved: {memory: 1Gi}
    evictionHard: {memory.available: 5%}
    evictionSoft: {nodefs.available: 10%}
    evictionSoftGracePeriod: {nodefs.available: 1m}
    evictionMaxPodGracePeriod: 60
    imageGCHighThresholdPercent: 85
    imageGCLowThresholdPercent: 80
    cpuCFSQuota: false
"""
DISKS = """
  blockDeviceMappings:
  - deviceName: /dev/xvda
    ebs: {deleteOnTermination: true, encrypted: true, iops: 3000, kmsKeyID: key, snapshotID: snap-1, throughput: 125,
          volumeSize: 20Gi, volumeType: gp3}
"""
TAINTS = """
  taints: [{key: a, value: b, effect: NoSchedule, timeAdded: "2026-01-02T03:04:05Z"}]
  startupTaints: [{key: c, effect: NoExecute}]
"""
EC2_COMMON = """
  subnetSelectorTerms: [{tags: {a: b}}, {id: subnet-1}]
  securityGroupSelectorTerms: [{tags: {a: b}}, {id: sg-1}, {name: c}]
  userData: echo
  role: r
  instanceProfile: p
  tags: {a: b}
  instanceStorePolicy: RAID0
  detailedMonitoring: true
  associatePublicIPAddress: false
  context: ctx
"""
IMAGES = """
  amis:
  - {id: ami-1, name: n, requirements: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}
"""


def indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line if line else line for line in text.splitlines())


NODE_POOL = f"""
spec:
  template:
    metadata: {{labels: {{a: b}}, annotations: {{c: d}}}}
    spec:
{indented(TAINTS, 4)}
      requirements: [{{key: a, operator: In, values: [x, y], minValues: 2}}]
      nodeClassRef: {{group: g, kind: k, name: n}}
      expireAfter: Never
      terminationGracePeriod: 1h
  disruption:
    consolidateAfter: 30s
    consolidationPolicy: WhenEmpty
    budgets: [{{nodes: "5", schedule: "@daily", duration: 1h, reasons: [Empty]}}]
  limits: {{cpu: 100}}
  weight: 3
  replicas: 4
status:
  resources: {{cpu: "4"}}
  nodes: 2
  nodeClassObservedGeneration: 7
{CONDITIONS}
"""
NODE_CLAIM = f"""
spec:
{TAINTS}
  requirements: [{{key: a, operator: Exists}}]
  nodeClassRef: {{group: g, kind: k, name: n}}
  resources: {{requests: {{cpu: 1}}}}
  expireAfter: 1h
  terminationGracePeriod: 2h
status:
  nodeName: n
  providerID: aws:///us-east-1a/i-1
  imageID: ami-1
  capacity: {{cpu: "2"}}
  allocatable: {{cpu: 1900m}}
  lastPodEventTime: "2026-01-02T03:04:05Z"
{CONDITIONS}
"""
EC2_NODE_CLASS = f"""
spec:
{EC2_COMMON}
  capacityReservationSelectorTerms:
  - {{tags: {{a: b}}, ownerID: "123456789012", instanceMatchCriteria: open}}
  - {{id: cr-1}}
  placementGroupSelector: {{name: g, id: pg-1}}
  amiSelectorTerms: [{{alias: al2@v1, tags: {{a: b}}, id: ami-1, name: n, owner: self, ssmParameter: /a}}]
  amiFamily: Custom
  kubelet:
{KUBELET}
{DISKS}
    rootVolume: true
  - ebs: {{volumeInitializationRate: 100}}
  ipPrefixCount: 2
  metadataOptions:
    {{httpEndpoint: disabled, httpProtocolIPv6: enabled, httpPutResponseHopLimit: 3, httpTokens: optional}}
  networkInterfaces: [{{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}}]
  connectionTracking: {{tcpEstablishedTimeout: 60, udpStreamTimeout: 61, udpTimeout: 30}}
  cpuOptions: {{nestedVirtualization: enabled}}
status:
  subnets: [{{id: subnet-1, zone: us-east-1a, zoneID: use1-az1}}]
  securityGroups: [{{id: sg-1, name: n}}]
  capacityReservations:
  - {{id: cr-1, availabilityZone: us-east-1a, instanceType: m5.large, ownerID: "123456789012",
      instanceMatchCriteria: open, reservationType: capacity-block, interruptible: true, state: expiring,
      endTime: "2026-01-02T03:04:05Z"}}
  instanceProfile: p
{IMAGES}
  - {{id: ami-2, requirements: [], deprecated: true}}
{CONDITIONS}
"""
NODE_OVERLAY = f"""
spec:
  requirements: [{{key: a, operator: Gt, values: ["4"]}}]
  price: "0.1"
  priceAdjustment: +10%
  capacity: {{example.com/card: 1}}
  weight: 5
status:
{CONDITIONS}
"""
CAPACITY_BUFFER = f"""
spec:
  provisioningStrategy: other
  podTemplateRef: {{name: t}}
  scalableRef: {{apiGroup: apps, kind: Deployment, name: d}}
  replicas: 3
  percentage: 10
  limits: {{cpu: 1}}
  schedules:
  - {{schedule: "0 8 * * *", duration: 2h, timeZone: Asia/Seoul, replicas: 5}}
status:
  provisioningStrategy: s
  podTemplateRef: {{name: t}}
  podTemplateGeneration: 2
  replicas: 1
{CONDITIONS}
"""
OLD_NODE_POOL = f"""
spec:
  template:
    metadata: {{labels: {{a: b}}, annotations: {{c: d}}}}
    spec:
{indented(TAINTS, 4)}
      requirements: [{{key: a, operator: In, values: [x], minValues: 1}}]
      nodeClassRef: {{apiVersion: v, kind: k, name: n}}
      resources: {{requests: {{cpu: 1}}}}
      kubelet:
{indented(KUBELET, 4)}
  disruption:
    consolidateAfter: 30s
    consolidationPolicy: WhenEmpty
    expireAfter: Never
    budgets: [{{nodes: "5", schedule: "@daily", duration: 1h}}]
  limits: {{cpu: 100}}
  weight: 3
status:
  resources: {{cpu: "4"}}
{CONDITIONS}
"""
OLD_NODE_CLAIM = f"""
spec:
{TAINTS}
  requirements: []
  nodeClassRef: {{apiVersion: v, kind: k, name: n}}
  resources: {{requests: {{cpu: 1}}}}
  kubelet:
{KUBELET}
status:
  nodeName: n
  providerID: p
  imageID: i
  capacity: {{cpu: "2"}}
  allocatable: {{cpu: "1"}}
{CONDITIONS}
"""
OLD_EC2_NODE_CLASS = f"""
spec:
{EC2_COMMON}
  amiSelectorTerms: [{{tags: {{a: b}}, id: ami-1, name: n, owner: self}}]
  amiFamily: Ubuntu
{DISKS}
    rootVolume: true
  metadataOptions:
    {{httpEndpoint: disabled, httpProtocolIPv6: enabled, httpPutResponseHopLimit: 1, httpTokens: optional}}
status:
  subnets: [{{id: subnet-1, zone: us-east-1a, zoneID: use1-az1}}]
  securityGroups: [{{id: sg-1, name: n}}]
  instanceProfile: p
{IMAGES}
{CONDITIONS}
"""
OLD_CONDITIONS = """
  conditions:
  - {type: Active, status: "True", severity: Info, reason: r, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}
"""
PROVISIONER = f"""
spec:
{TAINTS}
  annotations: {{a: b}}
  labels: {{c: d}}
  requirements: [{{key: a, operator: In, values: [x]}}]
  kubeletConfiguration:
    containerRuntime: containerd
{KUBELET}
  provider: {{subnetSelector: {{a: b}}, deep: [1, {{c: null}}]}}
  providerRef: {{apiVersion: v, kind: k, name: n}}
  ttlSecondsAfterEmpty: 30
  ttlSecondsUntilExpired: 600
  limits: {{resources: {{cpu: 1000}}}}
  weight: 10
  consolidation: {{enabled: false}}
status:
  resources: {{cpu: "4"}}
  lastScaleTime: "2026-01-02T03:04:05Z"
{OLD_CONDITIONS}
"""
MACHINE = f"""
spec:
{TAINTS}
  requirements: [{{key: a, operator: In, values: [x]}}]
  resources: {{requests: {{cpu: 1}}}}
  kubelet:
    containerRuntime: containerd
{KUBELET}
  machineTemplateRef: {{apiVersion: v, kind: k, name: n}}
status:
  nodeName: n
  providerID: p
  capacity: {{cpu: "2"}}
  allocatable: {{cpu: "1"}}
{OLD_CONDITIONS}
"""
AWS_NODE_TEMPLATE = f"""
spec:
  apiVersion: v
  kind: AWS
  amiFamily: Bottlerocket
  amiSelector: {{aws-ids: "ami-1,ami-2"}}
  subnetSelector: {{a: b}}
  securityGroupSelector: {{a: "b,c"}}
  instanceProfile: p
  launchTemplate: lt
  metadataOptions:
    {{httpEndpoint: disabled, httpProtocolIPv6: enabled, httpPutResponseHopLimit: 2, httpTokens: optional}}
{DISKS}
  tags: {{a: b}}
  userData: echo
  detailedMonitoring: true
  context: ctx
status:
  subnets: [{{id: subnet-1, zone: us-east-1a}}]
  securityGroups: [{{id: sg-1, name: n}}]
{IMAGES}
"""

MANIFESTS = [
    (NodePool, NODE_POOL),
    (NodeClaim, NODE_CLAIM),
    (EC2NodeClass, EC2_NODE_CLASS),
    (NodeOverlay, NODE_OVERLAY),
    (CapacityBuffer, CAPACITY_BUFFER),
    (nodepool_v1beta1.NodePool, OLD_NODE_POOL),
    (nodeclaim_v1beta1.NodeClaim, OLD_NODE_CLAIM),
    (ec2nodeclass_v1beta1.EC2NodeClass, OLD_EC2_NODE_CLASS),
    (Provisioner, PROVISIONER),
    (Machine, MACHINE),
    (AWSNodeTemplate, AWS_NODE_TEMPLATE),
]


@pytest.mark.parametrize(("kind", "text"), MANIFESTS, ids=lambda each: getattr(each, "__name__", ""))
def test_every_field_of_a_manifest_is_read_and_written_by_its_name(kind: type[Frozen], text: str) -> None:
    manifest = yaml.safe_load(text)

    value = msgspec.convert(manifest, kind)

    assert to_wire(value) == manifest


@pytest.mark.parametrize(("kind", "text"), MANIFESTS, ids=lambda each: getattr(each, "__name__", ""))
def test_the_manifests_of_this_file_leave_no_field_out(kind: type[Frozen], text: str) -> None:
    value: Any = msgspec.convert(yaml.safe_load(text), kind)

    for part in (value.spec, value.status):
        absent = [
            field.name for field in msgspec.structs.fields(part) if getattr(part, field.name) == field.default
        ]
        assert not absent


def test_a_pool_that_says_nothing_about_disruption_consolidates_at_once() -> None:
    pool = msgspec.convert(
        {"spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"name": "default"}}}}}, NodePool
    )

    assert pool.spec.disruption == Disruption(
        consolidate_after="0s",
        consolidation_policy="WhenEmptyOrUnderutilized",
        budgets=(Budget(nodes="10%"),),
    )
    assert pool.spec.template.spec.expire_after == "720h"


def test_required_lists_are_written_even_when_empty() -> None:
    pool = msgspec.convert(
        {"spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"name": "default"}}}}}, NodePool
    )

    assert to_wire(pool)["spec"]["template"]["spec"]["requirements"] == []


def test_consolidate_after_is_written_even_when_it_is_zero() -> None:
    disruption = Disruption(consolidate_after="0s", consolidation_policy="WhenEmpty")

    assert to_wire(disruption) == {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"}


def test_a_reference_without_group_was_written_through_v1beta1() -> None:
    assert NodeClassRef(name="default").is_v1beta1
    assert not NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default").is_v1beta1


@pytest.mark.parametrize(
    ("spec", "is_v1beta1"),
    [
        ({"amiFamily": "AL2"}, True),
        ({"amiFamily": "Ubuntu", "amiSelectorTerms": [{"id": "ami-1"}]}, True),
        ({"amiFamily": "AL2", "amiSelectorTerms": [{"id": "ami-1"}]}, False),
        ({"amiSelectorTerms": [{"alias": "al2023@latest"}]}, False),
    ],
)
def test_a_class_means_something_else_in_v1_only_without_terms_or_with_ubuntu(
    spec: dict[str, Any], *, is_v1beta1: bool
) -> None:
    assert msgspec.convert({"spec": spec}, EC2NodeClass).spec.is_v1beta1 is is_v1beta1


def test_a_token_travels_one_hop_further_in_v1beta1() -> None:
    assert MetadataOptions().http_put_response_hop_limit == 1
    assert ec2nodeclass_v1beta1.MetadataOptions().http_put_response_hop_limit == 2


def test_what_pools_of_v1beta1_leave_out_means_what_it_meant() -> None:
    disruption = nodepool_v1beta1.Disruption()

    assert (disruption.consolidation_policy, disruption.expire_after) == ("WhenUnderutilized", "720h")
