# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import Account


@pytest.fixture
def account() -> Account:
    return Account()


def attribute(account: Account, instance: str, name: str) -> Any:
    return account.call("DescribeInstanceAttribute", InstanceId=instance, Attribute=name)


def test_user_data_is_told_as_it_was_given(account: Account) -> None:
    text = base64.b64encode(b"#!/bin/bash").decode()
    account.add_template("user-data", UserData=text)

    with_data = attribute(account, account.launch(template="user-data"), "userData")
    without = attribute(account, account.launch(), "userData")

    assert with_data["UserData"] == {"Value": text}
    assert without["UserData"] == {}


def test_every_attribute_has_its_own_place_in_the_answer(account: Account) -> None:
    instance = account.launch()

    assert attribute(account, instance, "instanceType")["InstanceType"] == {"Value": "m5.large"}
    assert attribute(account, instance, "disableApiStop")["DisableApiStop"] == {"Value": False}
    assert attribute(account, instance, "enclaveOptions")["EnclaveOptions"] == {"Enabled": False}
    assert attribute(account, instance, "groupSet")["Groups"] == [
        {"GroupId": account.group, "GroupName": "nodes"}
    ]
    assert len(attribute(account, instance, "blockDeviceMapping")["BlockDeviceMappings"]) == 1


def test_an_unknown_attribute_or_instance_is_refused(account: Account) -> None:
    instance = account.launch()

    def code(**params: Any) -> str:
        return account.refused("DescribeInstanceAttribute", **params).code

    assert code(InstanceId=instance, Attribute="colour") == "InvalidParameterValue"
    assert code(InstanceId=instance) == "MissingParameter"
    assert code(InstanceId="i-01", Attribute="userData") == "InvalidInstanceID.NotFound"
