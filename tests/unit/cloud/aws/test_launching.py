# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from karpenter.api import labels
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.api import AwsError, AwsUnreachableError
from karpenter.cloud.aws.fleet import CLAIM_UID_TAG, LAUNCH_TAG, Launched
from karpenter.cloud.aws.placementgroups import FoundPlacementGroup
from karpenter.cloud.aws.unavailable import SubnetOut
from karpenter.cloud.errors import (
    ATTEMPT_SPENT,
    InsufficientCapacityError,
    LaunchError,
    LaunchPendingError,
    NodeClassNotReadyError,
)
from karpenter.cloud.protocol import next_attempt
from tests.unit.cloud.aws.builders import ZONES, claim, kind, node_class, offering
from tests.unit.cloud.aws.fakes import aws_error
from tests.unit.cloud.aws.smallec2 import MemoryJournal, Stand


def _claims(count: int) -> list[NodeClaim]:
    return [claim(f"u{n:03d}") for n in range(count)]


async def test_without_a_journal_every_claim_has_a_request_and_tags_of_its_own() -> None:
    stand = Stand()

    first, second = await stand.launch(*_claims(2))

    assert {first.instance_id, second.instance_id} == {"i-0000", "i-0001"}
    assert [each["TargetCapacitySpecification"]["TotalTargetCapacity"] for each in stand.fleets] == [1, 1]
    tags = {each["Key"]: each["Value"] for each in stand.fleets[0]["TagSpecifications"][0]["Tags"]}
    assert tags[CLAIM_UID_TAG] == "u000"
    assert tags[labels.NODECLAIM_TAG] == "claim-u000"
    assert tags[LAUNCH_TAG] == stand.fleets[0]["ClientToken"]
    assert len(stand.ec2.named("CreateLaunchTemplate")) == 1


async def test_with_a_journal_claims_that_want_the_same_share_a_request_written_down_before() -> None:
    journal = MemoryJournal()
    stand = Stand(journal=journal)

    found = await stand.launch(*_claims(3), claim("other", requests={"cpu": "2"}))

    assert len({each.instance_id for each in found}) == 4
    assert sorted(each["TargetCapacitySpecification"]["TotalTargetCapacity"] for each in stand.fleets) == [
        1,
        3,
    ]
    intents = [each for each in journal.written if each.assigned is None]
    assert sorted(len(each.members) for each in intents) == [1, 3]
    assert all(each.assigned is not None for each in journal.intents.values())


def _of_types(uid: str, cpu: str, *types: str) -> NodeClaim:
    """A claim for one of some types, with pods of a size."""
    return claim(uid, requirements={labels.INSTANCE_TYPE: types}, requests={"cpu": cpu, "pods": cpu})


async def test_claims_of_the_same_types_share_a_request_whatever_their_pods_ask_for() -> None:
    stand = Stand(journal=MemoryJournal())

    await stand.launch(_of_types("a", "1", "m5.large"), _of_types("b", "2", "m5.large"))

    assert [each["TargetCapacitySpecification"]["TotalTargetCapacity"] for each in stand.fleets] == [2]


async def test_claims_that_would_be_sold_different_types_do_not_share_and_most_pods_go_first() -> None:
    stand = Stand(kind("m5.large", price=0.1), kind("m5.4xlarge", price=0.4, cpu=16), journal=MemoryJournal())
    both = ("m5.large", "m5.4xlarge")

    small, large, _ = await stand.launch(
        _of_types("a", "1", *both), _of_types("b", "9", *both), _of_types("c", "1", *both)
    )

    assert (small.instance_type, large.instance_type) == ("m5.large", "m5.4xlarge")
    assert [each["TargetCapacitySpecification"]["TotalTargetCapacity"] for each in stand.fleets] == [1, 2]


