# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import ZONES, Account, codes_of, ids_of


@pytest.fixture
def account() -> Account:
    return Account()


def test_the_same_fleet_told_twice_is_launched_once(account: Account) -> None:
    first = account.fleet(count=2, ClientToken="claim-1")

    second = account.fleet(count=2, ClientToken="claim-1")

    assert first == second
    assert len(account.listed()) == 2


def test_without_a_token_every_request_is_a_new_one(account: Account) -> None:
    account.fleet()
    account.fleet()

    assert len(account.listed()) == 2


def test_another_request_with_the_same_token_is_refused(account: Account) -> None:
    account.fleet(ClientToken="claim-1")

    refused = account.refused(
        "CreateFleet",
        Type="instant",
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {"LaunchTemplateName": "nodes"}}],
        TargetCapacitySpecification={"TotalTargetCapacity": 1},
        ClientToken="claim-1",
    )

    assert refused.code == "IdempotentParameterMismatch"
    assert len(account.listed()) == 1


def test_a_token_outlives_its_template(account: Account) -> None:
    first = account.fleet(ClientToken="claim-1")
    account.call("DeleteLaunchTemplate", LaunchTemplateName="nodes")

    assert account.fleet(ClientToken="claim-1") == first


def test_a_token_is_forgotten_after_its_life_time(account: Account) -> None:
    account.ec2.apply({"settings": {"tokenLifetimeSeconds": 60}})
    first = account.fleet(ClientToken="claim-1")

    account.wait(61)
    second = account.fleet(ClientToken="claim-1")

    assert ids_of(first) != ids_of(second)
    assert len(account.ec2.tokens) == 1


def test_a_token_whose_instance_died_gives_the_dead_instance_again(account: Account) -> None:
    first = account.fleet(ClientToken="claim-1")
    account.call("TerminateInstances", InstanceIds=ids_of(first))
    account.wait(60)

    assert account.fleet(ClientToken="claim-1") == first


def test_a_token_whose_instance_died_may_be_refused_or_launch_anew(account: Account) -> None:
    first = account.fleet(ClientToken="claim-1")
    account.call("TerminateInstances", InstanceIds=ids_of(first))

    account.ec2.apply({"settings": {"tokenReplay": "refuse-dead"}})
    with pytest.raises(Exception, match="do not exist any more"):
        account.fleet(ClientToken="claim-1")
    account.ec2.apply({"settings": {"tokenReplay": "launch-anew"}})
    second = account.fleet(ClientToken="claim-1")

    assert ids_of(second) != ids_of(first)
    assert account.fleet(ClientToken="claim-1") == second


@pytest.mark.parametrize(("remembers", "codes"), [(True, ["InsufficientInstanceCapacity"]), (False, [])])
def test_whether_a_failed_fleet_is_remembered_is_a_dial(
    account: Account, *, remembers: bool, codes: list[str]
) -> None:
    account.ec2.apply({"settings": {"tokenRemembersFailures": remembers}, "capacity": {"count": 0}})
    account.fleet(ClientToken="claim-1")
    account.ec2.apply({"clear": ["capacity"]})

    assert codes_of(account.fleet(ClientToken="claim-1")) == codes


def test_a_refused_request_leaves_no_token(account: Account) -> None:
    request: dict[str, Any] = {
        "LaunchTemplateName": "late",
        "LaunchTemplateData": {"ImageId": account.image, "UserData": "!"},
        "ClientToken": "t",
    }
    account.refused("CreateLaunchTemplate", **request)

    made = account.call(
        "CreateLaunchTemplate", **{**request, "LaunchTemplateData": {"ImageId": account.image}}
    )

    assert made["LaunchTemplate"]["LaunchTemplateName"] == "late"


def test_a_dry_run_leaves_no_token(account: Account) -> None:
    run = {
        "LaunchTemplate": {"LaunchTemplateName": "nodes"},
        "InstanceType": "m5.large",
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": "t",
    }
    account.refused("RunInstances", **run, DryRun=True)

    first, second = account.call("RunInstances", **run), account.call("RunInstances", **run)

    assert first["Instances"][0]["InstanceId"] == second["Instances"][0]["InstanceId"]
    assert len(account.listed()) == 1


def test_templates_and_reservations_have_tokens_too(account: Account) -> None:
    template = {
        "LaunchTemplateName": "one",
        "LaunchTemplateData": {"ImageId": account.image},
        "ClientToken": "t",
    }
    reservation = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": ZONES[0],
        "InstanceCount": 1,
        "ClientToken": "t",
    }

    for action, params in (("CreateLaunchTemplate", template), ("CreateCapacityReservation", reservation)):
        assert account.call(action, **params) == account.call(action, **params)
    assert len(account.ec2.reservations) == 1
