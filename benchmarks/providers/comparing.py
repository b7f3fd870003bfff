# SPDX-License-Identifier: Apache-2.0
"""Holds the answers of both sides against each other.

A difference has a name that says where it is and not in which case, such as ``types.capacity.memory``. The same
difference in a hundred cases is one name with a count and the first example.
"""

from __future__ import annotations

import base64
import binascii
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email import message_from_string
from email.message import Message
from typing import Any, Final, NamedTuple

import yaml

from karpenter.api import labels
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.resources import Resources

__all__ = [
    "Difference",
    "Tally",
    "error_differences",
    "hash_differences",
    "launch_differences",
    "type_differences",
]

# Keys of requirements that ours has in the offerings or not as labels of the type.
_OF_OFFERINGS: Final = frozenset(
    {
        labels.CAPACITY_TYPE,
        labels.ZONE,
        labels.ZONE_ID,
        labels.OS,
        "karpenter.k8s.aws/capacity-reservation-id",
    }
)
_IGNORED: Final = frozenset(
    {"ClientToken", "DryRun", "ResultMetadata", "LaunchTemplateName", "VersionDescription"}
)
_ROUNDING: Final = 1e-6


class Difference(NamedTuple):
    """One difference in one case."""

    name: str
    case: str
    go: Any
    ours: Any


@dataclass
class Tally:
    """All differences by name, and how many values were compared."""

    compared: int = 0
    differences: dict[str, list[Difference]] = field(default_factory=dict)

    def add(self, found: Iterator[Difference | None]) -> None:
        """Take in the values of one comparison: a difference, or None for what is equal."""
        for each in found:
            self.compared += 1
            if each is not None:
                self.differences.setdefault(each.name, []).append(each)

    @property
    def names(self) -> list[str]:
        """The names of all differences, in order."""
        return sorted(self.differences)


def type_differences(
    case: str, go: Sequence[Mapping[str, Any]], ours: Sequence[InstanceType]
) -> Iterator[Difference | None]:
    """Compare the instance types of one node class."""
    theirs, mine = {each["name"]: each for each in go}, {each.name: each for each in ours}
    for name in sorted(theirs.keys() | mine.keys()):
        where = f"{case} {name}"
        if name not in theirs or name not in mine:
            yield Difference("types.listed", where, name in theirs, name in mine)
            continue
        one, other = theirs[name], mine[name]
        for kind in ("capacity", "allocatable"):
            yield from _amounts(f"types.{kind}", where, one[kind], getattr(other, kind))
        yield from _labels(where, one["requirements"], other)
        yield from _offerings(where, one["offerings"], other.offerings)


def _amounts(
    name: str, where: str, go: Mapping[str, str], ours: Mapping[str, int]
) -> Iterator[Difference | None]:
    theirs = {key: value for key, value in Resources.parse(go).items() if value}
    mine = {key: value for key, value in ours.items() if value}
    for key in sorted(theirs.keys() | mine.keys()):
        yield _compared(f"{name}.{key}", where, theirs.get(key), mine.get(key))


def _labels(
    where: str, go: Mapping[str, Mapping[str, Any]], ours: InstanceType
) -> Iterator[Difference | None]:
    """Compare labels; what varies between the offerings of a type has several values."""
    by_offering: dict[str, set[str]] = {}
    for each in ours.offerings:
        for key, value in each.labels.items():
            by_offering.setdefault(key, set()).add(value)
    for key in sorted((go.keys() | ours.labels.keys()) - _OF_OFFERINGS):
        theirs = go[key]["values"] if key in go and go[key]["operator"] == "In" else []
        mine = {ours.labels[key]} if key in ours.labels else by_offering.get(key, set())
        yield _compared(f"types.label.{key}", where, sorted(theirs), sorted(mine))


def _offerings(
    where: str, go: Sequence[Mapping[str, Any]], ours: Sequence[Offering]
) -> Iterator[Difference | None]:
    theirs = {_offering_key(each["labels"]): each for each in go if each["available"]}
    mine = {
        _offering_key(
            {
                **each.labels,
                labels.ZONE: each.zone,
                labels.CAPACITY_TYPE: each.capacity_type,
                "karpenter.k8s.aws/capacity-reservation-id": each.reservation_id,
            }
        ): each
        for each in ours
        if each.available
    }
    for key in sorted(theirs.keys() | mine.keys()):
        if key not in theirs or key not in mine:
            kind = key[1]
            yield Difference(f"types.offering.{kind}", f"{where} {' '.join(key)}", key in theirs, key in mine)
            continue
        theirs_price, price = theirs[key]["price"], mine[key].price_per_hour
        equal = abs(theirs_price - price) <= _ROUNDING
        yield (
            None
            if equal
            else Difference(f"types.price.{key[1]}", f"{where} {' '.join(key)}", theirs_price, price)
        )


def _offering_key(of: Mapping[str, str]) -> tuple[str, str, str, str]:
    return (
        of.get(labels.ZONE, ""),
        of.get(labels.CAPACITY_TYPE, ""),
        of.get("karpenter.k8s.aws/capacity-reservation-id", ""),
        of.get("karpenter.k8s.aws/placement-group-partition", ""),
    )