async def test_a_claim_does_not_wait_for_a_request_that_ec2_holds_up() -> None:
    stand = Stand(journal=MemoryJournal())
    held = asyncio.Event()
    send = stand.launcher._send

    async def slow(prepared: Any) -> Any:
        if prepared.request["TargetCapacitySpecification"]["TotalTargetCapacity"] == 2:
            await held.wait()
        return await send(prepared)

    stand.launcher._send = slow  # type: ignore[method-assign]
    claims = [*_claims(2), claim("other", requests={"cpu": "2"})]

    asked = [asyncio.ensure_future(stand.launcher.launch(each, node_class())) for each in claims]
    await stand.clock.advance(2)
    early = [each.done() for each in asked]
    held.set()
    await stand.clock.advance(2)

    assert early == [False, False, True]
    assert len({(await each).instance_id for each in asked}) == 3


async def test_a_claim_that_asks_again_gets_the_same_instance_without_another_request() -> None:
    stand = Stand()

    (first,) = await stand.launch(claim())
    (again,) = await stand.launch(claim())

    assert again == first
    assert len(stand.fleets) == 1


async def test_a_claim_that_asks_while_its_launch_is_under_way_joins_it() -> None:
    stand = Stand(journal=MemoryJournal())

    first, second = await stand.launch(claim(), claim())

    assert first == second
    assert len(stand.ec2.launched) == 1


async def test_who_stops_waiting_does_not_stop_the_launch() -> None:
    stand = Stand()
    impatient = asyncio.create_task(stand.launcher.launch(claim(), node_class()))
    await stand.clock.settle()

    impatient.cancel()
    (found,) = await stand.launch(claim())

    assert found.instance_id == "i-0000"
    assert len(stand.fleets) == 1


async def test_a_shortage_is_remembered_for_the_offering_and_the_attempt_is_spent() -> None:
    stand = Stand()
    stand.ec2.room = 0

    (short,) = await stand.launch(claim())
    is_out = stand.unavailable.is_out(labels.ON_DEMAND, "m5.large", ZONES[0])
    (spent,) = await stand.launch(claim())
    stand.ec2.room = None
    (next_one,) = await stand.launch(claim(annotations=next_attempt(claim())))

    assert isinstance(short, InsufficientCapacityError)
    assert is_out
    assert isinstance(spent, LaunchError)
    assert spent.reason == ATTEMPT_SPENT
    assert next_one.instance_id == "i-0000"
    assert len(stand.fleets) == 2


async def test_of_a_partial_fleet_the_first_claims_get_the_instances() -> None:
    stand = Stand(journal=MemoryJournal())
    stand.ec2.room = 2

    first, second, third = await stand.launch(*_claims(3))

    assert (first.instance_id, second.instance_id) == ("i-0000", "i-0001")
    assert isinstance(third, InsufficientCapacityError)


async def test_more_instances_than_asked_for_are_ended() -> None:
    stand = Stand()
    stand.ec2.surplus = 1

    (found,) = await stand.launch(claim())

    assert found.instance_id == "i-0000"
    assert stand.ec2.named("TerminateInstances") == [{"InstanceIds": ["i-0001"]}]


async def test_one_lot_in_trouble_does_not_fail_the_others() -> None:
    stand = Stand()
    stand.ec2.faults = [aws_error("UnauthorizedOperation"), None]

    refused, launched = await stand.launch(*_claims(2))

    assert isinstance(refused, AwsError)
    assert isinstance(launched, Launched)


async def test_a_claim_that_nothing_fits_is_refused_before_anything_is_asked() -> None:
    stand = Stand()

    (refused,) = await stand.launch(claim(requests={"cpu": "500"}))

    assert isinstance(refused, InsufficientCapacityError)
    assert stand.ec2.calls == []


async def test_addresses_are_given_back_whatever_happens() -> None:
    stand = Stand()
    stand.ec2.answers = {**stand.ec2.answers, "CreateLaunchTemplate": aws_error("InvalidParameterValue")}

    (refused,) = await stand.launch(claim())

    assert isinstance(refused, AwsError)
    assert stand.addresses.free("subnet-a") == stand.addresses.free("subnet-b") == 500


