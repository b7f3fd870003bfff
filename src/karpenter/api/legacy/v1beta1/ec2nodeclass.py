# SPDX-License-Identifier: Apache-2.0
"""EC2NodeClass (karpenter.k8s.aws/v1beta1): the image family is required, and the images follow from it.

Read to be converted, never written. What is written through v1beta1 is also a valid v1 object, but for
missing AMI selector terms and the family Ubuntu.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import field

from karpenter.api import labels
from karpenter.api.base import EMPTY, Frozen
from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.crds.aws_shapes import (
    AMI_ID,
    SWITCH,
    VOLUME_SIZE,
    VOLUME_TYPES,
    alone_rule,
    not_empty,
    one_of_rule,
    restricted_tag_rules,
    selector_tags,
)
from karpenter.api.crds.shapes import REQUIREMENT, conditions
from karpenter.api.crds.vocabulary import Rule, Schema
from karpenter.api.ec2nodeclass import SecurityGroup, SecurityGroupSelectorTerm, Subnet, SubnetSelectorTerm
from karpenter.api.meta import Condition, ObjectMeta

__all__ = [
    "AMI",
    "EBS",
    "AMISelectorTerm",
    "BlockDeviceMapping",
    "EC2NodeClass",
    "EC2NodeClassSpec",
    "EC2NodeClassStatus",
    "MetadataOptions",
]


class AMISelectorTerm(Frozen):
    """Images by tags or name, or one by id."""

    tags: Annotated[Mapping[str, str], selector_tags()] = EMPTY
    id: Annotated[str, Schema("Id of the image.", pattern=AMI_ID)] = ""
    name: Annotated[str, Schema("Name of the image; * matches any text.")] = ""
    owner: Annotated[str, Schema("Account that owns the image, or self, amazon or aws-marketplace.")] = ""


class EBS(Frozen):
    """A volume of Elastic Block Store."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be defined"),
    )

    delete_on_termination: Annotated[bool | None, Schema("Whether the volume goes with its instance.")] = None
    encrypted: Annotated[bool | None, Schema("Whether the volume is encrypted.")] = None
    iops: Annotated[int | None, Schema("Operations per second.", format="int64")] = None
    kms_key_id: Annotated[str, Schema("Key that encrypts the volume.")] = field(name="kmsKeyID", default="")
    snapshot_id: Annotated[str, Schema("Snapshot that the volume starts from.")] = field(
        name="snapshotID", default=""
    )
    throughput: Annotated[int | None, Schema("Throughput in MiB per second.", format="int64")] = None
    volume_size: Annotated[str, Schema("Size in Gi, G, Ti or T.", pattern=VOLUME_SIZE)] = ""
    volume_type: Annotated[str, Schema("Type of the volume.", enum=VOLUME_TYPES)] = ""


class BlockDeviceMapping(Frozen):
    """A volume and the device it becomes."""

    device_name: Annotated[str, Schema("Name of the device.")] = ""
    ebs: EBS | None = None
    root_volume: Annotated[bool, Schema("Whether pods' storage lies on this volume.")] = False


class MetadataOptions(Frozen):
    """How instances reach the instance metadata service; a token may travel one hop further than in v1."""

    http_endpoint: Annotated[str, Schema("Whether the service answers.", default="enabled", enum=SWITCH)] = (
        "enabled"
    )
    http_protocol_ipv6: Annotated[
        str, Schema("Whether the service answers over IPv6.", default="disabled", enum=SWITCH)
    ] = field(name="httpProtocolIPv6", default="disabled")
    http_put_response_hop_limit: Annotated[
        int, Schema("How many hops a token may travel.", default=2, format="int64", minimum=1, maximum=64)
    ] = 2
    http_tokens: Annotated[
        str, Schema("Whether a token is needed.", default="required", enum=("required", "optional"))
    ] = "required"


