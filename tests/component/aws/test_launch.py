# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

import pytest

from karpenter.api import labels
from karpenter.cloud.aws.api import AwsError, BotoAws
from karpenter.cloud.aws.codes import Kind
from karpenter.cloud.aws.fleet import CLAIM_UID_TAG
from karpenter.cloud.aws.journal import FileJournal
from karpenter.cloud.aws.provider import AwsSettings, connect
from karpenter.cloud.errors import (
    ATTEMPT_SPENT,
    InsufficientCapacityError,
    LaunchError,
    LaunchPendingError,
    NodeClaimNotFoundError,
)
from karpenter.cloud.protocol import next_attempt
from tests.component.aws.conftest import Connect
from tests.component.aws.stand import CLUSTER, JumpingClock, Model, Remembering, default_class, simple_claim


async def test_one_claim_becomes_one_running_instance_with_all_that_its_node_needs(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    provider = await connected()
    claim = simple_claim(1)

    machine = await provider.create(claim, await default_class(aws, tags={"team": "a"}))

    (instance,) = model.living()
    assert machine.provider_id == f"aws:///{instance['zone']}/{instance['id']}"
    assert machine.image_id == instance["image"]
    assert machine.labels[labels.INSTANCE_TYPE] == instance["type"] == "c5.large"
    assert machine.labels[labels.NODEPOOL] == "general"
    assert machine.labels[labels.ZONE_ID].startswith("usw2-az")
    assert machine.allocatable["cpu"] == 1930
    assert machine.annotations[labels.INSTANCE_PROFILE_NAME]
    assert (
        instance["tags"]
        | {
            "team": "a",
            labels.NODEPOOL_TAG: "general",
            labels.NODECLAIM_TAG: claim.metadata.name,
            CLAIM_UID_TAG: claim.metadata.uid,
            labels.EC2NODECLASS_TAG: "default",
            labels.EKS_CLUSTER_NAME_TAG: "sandbox",
            "kubernetes.io/cluster/sandbox": "owned",
        }
        == instance["tags"]
    )


async def test_asking_twice_gives_the_same_machine_also_to_a_process_that_knows_nothing(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    node_class = await default_class(aws)
    first = await (await connected()).create(simple_claim(1), node_class)

    again = await (await connected()).create(simple_claim(1), node_class)

    assert again.provider_id == first.provider_id
    assert again.labels == first.labels
    assert len(model.instances()) == 1


async def test_fifty_claims_become_fifty_machines_and_with_a_journal_one_request(
    model: Model, aws: Remembering, connected: Connect, tmp_path: Path
) -> None:
    provider = await connected(journal=FileJournal(tmp_path))
    node_class = await default_class(aws)

    machines = await asyncio.gather(*(provider.create(simple_claim(n), node_class) for n in range(50)))

    ids = {machine.provider_id for machine in machines}
    assert len(ids) == len(model.living()) == 50
    assert len(model.calls("CreateFleet")) == 1
    assert len(model.calls("CreateLaunchTemplate")) == 1
    assert len(await provider.list()) == 50


async def test_a_machine_is_found_ended_and_gone(model: Model, aws: Remembering, connected: Connect) -> None:
    provider = await connected()
    machine = await provider.create(simple_claim(1), await default_class(aws))

    found = await provider.get(machine.provider_id)
    await provider.delete(machine.provider_id)
    await provider.delete(machine.provider_id)
    ending = await provider.get(machine.provider_id)
    model.do("clock", {"advanceSeconds": 60})

    assert found.is_living
    assert not ending.is_living
    assert len(model.calls("TerminateInstances")) == 1
    with pytest.raises(NodeClaimNotFoundError):
        await provider.delete(machine.provider_id)


async def test_a_dry_pool_is_skipped_at_once_and_tried_again_after_its_wait(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    clock = JumpingClock()
    provider = await connected(clock=clock)
    node_class = await default_class(aws)
    model.do("capacity", [{"instanceType": "c5.large", "count": 0}])

    first = await provider.create(simple_claim(1), node_class)
    second = await provider.create(simple_claim(2), node_class)
    model.do("clear", ["capacity"])
    clock.ahead_s += 181
    third = await provider.create(simple_claim(3), node_class)

    asked = [
        {
            each["InstanceType"]
            for config in call["parameters"]["LaunchTemplateConfigs"]
            for each in config["Overrides"]
        }
        for call in model.calls("CreateFleet")
    ]
    assert first.labels[labels.INSTANCE_TYPE] == second.labels[labels.INSTANCE_TYPE] == "m5.large"
    assert "c5.large" in asked[0]
    assert "c5.large" not in asked[1]
    assert "c5.large" in asked[2]
    assert third.labels[labels.INSTANCE_TYPE] == "c5.large"


async def test_a_claim_that_only_a_dry_pool_could_serve_is_a_shortage_and_delays_no_other(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    provider = await connected()
    node_class = await default_class(aws)
    model.do("capacity", [{"instanceType": "c5.large", "count": 0}])
    dry = simple_claim(1, types=("c5.large",))

    outcomes = await asyncio.gather(
        provider.create(dry, node_class),
        provider.create(simple_claim(2, types=("m5.large",)), node_class),
        return_exceptions=True,
    )

    refused, machine = outcomes
    assert isinstance(refused, InsufficientCapacityError)
    assert {each.instance_type for each in refused.offerings} == {"c5.large"}
    assert not isinstance(machine, BaseException)
    assert len(model.living()) == 1


async def test_an_answered_attempt_is_spent_and_the_next_one_launches(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    provider = await connected()
    node_class = await default_class(aws)
    model.do("capacity", [{"instanceType": "c5.large", "count": 0}])
    claim = simple_claim(1, types=("c5.large",))
    with pytest.raises(InsufficientCapacityError):
        await provider.create(claim, node_class)
    model.do("clear", ["capacity"])

    with pytest.raises(LaunchError) as spent:
        await provider.create(claim, node_class)
    wider = simple_claim(1, types=("m5.large",), annotations=next_attempt(claim))
    machine = await provider.create(wider, node_class)

    assert spent.value.reason == ATTEMPT_SPENT
    assert machine.labels[labels.INSTANCE_TYPE] == "m5.large"


async def test_a_lost_reply_does_not_launch_twice(
    model: Model, aws: Remembering, connected: Connect, tmp_path: Path
) -> None:
    single, batched = await connected(), await connected(journal=FileJournal(tmp_path))
    node_class = await default_class(aws)
    model.do("fault", {"service": "ec2", "operation": "CreateFleet", "lost": "reply", "times": 1})
    await single.create(simple_claim(1), node_class)
    model.do("fault", {"service": "ec2", "operation": "CreateFleet", "lost": "reply", "times": 1})

    await asyncio.gather(*(batched.create(simple_claim(n), node_class) for n in range(2, 7)))

    assert len(model.instances()) == 6
    assert len(model.calls("CreateFleet")) == 4


async def test_throttles_and_failures_of_ec2_are_waited_out(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    provider = await connected()
    node_class = await default_class(aws)
    for code in ("RequestLimitExceeded", "InternalError"):
        model.do("fault", {"service": "ec2", "operation": "CreateFleet", "code": code, "times": 1})

    machine = await provider.create(simple_claim(1), node_class)

    assert machine.provider_id
    assert len(model.instances()) == 1
    assert len(model.calls("CreateFleet")) == 3


async def test_a_missing_permission_is_named_with_its_action(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    provider = await connected()
    node_class = await default_class(aws)
    model.do("deny", {"service": "ec2", "operation": "CreateFleet"})

    with pytest.raises(LaunchError) as refused:
        await provider.create(simple_claim(1), node_class)

    assert refused.value.reason == "Unauthorized"
    assert "ec2:CreateFleet" in refused.value.hint


async def test_templates_that_somebody_deleted_are_made_again(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    provider = await connected()
    node_class = await default_class(aws)
    await provider.create(simple_claim(1), node_class)
    (template,) = model.see("state")["ec2"]["launchTemplates"]
    await aws.call("ec2", "DeleteLaunchTemplate", LaunchTemplateName=template)

    await provider.create(simple_claim(2), node_class)

    assert len(model.living()) == 2
    assert model.see("state")["ec2"]["launchTemplates"] == [template]


async def test_spot_is_bought_where_it_is_allowed_and_recognised_when_read_back(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    provider = await connected()
    node_class = await default_class(aws)
    claim = simple_claim(1, capacity=(labels.SPOT, labels.ON_DEMAND))

    machine = await provider.create(claim, node_class)
    read = await provider.get(machine.provider_id)

    assert machine.labels[labels.CAPACITY_TYPE] == read.labels[labels.CAPACITY_TYPE] == labels.SPOT
    assert Counter(each["capacityType"] for each in model.living()) == {"spot": 1}


async def test_lists_that_lag_neither_launch_twice_nor_hide_or_kill_what_is_new(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    node_class = await default_class(aws)
    model.do("settings", {"launchLagSeconds": 2.0})
    first = await connected()
    machine = await first.create(simple_claim(1), node_class)

    seen = await first.get(machine.provider_id)
    with pytest.raises(LaunchPendingError):
        await first.delete(machine.provider_id)
    restarted = await connected()
    with contextlib.suppress(LaunchPendingError):
        assert (await restarted.create(simple_claim(1), node_class)).provider_id == machine.provider_id
    model.do("clock", {"advanceSeconds": 3})
    adopted = await restarted.create(simple_claim(1), node_class)

    assert seen.state == "pending"
    assert adopted.provider_id == machine.provider_id
    assert len(model.instances()) == 1


async def test_keys_that_aws_does_not_know_are_told_from_those_that_have_expired(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    assert aws.region
    model.do(
        "fault",
        {"service": "eks", "operation": "DescribeCluster", "code": "ExpiredTokenException", "times": 1},
    )

    with pytest.raises(AwsError) as expired:
        await connected()
    model.do("credentials", {"accept": ["another"]})
    with pytest.raises(AwsError) as unknown:
        await connected()

    assert "renew the credentials" in expired.value.hint
    assert unknown.value.cause.kind is Kind.CREDENTIALS


async def test_a_node_that_dies_of_its_key_says_so(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    provider = await connected()
    node_class = await default_class(aws)
    model.do("failures", [{"kind": "dies", "code": "Client.InvalidKMSKey.InvalidState", "afterSeconds": 2}])
    machine = await provider.create(simple_claim(1, types=("c5.large",)), node_class)
    model.do("clock", {"advanceSeconds": 60})

    with pytest.raises(NodeClaimNotFoundError) as dead:
        await provider.get(machine.provider_id)

    assert "Client.InvalidKMSKey.InvalidState" in dead.value.hint


async def test_subnets_without_addresses_are_left_for_others(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    provider = await connected()
    node_class = await default_class(aws)
    first = await provider.create(simple_claim(1), node_class)
    full = next(each.id for each in node_class.status.subnets if each.zone == first.labels[labels.ZONE])
    model.do("subnets", [{"id": full, "freeAddresses": 0}])

    others = [await provider.create(simple_claim(n), node_class) for n in range(2, 5)]

    assert all(each.provider_id for each in others)
    assert len(model.living()) == 4


@pytest.mark.timeout(60)
async def test_a_provider_needs_nothing_but_the_environment_and_asks_the_fence_before_it_changes_anything(
    model: Model, aws: Remembering
) -> None:
    class LeaseLostError(Exception):
        pass

    def lost() -> None:
        raise LeaseLostError

    node_class = await default_class(aws)
    operations: list[str] = []
    provider = await connect(
        AwsSettings(cluster_name=CLUSTER),
        before_mutation=lost,
        on_call=lambda record: operations.append(record.operation),
    )

    with pytest.raises(LeaseLostError):
        await provider.create(simple_claim(1), node_class)
    await provider.close()
    assert isinstance(provider.parts.aws, BotoAws)
    provider.parts.aws.close()

    assert model.instances() == []
    assert model.see("state")["ec2"]["launchTemplates"] == []
    assert {"DescribeCluster", "DescribeInstanceTypes", "DescribeSubnets"} <= set(operations)