async def test_addresses_of_the_used_subnet_stay_set_aside() -> None:
    stand = Stand()

    await stand.launch(claim())

    assert stand.addresses.free("subnet-a") == 500 - 29
    assert stand.addresses.free("subnet-b") == 500


async def test_without_a_subnet_in_the_right_zone_the_claim_is_short_of_addresses() -> None:
    stand = Stand()
    for zone in ZONES:
        stand.unavailable.mark(SubnetOut(f"subnet-{zone[-1]}"))

    (refused,) = await stand.launch(claim())

    assert isinstance(refused, InsufficientCapacityError)
    assert "free addresses" in refused.message


async def test_a_template_that_ec2_does_not_know_is_made_again_once() -> None:
    stand = Stand()
    missing = aws_error("InvalidLaunchTemplateName.NotFoundException")
    stand.ec2.faults = [missing]
    (found,) = await stand.launch(claim())
    stand.ec2.faults = [missing, missing]

    (refused,) = await stand.launch(claim("u2"))

    assert isinstance(found, Launched)
    assert isinstance(refused, AwsError)
    assert len(stand.ec2.named("CreateLaunchTemplate")) == 3


async def test_templates_that_single_offerings_miss_are_forgotten() -> None:
    stand = Stand()
    stand.ec2.faults = [{"Errors": [{"ErrorCode": "InvalidLaunchTemplateId.NotFound"}]}]

    (refused,) = await stand.launch(claim())
    await stand.launch(claim("u2"))

    assert isinstance(refused, LaunchError)
    assert refused.reason == "LaunchTemplateNotFound"
    assert len(stand.ec2.named("CreateLaunchTemplate")) == 2


async def test_a_lost_reply_is_replayed_from_memory_and_launches_nothing_more() -> None:
    journal = MemoryJournal()
    stand = Stand(journal=journal)
    stand.ec2.lost_replies = 1

    lost = await stand.launch(*_claims(2))
    found = await stand.launch(*_claims(2))

    assert all(isinstance(each, AwsUnreachableError) for each in lost)
    assert [each.instance_id for each in found] == ["i-0000", "i-0001"]
    assert len(stand.ec2.launched) == 2


async def test_after_a_crash_the_journal_gives_each_claim_its_instance() -> None:
    stand = Stand(journal=MemoryJournal())
    stand.ec2.lost_replies = 1
    await stand.launch(*_claims(2))

    stand.restart()
    stand.types = (kind("m7.large"),)
    found = await stand.launch(*_claims(2))
    stand.restart()
    again = await stand.launch(*_claims(2))

    assert [each.instance_id for each in found] == ["i-0000", "i-0001"]
    assert again == found
    assert len(stand.ec2.launched) == 2


async def test_an_intent_that_was_never_sent_is_carried_out_after_a_crash() -> None:
    journal = MemoryJournal()
    stand = Stand(journal=journal)
    stand.ec2.faults = [AwsUnreachableError("ec2", "CreateFleet", "no route")]
    await stand.launch(*_claims(2))
    unsent = len(stand.ec2.launched)

    stand.restart()
    found = await stand.launch(*_claims(2))

    assert unsent == 0
    assert {each.instance_id for each in found} == {"i-0000", "i-0001"}
    assert len(stand.ec2.launched) == 2


@pytest.mark.parametrize(
    ("key", "problem"),
    [(labels.EKS_CLUSTER_NAME_TAG, "not for cluster"), (labels.EC2NODECLASS_TAG, "not for node class")],
)
async def test_an_intent_that_is_not_ours_is_set_aside_and_its_claim_launched_as_if_it_were_not_there(
    key: str, problem: str
) -> None:
    journal = MemoryJournal()
    stand = Stand(journal=journal)
    stand.ec2.faults = [AwsUnreachableError("ec2", "CreateFleet", "no route")]
    await stand.launch(*_claims(2))
    [left] = journal.intents.values()
    for tag in next(each["Tags"] for each in left.request["TagSpecifications"]):
        tag["Value"] = "foreign" if tag["Key"] == key else tag["Value"]

    stand.restart()
    found = await stand.launch(*_claims(2))

    assert problem in journal.aside[left.token]
    assert {each.instance_id for each in found} == {"i-0000", "i-0001"}
    assert all(
        {"Key": key, "Value": "foreign"} not in call["TagSpecifications"][0]["Tags"]
        for call in stand.ec2.named("CreateFleet")[1:]
    )


