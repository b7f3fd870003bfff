# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels
from karpenter.cloud.aws.choice import Choice
from karpenter.cloud.aws.codes import classify
from karpenter.cloud.aws.fleet import (
    MAX_OVERRIDES,
    FleetError,
    LaunchTerms,
    Override,
    fleet_request,
    instance_tags,
    launch_failure,
    launch_token,
    mark_unavailable,
    read_answer,
)
from karpenter.cloud.aws.unavailable import CapacityTypeOut, PoolOut, SubnetOut, Unavailable, ZoneOut
from karpenter.cloud.errors import InsufficientCapacityError, LaunchError
from karpenter.kit.clock import FakeClock


def _override(
    name: str = "m5.large", zone: str = "us-west-2a", price: float = 0.1, template: str = "t"
) -> Override:
    return Override(template, name, zone, f"subnet-{zone[-1]}", "ami-1", price)


def _request(choice: Choice, *overrides: Override, **options: Any) -> dict[str, Any]:
    return fleet_request(
        overrides or (_override(),), choice, **{"count": 1, "token": "token", "tags": {"a": "1"}, **options}
    )


def _error(code: str, message: str = "", **place: str) -> FleetError:
    return FleetError(classify(code, message), message, **place)


def test_a_token_follows_from_the_claims_and_their_attempts_alone() -> None:
    token = launch_token([("u1", 0), ("u2", 1)])

    assert token == launch_token([("u2", 1), ("u1", 0)])
    assert (
        len(
            {
                token,
                launch_token([("u1", 0)]),
                launch_token([("u1", 1)]),
                launch_token([("u1", 0), ("u2", 0)]),
            }
        )
        == 4
    )
    assert len(token) <= 64


def test_a_request_names_each_template_with_its_offerings_by_price() -> None:
    request = _request(
        Choice("on-demand", ()),
        _override("b", price=0.3),
        _override("a", price=0.2),
        _override("c", template="z"),
        count=3,
    )

    first, second = request["LaunchTemplateConfigs"]
    assert first["LaunchTemplateSpecification"] == {"LaunchTemplateName": "t", "Version": "$Latest"}
    assert first["Overrides"][0] == {
        "InstanceType": "a",
        "SubnetId": "subnet-a",
        "ImageId": "ami-1",
        "AvailabilityZone": "us-west-2a",
        "Priority": 0.2,
    }
    assert [each["InstanceType"] for each in first["Overrides"]] == ["a", "b"]
    assert [each["InstanceType"] for each in second["Overrides"]] == ["c"]
    assert request["Type"] == "instant"
    assert request["ClientToken"] == "token"
    assert request["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 3,
        "DefaultTargetCapacityType": "on-demand",
    }
    assert [each["ResourceType"] for each in request["TagSpecifications"]] == ["instance", "volume", "fleet"]
    assert instance_tags(request) == {"a": "1"}
    assert "Context" not in request


def test_ec2_picks_by_price_and_depth_unless_our_prices_are_overlaid() -> None:
    def strategies(choice: Choice, **options: Any) -> tuple[Any, Any]:
        request = _request(choice, **options)
        return request.get("OnDemandOptions"), request.get("SpotOptions")

    on_demand, spot = Choice("on-demand", ()), Choice("spot", ())
    assert strategies(on_demand) == ({"AllocationStrategy": "lowest-price"}, None)
    assert strategies(on_demand, by_priority=True) == ({"AllocationStrategy": "prioritized"}, None)
    assert strategies(spot) == (None, {"AllocationStrategy": "price-capacity-optimized"})
    assert strategies(spot, by_priority=True) == (
        None,
        {"AllocationStrategy": "capacity-optimized-prioritized"},
    )


def test_each_kind_of_capacity_has_its_target() -> None:
    def target(*choice: str) -> str:
        kinds = Choice(choice[0], (), choice[1] if len(choice) > 1 else "")
        return str(_request(kinds, context="c")["TargetCapacitySpecification"]["DefaultTargetCapacityType"])

    assert target("spot") == "spot"
    assert target("reserved", "default") == "on-demand"
    assert target("reserved", "capacity-block") == "capacity-block"
    assert target("reserved", "interruptible") == "reserved-capacity"
    assert _request(Choice("spot", ()), context="c")["Context"] == "c"


