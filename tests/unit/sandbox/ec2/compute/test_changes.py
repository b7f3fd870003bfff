# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from karpenter.errors import KarpenterError
from karpenter.sandbox.ec2.compute import changes
from karpenter.sandbox.ec2.compute.fields import ChangeError
from karpenter.sandbox.ec2.compute.settings import Settings
from tests.unit.sandbox.ec2.compute.account import Account


@pytest.fixture
def account() -> Account:
    return Account()


@pytest.mark.parametrize(
    ("change", "field", "part"),
    [
        ({"capcity": []}, "capcity", "not known"),
        ({"capacity": [{"count": 1}, {"cuont": 1}]}, "capacity[1].cuont", "not known"),
        ({"capacity": {"count": -1}}, "capacity[0].count", "below 0"),
        ({"capacity": {"count": 1.5}}, "capacity[0].count", "whole number"),
        ({"capacity": {"count": "3"}}, "capacity[0].count", "number"),
        ({"capacity": {"capacityType": "reserve"}}, "capacity[0].capacityType", "not one of"),
        ({"capacity": "none"}, "capacity", "list of mappings"),
        ({"capacity": ["none"]}, "capacity[0]", "mapping"),
        ({"errors": {"zone": "a"}}, "errors[0].code", "missing"),
        ({"errors": {"code": 5}}, "errors[0].code", "text"),
        ({"errors": {"code": "x", "from": "noon"}}, "errors[0].from", "no time"),
        ({"errors": {"code": "x", "until": "2026-01-01T00:00:00"}}, "errors[0].until", "zone"),
        ({"quotas": {"family": "q", "vcpus": 1}}, "quotas[0].family", "not one of"),
        ({"subnets": {"zone": "mars-1a", "freeAddresses": 1}}, "subnets[0].zone", "no subnet"),
        ({"subnets": {"id": "subnet-01", "freeAddresses": 1}}, "subnets[0].id", "no subnet"),
        ({"kmsKeys": {"key": "k", "state": "lost"}}, "kmsKeys[0].state", "not one of"),
        ({"failures": {"kind": "explodes"}}, "failures[0].kind", "not one of"),
        ({"prices": {"instanceType": "m5.large"}}, "prices[0].price", "missing"),
        ({"prices": {"price": True}}, "prices[0].price", "number"),
        ({"prices": {"price": float("nan")}}, "prices[0].price", "number"),
        ({"images": {"architecture": "arm64"}}, "images[0].name", "missing"),
        ({"images": {"name": "x", "tags": {"a": 1}}}, "images[0].tags", "texts"),
        (
            {"reservations": {"instanceType": "m5.large", "zone": "mars-1a"}},
            "reservations[0].zone",
            "not offered",
        ),
        ({"interrupt": {"instanceIds": ["i-01"]}}, "interrupt[0].instanceIds", "no instance"),
        ({"interrupt": {"instanceIds": "i-01"}}, "interrupt[0].instanceIds", "list of texts"),
        ({"scheduleEvent": {"code": "party"}}, "scheduleEvent[0].code", "not one of"),
        ({"settings": {"pendingSeconds": [3, 1]}}, "settings[0].pendingSeconds", "least and most"),
        ({"settings": {"pendingSeconds": "soon"}}, "settings[0].pendingSeconds", "least and most"),
        ({"settings": {"tokenReplay": "never"}}, "settings[0].tokenReplay", "not one of"),
        (
            {"settings": {"spotServiceLinkedRole": 1}},
            "settings[0].spotServiceLinkedRole",
            "true or false",
        ),
        ({"clear": ["everything"]}, "clear", "not one of"),
        ([], "", "mapping"),
    ],
)
def test_a_change_that_cannot_be_read_is_refused_by_the_name_of_its_field(
    account: Account, change: Any, field: str, part: str
) -> None:
    with pytest.raises(ChangeError, match=part) as caught:
        account.ec2.apply(change)

    assert caught.value.field == field
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, KarpenterError)


def test_an_unknown_field_is_answered_with_the_known_ones(account: Account) -> None:
    with pytest.raises(ChangeError) as caught:
        account.ec2.apply({"errors": {"code": "x", "kapacityType": "spot"}})

    assert "capacityType" in caught.value.hint


def test_a_change_is_made_whole_or_not_at_all(account: Account) -> None:
    with pytest.raises(ChangeError):
        account.ec2.apply({"capacity": {"count": 0}, "settings": {"spreadLimit": 3}, "errors": {"zone": "a"}})

    assert account.ec2.capacity.pools == []
    assert account.ec2.settings == Settings()