async def test_an_intent_that_ec2_refuses_is_withdrawn() -> None:
    journal = MemoryJournal()
    stand = Stand(journal=journal)
    stand.ec2.faults = [aws_error("UnauthorizedOperation")]

    (refused,) = await stand.launch(claim())
    left = dict(journal.intents)
    (found,) = await stand.launch(claim())

    assert isinstance(refused, AwsError)
    assert left == {}
    assert isinstance(found, Launched)


async def test_trouble_of_ec2_itself_leaves_the_intent_open() -> None:
    journal = MemoryJournal()
    stand = Stand(journal=journal)
    stand.ec2.faults = [aws_error("InternalError", status=500)]

    (failed,) = await stand.launch(claim())
    (found,) = await stand.launch(claim())

    assert isinstance(failed, AwsError)
    assert isinstance(found, Launched)
    assert len(stand.ec2.launched) == 1


async def test_an_old_intent_is_looked_up_and_not_replayed() -> None:
    journal = MemoryJournal()
    stand = Stand(journal=journal)
    stand.ec2.lost_replies = 1
    await stand.launch(*_claims(2))
    await stand.clock.advance(3600)

    stand.restart()
    found = await stand.launch(*_claims(2))

    assert [each.instance_id for each in found] == ["i-0000", "i-0001"]
    assert len(stand.fleets) == 1


async def test_an_old_intent_that_lists_do_not_show_is_waited_for_and_then_spent() -> None:
    journal = MemoryJournal()
    stand = Stand(journal=journal)
    stand.ec2.faults = [AwsUnreachableError("ec2", "CreateFleet", "no route")]
    await stand.launch(claim())
    await stand.clock.advance(3600)
    stand.restart()

    (pending,) = await stand.launch(claim())
    await stand.clock.advance(60)
    (spent,) = await stand.launch(claim())

    assert isinstance(pending, LaunchPendingError)
    assert isinstance(spent, LaunchError)
    assert spent.reason == ATTEMPT_SPENT
    assert stand.ec2.launched == []


async def test_a_replay_that_ec2_refuses_is_looked_up() -> None:
    stand = Stand(journal=MemoryJournal())
    stand.ec2.lost_replies = 1
    await stand.launch(claim())
    stand.ec2.faults = [aws_error("InvalidLaunchTemplateName.NotFoundException")]

    (found,) = await stand.launch(claim())

    assert found.instance_id == "i-0000"


async def test_without_a_journal_a_changed_request_under_a_used_token_is_looked_for() -> None:
    stand = Stand()
    stand.ec2.lost_replies = 1
    await stand.launch(claim())
    stand.restart()
    stand.types = (kind("c5.large", price=0.05),)
    stand.ec2.visible = False

    (pending,) = await stand.launch(claim())
    stand.ec2.visible = True
    (found,) = await stand.launch(claim())

    assert isinstance(pending, LaunchPendingError)
    assert pending.retry_after_s > 0
    assert found.instance_id == "i-0000"
    assert len(stand.ec2.launched) == 1


async def test_a_used_token_without_any_instance_is_spent_after_the_lists_had_time() -> None:
    stand = Stand()
    stand.ec2.room = 0
    await stand.launch(claim())
    stand.restart()
    stand.types = (kind("c5.large"),)

    (pending,) = await stand.launch(claim())
    await stand.clock.advance(60)
    (spent,) = await stand.launch(claim())

    assert isinstance(pending, LaunchPendingError)
    assert isinstance(spent, LaunchError)
    assert spent.reason == ATTEMPT_SPENT


