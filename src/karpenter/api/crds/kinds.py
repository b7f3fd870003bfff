# SPDX-License-Identifier: Apache-2.0
"""The kinds we define: names, versions, columns of ``kubectl get``, subresources.

Equal to Karpenter's definitions in everything a person or a script sees. Versions stand newest first; the
storage version of a kind that is served twice is v1.
"""

from __future__ import annotations

from typing import Final

from karpenter.api import labels
from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.crds.vocabulary import Column, Kind, Scale, Version
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.legacy.awsnodetemplate import AWSNodeTemplate
from karpenter.api.legacy.machine import Machine
from karpenter.api.legacy.provisioner import Provisioner
from karpenter.api.legacy.v1beta1 import ec2nodeclass as ec2nodeclass_v1beta1
from karpenter.api.legacy.v1beta1 import nodeclaim as nodeclaim_v1beta1
from karpenter.api.legacy.v1beta1 import nodepool as nodepool_v1beta1
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool

__all__ = [
    "AWS_NODE_TEMPLATE",
    "CAPACITY_BUFFER",
    "EC2_NODE_CLASS",
    "KINDS",
    "MACHINE",
    "NODE_CLAIM",
    "NODE_OVERLAY",
    "NODE_POOL",
    "PROVISIONER",
]


def _label(key: str) -> str:
    return ".metadata.labels." + key.replace(".", "\\.")


def _condition(name: str) -> str:
    return f'.status.conditions[?(@.type=="{name}")].status'


def _deprecated(version: str, kind: str, successor: str) -> str:
    return f"{version} {kind} is deprecated; write {successor}"


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_READY = Column("Ready", _condition("Ready"))
_TYPE = Column("Type", _label(labels.INSTANCE_TYPE))
_ZONE = Column("Zone", _label(labels.ZONE))
_NODE = Column("Node", ".status.nodeName")

NODE_POOL: Final = Kind(
    labels.GROUP,
    "NodePool",
    "nodepools",
    (
        Version(
            "v1",
            NodePool,
            storage=True,
            scale=Scale(".spec.replicas", ".status.nodes"),
            columns=(
                Column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
                Column("Nodes", ".status.nodes"),
                _READY,
                _AGE,
                Column("Weight", ".spec.weight", "integer", priority=1),
                Column("CPU", ".status.resources.cpu", priority=1),
                Column("Memory", ".status.resources.memory", priority=1),
            ),
        ),
        Version(
            "v1beta1",
            nodepool_v1beta1.NodePool,
            deprecation=_deprecated("karpenter.sh/v1beta1", "NodePool", "karpenter.sh/v1 NodePool"),
            columns=(
                Column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
                Column("Weight", ".spec.weight", priority=1),
            ),
        ),
    ),
)

NODE_CLAIM: Final = Kind(
    labels.GROUP,
    "NodeClaim",
    "nodeclaims",
    (
        Version(
            "v1",
            NodeClaim,
            storage=True,
            columns=(
                _TYPE,
                Column("Capacity", _label(labels.CAPACITY_TYPE)),
                _ZONE,
                _NODE,
                _READY,
                _AGE,
                Column("ImageID", ".status.imageID", priority=1),
                Column("ID", ".status.providerID", priority=1),
                Column("NodePool", _label(labels.NODEPOOL), priority=1),
                Column("NodeClass", ".spec.nodeClassRef.name", priority=1),
                Column("Drifted", _condition("Drifted"), priority=1),
            ),
        ),
        Version(
            "v1beta1",
            nodeclaim_v1beta1.NodeClaim,
            deprecation=_deprecated("karpenter.sh/v1beta1", "NodeClaim", "karpenter.sh/v1 NodeClaim"),
            columns=(
                _TYPE,
                _ZONE,
                _NODE,
                _READY,
                _AGE,
                Column("Capacity", _label(labels.CAPACITY_TYPE), priority=1),
                Column("NodePool", _label(labels.NODEPOOL), priority=1),
                Column("NodeClass", ".spec.nodeClassRef.name", priority=1),
            ),
        ),
    ),
)

