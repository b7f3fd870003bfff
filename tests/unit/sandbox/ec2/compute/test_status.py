# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import Account, ids_of, only


@pytest.fixture
def account() -> Account:
    return Account()


def statuses(account: Account, *filters: Any, **params: Any) -> list[Any]:
    return list(account.call("DescribeInstanceStatus", Filters=list(filters), **params)["InstanceStatuses"])


def test_only_running_instances_are_told_unless_all_are_asked_for(account: Account) -> None:
    instance_id = account.launch()

    assert statuses(account) == []
    (pending,) = statuses(account, IncludeAllInstances=True)
    assert pending["InstanceStatus"]["Status"] == "not-applicable"
    account.wait(10)
    (running,) = statuses(account)
    assert running["InstanceId"] == instance_id
    assert running["InstanceStatus"] == {
        "Status": "ok",
        "Details": [{"Name": "reachability", "Status": "passed"}],
    }
    assert running["Events"] == []


def test_checks_may_take_a_while_after_the_start(account: Account) -> None:
    account.ec2.apply({"settings": {"statusInitializingSeconds": 120}})
    account.launch()
    account.wait(10)

    assert statuses(account)[0]["SystemStatus"]["Status"] == "initializing"
    account.wait(120)
    assert statuses(account)[0]["SystemStatus"]["Status"] == "ok"


def test_an_impaired_instance_is_found_by_filter_and_says_since_when(account: Account) -> None:
    ids = ids_of(account.fleet(count=3))
    account.wait(10)
    account.ec2.apply({"impair": {"instanceIds": ids[:1]}})
    account.ec2.apply({"impair": {"instanceIds": ids[1:2], "system": True}})
    since = account.clock.now()
    account.wait(100)

    (instance,) = statuses(account, only("instance-status.status", "impaired"))
    (system,) = statuses(account, only("system-status.reachability", "failed"))

    assert instance["InstanceId"] == ids[0]
    assert instance["InstanceStatus"]["Details"][0]["ImpairedSince"] == since
    assert instance["SystemStatus"]["Status"] == "ok"
    assert system["InstanceId"] == ids[1]


def test_an_impairment_can_be_planned_for_new_instances(account: Account) -> None:
    account.ec2.apply({"failures": {"kind": "system-impaired", "afterSeconds": 60, "times": 1}})
    account.launch()
    account.wait(30)
    assert statuses(account, only("system-status.status", "impaired")) == []

    account.wait(30)

    assert len(statuses(account, only("system-status.status", "impaired"))) == 1


def test_scheduled_events_show_in_the_status_and_filter(account: Account) -> None:
    ids = ids_of(account.fleet(count=2))
    account.wait(10)

    account.ec2.apply(
        {"scheduleEvent": {"instanceIds": ids[:1], "code": "system-reboot", "startsInSeconds": 3600}}
    )

    (found,) = statuses(account, only("event.code", "system-reboot", "instance-retirement"))
    (event,) = found["Events"]
    assert found["InstanceId"] == ids[0]
    assert event["Code"] == "system-reboot"
    assert event["NotBefore"] == account.clock.now() + timedelta(hours=1)


def test_statuses_come_in_pages_and_by_id(account: Account) -> None:
    ids = ids_of(account.fleet(count=12))
    account.wait(10)

    first = account.call("DescribeInstanceStatus", MaxResults=10)
    second = account.call("DescribeInstanceStatus", MaxResults=10, NextToken=first["NextToken"])

    told = [each["InstanceId"] for page in (first, second) for each in page["InstanceStatuses"]]
    assert told == ids
    assert len(statuses(account, InstanceIds=ids[:2])) == 2
    refused = account.refused("DescribeInstanceStatus", InstanceIds=ids, MaxResults=10)
    assert refused.code == "InvalidParameterCombination"


def test_a_machine_whose_script_panics_goes_silent_and_fails_the_next_status_check(account: Account) -> None:
    script = "#!/bin/bash\n(\n  sleep 180\n  echo 0 > /proc/sys/kernel/panic\n  echo c > /proc/sysrq-trigger\n) &\n"
    account.add_template("panics", UserData=base64.b64encode(script.encode()).decode())
    instance = account.launch(template="panics")

    def status() -> str:
        (found,) = account.call("DescribeInstanceStatus", InstanceIds=[instance])["InstanceStatuses"]
        return str(found["InstanceStatus"]["Status"])

    account.wait(5 + 179)
    before = [each.boot for each in account.ec2.machines()]
    account.wait(1)
    hangs = [each.boot for each in account.ec2.machines()]
    unnoticed = status()
    account.wait(60)

    assert (before, hangs) == (["joins"], ["silent"])
    assert (unnoticed, status()) == ("ok", "impaired")


def test_a_script_that_only_pauses_harms_nothing(account: Account) -> None:
    account.add_template("pauses", UserData=base64.b64encode(b"#!/bin/bash\nsleep 10\n").decode())
    account.launch(template="pauses")

    account.wait(600)

    assert [each.boot for each in account.ec2.machines()] == ["joins"]
