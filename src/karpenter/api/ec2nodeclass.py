# SPDX-License-Identifier: Apache-2.0
"""EC2NodeClass (karpenter.k8s.aws/v1): how instances are launched, and what its selectors found.

Selector terms are alternatives; the fields of one term must all match. An object that was written through
v1beta1 may have no AMI selector terms, which v1 demands, and may name the family Ubuntu, which v1 does not
know.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import field

from karpenter.api import labels
from karpenter.api.base import EMPTY, Frozen
from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.crds.aws_shapes import (
    AMI_ID,
    SECURITY_GROUP_ID,
    SUBNET_ID,
    SWITCH,
    VOLUME_SIZE,
    VOLUME_TYPES,
    alone_rule,
    not_empty,
    one_of_rule,
    restricted_tag_rules,
    selector_tags,
)
from karpenter.api.crds.shapes import QUANTITY, REQUIREMENT, conditions
from karpenter.api.crds.vocabulary import Rule, Schema
from karpenter.api.meta import Condition, ObjectMeta

__all__ = [
    "AMI",
    "EBS",
    "AMISelectorTerm",
    "BlockDeviceMapping",
    "CPUOptions",
    "CapacityReservation",
    "CapacityReservationSelectorTerm",
    "ConnectionTracking",
    "EC2NodeClass",
    "EC2NodeClassSpec",
    "EC2NodeClassStatus",
    "KubeletConfiguration",
    "MetadataOptions",
    "NetworkInterface",
    "PlacementGroupSelector",
    "SecurityGroup",
    "SecurityGroupSelectorTerm",
    "Subnet",
    "SubnetSelectorTerm",
]

_CAPACITY_RESERVATION_ID = r"^cr-[0-9a-z]+$"
_ACCOUNT = r"^[0-9]{12}$"
_MATCH_CRITERIA = ("open", "targeted")
# An alias names its family in lower case; the family itself is spelled as in amiFamily.
_ALIAS_FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025")
_RESERVED_KEYS = ("cpu", "memory", "ephemeral-storage", "pid")
_EVICTION_SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
_EVICTION_THRESHOLD = (
    rf"^((\d{{1,2}}(\.\d{{1,2}})?|100(\.0{{1,2}})?)%|{QUANTITY.removeprefix('^').removesuffix('$')})$"
)


def _keys_rule(name: str, keys: tuple[str, ...]) -> Rule:
    listed = ",".join(f"'{key}'" for key in keys)
    return Rule(f"self.all(x, x in [{listed}])", f"valid keys for {name} are [{listed}]")


def _reserved(name: str, description: str) -> Schema:
    return Schema(
        description,
        items=Schema(pattern=QUANTITY),
        rules=(
            _keys_rule(name, _RESERVED_KEYS),
            Rule(
                "self.all(x, !self[x].startsWith('-'))",
                f"{name} value cannot be a negative resource quantity",
            ),
        ),
    )


def _eviction(name: str, description: str, *, pattern: str | None = _EVICTION_THRESHOLD) -> Schema:
    return Schema(description, items=Schema(pattern=pattern), rules=(_keys_rule(name, _EVICTION_SIGNALS),))


def _alias_rule(family: str) -> Rule:
    article = "a" if family == "Bottlerocket" or family.startswith("Windows") else "an"
    return Rule(
        f"!has(self.amiFamily) || self.amiFamily in ['Custom', '{family}'] || !has(self.amiSelectorTerms)"
        f" || !self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == '{family.lower()}')",
        f"if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias",
    )


class SubnetSelectorTerm(Frozen):
    """Subnets by tags, or one by id."""

    tags: Annotated[Mapping[str, str], selector_tags()] = EMPTY
    id: Annotated[str, Schema("Id of the subnet.", pattern=SUBNET_ID)] = ""


class SecurityGroupSelectorTerm(Frozen):
    """Security groups by tags, or one by id or name."""

    tags: Annotated[Mapping[str, str], selector_tags()] = EMPTY
    id: Annotated[str, Schema("Id of the security group.", pattern=SECURITY_GROUP_ID)] = ""
    name: Annotated[str, Schema("Name of the security group, which is not its Name tag.")] = ""


class CapacityReservationSelectorTerm(Frozen):
    """Capacity reservations by tags and what they accept, or one by id."""

    tags: Annotated[Mapping[str, str], selector_tags()] = EMPTY
    id: Annotated[str, Schema("Id of the capacity reservation.", pattern=_CAPACITY_RESERVATION_ID)] = ""
    owner_id: Annotated[str, Schema("Account that owns the reservation.", pattern=_ACCOUNT)] = field(
        name="ownerID", default=""
    )
    instance_match_criteria: Annotated[
        str, Schema("Which launches the reservation accepts.", enum=_MATCH_CRITERIA)
    ] = ""


class PlacementGroupSelector(Frozen):
    """One placement group, by name or by id."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.name) || has(self.id)", "expected at least one, got none, ['name', 'id']"),
        Rule("!(has(self.name) && has(self.id))", "'name' and 'id' are mutually exclusive"),
    )

    name: Annotated[str, Schema("Name of the placement group.", min_length=1)] = ""
    id: Annotated[str, Schema("Id of the placement group.", pattern=r"^pg-[0-9a-z]+$")] = ""