def launch_differences(
    case: str,
    go: Mapping[str, Any],
    ours: Mapping[str, Any],
    go_templates: Mapping[str, Any],
    our_templates: Mapping[str, Any],
) -> Iterator[Difference | None]:
    """Compare what one NodeClaim made both sides ask of EC2."""
    yield _compared("launch.outcome", case, *(_outcome(each) for each in (go, ours)))
    if go.get("error") or ours.get("error"):
        return
    theirs, mine = go["fleets"][-1], ours["fleets"][-1]
    yield _compared("launch.fleets", case, len(go["fleets"]), len(ours["fleets"]))
    yield from _documents("launch.fleet", case, _fleet(theirs), _fleet(mine))
    pools, own_pools = _pools(theirs, go_templates), _pools(mine, our_templates)
    for key in sorted(pools.keys() | own_pools.keys()):
        if key not in pools or key not in own_pools:
            prices = [each.get(key, {}).get("override", {}).get("Priority") for each in (pools, own_pools)]
            yield Difference("launch.pool", f"{case} {' '.join(key)}", *prices)
            continue
        yield from _documents("launch", f"{case} {' '.join(key)}", pools[key], own_pools[key])


def _outcome(made: Mapping[str, Any]) -> str:
    if made.get("error"):
        return "refused"
    return f"{made['instanceType']} {made['capacityType']}"


def _fleet(request: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in request.items() if key not in {*_IGNORED, "LaunchTemplateConfigs"}}
    found: dict[str, Any] = _normal(rest)
    return found


def _pools(request: Mapping[str, Any], templates: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for config in request["LaunchTemplateConfigs"]:
        template = templates[config["LaunchTemplateSpecification"]["LaunchTemplateName"]]
        made_of = _normal({key: value for key, value in template.items() if key not in _IGNORED})
        for override in config["Overrides"]:
            key = (override["InstanceType"], override["AvailabilityZone"])
            found[key] = {"override": _normal(override), "template": made_of}
    return found


def _normal(value: Any) -> Any:
    """Bring a request into one form: no nulls or empty texts, tags as mappings, user data as its reader has it."""
    if isinstance(value, Mapping):
        if isinstance(value.get("TagSpecifications"), list):
            tags = {
                each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]}
                for each in value["TagSpecifications"]
            }
            value = {**value, "TagSpecifications": tags}
        if value.get("UserData"):
            value = {**value, "UserData": _user_data(value["UserData"])}
        inner = {key: _normal(each) for key, each in value.items() if key not in _IGNORED}
        return {key: each for key, each in inner.items() if each not in (None, "", [], {})}
    if isinstance(value, list):
        return [_normal(each) for each in value]
    return value


def _user_data(encoded: str) -> Any:
    """Read user data as what boots the node reads it: parts of MIME, YAML, TOML, else lines."""
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return encoded
    if text.startswith("MIME-Version"):
        parts = message_from_string(text).walk()
        return [_part(each) for each in parts if not each.is_multipart()]
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return [line.strip() for line in text.splitlines() if line.strip()]


def _part(part: Message) -> Any:
    content = str(part.get_payload())
    if part.get_content_type() == "application/node.eks.aws":
        return yaml.safe_load(content)
    return {part.get_content_type(): content.strip()}


def _documents(name: str, where: str, go: Any, ours: Any) -> Iterator[Difference | None]:
    if isinstance(go, Mapping) and isinstance(ours, Mapping):
        for key in sorted(go.keys() | ours.keys()):
            yield from _documents(f"{name}.{key}", where, go.get(key), ours.get(key))
    elif isinstance(go, list) and isinstance(ours, list) and len(go) == len(ours):
        for one, other in zip(go, ours, strict=True):
            yield from _documents(f"{name}[]", where, one, other)
    else:
        yield _compared(name, where, go, ours)


def error_differences(
    case: Mapping[str, str], go: Mapping[str, Any], ours: Mapping[str, Any]
) -> Iterator[Difference | None]:
    """Compare what both make of one error."""
    where = f"{case['code']}: {case['message']}" if case["message"] else case["code"]
    for key, mine in ours.items():
        yield _compared(f"error.{key}", where, go[key], mine)


def hash_differences(
    case: str, go: Mapping[str, str], ours: Mapping[str, str]
) -> Iterator[Difference | None]:
    """Compare which changes of a node class each side's hash notices; both hashes are by the name of the change."""
    for name in go:
        if name != "nothing":
            noticed = [each[name] != each["nothing"] for each in (go, ours)]
            yield _compared(f"hash.{name}", case, *noticed)
    for name, twin in ((name, name.removesuffix(end)) for name in go for end in _TWINS if name.endswith(end)):
        apart = [each[name] != each[twin] for each in (go, ours)]
        yield _compared(f"hash.{name} apart", case, *apart)


_TWINS: Final = (" written otherwise", " in another order", " at its default")


def _compared(name: str, where: str, go: Any, ours: Any) -> Difference | None:
    if go == ours or _equal_numbers(go, ours):
        return None
    return Difference(name, where, go, ours)


def _equal_numbers(go: Any, ours: Any) -> bool:
    if isinstance(go, bool) or isinstance(ours, bool):
        return False
    return isinstance(go, int | float) and isinstance(ours, int | float) and abs(go - ours) <= _ROUNDING
