# SPDX-License-Identifier: Apache-2.0
"""Every label, annotation, taint, finalizer and tag that means something to us, and the keys we keep to us.

Names equal Karpenter's, so that selectors, alerts and policies written for it keep working. Old names are
maps from what people still write to what it is called now. Nothing here looks at values, except the few that
a label may take.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from karpenter.api.core.nodes import Taint

GROUP: Final = "karpenter.sh"
AWS_GROUP: Final = "karpenter.k8s.aws"
COMPATIBILITY_GROUP: Final = "compatibility.karpenter.sh"

# Labels of Kubernetes itself.
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
EXCLUDE_FROM_LOAD_BALANCERS: Final = "node.kubernetes.io/exclude-from-external-load-balancers"

# Our labels.
NODEPOOL: Final = f"{GROUP}/nodepool"
CAPACITY_TYPE: Final = f"{GROUP}/capacity-type"
REGISTERED: Final = f"{GROUP}/registered"
INITIALIZED: Final = f"{GROUP}/initialized"
DO_NOT_SYNC_TAINTS: Final = f"{GROUP}/do-not-sync-taints"

SPOT: Final = "spot"
ON_DEMAND: Final = "on-demand"
RESERVED: Final = "reserved"
CAPACITY_TYPES: Final = frozenset({SPOT, ON_DEMAND, RESERVED})
AMD64: Final = "amd64"
ARM64: Final = "arm64"
LINUX: Final = "linux"
WINDOWS: Final = "windows"

# Labels of AWS.
EC2NODECLASS: Final = f"{AWS_GROUP}/ec2nodeclass"
INSTANCE_CATEGORY: Final = f"{AWS_GROUP}/instance-category"
INSTANCE_FAMILY: Final = f"{AWS_GROUP}/instance-family"
INSTANCE_GENERATION: Final = f"{AWS_GROUP}/instance-generation"
INSTANCE_SIZE: Final = f"{AWS_GROUP}/instance-size"
INSTANCE_CPU: Final = f"{AWS_GROUP}/instance-cpu"
INSTANCE_CPU_MANUFACTURER: Final = f"{AWS_GROUP}/instance-cpu-manufacturer"
INSTANCE_CPU_CLOCK_SPEED: Final = f"{AWS_GROUP}/instance-cpu-sustained-clock-speed-mhz"
INSTANCE_MEMORY: Final = f"{AWS_GROUP}/instance-memory"
INSTANCE_HYPERVISOR: Final = f"{AWS_GROUP}/instance-hypervisor"
INSTANCE_EBS_BANDWIDTH: Final = f"{AWS_GROUP}/instance-ebs-bandwidth"
INSTANCE_NETWORK_BANDWIDTH: Final = f"{AWS_GROUP}/instance-network-bandwidth"
INSTANCE_LOCAL_NVME: Final = f"{AWS_GROUP}/instance-local-nvme"
INSTANCE_GPU_NAME: Final = f"{AWS_GROUP}/instance-gpu-name"
INSTANCE_GPU_MANUFACTURER: Final = f"{AWS_GROUP}/instance-gpu-manufacturer"
INSTANCE_GPU_COUNT: Final = f"{AWS_GROUP}/instance-gpu-count"
INSTANCE_GPU_MEMORY: Final = f"{AWS_GROUP}/instance-gpu-memory"
INSTANCE_ACCELERATOR_NAME: Final = f"{AWS_GROUP}/instance-accelerator-name"
INSTANCE_ACCELERATOR_MANUFACTURER: Final = f"{AWS_GROUP}/instance-accelerator-manufacturer"
INSTANCE_ACCELERATOR_COUNT: Final = f"{AWS_GROUP}/instance-accelerator-count"
INSTANCE_ENCRYPTION_IN_TRANSIT: Final = f"{AWS_GROUP}/instance-encryption-in-transit-supported"
INSTANCE_CAPABILITY_FLEX: Final = f"{AWS_GROUP}/instance-capability-flex"
INSTANCE_TENANCY: Final = f"{AWS_GROUP}/instance-tenancy"
CAPACITY_RESERVATION_ID: Final = f"{AWS_GROUP}/capacity-reservation-id"
CAPACITY_RESERVATION_TYPE: Final = f"{AWS_GROUP}/capacity-reservation-type"
CAPACITY_RESERVATION_INTERRUPTIBLE: Final = f"{AWS_GROUP}/capacity-reservation-interruptible"
PLACEMENT_GROUP_ID: Final = f"{AWS_GROUP}/placement-group-id"
PLACEMENT_GROUP_PARTITION: Final = f"{AWS_GROUP}/placement-group-partition"
NITRO_SANDBOX: Final = "eks.amazonaws.com/nitro-sandbox"
ZONE_ID: Final = "topology.k8s.aws/zone-id"
EBS_CSI_ZONE: Final = "topology.ebs.csi.aws.com/zone"

TENANCIES: Final = frozenset({"default", "dedicated"})

# What the type of an instance settles, in the order of the instance type reference.
AWS_INSTANCE_LABELS: Final = (
    INSTANCE_CATEGORY,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_SIZE,
    INSTANCE_CPU,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_CPU_CLOCK_SPEED,
    INSTANCE_MEMORY,
    INSTANCE_HYPERVISOR,
    INSTANCE_EBS_BANDWIDTH,
    INSTANCE_NETWORK_BANDWIDTH,
    INSTANCE_LOCAL_NVME,
    INSTANCE_GPU_NAME,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_GPU_COUNT,
    INSTANCE_GPU_MEMORY,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_ACCELERATOR_COUNT,
    INSTANCE_ENCRYPTION_IN_TRANSIT,
    INSTANCE_CAPABILITY_FLEX,
)

# What is settled only when an instance is launched.
AWS_LAUNCH_LABELS: Final = (
    INSTANCE_TENANCY,
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
)

# What every instance type and offering speaks about: a pod may ask for it though no NodePool names it.
WELL_KNOWN: Final = frozenset(
    {
        NODEPOOL,
        ZONE,
        REGION,
        INSTANCE_TYPE,
        ARCH,
        OS,
        CAPACITY_TYPE,
        WINDOWS_BUILD,
        ZONE_ID,
        *AWS_INSTANCE_LABELS,
        *AWS_LAUNCH_LABELS,
    }
)

# Domains whose labels only we set; subdomains are meant too. WELL_KNOWN names the exceptions.
RESTRICTED_DOMAINS: Final = frozenset({GROUP, AWS_GROUP})
RESTRICTED_LABELS: Final = frozenset({HOSTNAME})

# What users may also name in a NodePool although its domain is ours and it is no property of an offering.
RESTRICTED_DOMAIN_EXCEPTIONS: Final = frozenset({EC2NODECLASS})

# The kubelet refuses to set labels of these domains on its own node, so they stay out of user data.
KUBELET_RESTRICTED_DOMAINS: Final = frozenset({"kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"})

# Pods and volumes may still use the first name; nodes carry the second.
STABLE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "beta.kubernetes.io/arch": ARCH,
        "beta.kubernetes.io/os": OS,
        "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
        "failure-domain.beta.kubernetes.io/region": REGION,
        "failure-domain.beta.kubernetes.io/zone": ZONE,
        EBS_CSI_ZONE: ZONE,
    }
)

# Annotations.
DO_NOT_DISRUPT: Final = f"{GROUP}/do-not-disrupt"
NODEPOOL_HASH: Final = f"{GROUP}/nodepool-hash"
NODEPOOL_HASH_VERSION: Final = f"{GROUP}/nodepool-hash-version"
TERMINATION_TIMESTAMP: Final = f"{GROUP}/nodeclaim-termination-timestamp"
MIN_VALUES_RELAXED: Final = f"{GROUP}/nodeclaim-min-values-relaxed"
REQUESTED_DRA_DRIVERS: Final = f"{GROUP}/requested-dra-drivers"
PRICE_OVERLAY_APPLIED: Final = f"{GROUP}/price-overlay-applied"
CAPACITY_OVERLAY_APPLIED: Final = f"{GROUP}/capacity-overlay-applied"
CAPACITY_BUFFER_FAKE_POD: Final = f"{GROUP}/capacity-buffer-fake-pod"
CAPACITY_BUFFER_NAME: Final = f"{GROUP}/capacity-buffer-name"
CAPACITY_BUFFER_NAMESPACE: Final = f"{GROUP}/capacity-buffer-namespace"
PROVIDER_COMPATIBILITY: Final = f"{COMPATIBILITY_GROUP}/provider"
# Ours alone: the part that a claim has in a command under way, and that the cloud takes its machine away.
DISRUPTION_COMMAND: Final = f"{GROUP}/disruption-command"
INTERRUPTED: Final = f"{GROUP}/interrupted"
# Ours too, on a NodePool: nodes that lack room for a DaemonSet are replaced within its budgets.
REPLACE_FOR_DAEMONSETS: Final = f"{GROUP}/replace-for-daemonsets"
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
EC2NODECLASS_HASH: Final = f"{AWS_GROUP}/ec2nodeclass-hash"
EC2NODECLASS_HASH_VERSION: Final = f"{AWS_GROUP}/ec2nodeclass-hash-version"
INSTANCE_TAGGED: Final = f"{AWS_GROUP}/tagged"
INSTANCE_PROFILE_NAME: Final = f"{AWS_GROUP}/instance-profile-name"
CLUSTER_NAME_TAGGED: Final = f"compatibility.{AWS_GROUP}/cluster-name-tagged"
V1BETA1_KUBELET_CONVERSION: Final = f"{COMPATIBILITY_GROUP}/v1beta1-kubelet-conversion"
V1BETA1_NODECLASS_REFERENCE: Final = f"{COMPATIBILITY_GROUP}/v1beta1-nodeclass-reference"
V1BETA1_UBUNTU: Final = f"compatibility.{AWS_GROUP}/v1beta1-ubuntu"

# Finalizers.
TERMINATION_FINALIZER: Final = f"{GROUP}/termination"
EC2NODECLASS_FINALIZER: Final = f"{AWS_GROUP}/termination"

# Taints.
DISRUPTED_TAINT: Final = Taint(key=f"{GROUP}/disrupted", effect="NoSchedule")
# Of a node that a plan takes away later: pods that have room elsewhere had better go there.
DISRUPTED_LATER_TAINT: Final = Taint(key=f"{GROUP}/disrupted-later", effect="PreferNoSchedule")
UNREGISTERED_TAINT: Final = Taint(key=f"{GROUP}/unregistered", effect="NoExecute")
# What stands in for it for a moment before a node registers: it evicts nobody.
REGISTERING_TAINT: Final = Taint(key=UNREGISTERED_TAINT.key, effect="NoSchedule")

# Taints that a new node loses by itself: until it is initialized they say nothing about where pods can go.
EPHEMERAL_TAINTS: Final = (
    Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"),
    Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),
    Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule"),
    Taint(key="node.cloudprovider.kubernetes.io/uninitialized", effect="NoSchedule", value="true"),
    UNREGISTERED_TAINT,
    REGISTERING_TAINT,
)
EPHEMERAL_TAINT_PREFIX: Final = "readiness.k8s.io/"

# Tags on what we create in AWS.
NAME_TAG: Final = "Name"
NODECLAIM_TAG: Final = f"{GROUP}/nodeclaim"
NODEPOOL_TAG: Final = NODEPOOL
EC2NODECLASS_TAG: Final = EC2NODECLASS
EKS_CLUSTER_NAME_TAG: Final = "eks:eks-cluster-name"
CLUSTER_TAG_PREFIX: Final = "kubernetes.io/cluster/"

# Extended resources of AWS.
NVIDIA_GPU: Final = "nvidia.com/gpu"
AMD_GPU: Final = "amd.com/gpu"
NEURON: Final = "aws.amazon.com/neuron"
NEURON_CORE: Final = "aws.amazon.com/neuroncore"
HABANA_GAUDI: Final = "habana.ai/gaudi"
POD_ENI: Final = "vpc.amazonaws.com/pod-eni"
EFA: Final = "vpc.amazonaws.com/efa"
PRIVATE_IPV4_ADDRESS: Final = "vpc.amazonaws.com/PrivateIPv4Address"
NIP_SLOTS: Final = "eks.amazonaws.com/nip-slots"

# Names of the v1alpha5 and v1beta1 days.
PROVISIONER_NAME: Final = f"{GROUP}/provisioner-name"
PROVISIONER_HASH: Final = f"{GROUP}/provisioner-hash"
DO_NOT_EVICT: Final = f"{GROUP}/do-not-evict"
DO_NOT_CONSOLIDATE: Final = f"{GROUP}/do-not-consolidate"
MANAGED_BY: Final = f"{GROUP}/managed-by"
NODETEMPLATE_HASH: Final = f"{AWS_GROUP}/nodetemplate-hash"
INSTANCE_PODS: Final = f"{AWS_GROUP}/instance-pods"
INSTANCE_AMI_ID: Final = f"{AWS_GROUP}/instance-ami-id"
DISRUPTING_TAINT: Final = Taint(key=f"{GROUP}/disruption", effect="NoSchedule", value="disrupting")

# What only changed its name. INSTANCE_PODS and INSTANCE_AMI_ID went without successor.
LEGACY_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        PROVISIONER_NAME: NODEPOOL,
        PROVISIONER_HASH: NODEPOOL_HASH,
        NODETEMPLATE_HASH: EC2NODECLASS_HASH,
        DO_NOT_EVICT: DO_NOT_DISRUPT,
        DO_NOT_CONSOLIDATE: DO_NOT_DISRUPT,
        MANAGED_BY: EKS_CLUSTER_NAME_TAG,
    }
)


def domain(key: str) -> str:
    """Return what stands before the slash of a label key, or nothing."""
    head, slash, _ = key.partition("/")
    return head if slash else ""


def is_in_domain(key: str, parent: str) -> bool:
    """Return whether the key belongs to the domain or to one of its subdomains."""
    own = domain(key)
    return own == parent or own.endswith(f".{parent}")


def is_restricted(key: str) -> bool:
    """Return whether people may not set or ask for the label in a NodePool or a pod."""
    if key in WELL_KNOWN or key in RESTRICTED_DOMAIN_EXCEPTIONS:
        return False
    return key in RESTRICTED_LABELS or any(is_in_domain(key, parent) for parent in RESTRICTED_DOMAINS)


def stable_name(key: str) -> str:
    """Return the name under which nodes carry a label that may have been asked for by an old name."""
    return STABLE_NAMES.get(key, key)


def current_name(key: str) -> str:
    """Return today's name of a label, annotation or tag that may stem from before v1."""
    return LEGACY_NAMES.get(key, key)


def node_class_label(group: str, kind: str) -> str:
    """Return the label under which claims and nodes carry the name of their node class."""
    return f"{group}/{kind.lower()}"