class AMISelectorTerm(Frozen):
    """Images by alias, tags, name or parameter, or one by id."""

    alias: Annotated[
        str,
        Schema(
            "An image family and its version, as family@version; @latest follows new releases.",
            max_length=30,
            rules=(
                Rule(
                    "self.matches('^[a-zA-Z0-9]+@.+$')",
                    "'alias' is improperly formatted, must match the format 'family@version'",
                ),
                Rule(
                    f"self.split('@')[0] in [{','.join(repr(f.lower()) for f in _ALIAS_FAMILIES)}]",
                    "family is not supported, must be one of the following: "
                    + ", ".join(repr(family.lower()) for family in _ALIAS_FAMILIES),
                ),
                Rule(
                    "self.startsWith('windows') ? self.endsWith('@latest') : true",
                    "windows families may only specify version 'latest'",
                ),
            ),
        ),
    ] = ""
    tags: Annotated[Mapping[str, str], selector_tags()] = EMPTY
    id: Annotated[str, Schema("Id of the image.", pattern=AMI_ID)] = ""
    name: Annotated[str, Schema("Name of the image; * matches any text.")] = ""
    owner: Annotated[str, Schema("Account that owns the image, or self, amazon or aws-marketplace.")] = ""
    ssm_parameter: Annotated[
        str, Schema("Name or ARN of the SSM parameter that holds the id of the image.")
    ] = ""


class KubeletConfiguration(Frozen):
    """Settings of the kubelet that also decide how much of a node pods may use."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.imageGCHighThresholdPercent) && has(self.imageGCLowThresholdPercent)"
            " ? self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent : true",
            "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
        ),
        Rule(
            "has(self.evictionSoft) ? self.evictionSoft.all(e,"
            " has(self.evictionSoftGracePeriod) && e in self.evictionSoftGracePeriod) : true",
            "evictionSoft OwnerKey does not have a matching evictionSoftGracePeriod",
        ),
        Rule(
            "has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.all(e,"
            " has(self.evictionSoft) && e in self.evictionSoft) : true",
            "evictionSoftGracePeriod OwnerKey does not have a matching evictionSoft",
        ),
    )

    cluster_dns: Annotated[tuple[str, ...], Schema("Addresses of the DNS servers that pods use.")] = field(
        name="clusterDNS", default=()
    )
    max_pods: Annotated[int | None, Schema("How many pods a node may run.", format="int32", minimum=0)] = None
    pods_per_core: Annotated[
        int | None, Schema("How many pods a node may run for each of its cores.", format="int32", minimum=0)
    ] = None
    system_reserved: Annotated[
        Mapping[str, str], _reserved("systemReserved", "Resources kept for the operating system.")
    ] = EMPTY
    kube_reserved: Annotated[
        Mapping[str, str], _reserved("kubeReserved", "Resources kept for Kubernetes' own processes.")
    ] = EMPTY
    eviction_hard: Annotated[
        Mapping[str, str], _eviction("evictionHard", "Signals below which pods are evicted at once.")
    ] = EMPTY
    eviction_soft: Annotated[
        Mapping[str, str], _eviction("evictionSoft", "Signals below which pods are evicted after a while.")
    ] = EMPTY
    eviction_soft_grace_period: Annotated[
        Mapping[str, str],
        _eviction("evictionSoftGracePeriod", "How long each soft signal must last.", pattern=None),
    ] = EMPTY
    eviction_max_pod_grace_period: Annotated[
        int | None, Schema("The longest grace in seconds that a soft eviction gives a pod.", format="int32")
    ] = None
    image_gc_high_threshold_percent: Annotated[
        int | None,
        Schema("Disk use in percent above which images are removed.", format="int32", minimum=0, maximum=100),
    ] = field(name="imageGCHighThresholdPercent", default=None)
    image_gc_low_threshold_percent: Annotated[
        int | None,
        Schema(
            "Disk use in percent down to which images are removed.", format="int32", minimum=0, maximum=100
        ),
    ] = field(name="imageGCLowThresholdPercent", default=None)
    cpu_cfs_quota: Annotated[bool | None, Schema("Whether CPU limits of containers are enforced.")] = field(
        name="cpuCFSQuota", default=None
    )


class EBS(Frozen):
    """A volume of Elastic Block Store."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be defined"),
        Rule(
            "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
            "snapshotID must be set when volumeInitializationRate is set",
        ),
    )

    delete_on_termination: Annotated[bool | None, Schema("Whether the volume goes with its instance.")] = None
    encrypted: Annotated[bool | None, Schema("Whether the volume is encrypted.")] = None
    iops: Annotated[int | None, Schema("Operations per second.", format="int64")] = None
    kms_key_id: Annotated[str, Schema("Key that encrypts the volume.")] = field(name="kmsKeyID", default="")
    snapshot_id: Annotated[str, Schema("Snapshot that the volume starts from.")] = field(
        name="snapshotID", default=""
    )
    throughput: Annotated[int | None, Schema("Throughput in MiB per second.", format="int64")] = None
    volume_initialization_rate: Annotated[
        int | None,
        Schema(
            "How fast the snapshot is loaded, in MiB per second.", format="int32", minimum=100, maximum=300
        ),
    ] = None
    volume_size: Annotated[str, Schema("Size in Gi, G, Ti or T.", pattern=VOLUME_SIZE)] = ""
    volume_type: Annotated[str, Schema("Type of the volume.", enum=VOLUME_TYPES)] = ""


