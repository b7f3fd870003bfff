# SPDX-License-Identifier: Apache-2.0
"""AWSNodeTemplate (karpenter.k8s.aws/v1alpha1): what an EC2NodeClass was called before v1beta1.

Read to be converted, never written. Its selectors are maps in which some keys are not tags (``aws-ids``,
``aws::name``, ...) and values are comma lists; they stay as written here. What its admission webhook refused
is refused by rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import field

from karpenter.api import labels
from karpenter.api.base import EMPTY, Frozen, RawQuantity
from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.crds.aws_shapes import SWITCH, VOLUME_TYPES, restricted_tag_rules
from karpenter.api.crds.shapes import REQUIREMENT
from karpenter.api.crds.vocabulary import Rule, Schema
from karpenter.api.ec2nodeclass import SecurityGroup
from karpenter.api.meta import ObjectMeta

__all__ = [
    "AWSNodeTemplate",
    "AWSNodeTemplateSpec",
    "AWSNodeTemplateStatus",
    "LegacyAMI",
    "LegacyBlockDeviceMapping",
    "LegacyEBS",
    "LegacyMetadataOptions",
    "LegacySubnet",
]

# Besides what a launch template settles itself; each excludes it.
_LAUNCH_TEMPLATE_EXCLUDES = (
    "securityGroupSelector",
    "metadataOptions",
    "amiFamily",
    "instanceProfile",
    "blockDeviceMappings",
    "userData",
    "amiSelector",
)


def _selector(description: str) -> Schema:
    return Schema(
        description,
        max_properties=50,
        items=Schema(max_length=4096),
        rules=(
            Rule("self.all(k, k != '' && self[k] != '')", "empty selector keys or values aren't supported"),
            Rule(
                "!('aws-ids' in self || 'aws::ids' in self) || self.size() == 1",
                "'aws-ids' is mutually exclusive, cannot be set with a combination of other filters",
            ),
        ),
    )


class LegacyMetadataOptions(Frozen):
    """How instances reach the instance metadata service; the hop limit is 2 if absent."""

    http_endpoint: Annotated[str, Schema("Whether the service answers.", enum=SWITCH)] = ""
    http_protocol_ipv6: Annotated[str, Schema("Whether the service answers over IPv6.", enum=SWITCH)] = field(
        name="httpProtocolIPv6", default=""
    )
    http_put_response_hop_limit: Annotated[
        int | None, Schema("How many hops a token may travel.", format="int64", minimum=1, maximum=64)
    ] = None
    http_tokens: Annotated[str, Schema("Whether a token is needed.", enum=("required", "optional"))] = ""


class LegacyEBS(Frozen):
    """A volume of Elastic Block Store, whose size may be any quantity."""

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
    volume_size: Annotated[RawQuantity | None, Schema("Size, from 1G to 64T.")] = None
    volume_type: Annotated[str, Schema("Type of the volume.", enum=VOLUME_TYPES)] = ""


class LegacyBlockDeviceMapping(Frozen):
    """A volume and the device it becomes."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.deviceName) && has(self.ebs)", "deviceName and ebs must be defined"),
    )

    device_name: Annotated[str, Schema("Name of the device.")] = ""
    ebs: LegacyEBS | None = None


class AWSNodeTemplateSpec(Frozen):
    """How instances are launched."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.subnetSelector)", "subnetSelector is required"),
        Rule(
            "has(self.launchTemplate) || has(self.securityGroupSelector)",
            "securityGroupSelector is required without launchTemplate",
        ),
        *(
            Rule(
                f"!has(self.launchTemplate) || !has(self.{name})",
                f"expected exactly one, got both: launchTemplate, {name}",
            )
            for name in _LAUNCH_TEMPLATE_EXCLUDES
        ),
        Rule(
            "!has(self.amiFamily) || self.amiFamily != 'Custom' || has(self.amiSelector)",
            "amiSelector is required when amiFamily == 'Custom'",
        ),
    )

    # The provider's own version and kind, which an inline provider of a Provisioner had to name.
    api_version: Annotated[str, Schema("Not used.")] = ""
    kind: Annotated[str, Schema("Not used.")] = ""
    ami_family: Annotated[
        str,
        Schema(
            "How user data is written and disks are laid out; absent means AL2.",
            enum=("AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022", "Custom"),
        ),
    ] = ""
    ami_selector: Annotated[Mapping[str, str], _selector("Images to launch from.")] = EMPTY
    subnet_selector: Annotated[Mapping[str, str], _selector("Subnets to launch into.")] = EMPTY
    security_group_selector: Annotated[Mapping[str, str], _selector("Security groups of the instances.")] = (
        EMPTY
    )
    instance_profile: Annotated[str, Schema("Instance profile of the instances.")] = ""
    launch_template: Annotated[str, Schema("Name of a launch template; no longer supported.")] = ""
    metadata_options: LegacyMetadataOptions | None = None
    block_device_mappings: Annotated[
        tuple[LegacyBlockDeviceMapping, ...],
        Schema("Volumes that replace those of the image family.", max_items=50),
    ] = ()
    tags: Annotated[
        Mapping[str, str],
        Schema(
            "Tags on everything we create.",
            rules=restricted_tag_rules(labels.PROVISIONER_NAME, labels.MANAGED_BY),
        ),
    ] = EMPTY
    user_data: Annotated[str, Schema("User data that ours is merged with.")] = ""
    detailed_monitoring: Annotated[bool | None, Schema("Whether metrics come every minute.")] = None
    context: Annotated[str, Schema("Context of the CreateFleet call.")] = ""


class LegacySubnet(Frozen):
    """A subnet that was found."""

    id: Annotated[str, Schema("Id of the subnet.")]
    zone: Annotated[str, Schema("Name of its zone.")]


class LegacyAMI(Frozen):
    """An image that was found."""

    id: Annotated[str, Schema("Id of the image.")]
    requirements: Annotated[
        tuple[NodeSelectorRequirement, ...],
        Schema("Which instance types the image is for.", items=REQUIREMENT),
    ]
    name: Annotated[str, Schema("Name of the image.")] = ""


class AWSNodeTemplateStatus(Frozen):
    """What the selectors found."""

    subnets: Annotated[tuple[LegacySubnet, ...], Schema("Subnets that were found.")] = ()
    security_groups: Annotated[tuple[SecurityGroup, ...], Schema("Security groups that were found.")] = ()
    amis: Annotated[tuple[LegacyAMI, ...], Schema("Images that were found.")] = ()


class AWSNodeTemplate(Frozen):
    """How instances of EC2 are launched, as before v1beta1."""

    api_version: str = "karpenter.k8s.aws/v1alpha1"
    kind: str = "AWSNodeTemplate"
    metadata: ObjectMeta = ObjectMeta()
    spec: AWSNodeTemplateSpec = AWSNodeTemplateSpec()
    status: AWSNodeTemplateStatus = AWSNodeTemplateStatus()