async def test_the_journal_is_tidied_now_and_then() -> None:
    journal = MemoryJournal()
    stand = Stand(journal=journal)
    await stand.launch(claim("old"))
    (token,) = journal.intents
    journal.intents[token] = replace(
        journal.intents[token], written_at=stand.clock.now() - timedelta(hours=25)
    )
    unanswered = replace(journal.intents[token], token="nobody-asks", members=(("gone", 1),), assigned=None)
    journal.intents[unanswered.token] = unanswered

    await stand.launch(claim("soon"))
    before = len(journal.intents)
    await stand.clock.advance(601)
    await stand.launch(claim("later"))

    assert before == 3
    assert token not in journal.intents
    assert unanswered.token not in journal.intents
    assert len(journal.intents) == 2


async def test_garbage_collection_learns_whose_an_instance_may_be() -> None:
    stand = Stand(journal=MemoryJournal())
    stand.ec2.lost_replies = 1
    await stand.launch(*_claims(2))
    token = stand.fleets[0]["ClientToken"]

    still_open = stand.launcher.claims_of("i-0000", {LAUNCH_TAG: token})
    await stand.launch(*_claims(2))

    assert still_open == {"u000", "u001"}
    assert stand.launcher.claims_of("i-0000", {LAUNCH_TAG: token}) == {"u000"}
    assert stand.launcher.claims_of("i-9", {CLAIM_UID_TAG: "u7"}) == {"u7"}
    assert stand.launcher.claims_of("i-9", {}) == frozenset()


async def test_reservations_are_told_what_was_taken_and_what_is_full() -> None:
    told: list[tuple[str, bool]] = []
    reserved = offering(ZONES[0], labels.RESERVED, 1e-8, reservation="cr-1", room=5)
    stand = Stand(
        kind("m5.large", reserved),
        reservation_used=lambda reservation_id, is_full: told.append((reservation_id, is_full)),
    )
    wish = {labels.CAPACITY_TYPE: (labels.RESERVED,)}

    (found,) = await stand.launch(claim(requirements=wish))
    stand.ec2.room = 0
    await stand.launch(claim("u2", requirements=wish))

    assert found.reservation_id == "cr-1"
    assert told == [("cr-1", False), ("cr-1", True)]


@pytest.mark.parametrize(
    ("code", "full"),
    [
        ("ReservationCapacityExceeded", [("cr-1", True)]),
        ("InsufficientInstanceCapacity", [("cr-1", True)]),
        ("InsufficientFreeAddressesInSubnet", []),
        ("UnauthorizedOperation", []),
        ("RequestLimitExceeded", []),
    ],
)
async def test_only_the_reservation_that_ec2_calls_used_up_is_taken_for_full(
    code: str, full: list[tuple[str, bool]]
) -> None:
    told: list[tuple[str, bool]] = []
    stand = Stand(
        kind("m5.large", offering(ZONES[0], labels.RESERVED, 1e-8, reservation="cr-1", room=5)),
        kind("c5.large", offering(ZONES[0], labels.RESERVED, 1e-8, reservation="cr-2", room=5)),
        reservation_used=lambda reservation_id, is_full: told.append((reservation_id, is_full)),
    )
    override = {"InstanceType": "m5.large", "AvailabilityZone": ZONES[0], "SubnetId": "subnet-a"}
    error = {"ErrorCode": code, "LaunchTemplateAndOverrides": {"Overrides": override}}
    stand.ec2.faults = [{"Instances": [], "Errors": [error]}]

    await stand.launch(claim(requirements={labels.CAPACITY_TYPE: (labels.RESERVED,)}))

    assert told == full


async def test_a_shortage_in_one_partition_leaves_the_others_of_the_group() -> None:
    partitions = [offering(more={labels.PLACEMENT_GROUP_PARTITION: number}) for number in ("1", "2")]
    group = FoundPlacementGroup("pg-1", "racks", "partition", 2)
    stand = Stand(kind("m5.large", *partitions), group_of=lambda _: group)
    stand.ec2.room = 0

    await stand.launch(claim(requirements={labels.PLACEMENT_GROUP_PARTITION: ("1",)}))

    def is_out(partition: str) -> bool:
        return stand.unavailable.is_out(
            labels.ON_DEMAND, "m5.large", ZONES[0], group="pg-1", partition=partition
        )

    assert (is_out("1"), is_out("2")) == (True, False)