def test_an_interruptible_reservation_is_asked_for_by_its_own_options() -> None:
    interruptible = _request(Choice("reserved", (), "interruptible"))
    block = _request(Choice("reserved", (), "capacity-block"))
    plain = _request(Choice("reserved", (), "default"))

    assert interruptible["ReservedCapacityOptions"] == {
        "ReservationTypes": ["interruptible-capacity-reservation"]
    }
    assert "OnDemandOptions" not in interruptible
    assert "ReservedCapacityOptions" not in block | plain
    assert plain["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}


def test_no_more_offerings_are_named_than_ec2_takes() -> None:
    many = [_override(f"m{n}.large", price=n) for n in range(MAX_OVERRIDES + 50)]

    (config,) = _request(Choice("on-demand", ()), *many)["LaunchTemplateConfigs"]

    assert len(config["Overrides"]) == MAX_OVERRIDES
    assert config["Overrides"][0]["InstanceType"] == "m0.large"


def test_an_answer_is_read_with_instances_by_id_and_errors_by_offering() -> None:
    override = {
        "InstanceType": "m5.large",
        "SubnetId": "subnet-a",
        "ImageId": "ami-1",
        "AvailabilityZone": "us-west-2a",
    }
    used = {"LaunchTemplateSpecification": {"LaunchTemplateName": "t"}, "Overrides": override}
    answer = {
        "Instances": [
            {"InstanceType": "m5.large", "InstanceIds": ["i-2", "i-1"], "LaunchTemplateAndOverrides": used},
            {
                "InstanceIds": ["i-3"],
                "LaunchTemplateAndOverrides": {
                    "Overrides": {"SubnetId": "subnet-b", "InstanceType": "c5.large"}
                },
            },
        ],
        "Errors": [
            {
                "ErrorCode": "InsufficientInstanceCapacity",
                "ErrorMessage": "none",
                "LaunchTemplateAndOverrides": used,
            },
            {
                "ErrorCode": "Unsupported",
                "LaunchTemplateAndOverrides": {"Overrides": {"SubnetId": "subnet-b"}},
            },
        ],
    }

    terms = LaunchTerms(labels.RESERVED, {"t": "cr-1"}, "dedicated", "2")
    found = read_answer(answer, terms, {"subnet-b": "us-west-2b"})

    assert [each.instance_id for each in found.instances] == ["i-1", "i-2", "i-3"]
    assert found.instances[0].reservation_id == "cr-1"
    assert (found.instances[2].zone, found.instances[2].instance_type) == ("us-west-2b", "c5.large")
    assert (found.errors[0].instance_type, found.errors[0].zone) == ("m5.large", "us-west-2a")
    assert found.errors[1].zone == "us-west-2b"
    assert (found.instances[0].tenancy, found.instances[0].partition) == ("dedicated", "2")
    assert read_answer({}, LaunchTerms("spot"), {}).instances == ()


def test_what_the_errors_say_is_remembered_as_narrowly_as_they_say_it() -> None:
    unavailable = Unavailable(FakeClock())
    place = {"instance_type": "m5.large", "zone": "us-west-2a", "subnet_id": "subnet-a"}

    mark_unavailable(
        [
            _error("InsufficientInstanceCapacity", **place),
            _error("InsufficientFreeAddressesInSubnet", **place),
            _error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", **place),
            _error("RequestLimitExceeded", **place),
            _error("InvalidAMIID.NotFound", **place),
        ],
        labels.SPOT,
        unavailable,
    )
    mark_unavailable(
        [
            _error(
                "InstanceLimitExceeded", "You have reached the limit of the Spread placement group", **place
            )
        ],
        labels.ON_DEMAND,
        unavailable,
        group="pg-1",
    )

    assert {each.what for each in unavailable.entries()} == {
        PoolOut(labels.SPOT, "m5.large", "us-west-2a"),
        SubnetOut("subnet-a"),
        CapacityTypeOut(labels.SPOT),
        ZoneOut("pg-1", "us-west-2a"),
    }


def test_a_denied_service_linked_role_stops_spot_alone_and_lets_on_demand_be_planned() -> None:
    unavailable = Unavailable(FakeClock())
    denied = _error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", instance_type="m5.large", zone="z")

    mark_unavailable([denied], labels.ON_DEMAND, unavailable)
    failure = launch_failure([denied, _error("InsufficientInstanceCapacity")], labels.SPOT)

    assert [each.what for each in unavailable.entries()] == [CapacityTypeOut(labels.SPOT)]
    assert isinstance(failure, InsufficientCapacityError)
    assert "create-service-linked-role" in failure.hint


def test_a_full_reservation_is_no_sold_out_pool() -> None:
    unavailable = Unavailable(FakeClock())

    mark_unavailable(
        [_error("ReservationCapacityExceeded", instance_type="m5.large", zone="z")],
        labels.RESERVED,
        unavailable,
    )

    assert unavailable.entries() == ()


def test_only_shortages_are_a_shortage_and_each_is_told_once() -> None:
    errors = [_error("InsufficientInstanceCapacity", instance_type=f"m{n}.large", zone="z") for n in range(7)]

    failure = launch_failure([*errors, errors[0]], "spot")

    assert isinstance(failure, InsufficientCapacityError)
    assert len(failure.offerings) == 7
    assert "and 2 more" in failure.message
    assert "InsufficientInstanceCapacity m0.large z" in failure.message


def test_a_quota_is_a_shortage_whose_hint_says_whom_to_ask() -> None:
    failure = launch_failure([_error("VcpuLimitExceeded", instance_type="m5.large", zone="z")], "on-demand")

    assert isinstance(failure, InsufficientCapacityError)
    assert "Service Quotas" in failure.hint


def test_any_other_cause_names_the_failure() -> None:
    failure = launch_failure(
        [_error("InsufficientInstanceCapacity"), _error("InvalidAMIID.NotFound", "ami-1 is not there")],
        "spot",
    )

    assert isinstance(failure, LaunchError)
    assert (failure.reason, failure.code) == ("AMINotFound", "InvalidAMIID.NotFound")
    assert "ami-1 is not there" in failure.message


def test_a_throttle_inside_a_fleet_is_told_as_one() -> None:
    failure = launch_failure([_error("RequestLimitExceeded")], "spot")

    assert isinstance(failure, LaunchError)
    assert failure.reason == "RequestLimitExceeded"


def test_no_instance_and_no_error_is_still_a_shortage() -> None:
    assert "no cause given" in str(launch_failure([], "spot"))


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "Throttling", "EC2ThrottledException"])
@pytest.mark.parametrize("capacity_type", [labels.SPOT, labels.ON_DEMAND])
def test_a_throttled_offering_is_not_sold_out(code: str, capacity_type: str) -> None:
    unavailable = Unavailable(FakeClock())
    error = FleetError(classify(code, ""), "slow down", "m5.large", "us-west-2a", "subnet-1")

    mark_unavailable([error], capacity_type, unavailable)

    assert not error.cause.is_unfulfillable
    assert unavailable.entries() == ()