class BlockDeviceMapping(Frozen):
    """A volume and the device it becomes."""

    device_name: Annotated[str, Schema("Name of the device.")] = ""
    ebs: EBS | None = None
    root_volume: Annotated[bool, Schema("Whether pods' storage lies on this volume.")] = False


class MetadataOptions(Frozen):
    """How instances reach the instance metadata service."""

    http_endpoint: Annotated[str, Schema("Whether the service answers.", default="enabled", enum=SWITCH)] = (
        "enabled"
    )
    http_protocol_ipv6: Annotated[
        str, Schema("Whether the service answers over IPv6.", default="disabled", enum=SWITCH)
    ] = field(name="httpProtocolIPv6", default="disabled")
    http_put_response_hop_limit: Annotated[
        int,
        Schema("How many hops a token may travel.", default=1, format="int64", minimum=1, maximum=64),
    ] = 1
    http_tokens: Annotated[
        str, Schema("Whether a token is needed.", default="required", enum=("required", "optional"))
    ] = "required"


class NetworkInterface(Frozen):
    """A network interface that instances start with."""

    network_card_index: Annotated[int, Schema("The network card.", format="int32", minimum=0)]
    device_index: Annotated[int, Schema("The place on the network card.", format="int32", minimum=0)]
    interface_type: Annotated[str, Schema("What the interface is for.", enum=("interface", "efa-only"))]