async def test_an_instance_that_an_earlier_launch_brought_keeps_tenancy_and_partition() -> None:
    dedicated = {labels.INSTANCE_TENANCY: "dedicated", labels.PLACEMENT_GROUP_PARTITION: "2"}
    group = FoundPlacementGroup("pg-1", "racks", "partition", 2)
    journal = MemoryJournal()
    stand = Stand(kind("m5.large", offering(more=dedicated)), group_of=lambda _: group, journal=journal)
    stand.ec2.lost_replies = 1
    wanted = claim(
        requirements={labels.INSTANCE_TENANCY: ("dedicated",), labels.PLACEMENT_GROUP_PARTITION: ("2",)}
    )

    await stand.launch(wanted)
    stand.restart()
    (found,) = await stand.launch(wanted)

    assert (found.tenancy, found.partition) == ("dedicated", "2")


async def test_a_narrow_fall_back_is_warned_of_and_context_is_passed_on() -> None:
    warnings: list[str] = []
    no_spot = offering(ZONES[0], labels.SPOT, 0.05, available=False)
    stand = Stand(kind("m5.large", no_spot, offering(ZONES[0])), warn=warnings.append)
    both = {labels.CAPACITY_TYPE: (labels.SPOT, labels.ON_DEMAND)}

    await stand.launch(claim(requirements=both), into=node_class(spec={"context": "c-1"}))
    relaxed = claim("u2", requirements=both, annotations={labels.MIN_VALUES_RELAXED: "true"})
    await stand.launch(relaxed, into=node_class(spec={"context": "c-1"}))

    assert "falling back to on-demand" in warnings[0]
    assert stand.fleets[0]["Context"] == "c-1"
    assert "Context" not in stand.fleets[1]


async def test_a_node_class_without_image_is_not_ready() -> None:
    stand = Stand()

    (refused,) = await stand.launch(claim(), into=node_class(status={"amis": ()}))

    assert isinstance(refused, NodeClassNotReadyError)


async def test_closing_gives_up_on_what_was_not_sent() -> None:
    stand = Stand()
    waiting = asyncio.create_task(stand.launcher.launch(claim(), node_class()))
    await stand.clock.settle()

    await stand.launcher.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert stand.fleets == []


async def test_a_launch_that_was_begun_or_answered_is_known_to_the_next_process() -> None:
    stand = Stand(journal=MemoryJournal())
    stand.ec2.lost_replies = 1
    await stand.launch(claim("begun"))
    stand.restart()
    await stand.launch(claim("answered"))
    stand.restart()

    known = [await stand.launcher.knows(claim(uid)) for uid in ("begun", "answered", "new")]

    assert known == [True, True, False]


async def test_a_replica_that_leads_again_reads_what_another_launched_meanwhile() -> None:
    stand = Stand(journal=MemoryJournal())
    await stand.launch(claim("before"))
    first = stand.launcher
    stand.restart()
    launched = await stand.launch(*_claims(2))

    stand.launcher = first
    first.forget()
    found = await stand.launch(_claims(2)[1])

    assert found == [launched[1]]
    assert len(stand.ec2.launched) == 3


@pytest.mark.parametrize("with_journal", [True, False])
async def test_a_claim_whose_node_class_changes_while_it_is_launched_is_launched_once(
    *, with_journal: bool
) -> None:
    stand = Stand(journal=MemoryJournal() if with_journal else None)
    changed = node_class(generation=2, spec={"tags": {"team": "new"}})

    first = asyncio.ensure_future(stand.launcher.launch(claim(), node_class()))
    second = asyncio.ensure_future(stand.launcher.launch(claim(), changed))
    await stand.clock.advance(5)
    found = await asyncio.gather(first, second)

    assert found[0] == found[1]
    assert len(stand.ec2.launched) == 1
    assert len(stand.ec2.named("CreateFleet")) == 1