def test_sections_can_be_cleared(account: Account) -> None:
    account.ec2.apply(
        {
            "capacity": {"count": 0},
            "errors": {"code": "x"},
            "quotas": {"vcpus": 0},
            "kmsKeys": {"key": "*"},
            "failures": {"kind": "dies"},
            "prices": {"factor": 2},
            "settings": {"spreadLimit": 3},
        }
    )

    account.ec2.apply(
        {"clear": ["capacity", "errors", "quotas", "kmsKeys", "failures", "prices", "settings"]}
    )

    rules = account.ec2.state()["rules"]
    assert all(not each for each in rules.values())
    assert account.ec2.settings == Settings()


def test_a_dial_left_out_keeps_its_value(account: Account) -> None:
    account.ec2.apply({"settings": {"pendingSeconds": 60}})
    account.ec2.apply({"settings": {"tagLagSeconds": [0, 3], "priceStepSeconds": 60}})

    assert account.ec2.settings.pending_s == (60.0, 60.0)
    assert account.ec2.settings.tag_lag_s == (0.0, 3.0)
    assert account.ec2.prices.step_s == 60


def test_images_can_be_registered_for_others_and_deprecated(account: Account) -> None:
    account.ec2.apply(
        {
            "images": [
                {"id": "ami-01", "name": "planted", "architecture": "arm64", "owner": "999988887777"},
                {"name": "official", "owner": "amazon", "tags": {"team": "a"}},
            ]
        }
    )
    account.ec2.apply(
        {"images": {"id": "ami-01", "deprecatedAt": "2026-01-01T00:00:00Z", "tags": {"old": "yes"}}}
    )

    shown = {each["Name"]: each for each in account.call("DescribeImages", IncludeDeprecated=True)["Images"]}
    assert shown["planted"]["OwnerId"] == "999988887777"
    assert shown["planted"]["DeprecationTime"] == "2026-01-01T00:00:00.000Z"
    assert shown["planted"]["Tags"] == [{"Key": "old", "Value": "yes"}]
    assert shown["official"]["ImageOwnerAlias"] == "amazon"
    hidden = {each["Name"] for each in account.call("DescribeImages")["Images"]}
    assert "planted" not in hidden


def test_the_documented_example_is_a_change_that_can_be_made(account: Account) -> None:
    text = Path(changes.__file__).read_text(encoding="utf-8")
    found = re.search(r"\.\. code-block:: yaml\n\n(.*?)\n\n``interrupt``", text, re.DOTALL)
    assert found
    example = yaml.safe_load("\n".join(line[4:] for line in found.group(1).splitlines()))
    for name in ("rebalance", "scheduleEvent", "terminate"):
        example[name] = {key: value for key, value in example[name].items() if key != "instanceIds"}
    example["images"] = example["images"][:1]

    account.ec2.apply(example)

    assert account.ec2.settings.launch_lag_s == (0.0, 60.0)


def test_the_overview_tells_what_is_there_and_what_is_set(account: Account) -> None:
    account.ec2.apply({"capacity": {"instanceType": "m5.*", "count": 3}})
    instance_id = account.launch(market="spot")

    state = account.ec2.state()

    assert state["states"] == {"pending": 1}
    assert [(each["id"], each["capacityType"]) for each in state["instances"]] == [(instance_id, "spot")]
    assert state["rules"]["capacity"][0] == {
        "pools": {"instanceType": "m5.*", "zone": "*", "capacityType": "*"},
        "count": 3,
    }
    assert state["settings"]["pendingSeconds"] == (5.0, 5.0)
    assert state["next"][0] == {
        "at": account.clock.now() + timedelta(seconds=5),
        "what": f"{instance_id} runs",
    }
    assert len(state["subnets"]) == 3


def test_names_may_be_spelled_with_underscores(account: Account) -> None:
    account.ec2.apply(
        {"kms_keys": {"key": "k"}, "errors": {"code": "x", "instance_type": "m5.*", "for_s": 60}}
    )

    (error,) = account.ec2.capacity.errors
    assert error.pools.instance_type == "m5.*"
    assert error.until == account.clock.now() + timedelta(seconds=60)
    account.ec2.apply({"clear": ["kms_keys"]})
    assert account.ec2.capacity.keys == []
