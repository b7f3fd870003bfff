# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.ec2nodeclass import CapacityReservation, EC2NodeClass, PlacementGroupSelector
from karpenter.cloud.aws.drift import (
    AMI_DRIFT,
    CAPACITY_RESERVATION_DRIFT,
    NODE_CLASS_DRIFT,
    PLACEMENT_GROUP_DRIFT,
    SECURITY_GROUP_DRIFT,
    SUBNET_DRIFT,
    Drift,
    Drifted,
    first_drift,
)
from karpenter.cloud.aws.instances import Instance
from tests.unit.cloud.aws.builders import claim, node_class

AMD = {labels.ARCH: labels.AMD64}


@dataclass(frozen=True)
class Group:
    id: str = "pg-1"
    strategy: str = "cluster"
    partition_count: int = 0


def instance(**more: Any) -> Instance:
    made = Instance(
        id="i-1",
        instance_type="m5.large",
        zone="us-west-2a",
        state="running",
        image_id="ami-amd64",
        subnet_id="subnet-a",
        security_group_ids=frozenset({"sg-1", "sg-2"}),
        launched_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return replace(made, **more)


def stamped(hash_: str, version: str = "py2") -> dict[str, str]:
    return {labels.EC2NODECLASS_HASH: hash_, labels.EC2NODECLASS_HASH_VERSION: version}


def judged(
    *,
    made: Instance | None = None,
    wanted: EC2NodeClass | None = None,
    annotations: Mapping[str, str] | None = None,
    type_labels: Mapping[str, str] | None = AMD,
    group: Group | None = None,
) -> Drifted | None:
    return first_drift(
        claim(annotations=annotations),
        wanted or node_class(),
        made or instance(),
        type_labels=type_labels,
        group=group,
    )


def reason(**given: Any) -> str:
    found = judged(**given)
    return "" if found is None else found.reason


def test_an_instance_as_its_class_wants_it_has_not_drifted() -> None:
    assert judged() is None


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (stamped("1"), stamped("1"), ""),
        (stamped("1"), stamped("2"), NODE_CLASS_DRIFT),
        (stamped("1"), stamped("2", "v5"), ""),
        (stamped("1"), {}, ""),
        ({}, stamped("1"), ""),
    ],
)
def test_fingerprints_count_only_when_both_are_of_one_version(
    ours: dict[str, str], theirs: dict[str, str], expected: str
) -> None:
    assert reason(wanted=node_class(annotations=ours), annotations=theirs) == expected


def test_another_image_for_its_type_is_drift_and_both_are_named() -> None:
    found = judged(made=instance(image_id="ami-old"))

    assert found is not None
    assert found.reason == AMI_DRIFT
    assert found.message == "i-1 (m5.large) runs image ami-old; now ami-amd64 is chosen for it"


def test_a_type_that_no_image_is_for_any_more_has_drifted() -> None:
    found = judged(type_labels={labels.ARCH: "riscv"})

    assert found is not None
    assert "no image of the class is for it" in found.message


@pytest.mark.parametrize(
    "given",
    [
        {"wanted": node_class(status={"amis": ()})},
        {"made": instance(image_id="")},
        {"made": instance(image_id="ami-old"), "type_labels": None},
        {"wanted": node_class(status={"security_groups": ()})},
        {"made": instance(security_group_ids=frozenset())},
        {"wanted": node_class(status={"subnets": ()})},
        {"made": instance(subnet_id="")},
        {"made": instance(placement_group_id="pg-9", launched_at=None)},
        {
            "wanted": node_class(spec={"placement_group_selector": PlacementGroupSelector(id="pg-1")}),
            "made": instance(placement_group_id="pg-9"),
        },
    ],
)
def test_what_is_not_known_is_never_drift(given: dict[str, Any]) -> None:
    assert reason(**given) == ""


