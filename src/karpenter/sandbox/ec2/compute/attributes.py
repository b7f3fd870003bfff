# SPDX-License-Identifier: Apache-2.0
"""DescribeInstanceAttribute: one attribute of one instance, such as the user data that no list shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from karpenter.sandbox.ec2.compute.describing import instance_view, named_instances
from karpenter.sandbox.ec2.compute.records import Instance
from karpenter.sandbox.ec2.compute.seam import Params, invalid, missing
from karpenter.sandbox.ec2.compute.store import Store

__all__ = ["describe_instance_attribute"]


def _value(read: Callable[[Instance], Any]) -> Callable[[Instance], dict[str, Any]]:
    """Wrap a value as EC2 does; an attribute that is not set is an empty structure."""

    def wrapped(instance: Instance) -> dict[str, Any]:
        value = read(instance)
        return {} if value in {None, ""} else {"Value": value}

    return wrapped


def _data(key: str, default: Any = None) -> Callable[[Instance], Any]:
    return lambda instance: instance.data.get(key, default)


_VALUES: Final[Mapping[str, tuple[str, Callable[[Instance], Any]]]] = {
    "instanceType": ("InstanceType", _value(lambda instance: instance.instance_type)),
    "kernel": ("KernelId", _value(_data("KernelId"))),
    "ramdisk": ("RamdiskId", _value(_data("RamDiskId"))),
    "userData": ("UserData", _value(_data("UserData"))),
    "disableApiTermination": ("DisableApiTermination", _value(_data("DisableApiTermination", default=False))),
    "disableApiStop": ("DisableApiStop", _value(_data("DisableApiStop", default=False))),
    "instanceInitiatedShutdownBehavior": (
        "InstanceInitiatedShutdownBehavior",
        _value(_data("InstanceInitiatedShutdownBehavior", "stop")),
    ),
    "rootDeviceName": ("RootDeviceName", _value(lambda instance: instance.root_device)),
    "sourceDestCheck": ("SourceDestCheck", _value(lambda _: True)),
    "ebsOptimized": ("EbsOptimized", _value(_data("EbsOptimized", default=False))),
    "sriovNetSupport": ("SriovNetSupport", _value(lambda _: "simple")),
    "enaSupport": ("EnaSupport", _value(lambda _: True)),
    "enclaveOptions": (
        "EnclaveOptions",
        lambda instance: {"Enabled": bool((instance.data.get("EnclaveOptions") or {}).get("Enabled"))},
    ),
}
_VIEWED: Final = {
    "blockDeviceMapping": ("BlockDeviceMappings", "BlockDeviceMappings"),
    "groupSet": ("Groups", "SecurityGroups"),
    "productCodes": ("ProductCodes", "ProductCodes"),
}


def describe_instance_attribute(ec2: Store, params: Params) -> dict[str, Any]:
    """Answer DescribeInstanceAttribute."""
    attribute = params.get("Attribute")
    if not attribute:
        raise missing("Attribute")
    (instance,) = named_instances(ec2, [params["InstanceId"]])
    answer: dict[str, Any] = {"InstanceId": instance.id}
    if attribute in _VALUES:
        name, read = _VALUES[attribute]
        return answer | {name: read(instance)}
    if attribute in _VIEWED:
        name, shown = _VIEWED[attribute]
        return answer | {name: instance_view(ec2, instance)[shown]}
    raise invalid(attribute, "attribute")