class ConnectionTracking(Frozen):
    """How long idle connections are remembered."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
            "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
        ),
    )

    tcp_established_timeout: Annotated[
        int | None, Schema("Seconds for established TCP.", format="int32", minimum=60, maximum=432000)
    ] = None
    udp_stream_timeout: Annotated[
        int | None, Schema("Seconds for UDP that went both ways.", format="int32", minimum=60, maximum=180)
    ] = None
    udp_timeout: Annotated[
        int | None, Schema("Seconds for UDP that went one way.", format="int32", minimum=30, maximum=60)
    ] = None


class CPUOptions(Frozen):
    """Settings of the processor."""

    nested_virtualization: Annotated[
        str, Schema("Whether virtual machines may run inside instances.", enum=SWITCH)
    ] = ""


class EC2NodeClassSpec(Frozen):
    """How instances are launched."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.role) != has(self.instanceProfile)",
            "must specify exactly one of ['role', 'instanceProfile']",
        ),
        *(_alias_rule(family) for family in _ALIAS_FAMILIES),
        Rule(
            "has(self.amiFamily)"
            " || (has(self.amiSelectorTerms) && self.amiSelectorTerms.exists(x, has(x.alias)))",
            "must specify amiFamily if amiSelectorTerms does not contain an alias",
        ),
    )

    subnet_selector_terms: Annotated[
        tuple[SubnetSelectorTerm, ...],
        Schema(
            "Subnets to launch into.",
            required=True,
            max_items=30,
            rules=(
                Rule("self.size() != 0", "subnetSelectorTerms cannot be empty"),
                one_of_rule("tags", "id"),
                alone_rule("id", ("tags",), "with a combination of other fields in a subnet selector term"),
            ),
        ),
    ] = ()
    security_group_selector_terms: Annotated[
        tuple[SecurityGroupSelectorTerm, ...],
        Schema(
            "Security groups of the instances.",
            required=True,
            max_items=30,
            rules=(
                Rule("self.size() != 0", "securityGroupSelectorTerms cannot be empty"),
                one_of_rule("tags", "id", "name"),
                alone_rule(
                    "id",
                    ("tags", "name"),
                    "with a combination of other fields in a security group selector term",
                ),
                alone_rule(
                    "name",
                    ("tags", "id"),
                    "with a combination of other fields in a security group selector term",
                ),
            ),
        ),
    ] = ()
    capacity_reservation_selector_terms: Annotated[
        tuple[CapacityReservationSelectorTerm, ...],
        Schema(
            "Capacity reservations to launch into.",
            max_items=30,
            rules=(
                one_of_rule("tags", "id", "instanceMatchCriteria"),
                alone_rule(
                    "id",
                    ("tags", "ownerID", "instanceMatchCriteria"),
                    "along with other fields in a capacity reservation selector term",
                ),
            ),
        ),
    ] = ()
    placement_group_selector: Annotated[
        PlacementGroupSelector | None, Schema("The placement group to launch into.")
    ] = None
    ami_selector_terms: Annotated[
        tuple[AMISelectorTerm, ...],
        Schema(
            "Images to launch from.",
            required=True,
            min_items=1,
            max_items=30,
            rules=(
                one_of_rule("tags", "id", "name", "alias", "ssmParameter"),
                alone_rule(
                    "id",
                    ("alias", "tags", "name", "owner"),
                    "with a combination of other fields in amiSelectorTerms",
                ),
                alone_rule(
                    "alias",
                    ("id", "tags", "name", "owner"),
                    "with a combination of other fields in amiSelectorTerms",
                ),
                Rule(
                    "!(self.exists(x, has(x.alias)) && self.size() != 1)",
                    "'alias' is mutually exclusive,"
                    " cannot be set with a combination of other amiSelectorTerms",
                ),
            ),
        ),
    ] = ()
    ami_family: Annotated[
        str,
        Schema(
            "How user data is written and disks are laid out; an alias implies it.",
            enum=("AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"),
        ),
    ] = ""
    user_data: Annotated[str, Schema("User data that ours is merged with.")] = ""
    role: Annotated[
        str, Schema("IAM role of the instances; we make the instance profile.", rules=(not_empty("role"),))
    ] = ""
    instance_profile: Annotated[
        str, Schema("Instance profile of the instances.", rules=(not_empty("instanceProfile"),))
    ] = ""
    tags: Annotated[
        Mapping[str, str],
        Schema(
            "Tags on everything we create.",
            rules=restricted_tag_rules(
                labels.EKS_CLUSTER_NAME_TAG,
                labels.NODEPOOL_TAG,
                labels.NODECLAIM_TAG,
                labels.EC2NODECLASS_TAG,
            ),
        ),
    ] = EMPTY
    kubelet: KubeletConfiguration | None = None
    block_device_mappings: Annotated[
        tuple[BlockDeviceMapping, ...],
        Schema(
            "Volumes that replace those of the image family.",
            max_items=50,
            rules=(
                Rule(
                    "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
                    "must have only one blockDeviceMappings with rootVolume",
                ),
            ),
        ),
    ] = ()
    instance_store_policy: Annotated[
        str, Schema("What to do with disks of the instance itself.", enum=("RAID0",))
    ] = ""
    detailed_monitoring: Annotated[bool | None, Schema("Whether metrics come every minute.")] = None
    associate_public_ip_address: Annotated[
        bool | None, Schema("Whether instances get public addresses; absent leaves it to the subnet.")
    ] = field(name="associatePublicIPAddress", default=None)
    ip_prefix_count: Annotated[
        int | None,
        Schema("How many address prefixes the primary network interface gets.", format="int32", minimum=0),
    ] = None
    metadata_options: Annotated[
        MetadataOptions,
        Schema(
            default={
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            }
        ),
    ] = MetadataOptions()
    network_interfaces: Annotated[
        tuple[NetworkInterface, ...],
        Schema(
            "Network interfaces that instances start with.",
            max_items=150,
            rules=(
                Rule(
                    "self.size() == 0 || self.exists(x,"
                    " x.deviceIndex == 0 && x.networkCardIndex == 0 && x.interfaceType == 'interface')",
                    "networkInterfaces must include a primary interface with interfaceType='interface'",
                ),
                Rule(
                    "self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex"
                    " && x.deviceIndex == y.deviceIndex).size() == 1 && (x.interfaceType != 'efa-only'"
                    " || self.filter(y, x.networkCardIndex == y.networkCardIndex"
                    " && y.interfaceType == 'efa-only').size() == 1))",
                    "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs,"
                    " and can have at most one efa device per network card",
                ),
            ),
        ),
    ] = ()
    connection_tracking: ConnectionTracking | None = None
    cpu_options: CPUOptions | None = None
    context: Annotated[str, Schema("Context of the CreateFleet call.")] = ""

    @property
    def is_v1beta1(self) -> bool:
        """Return whether the class was written through v1beta1 and means something else read as v1."""
        return not self.ami_selector_terms or self.ami_family == "Ubuntu"


