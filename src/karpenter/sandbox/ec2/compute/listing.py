# SPDX-License-Identifier: Apache-2.0
"""The common part of the Describe calls, and tags in their wire shapes.

A Describe call names records by id or by filters, refuses ids that are not there with the code of their kind, and
cuts the rest into pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from karpenter.sandbox.ec2.compute.filters import Field, cut, matching
from karpenter.sandbox.ec2.compute.records import Record
from karpenter.sandbox.ec2.compute.seam import Params
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["by_ids", "check_tags", "describe", "spec_tags", "tag_list", "unknown_id"]

_R = TypeVar("_R", bound=Record)

# What EC2 calls a kind, by the prefix of its ids: the error code, and the name in the message.
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "i": ("InvalidInstanceID", "instance ID"),
    "subnet": ("InvalidSubnetID", "subnet ID"),
    "vpc": ("InvalidVpcID", "vpc ID"),
    "sg": ("InvalidGroup", "security group"),
    "ami": ("InvalidAMIID", "image id"),
    "lt": ("InvalidLaunchTemplateId", "launch template ID"),
    "vol": ("InvalidVolume", "volume"),
    "eni": ("InvalidNetworkInterfaceID", "networkInterface ID"),
    "fleet": ("InvalidFleetId", "fleet ID"),
    "cr": ("InvalidCapacityReservationId", "capacity reservation ID"),
    "pg": ("InvalidPlacementGroup", "placement group ID"),
    "sir": ("InvalidSpotInstanceRequestID", "spot instance request ID"),
}
_UNKNOWN: Final = {"pg": "Unknown", "lt": "NotFound"}


def unknown_id(*ids: str) -> ModelError:
    """Builds EC2's refusal of ids that are not there; an id of no known form is malformed."""
    prefix = ids[0].rpartition("-")[0].split("-")[0]
    if prefix not in _KINDS:
        return ModelError("InvalidID", f"The ID '{ids[0]}' is not valid")
    code, noun = _KINDS[prefix]
    if len(ids) > 1:
        return ModelError(f"{code}.NotFound", f"The {noun}s '{', '.join(ids)}' do not exist")
    text = f"[{ids[0]}]" if prefix == "ami" else ids[0]
    return ModelError(f"{code}.{_UNKNOWN.get(prefix, 'NotFound')}", f"The {noun} '{text}' does not exist")


def by_ids(records: Mapping[str, _R], ids: Sequence[str]) -> list[_R]:
    """Gives the records of the ids in the order of creation.

    Raises:
        ModelError: One or more are not there; then none is given.
    """
    absent = [each for each in ids if each not in records]
    if absent:
        raise unknown_id(*absent)
    return sorted({each: records[each] for each in ids}.values(), key=lambda record: record.seq)


def describe(
    records: Mapping[str, _R],
    params: Params,
    *,
    ids: str,
    fields: Mapping[str, Field],
    at_most: int = 1000,
) -> tuple[Sequence[_R], dict[str, str]]:
    """Gives the page of records that a Describe call asks for, and ``NextToken`` when there are more.

    Args:
        records: All of the kind, in the order of creation.
        params: The call's parameters.
        ids: The parameter that lists ids.
        fields: What each filter compares.
        at_most: The largest page that may be asked for.
    """
    chosen: Iterable[_R] = by_ids(records, params[ids]) if params.get(ids) else records.values()
    passed = matching(chosen, params.get("Filters") or (), fields)
    return cut(passed, params, lambda record: record.seq, at_most=at_most)


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Gives tags as EC2 lists them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def spec_tags(specifications: Sequence[Params] | None, *kinds: str) -> dict[str, str]:
    """Gives the tags that the specifications have for a kind of resource.

    Raises:
        ModelError: A key is empty, too long, reserved, or there are more than 50.
    """
    tags: dict[str, str] = {}
    for each in specifications or ():
        if each.get("ResourceType") in kinds:
            tags.update((tag["Key"], tag.get("Value", "")) for tag in each.get("Tags") or ())
    check_tags(tags)
    return tags


def check_tags(tags: Mapping[str, str], *, had: Mapping[str, str] = {}) -> None:
    """Refuses tags that EC2 refuses."""
    for key, value in tags.items():
        if not key or len(key) > 127:
            raise ModelError("InvalidParameterValue", f"Tag key '{key}' must be 1 to 127 characters long")
        if len(value) > 255:
            raise ModelError(
                "InvalidParameterValue", f"Tag value of '{key}' exceeds the maximum length of 255"
            )
        if key.lower().startswith("aws:"):
            raise ModelError(
                "InvalidParameterValue", f"Tag keys starting with 'aws:' are reserved for internal use: {key}"
            )
    if len({**had, **tags}) > 50:
        raise ModelError("TagLimitExceeded", "The maximum number of tags for a resource is 50")