EC2_NODE_CLASS: Final = Kind(
    labels.AWS_GROUP,
    "EC2NodeClass",
    "ec2nodeclasses",
    (
        Version(
            "v1",
            EC2NodeClass,
            storage=True,
            columns=(_READY, _AGE, Column("Role", ".spec.role", priority=1)),
        ),
        Version(
            "v1beta1",
            ec2nodeclass_v1beta1.EC2NodeClass,
            deprecation=_deprecated(
                "karpenter.k8s.aws/v1beta1", "EC2NodeClass", "karpenter.k8s.aws/v1 EC2NodeClass"
            ),
        ),
    ),
    short_names=("ec2nc", "ec2ncs"),
)

NODE_OVERLAY: Final = Kind(
    labels.GROUP,
    "NodeOverlay",
    "nodeoverlays",
    (
        Version(
            "v1alpha1",
            NodeOverlay,
            storage=True,
            columns=(_READY, _AGE, Column("Weight", ".spec.weight", "integer", priority=1)),
        ),
    ),
    short_names=("overlays",),
)

CAPACITY_BUFFER: Final = Kind(
    "autoscaling.x-k8s.io",
    "CapacityBuffer",
    "capacitybuffers",
    (
        Version(
            "v1beta1",
            CapacityBuffer,
            storage=True,
            columns=(
                Column("Strategy", ".spec.provisioningStrategy"),
                Column("PodTemplate", ".status.podTemplateRef.name"),
                Column("Replicas", ".status.replicas", "integer"),
                Column("ConditionsType", ".status.conditions[*].type"),
                Column("ConditionsStatus", ".status.conditions[*].status"),
                Column("ConditionsReason", ".status.conditions[*].reason"),
                _AGE,
            ),
        ),
    ),
    scope="Namespaced",
    short_names=("cb",),
    categories=("autoscaling",),
)

PROVISIONER: Final = Kind(
    labels.GROUP,
    "Provisioner",
    "provisioners",
    (
        Version(
            "v1alpha5",
            Provisioner,
            storage=True,
            deprecation=_deprecated("karpenter.sh/v1alpha5", "Provisioner", "karpenter.sh/v1 NodePool"),
            columns=(
                Column("Template", ".spec.providerRef.name"),
                Column("Weight", ".spec.weight", priority=1),
            ),
        ),
    ),
)

MACHINE: Final = Kind(
    labels.GROUP,
    "Machine",
    "machines",
    (
        Version(
            "v1alpha5",
            Machine,
            storage=True,
            deprecation=_deprecated("karpenter.sh/v1alpha5", "Machine", "karpenter.sh/v1 NodeClaim"),
            columns=(
                _TYPE,
                _ZONE,
                _NODE,
                _READY,
                _AGE,
                Column("Capacity", _label(labels.CAPACITY_TYPE), priority=1),
                Column("Provisioner", _label(labels.PROVISIONER_NAME), priority=1),
                Column("Template", ".spec.machineTemplateRef.name", priority=1),
            ),
        ),
    ),
)

AWS_NODE_TEMPLATE: Final = Kind(
    labels.AWS_GROUP,
    "AWSNodeTemplate",
    "awsnodetemplates",
    (
        Version(
            "v1alpha1",
            AWSNodeTemplate,
            storage=True,
            deprecation=_deprecated(
                "karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", "karpenter.k8s.aws/v1 EC2NodeClass"
            ),
        ),
    ),
)

KINDS: Final = (
    NODE_POOL,
    NODE_CLAIM,
    EC2_NODE_CLASS,
    NODE_OVERLAY,
    CAPACITY_BUFFER,
    PROVISIONER,
    MACHINE,
    AWS_NODE_TEMPLATE,
)
