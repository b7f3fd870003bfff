# SPDX-License-Identifier: Apache-2.0
"""The status of node classes over real HTTP: what is found, what drifts, what is cleaned up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import boto3
from msgspec.structs import replace

from karpenter.api import conditions, labels
from karpenter.api.ec2nodeclass import (
    CapacityReservationSelectorTerm,
    EC2NodeClass,
    PlacementGroupSelector,
    SubnetSelectorTerm,
)
from karpenter.api.nodeclaim import NodeClaim, NodeClaimStatus
from karpenter.cloud.aws.drift import Drift
from karpenter.cloud.aws.instances import Instance, Instances, parse_provider_id
from karpenter.cloud.aws.profiles import InstanceProfiles
from karpenter.cloud.aws.zonalshift import ShiftChange, ZonalShifts, cluster_arn
from karpenter.kit.clock import FakeClock, SystemClock
from tests.component.aws.classes import Desk, condition, desk_for, is_ready, written_class
from tests.component.aws.conftest import Connect
from tests.component.aws.stand import CLUSTER, Model, Remembering, simple_claim


async def settled(desk: Desk, written: EC2NodeClass) -> EC2NodeClass:
    """A class with its status and annotations written back, as its controller does."""
    resolved = await desk.resolve(written)
    metadata = replace(written.metadata, annotations=dict(resolved.annotations))
    return replace(written, metadata=metadata, status=resolved.status)


async def test_a_class_as_people_write_it_is_found_validated_and_ready_and_nothing_is_launched(
    model: Model, aws: Remembering
) -> None:
    desk = await desk_for(aws)

    resolved = await desk.resolve(written_class())

    assert is_ready(resolved)
    assert resolved.notices == ()
    assert sorted(each.zone for each in resolved.status.subnets) == ["us-west-2a", "us-west-2b", "us-west-2c"]
    assert [each.name for each in resolved.status.security_groups] == [
        f"eks-cluster-sg-{CLUSTER}",
        f"{CLUSTER}-ClusterSharedNodeSecurityGroup",
    ]
    assert {each.requirements[0].key for each in resolved.status.amis} == {labels.ARCH}
    profile = (
        await aws.call("iam", "GetInstanceProfile", InstanceProfileName=resolved.status.instance_profile)
    )["InstanceProfile"]
    assert profile["Path"] == f"/karpenter/us-west-2/{CLUSTER}/uid-default/"
    assert [each["RoleName"] for each in profile["Roles"]] == [f"KarpenterNodeRole-{CLUSTER}"]
    assert model.instances() == []


async def test_a_second_look_makes_no_changing_call_and_no_change(model: Model, aws: Remembering) -> None:
    desk = await desk_for(aws)
    first = await settled(desk, written_class())
    model.do("calls/clear")

    again = await desk.resolve(first)

    assert again.status == first.status
    assert model.see("calls?mutating=1")["calls"] == []


async def test_nodes_launch_from_a_status_that_was_found_and_have_not_drifted(
    aws: Remembering, connected: Connect
) -> None:
    desk = await desk_for(aws)
    node_class = await settled(desk, written_class())
    provider = await connected()

    machine = await provider.create(simple_claim(1), node_class)
    claim = NodeClaim(
        metadata=replace(simple_claim(1).metadata, annotations=dict(machine.annotations)),
        spec=simple_claim(1).spec,
        status=NodeClaimStatus(provider_id=machine.provider_id),
    )
    drift, instance = await drift_of(desk, aws, machine.provider_id)

    assert machine.annotations[labels.INSTANCE_PROFILE_NAME] == node_class.status.instance_profile
    assert await drift(claim, node_class, instance) == ""


async def drift_of(desk: Desk, aws: Remembering, provider_id: str) -> tuple[Drift, Instance]:
    """The check, and the instance as EC2 has it."""
    instances = Instances(aws, SystemClock(), cluster_name=CLUSTER)

    async def reread(instance_id: str) -> Instance | None:
        return await instances.get(instance_id, cached=False)

    found = await reread(parse_provider_id(provider_id))
    assert found is not None

    def type_labels(name: str, node_class: EC2NodeClass) -> Mapping[str, str] | None:
        kind = desk.types.get(name, node_class)
        return kind.labels if kind is not None else None

    drift = Drift(type_labels=type_labels, group_of=desk.parts.placement_groups.group_of, reread=reread)
    return drift, found


async def test_a_new_release_a_lost_subnet_and_a_changed_class_are_drift(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    desk = await desk_for(aws)
    node_class = await settled(desk, written_class())
    provider = await connected()
    machine = await provider.create(simple_claim(1), node_class)
    claim = NodeClaim(
        metadata=replace(simple_claim(1).metadata, annotations=dict(machine.annotations)),
        spec=simple_claim(1).spec,
        status=NodeClaimStatus(provider_id=machine.provider_id),
    )
    drift, instance = await drift_of(desk, aws, machine.provider_id)

    model.do("clock", {"advanceSeconds": 86400})
    model.do("release")
    released = await settled(await desk_for(aws), written_class())
    other = next(each.id for each in node_class.status.subnets if each.id != instance.subnet_id)
    moved = await settled(
        await desk_for(aws, dry_runs=False),
        written_class(subnet_selector_terms=(SubnetSelectorTerm(id=other),)),
    )
    moved = replace(moved, status=replace(moved.status, amis=node_class.status.amis))
    changed = await settled(await desk_for(aws, dry_runs=False), written_class(tags={"team": "b"}))

    assert await drift(claim, released, instance) == "AMIDrift"
    assert await drift(claim, moved, instance) == "SubnetDrift"
    assert await drift(claim, changed, instance) == "NodeClassDrift"


async def test_reservations_are_found_with_their_room_and_another_accounts_is_told(
    model: Model, aws: Remembering
) -> None:
    row = {"instanceType": "m5.large", "zone": "us-west-2a", "count": 4, "tags": {"team": "a"}}
    model.do("reservations", [{**row, "id": "cr-1"}, {**row, "id": "cr-2", "owner": "999999999999"}])
    desk = await desk_for(aws)
    terms = (
        CapacityReservationSelectorTerm(tags={"team": "a"}),
        CapacityReservationSelectorTerm(id="cr-0dead"),
    )

    resolved = await desk.resolve(written_class(capacity_reservation_selector_terms=terms))

    assert is_ready(resolved)
    assert [each.id for each in resolved.status.capacity_reservations] == ["cr-1", "cr-2"]
    assert desk.parts.reservations.counts.room("cr-1") == 4
    (notice,) = resolved.notices
    assert "cr-2 belongs to account 999999999999" in notice.message
    assert "999999999999" in condition(resolved, conditions.CAPACITY_RESERVATIONS_READY).message


async def test_a_placement_group_is_found_by_name_and_passes_the_dry_runs(
    model: Model, aws: Remembering
) -> None:
    boto3.client("ec2", region_name="us-west-2").create_placement_group(
        GroupName="spread", Strategy="partition", PartitionCount=3
    )
    desk = await desk_for(aws)
    wanted = written_class(placement_group_selector=PlacementGroupSelector(name="spread"))

    resolved = await desk.resolve(wanted)

    assert is_ready(resolved)
    group = desk.parts.placement_groups.group_of(wanted)
    assert group is not None
    assert (group.strategy, group.partition_count) == ("partition", 3)
    assert model.calls("RunInstances")


async def test_a_shift_away_from_a_zone_starts_and_ends(model: Model, aws: Remembering) -> None:
    shifts = ZonalShifts(aws, SystemClock(), arn=await cluster_arn(aws, CLUSTER))
    assert not await shifts.refresh()

    model.do("zonalShift", {"zone": "us-west-2b"})
    started = await shifts.refresh()
    (zone_id,) = shifts.shifted_zone_ids()
    model.do("zonalShift", {"zone": "us-west-2b", "minutes": 0})

    assert started == ShiftChange(started=frozenset({zone_id}))
    assert await shifts.refresh() == ShiftChange(cleared=frozenset({zone_id}))


async def test_with_a_class_go_its_profile_and_templates(model: Model, aws: Remembering) -> None:
    desk = await desk_for(aws)
    node_class = await settled(desk, written_class())
    await settled(desk, written_class("other"))

    gone = await desk.status.cleanup(node_class)

    assert (gone.profiles, gone.templates) == (1, 1)
    left = (await aws.call("iam", "ListInstanceProfiles", PathPrefix="/karpenter/"))["InstanceProfiles"]
    assert [each["Path"].split("/")[-2] for each in left] == ["uid-other"]
    templates = (await aws.call("ec2", "DescribeLaunchTemplates"))["LaunchTemplates"]
    assert len(templates) == 1
    assert (await desk.status.cleanup(node_class)).profiles == 0
    assert model.calls("DeleteInstanceProfile")


async def test_a_profile_that_no_class_names_any_more_is_swept_after_an_hour(
    model: Model, aws: Remembering
) -> None:
    desk = await desk_for(aws, dry_runs=False)
    old = (await desk.resolve(written_class())).status.instance_profile
    kept = (await desk.resolve(written_class("other"))).status.instance_profile
    later = InstanceProfiles(aws, FakeClock(datetime.now(UTC) + timedelta(minutes=61)), cluster_name=CLUSTER)

    assert await desk.parts.profiles.sweep({kept}) == ()
    assert await later.sweep({kept}) == (old,)
    assert [each["parameters"]["InstanceProfileName"] for each in model.calls("DeleteInstanceProfile")] == [
        old
    ]
