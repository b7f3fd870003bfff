# SPDX-License-Identifier: Apache-2.0
"""What both sides are asked about: node classes and NodeClaims drawn from a seed, and errors from a list.

A node class is drawn setting by setting; what it may not have together by its own rules is left out. The same seed
gives the same cases.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.api import labels

__all__ = ["Launch", "changed_specs", "error_cases", "launches", "node_classes"]

_TAGS: Final = {"karpenter.sh/discovery": "sandbox"}
_METADATA: Final = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 1,
    "httpTokens": "required",
}
_USER_DATA: Final = {
    "al2023": (
        "#!/bin/bash\necho hello\n",
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 42\n",
        (
            'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="BOUNDARY"\n\n--BOUNDARY\n'
            'Content-Type: text/x-shellscript; charset="us-ascii"\n\n#!/bin/bash\necho part\n--BOUNDARY--\n'
        ),
    ),
    "bottlerocket": (
        '[settings.kubernetes]\n"node-ip" = "10.0.0.1"\n',
        '[settings.kernel]\nlockdown = "none"\n',
    ),
    "windows2022": ("Write-Host hello\n",),
}
_ROOT: Final = {"al2023": "/dev/xvda", "bottlerocket": "/dev/xvda", "windows2022": "/dev/sda1"}
_LARGE: Final = {"cpu": "100m", "memory": "200Mi", "ephemeral-storage": "1Gi"}

Draw = Callable[[random.Random, str], Mapping[str, Any]]


def _block_devices(draw: random.Random, family: str) -> Mapping[str, Any]:
    kind = draw.choice(["gp3", "gp2", "io2", ""])
    ebs: dict[str, Any] = {"volumeSize": draw.choice(["20Gi", "100Gi", "1Ti", "50G"])}
    if kind:
        ebs["volumeType"] = kind
    if kind == "io2" or (kind == "gp3" and draw.random() < 0.5):
        ebs["iops"] = 4000
    if kind == "gp3" and draw.random() < 0.5:
        ebs["throughput"] = 200
    if draw.random() < 0.5:
        ebs["encrypted"] = draw.choice([True, False])
    if draw.random() < 0.5:
        ebs["deleteOnTermination"] = draw.choice([True, False])
    devices: list[dict[str, Any]] = [{"deviceName": _ROOT[family], "ebs": ebs}]
    if draw.random() < 0.3:
        devices.append({"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "30Gi"}, "rootVolume": True})
    return {"blockDeviceMappings": devices}


def _kubelet(draw: random.Random, family: str) -> Mapping[str, Any]:
    settings: dict[str, Any] = {
        "maxPods": draw.choice([20, 110]),
        "kubeReserved": draw.choice([_LARGE, {"cpu": "1"}]),
        "systemReserved": {"cpu": "50m", "memory": "100Mi"},
        "evictionHard": draw.choice(
            [{"memory.available": "5%"}, {"memory.available": "200Mi", "nodefs.available": "10%"}]
        ),
        "imageGCHighThresholdPercent": 80,
        "imageGCLowThresholdPercent": 60,
        "cpuCFSQuota": draw.choice([True, False]),
        "clusterDNS": ["10.100.0.10"],
    }
    if family != "bottlerocket":
        settings["podsPerCore"] = draw.choice([2, 8])
    if family == "al2023":
        settings["evictionSoft"] = {"memory.available": "10%"}
        settings["evictionSoftGracePeriod"] = {"memory.available": "1m0s"}
        settings["evictionMaxPodGracePeriod"] = 60
    some = draw.sample(sorted(settings), draw.randint(1, 3))
    chosen = {name: settings[name] for name in some}
    if {"evictionSoft", "evictionSoftGracePeriod"} & set(chosen):
        chosen |= {name: settings[name] for name in ("evictionSoft", "evictionSoftGracePeriod")}
    if {"imageGCHighThresholdPercent", "imageGCLowThresholdPercent"} & set(chosen):
        names = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
        chosen |= {name: settings[name] for name in names}
    return {"kubelet": chosen}


_SETTINGS: Final[Mapping[str, Draw]] = {
    "blockDeviceMappings": _block_devices,
    "kubelet": _kubelet,
    "metadataOptions": lambda draw, _: {
        "metadataOptions": {
            **_METADATA,
            "httpPutResponseHopLimit": draw.choice([2, 3]),
            "httpTokens": draw.choice(["required", "optional"]),
        }
    },
    "tags": lambda draw, _: {"tags": draw.choice([{"team": "a"}, {"team": "b", "cost/centre": "42"}])},
    "userData": lambda draw, family: {"userData": draw.choice(_USER_DATA[family])},
    "associatePublicIPAddress": lambda draw, _: {"associatePublicIPAddress": draw.choice([True, False])},
    "ipPrefixCount": lambda draw, _: {"ipPrefixCount": draw.choice([1, 2])},
    "detailedMonitoring": lambda _, __: {"detailedMonitoring": True},
    "instanceStorePolicy": lambda _, family: (
        {"instanceStorePolicy": "RAID0"} if family != "windows2022" else {}
    ),
    "cpuOptions": lambda draw, _: {
        "cpuOptions": {"nestedVirtualization": draw.choice(["enabled", "disabled"])}
    },
    "connectionTracking": lambda _, __: {
        "connectionTracking": {"tcpEstablishedTimeout": 350, "udpTimeout": 40}
    },
    "context": lambda _, __: {"context": "arn:aws:ec2:us-west-2:123456789012:context/x"},
    "networkInterfaces": lambda draw, _: {
        "networkInterfaces": [
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            draw.choice(
                [
                    {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "interface"},
                    {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
                ]
            ),
        ]
    },
}


_CHANGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "tags": {"tags": {"team": "other"}},
    "a tag that is empty": {"tags": {}},
    "role": {"role": "other"},
    "user data": {"userData": "echo other"},
    "hop limit": {"metadataOptions": {**_METADATA, "httpPutResponseHopLimit": 9}},
    "hop limit at its default": {"metadataOptions": dict(_METADATA)},
    "detailed monitoring": {"detailedMonitoring": True},
    "detailed monitoring switched off": {"detailedMonitoring": False},
    "public address": {"associatePublicIPAddress": True},
    "no public address": {"associatePublicIPAddress": False},
    "prefixes": {"ipPrefixCount": 3},
    "instance store": {"instanceStorePolicy": "RAID0"},
    "context": {"context": "other"},
    "nested virtualization": {"cpuOptions": {"nestedVirtualization": "enabled"}},
    "placement group": {"placementGroupSelector": {"name": "other"}},
    "subnets": {"subnetSelectorTerms": [{"id": "subnet-1"}]},
    "security groups": {"securityGroupSelectorTerms": [{"id": "sg-1"}]},
    "reservations": {"capacityReservationSelectorTerms": [{"id": "cr-1"}]},
    "images": {"amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}], "amiFamily": "AL2023"},
    "image family by name": {"amiFamily": "AL2023"},
    "maxPods": {"kubelet": {"maxPods": 7}},
    "kubeReserved": {"kubelet": {"kubeReserved": {"cpu": "1"}}},
    "kubeReserved written otherwise": {"kubelet": {"kubeReserved": {"cpu": "1000m"}}},
    "cluster DNS": {"kubelet": {"clusterDNS": ["10.0.0.1", "10.0.0.2"]}},
    "cluster DNS in another order": {"kubelet": {"clusterDNS": ["10.0.0.2", "10.0.0.1"]}},
    "grace period": {
        "kubelet": {
            "evictionSoft": {"memory.available": "1Gi"},
            "evictionSoftGracePeriod": {"memory.available": "1m"},
        }
    },
    "grace period written otherwise": {
        "kubelet": {
            "evictionSoft": {"memory.available": "1Gi"},
            "evictionSoftGracePeriod": {"memory.available": "60s"},
        }
    },
    "volume": {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}]},
    "volume written otherwise": {
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20480Mi"}}]
    },
    "two volumes": {
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}},
            {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "30Gi"}},
        ]
    },
    "two volumes in another order": {
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "30Gi"}},
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}},
        ]
    },
    "network interfaces": {
        "networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]
    },
    "connection tracking": {"connectionTracking": {"udpTimeout": 40}},
}

_CODES: Final = """
InsufficientInstanceCapacity InsufficientCapacity InsufficientHostCapacity
InsufficientReservedInstanceCapacity MaxSpotInstanceCountExceeded VcpuLimitExceeded InstanceLimitExceeded
UnfulfillableCapacity Unsupported UnsupportedOperation InsufficientFreeAddressesInSubnet
MaxFleetCountExceeded ReservationCapacityExceeded CapacityReservationExceeded SpotMaxPriceTooLow
InvalidFleetConfiguration InvalidFleetConfig AuthFailure.ServiceLinkedRoleCreationNotPermitted AuthFailure
UnauthorizedOperation AccessDenied AccessDeniedException OptInRequired PendingVerification
RequestLimitExceeded Throttling ThrottlingException EC2ThrottledException SlowDown InternalError
InternalFailure ServiceUnavailable Unavailable InvalidParameterValue InvalidParameterCombination
InvalidParameter MissingParameter InvalidRequest InvalidAMIID.NotFound InvalidAMIID.Malformed
InvalidAMIID.Unavailable InvalidSubnetID.NotFound InvalidGroup.NotFound InvalidLaunchTemplateId.NotFound
InvalidLaunchTemplateName.NotFoundException InvalidLaunchTemplateName.AlreadyExistsException
InvalidInstanceID.NotFound InvalidCapacityReservationId.NotFound InvalidPlacementGroup.Unknown
InvalidBlockDeviceMapping InvalidKMSKey.InvalidState Client.InvalidKMSKey.InvalidState
Client.InternalError InvalidUserData.Malformed InvalidSnapshot.NotFound IdempotentParameterMismatch
DryRunOperation NoSuchEntity ParameterNotFound QueueDoesNotExist EntityAlreadyExists LimitExceeded
ExpiredToken InvalidClientTokenId SignatureDoesNotMatch RequestExpired SomethingNew
"""
_WORDED: Final = (
    ("InvalidParameter", "Security group sg-1 and subnet subnet-1 belong to different networks."),
    (
        "InvalidParameterValue",
        "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
    ),
    ("InvalidParameterValue", "User data is limited to 16384 bytes"),
    ("InvalidParameterCombination", "The specified instance type is not eligible for Free Tier."),
    (
        "UnauthorizedOperation",
        "You are not authorized, with an explicit deny in a service control policy",
    ),
    ("UnauthorizedOperation", "You are not authorized, with an explicit deny in a permissions boundary"),
    ("AuthFailure", "Not authorized for images: [ami-1]"),
    (
        "InsufficientInstanceCapacity",
        "You've reached the limit of instances in this spread placement group.",
    ),
    (
        "PendingVerification",
        "Your request for accessing resources in this region is pending verification.",
    ),
)


@dataclass(frozen=True)
class Launch:
    """One NodeClaim of one node class; ``node_class`` is the place of the class among those that are asked about."""

    node_class: int
    claim: dict[str, Any] = field(default_factory=dict)


def _bare(name: str, family: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "amiSelectorTerms": [{"alias": f"{family}@latest"}],
            "subnetSelectorTerms": [{"tags": _TAGS}],
            "securityGroupSelectorTerms": [{"tags": _TAGS}],
            "role": "KarpenterNodeRole-sandbox",
            "metadataOptions": dict(_METADATA),
            **more,
        },
    }


def node_classes(
    seed: int, count: int, reservations: Sequence[str], groups: Sequence[str]
) -> list[dict[str, Any]]:
    """Draw node classes: each setting alone first, then several at once.

    Args:
        seed: Of all chance.
        count: How many are drawn besides the plain ones of each family.
        reservations: Ids of capacity reservations that classes may select.
        groups: Names of placement groups that classes may select.
    """
    draw = random.Random(seed)  # noqa: S311 - cases, no secrets
    found = [_bare(f"plain-{family}", family) for family in _USER_DATA]
    found.append(
        _bare("reserved", "al2023", capacityReservationSelectorTerms=[{"id": each} for each in reservations])
    )
    found += [_bare(f"in-{name}", "al2023", placementGroupSelector={"name": name}) for name in groups]
    names = sorted(_SETTINGS)
    for number in range(count):
        family = draw.choice(["al2023", "al2023", "bottlerocket", "windows2022"])
        some = [names[number]] if number < len(names) else draw.sample(names, draw.randint(2, 5))
        spec: dict[str, Any] = {}
        for name in some:
            spec |= _SETTINGS[name](draw, family)
        found.append(_bare(f"drawn-{number:03d}", family, **spec))
    return found


def launches(seed: int, classes: Sequence[Mapping[str, Any]], count: int) -> list[Launch]:
    """Draw NodeClaims, one of each node class at least."""
    draw = random.Random(seed + 1)  # noqa: S311
    places = [*range(len(classes)), *(draw.randrange(len(classes)) for _ in range(count))]
    return [Launch(place, _claim(draw, number, classes[place])) for number, place in enumerate(places)]


def _claim(draw: random.Random, number: int, node_class: Mapping[str, Any]) -> dict[str, Any]:
    spec = node_class["spec"]
    family = spec["amiSelectorTerms"][0]["alias"].partition("@")[0]
    arch = (
        [labels.AMD64]
        if family == "windows2022"
        else draw.choice([[labels.AMD64], [labels.ARM64], [labels.AMD64, labels.ARM64]])
    )
    wanted = {
        labels.CAPACITY_TYPE: ["reserved"]
        if "capacityReservationSelectorTerms" in spec
        else draw.choice([["on-demand"], ["spot"], ["on-demand", "spot"]]),
        labels.ARCH: arch,
        labels.OS: ["windows"] if family == "windows2022" else ["linux"],
        labels.NODEPOOL: ["general"],
    }
    more = draw.choice(
        [
            {},
            {labels.INSTANCE_CATEGORY: draw.choice([["m"], ["c", "m", "r"], ["t"]])},
            {labels.ZONE: draw.sample(["us-west-2a", "us-west-2b", "us-west-2c"], draw.randint(1, 2))},
            {labels.INSTANCE_CPU: draw.choice([["2"], ["4", "8"], ["16"]])},
        ]
    )
    requests = {
        "cpu": draw.choice(["500m", "1", "3500m", "15"]),
        "memory": draw.choice(["512Mi", "3Gi", "20Gi"]),
        "pods": "3",
    }
    if "capacityReservationSelectorTerms" in spec:
        more, requests = {}, {"cpu": "1", "memory": "1Gi", "pods": "3"}
    claim: dict[str, Any] = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": f"general-{number:04d}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "labels": {labels.NODEPOOL: "general", "team": "a"},
        },
        "spec": {
            "nodeClassRef": {
                "group": "karpenter.k8s.aws",
                "kind": "EC2NodeClass",
                "name": node_class["metadata"]["name"],
            },
            "requirements": [
                {"key": key, "operator": "In", "values": values} for key, values in {**wanted, **more}.items()
            ],
            "resources": {"requests": requests},
        },
    }
    if draw.random() < 0.4:
        claim["spec"]["taints"] = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    if draw.random() < 0.3:
        claim["spec"]["startupTaints"] = [{"key": "cni", "effect": "NoExecute"}]
    return claim


def changed_specs(node_class: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the class with one thing changed at a time, and what was changed; a hash may or may not notice.

    The first is the class as it is.
    """
    yield "nothing", deepcopy(dict(node_class))
    for name, change in _CHANGES.items():
        changed = deepcopy(dict(node_class))
        changed["spec"] |= change
        yield name, changed


def error_cases() -> list[dict[str, str]]:
    """Give errors of launches as EC2 words them, and codes of other calls."""
    return [{"code": each, "message": ""} for each in _CODES.split()] + [
        {"code": code, "message": message} for code, message in _WORDED
    ]
