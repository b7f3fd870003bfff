# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.core.nodes import Taint
from karpenter.api.ec2nodeclass import CPUOptions, EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim, Requirement
from karpenter.cloud.aws.blueprints import Blueprint, blueprints, owner_tags, wish_of
from karpenter.cloud.aws.choice import choose
from karpenter.cloud.errors import LaunchError, NodeClassNotReadyError
from karpenter.model.instancetypes import InstanceType
from tests.unit.cloud.aws.builders import CLUSTER, ZONES, claim, image, kind, node_class, offering


@dataclass(frozen=True)
class Group:
    id: str = "pg-1"
    strategy: str = "partition"
    partition_count: int = 3


def _plans(
    *types: InstanceType, of: NodeClaim | None = None, into: EC2NodeClass | None = None, **options: Any
) -> tuple[Blueprint, ...]:
    wish = wish_of(of or claim(), into or node_class())
    choice = choose(types or (kind(),), wish.requirements, wish.requests)
    return blueprints(choice, wish, CLUSTER, **options)


def test_claims_that_want_the_same_are_equal_and_any_difference_counts() -> None:
    first = wish_of(claim("u1"), node_class())

    assert first == wish_of(claim("u2"), node_class())
    assert first != wish_of(claim("u1", requests={"cpu": "2"}), node_class())
    assert first != wish_of(claim("u1", node_labels={"team": "a"}), node_class())
    assert first != wish_of(claim("u1"), node_class(generation=2))
    assert first != wish_of(claim("u1", annotations={labels.MIN_VALUES_RELAXED: "true"}), node_class())
    assert first.nodepool == "general"


def test_tenancies_follow_the_claim_shared_hardware_first() -> None:
    assert wish_of(claim(), node_class()).tenancies == ("default",)
    asked = claim(requirements={labels.INSTANCE_TENANCY: ("dedicated", "default")})
    assert wish_of(asked, node_class()).tenancies == ("default", "dedicated")


def test_our_tags_win_over_those_of_the_node_class() -> None:
    tags = owner_tags(
        node_class(spec={"tags": {"team": "a", labels.NODEPOOL_TAG: "mine"}}), "demo", "general"
    )

    assert tags == {
        "team": "a",
        "kubernetes.io/cluster/demo": "owned",
        labels.EKS_CLUSTER_NAME_TAG: "demo",
        labels.EC2NODECLASS_TAG: "default",
        labels.NODEPOOL_TAG: "general",
    }


def test_types_share_a_template_as_long_as_nothing_in_it_differs() -> None:
    plans = _plans(
        kind("m5.large", price=0.1),
        kind("c5.large", price=0.2),
        kind("m5.xlarge", price=0.3, pods=58),
        kind("m6g.large", price=0.4, arch=labels.ARM64),
    )

    told = [({offer[0].name for offer in plan.offers}, plan.spec.image_id) for plan in plans]
    assert told == [
        ({"m5.large", "c5.large"}, "ami-amd64"),
        ({"m5.xlarge"}, "ami-amd64"),
        ({"m6g.large"}, "ami-arm64"),
    ]
    assert len(plans[0].offers) == 4


def test_a_template_says_what_the_node_class_and_its_findings_say() -> None:
    into = node_class(
        spec={
            "detailed_monitoring": True,
            "associate_public_ip_address": False,
            "ip_prefix_count": 2,
            "cpu_options": CPUOptions(nested_virtualization="enabled"),
        }
    )

    (plan,) = _plans(into=into, group=Group(), uses_reservations=False)

    spec = plan.spec
    assert spec.security_group_ids == ("sg-1", "sg-2")
    assert spec.instance_profile == "demo_profile"
    assert (spec.detailed_monitoring, spec.public_ip, spec.ip_prefix_count) == (True, False, 2)
    assert spec.nested_virtualization == "enabled"
    assert spec.placement_group_id == "pg-1"
    assert spec.block_devices[0]["DeviceName"] == "/dev/xvda"
    assert not spec.keeps_off_reservations
    assert not spec.enclave
    assert (spec.tenancy, spec.partition, spec.efa_count) == ("", None, 0)


def test_user_data_tells_the_node_its_labels_capacity_type_taints_and_pods() -> None:
    tainted = claim(node_labels={"team": "a"})
    tainted = NodeClaim(
        metadata=tainted.metadata,
        spec=type(tainted.spec)(
            requirements=tainted.spec.requirements,
            node_class_ref=tainted.spec.node_class_ref,
            taints=(Taint(key="dedicated", effect="NoSchedule"),),
            startup_taints=(Taint(key="agent", effect="NoExecute"),),
        ),
    )

    (plan,) = _plans(kind(pods=31), of=tainted)

    text = base64.b64decode(plan.spec.user_data).decode()
    for part in ("team=a", "karpenter.sh/capacity-type=on-demand", "dedicated", "agent", "maxPods: 31"):
        assert part in text


def test_what_an_offering_settles_is_in_its_template() -> None:
    offers = [
        offering(
            ZONES[0], more={labels.INSTANCE_TENANCY: "dedicated", labels.PLACEMENT_GROUP_PARTITION: "2"}
        ),
    ]
    asked = claim(
        requirements={labels.INSTANCE_TENANCY: ("dedicated",), labels.PLACEMENT_GROUP_PARTITION: ("2",)},
        entries=(Requirement(key=labels.NITRO_SANDBOX, operator="In", values=("true",)),),
        requests={"cpu": "1", labels.EFA: "1"},
    )

    (plan,) = _plans(kind("p5.48xlarge", *offers, more_capacity={labels.EFA: 32}), of=asked)

    assert (plan.spec.tenancy, plan.spec.partition, plan.spec.efa_count) == ("dedicated", 2, 32)
    assert plan.spec.enclave


def test_each_reservation_has_a_template_of_its_own() -> None:
    reserved = [
        offering(zone, labels.RESERVED, 1e-8, reservation=f"cr-{zone[-1]}", room=1, kind="interruptible")
        for zone in ZONES
    ]

    plans = _plans(
        kind("m5.large", *reserved), of=claim(requirements={labels.CAPACITY_TYPE: (labels.RESERVED,)})
    )

    assert [plan.spec.reservation_id for plan in plans] == ["cr-a", "cr-b"]
    assert all(plan.spec.interruptible for plan in plans)


def test_types_without_an_image_are_left_out_and_none_left_is_the_node_classs_fault() -> None:
    only_arm = node_class(status={"amis": (image("ami-arm64", labels.ARM64),)})
    arm = kind("m6g.large", arch=labels.ARM64)

    plans = _plans(kind("m5.large"), arm, into=only_arm)
    with pytest.raises(NodeClassNotReadyError, match=r"no image of it runs on m5\.large") as unready:
        _plans(kind("m5.large"), into=only_arm)

    assert [offer[0].name for offer in plans[0].offers] == ["m6g.large", "m6g.large"]
    assert unready.value.reason == "AMINotFound"


def test_user_data_that_cannot_be_made_is_a_launch_error_with_its_reason() -> None:
    with pytest.raises(LaunchError) as refused:
        _plans(into=node_class(spec={"user_data": "#!/bin/sh\n" + "x" * 20_000}))

    assert refused.value.reason == "UserDataSizeLimitExceeded"
