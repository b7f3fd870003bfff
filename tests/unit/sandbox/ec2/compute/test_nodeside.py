# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from datetime import timedelta

from tests.unit.sandbox.ec2.compute.account import ZONES, Account


def test_a_running_machine_knows_what_it_was_told_to_do() -> None:
    account = Account()
    account.add_template("told", UserData=base64.b64encode(b"join!").decode())
    launched = account.clock.now()
    instance_id = account.launch(template="told")
    assert list(account.ec2.machines()) == []
    account.wait(10)

    (machine,) = account.ec2.machines()

    assert machine.user_data == b"join!"
    assert machine.provider_id == f"aws:///{ZONES[0]}/{instance_id}"
    assert machine.host_name == "ip-10-0-0-4.us-west-2.compute.internal"
    assert machine.running_since == launched + timedelta(seconds=5)
    assert (machine.boot, machine.region, machine.capacity_type) == ("joins", "us-west-2", "on-demand")


def test_a_machine_may_be_told_not_to_join() -> None:
    account = Account()
    account.ec2.apply({"failures": {"kind": "joins-not-ready", "instanceType": "m5.*"}})
    account.launch()

    (machine,) = account.ec2.machines("pending")

    assert machine.boot == "joins-not-ready"
    assert machine.running_since is None


def test_the_node_side_sees_the_truth_before_lists_do() -> None:
    account = Account()
    account.ec2.apply({"settings": {"launchLagSeconds": 60}})
    account.launch()
    account.wait(10)

    assert len(list(account.ec2.machines())) == 1
    assert account.listed() == []


def test_the_next_moment_at_which_something_happens_is_known() -> None:
    account = Account()
    assert account.ec2.next_due() is None

    account.launch()
    account.ec2.settle()

    assert account.ec2.next_due() == account.clock.now() + timedelta(seconds=5)