def test_security_groups_are_compared_as_sets() -> None:
    assert reason(made=instance(security_group_ids=frozenset({"sg-1"}))) == SECURITY_GROUP_DRIFT


def test_a_subnet_that_is_not_selected_any_more_is_drift() -> None:
    assert reason(made=instance(subnet_id="subnet-z")) == SUBNET_DRIFT


def reserved(reservation_id: str = "cr-1") -> Instance:
    return instance(capacity_type=labels.RESERVED, reservation_id=reservation_id)


def selecting(reservation_id: str) -> EC2NodeClass:
    found = CapacityReservation(
        id=reservation_id,
        availability_zone="us-west-2a",
        instance_type="m5.large",
        owner_id="111111111111",
        instance_match_criteria="targeted",
    )
    return node_class(status={"capacity_reservations": (found,)})


def test_a_reservation_that_is_not_selected_any_more_is_drift() -> None:
    assert reason(made=reserved(), wanted=selecting("cr-1")) == ""
    assert reason(made=reserved(), wanted=selecting("cr-2")) == CAPACITY_RESERVATION_DRIFT
    assert reason(made=instance(reservation_id="cr-9")) == ""


@pytest.mark.parametrize(("held", "group"), [("pg-9", None), ("", Group()), ("pg-9", Group())])
def test_another_placement_group_than_the_class_has_is_drift(held: str, group: Group | None) -> None:
    wanted = node_class(spec={"placement_group_selector": PlacementGroupSelector(id="pg-1")} if group else {})

    assert reason(made=instance(placement_group_id=held), wanted=wanted, group=group) == PLACEMENT_GROUP_DRIFT


def test_of_several_reasons_the_first_in_order_is_told() -> None:
    made = instance(
        image_id="ami-old",
        security_group_ids=frozenset({"sg-9"}),
        subnet_id="subnet-z",
        capacity_type=labels.RESERVED,
        reservation_id="cr-9",
        placement_group_id="pg-9",
    )
    steps: list[tuple[str, dict[str, Any]]] = [
        (NODE_CLASS_DRIFT, {}),
        (AMI_DRIFT, {"image_id": "ami-amd64"}),
        (SECURITY_GROUP_DRIFT, {"security_group_ids": frozenset({"sg-1", "sg-2"})}),
        (SUBNET_DRIFT, {"subnet_id": "subnet-a"}),
        (CAPACITY_RESERVATION_DRIFT, {"reservation_id": ""}),
        (PLACEMENT_GROUP_DRIFT, {"placement_group_id": ""}),
    ]

    annotations = stamped("2")
    for expected, mended in steps:
        assert (
            reason(made=made, wanted=node_class(annotations=stamped("1")), annotations=annotations)
            == expected
        )
        made, annotations = replace(made, **mended), stamped("1")

    assert reason(made=made, wanted=node_class(annotations=stamped("1")), annotations=annotations) == ""


@pytest.mark.parametrize(
    ("fresh", "expected"),
    [(reserved("cr-1"), CAPACITY_RESERVATION_DRIFT), (instance(), ""), (None, "")],
)
async def test_drift_of_a_reservation_is_believed_only_after_a_second_look(
    fresh: Instance | None, expected: str
) -> None:
    asked: list[str] = []

    async def reread(instance_id: str) -> Instance | None:
        asked.append(instance_id)
        return fresh

    drift = Drift(type_labels=lambda _type, _class: AMD, reread=reread)

    assert await drift(claim(), selecting("cr-2"), reserved("cr-1")) == expected
    assert asked == ["i-1"]


async def test_other_reasons_need_no_second_look() -> None:
    async def reread(_: str) -> Instance | None:
        raise AssertionError

    drift = Drift(type_labels=lambda _type, _class: AMD, reread=reread)

    assert await drift(claim(), node_class(), instance(subnet_id="subnet-z")) == SUBNET_DRIFT
    assert await drift(claim(), node_class(), instance()) == ""