class EC2NodeClassSpec(Frozen):
    """How instances are launched."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.amiFamily != 'Custom' || (has(self.amiSelectorTerms) && self.amiSelectorTerms.size() != 0)",
            "amiSelectorTerms is required when amiFamily == 'Custom'",
        ),
        Rule(
            "has(self.role) != has(self.instanceProfile)",
            "must specify exactly one of ['role', 'instanceProfile']",
        ),
        Rule(
            "(has(oldSelf.role) && has(self.role))"
            " || (has(oldSelf.instanceProfile) && has(self.instanceProfile))",
            "changing from 'instanceProfile' to 'role' is not supported."
            " You must delete and recreate this node class if you want to change this.",
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
                alone_rule("id", ("tags",), "with a combination of other fields in subnetSelectorTerms"),
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
                    "id", ("tags", "name"), "with a combination of other fields in securityGroupSelectorTerms"
                ),
                alone_rule(
                    "name", ("tags", "id"), "with a combination of other fields in securityGroupSelectorTerms"
                ),
            ),
        ),
    ] = ()
    ami_selector_terms: Annotated[
        tuple[AMISelectorTerm, ...],
        Schema(
            "Images to launch from; absent means the newest of the family.",
            max_items=30,
            rules=(
                one_of_rule("tags", "id", "name"),
                alone_rule(
                    "id", ("tags", "name", "owner"), "with a combination of other fields in amiSelectorTerms"
                ),
            ),
        ),
    ] = ()
    ami_family: Annotated[
        str,
        Schema(
            "How user data is written and disks are laid out, and which images are meant.",
            required=True,
            enum=("AL2", "AL2023", "Bottlerocket", "Ubuntu", "Custom", "Windows2019", "Windows2022"),
        ),
    ] = ""
    user_data: Annotated[str, Schema("User data that ours is merged with.")] = ""
    role: Annotated[
        str,
        Schema(
            "IAM role of the instances; we make the instance profile.",
            rules=(not_empty("role"), Rule("self == oldSelf", "immutable field changed")),
        ),
    ] = ""
    instance_profile: Annotated[
        str, Schema("Instance profile of the instances.", rules=(not_empty("instanceProfile"),))
    ] = ""
    tags: Annotated[
        Mapping[str, str],
        Schema(
            "Tags on everything we create.",
            rules=restricted_tag_rules(
                labels.NODEPOOL_TAG, labels.MANAGED_BY, labels.NODECLAIM_TAG, labels.EC2NODECLASS_TAG
            ),
        ),
    ] = EMPTY
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
    metadata_options: Annotated[
        MetadataOptions,
        Schema(
            default={
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 2,
                "httpTokens": "required",
            }
        ),
    ] = MetadataOptions()
    context: Annotated[str, Schema("Context of the CreateFleet call.")] = ""


class AMI(Frozen):
    """An image that was found."""

    id: Annotated[str, Schema("Id of the image.")]
    requirements: Annotated[
        tuple[NodeSelectorRequirement, ...],
        Schema("Which instance types the image is for.", items=REQUIREMENT),
    ]
    name: Annotated[str, Schema("Name of the image.")] = ""


class EC2NodeClassStatus(Frozen):
    """What the selectors found, and whether the class can be used."""

    subnets: Annotated[tuple[Subnet, ...], Schema("Subnets that were found.")] = ()
    security_groups: Annotated[tuple[SecurityGroup, ...], Schema("Security groups that were found.")] = ()
    amis: Annotated[tuple[AMI, ...], Schema("Images that were found.")] = ()
    instance_profile: Annotated[str, Schema("Instance profile in use.")] = ""
    conditions: Annotated[tuple[Condition, ...], conditions()] = ()


class EC2NodeClass(Frozen):
    """How instances of EC2 are launched, as in v1beta1."""

    api_version: str = "karpenter.k8s.aws/v1beta1"
    kind: str = "EC2NodeClass"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[EC2NodeClassSpec, Schema(required=True)] = EC2NodeClassSpec()
    status: EC2NodeClassStatus = EC2NodeClassStatus()