class Subnet(Frozen):
    """A subnet that was found."""

    id: Annotated[str, Schema("Id of the subnet.")]
    zone: Annotated[str, Schema("Name of its zone.")]
    zone_id: Annotated[str, Schema("Id of its zone, equal in all accounts.")] = field(
        name="zoneID", default=""
    )


class SecurityGroup(Frozen):
    """A security group that was found."""

    id: Annotated[str, Schema("Id of the security group.")]
    name: Annotated[str, Schema("Name of the security group.")] = ""


class CapacityReservation(Frozen):
    """A capacity reservation that was found."""

    id: Annotated[str, Schema("Id of the reservation.", pattern=_CAPACITY_RESERVATION_ID)]
    availability_zone: Annotated[str, Schema("Zone of the reserved instances.")]
    instance_type: Annotated[str, Schema("Type of the reserved instances.")]
    owner_id: Annotated[str, Schema("Account that owns the reservation.", pattern=_ACCOUNT)] = field(
        name="ownerID"
    )
    instance_match_criteria: Annotated[
        str, Schema("Which launches the reservation accepts.", enum=_MATCH_CRITERIA)
    ]
    reservation_type: Annotated[
        str, Schema("What was reserved.", default="default", enum=("default", "capacity-block"))
    ] = "default"
    interruptible: Annotated[bool, Schema("Whether instances may be taken back.")] = False
    state: Annotated[
        str, Schema("Whether the end is near.", default="active", enum=("active", "expiring"))
    ] = "active"
    end_time: Annotated[datetime | None, Schema("When the reservation ends.")] = None


class AMI(Frozen):
    """An image that was found."""

    id: Annotated[str, Schema("Id of the image.")]
    requirements: Annotated[
        tuple[NodeSelectorRequirement, ...],
        Schema("Which instance types the image is for.", items=REQUIREMENT),
    ]
    name: Annotated[str, Schema("Name of the image.")] = ""
    deprecated: Annotated[bool, Schema("Whether its owner advises against it.")] = False


class EC2NodeClassStatus(Frozen):
    """What the selectors found, and whether the class can be used."""

    subnets: Annotated[tuple[Subnet, ...], Schema("Subnets that were found.")] = ()
    security_groups: Annotated[tuple[SecurityGroup, ...], Schema("Security groups that were found.")] = ()
    capacity_reservations: Annotated[
        tuple[CapacityReservation, ...], Schema("Capacity reservations that were found.")
    ] = ()
    amis: Annotated[tuple[AMI, ...], Schema("Images that were found.")] = ()
    instance_profile: Annotated[str, Schema("Instance profile in use.")] = ""
    conditions: Annotated[tuple[Condition, ...], conditions()] = ()


class EC2NodeClass(Frozen):
    """How instances of EC2 are launched."""

    api_version: str = "karpenter.k8s.aws/v1"
    kind: str = "EC2NodeClass"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[EC2NodeClassSpec, Schema(required=True)] = EC2NodeClassSpec()
    status: EC2NodeClassStatus = EC2NodeClassStatus()
