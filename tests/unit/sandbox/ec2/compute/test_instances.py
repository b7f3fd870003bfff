# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.unit.sandbox.ec2.compute.account import ZONES, Account, ids_of, only, tags

STATE_CHANGE = "EC2 Instance State-change Notification"


@pytest.fixture
def account() -> Account:
    return Account()


def states_told(account: Account, instance_id: str) -> list[str]:
    return [each["state"] for each in account.events(STATE_CHANGE) if each["instance-id"] == instance_id]


def test_an_instance_is_pending_then_running_then_shutting_down_then_terminated_then_forgotten(
    account: Account,
) -> None:
    account.ec2.apply({"settings": {"pendingSeconds": 5, "shuttingDownSeconds": 20}})
    instance_id = account.launch()

    assert account.instance(instance_id)["State"] == {"Code": 0, "Name": "pending"}
    account.wait(4.9)
    assert account.instance(instance_id)["State"]["Name"] == "pending"
    account.wait(0.1)
    assert account.instance(instance_id)["State"] == {"Code": 16, "Name": "running"}
    answer = account.call("TerminateInstances", InstanceIds=[instance_id])
    assert answer["TerminatingInstances"][0]["CurrentState"]["Name"] == "shutting-down"
    assert answer["TerminatingInstances"][0]["PreviousState"]["Name"] == "running"
    assert account.instance(instance_id)["State"]["Name"] == "shutting-down"
    account.wait(20)
    assert account.instance(instance_id)["State"] == {"Code": 48, "Name": "terminated"}
    account.wait(3599)
    assert account.instance(instance_id)["State"]["Name"] == "terminated"
    account.wait(1)
    assert (
        account.refused("DescribeInstances", InstanceIds=[instance_id]).code == "InvalidInstanceID.NotFound"
    )
    assert states_told(account, instance_id) == ["pending", "running", "shutting-down", "terminated"]


def test_events_carry_the_moment_at_which_things_happened_even_if_nobody_looked(account: Account) -> None:
    account.launch()
    launched = account.clock.now()

    account.wait(3600)

    moments = [moment for kind, _, moment in account.bus.events if kind == STATE_CHANGE]
    assert [(moment - launched).total_seconds() for moment in moments if moment] == [0, 5]


def test_an_instance_ended_while_pending_never_runs(account: Account) -> None:
    instance_id = account.launch()

    account.call("TerminateInstances", InstanceIds=[instance_id])
    account.wait(60)

    assert states_told(account, instance_id) == ["pending", "shutting-down", "terminated"]


def test_a_terminated_instance_keeps_its_name_and_loses_its_network(account: Account) -> None:
    instance_id = account.launch(TagSpecifications=[tags("instance", pool="a")])
    address = account.instance(instance_id)["PrivateIpAddress"]
    free = account.ec2.subnets[account.subnets[ZONES[0]]].free_addresses

    account.call("TerminateInstances", InstanceIds=[instance_id])
    account.wait(60)

    instance = account.instance(instance_id)
    assert address.startswith("10.0.0.")
    assert "PrivateIpAddress" not in instance
    assert instance["PrivateDnsName"] == ""
    assert (
        instance["NetworkInterfaces"] == instance["BlockDeviceMappings"] == instance["SecurityGroups"] == []
    )
    assert instance["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert instance["StateTransitionReason"] == "User initiated (2026-01-01 00:00:00 GMT)"
    assert {"Key": "pool", "Value": "a"} in instance["Tags"]
    assert account.ec2.subnets[account.subnets[ZONES[0]]].free_addresses == free + 1
    assert account.call("DescribeVolumes")["Volumes"] == []
    assert account.call("DescribeNetworkInterfaces")["NetworkInterfaces"] == []


def test_terminating_twice_changes_nothing(account: Account) -> None:
    instance_id = account.launch()
    account.call("TerminateInstances", InstanceIds=[instance_id])
    account.wait(60)

    again = account.call("TerminateInstances", InstanceIds=[instance_id, instance_id])

    (row,) = again["TerminatingInstances"]
    assert (row["PreviousState"]["Name"], row["CurrentState"]["Name"]) == ("terminated", "terminated")
    assert states_told(account, instance_id).count("terminated") == 1


def test_one_unknown_id_refuses_the_whole_termination(account: Account) -> None:
    instance_id = account.launch()
    stranger = "i-0123456789abcdef0"

    refused = account.refused("TerminateInstances", InstanceIds=[instance_id, stranger])

    assert refused.code == "InvalidInstanceID.NotFound"
    assert refused.message == f"The instance ID '{stranger}' does not exist"
    assert account.instance(instance_id)["State"]["Name"] == "pending"


def test_several_unknown_ids_are_named_together(account: Account) -> None:
    refused = account.refused("TerminateInstances", InstanceIds=["i-01", "i-02"])

    assert refused.message == "The instance IDs 'i-01, i-02' do not exist"


def test_what_is_no_instance_id_is_malformed(account: Account) -> None:
    assert account.refused("TerminateInstances", InstanceIds=["node-1"]).code == "InvalidInstanceID.Malformed"
    assert account.refused("TerminateInstances", InstanceIds=[]).code == "MissingParameter"


def test_termination_protection_is_honoured(account: Account) -> None:
    account.add_template("kept", DisableApiTermination=True)
    instance_id = account.launch(template="kept")

    assert account.refused("TerminateInstances", InstanceIds=[instance_id]).code == "OperationNotPermitted"


def test_a_dry_run_terminates_nothing(account: Account) -> None:
    instance_id = account.launch()

    refused = account.refused("TerminateInstances", InstanceIds=[instance_id], DryRun=True)

    assert (refused.code, refused.status) == ("DryRunOperation", 412)
    assert account.instance(instance_id)["State"]["Name"] == "pending"


def test_with_a_launch_lag_a_new_instance_is_unknown_at_first(account: Account) -> None:
    account.ec2.apply({"settings": {"launchLagSeconds": 30}})
    instance_id = account.launch()

    assert account.listed() == []
    for action, params in (
        ("DescribeInstances", {"InstanceIds": [instance_id]}),
        ("TerminateInstances", {"InstanceIds": [instance_id]}),
        ("CreateTags", {"Resources": [instance_id], "Tags": [{"Key": "a", "Value": "b"}]}),
    ):
        assert account.refused(action, **params).code == "InvalidInstanceID.NotFound"
    account.wait(30)
    assert [each["InstanceId"] for each in account.listed()] == [instance_id]
    assert account.instance(instance_id)["State"]["Name"] == "running"


def test_with_a_state_lag_a_terminated_instance_is_still_seen_running(account: Account) -> None:
    instance_id = account.launch()
    account.wait(10)
    account.ec2.apply({"settings": {"stateLagSeconds": 40, "shuttingDownSeconds": 5}})

    account.call("TerminateInstances", InstanceIds=[instance_id])
    account.wait(39)

    assert account.instance(instance_id)["State"]["Name"] == "running"
    assert account.instance(instance_id)["PrivateIpAddress"]
    assert len(account.listed(only("instance-state-name", "running"))) == 1
    account.wait(1)
    assert account.instance(instance_id)["State"]["Name"] == "shutting-down"
    account.wait(5)
    assert account.instance(instance_id)["State"]["Name"] == "terminated"


def test_with_a_tag_lag_lists_show_the_old_tags(account: Account) -> None:
    account.ec2.apply({"settings": {"tagLagSeconds": 7}})
    instance_id = account.launch()

    account.call("CreateTags", Resources=[instance_id], Tags=[{"Key": "Name", "Value": "n"}])

    assert account.listed(only("tag:Name", "n")) == []
    account.wait(7)
    assert [each["InstanceId"] for each in account.listed(only("tag:Name", "n"))] == [instance_id]


def test_a_lag_between_bounds_differs_by_instance_and_not_by_run() -> None:
    seen: list[list[int]] = []
    for _ in range(2):
        account = Account()
        account.ec2.apply({"settings": {"launchLagSeconds": [0, 60]}})
        account.fleet(count=20)
        counts = []
        for _ in range(6):
            account.wait(10)
            counts.append(len(account.listed()))
        seen.append(counts)

    assert seen[0] == seen[1]
    assert seen[0][-1] == 20
    assert 0 < seen[0][2] < 20


def test_an_instance_can_die_right_after_its_launch_and_says_why(account: Account) -> None:
    account.ec2.apply(
        {
            "failures": {
                "kind": "dies",
                "nodeClass": "broken",
                "afterSeconds": 2,
                "code": "Server.InsufficientInstanceCapacity",
                "message": "no room",
                "times": 1,
            }
        }
    )
    spec = [tags("instance", **{"karpenter.k8s.aws/ec2nodeclass": "broken"})]
    healthy = account.launch()
    doomed = account.launch(TagSpecifications=spec)
    spared = account.launch(TagSpecifications=spec)

    account.wait(10)

    assert account.instance(healthy)["State"]["Name"] == "running"
    assert account.instance(spared)["State"]["Name"] == "running"
    instance = account.instance(doomed)
    assert instance["State"]["Name"] == "terminated"
    assert instance["StateReason"] == {"Code": "Server.InsufficientInstanceCapacity", "Message": "no room"}
    assert instance["StateTransitionReason"].startswith("Server initiated")
    assert states_told(account, doomed) == ["pending", "terminated"]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("disabled", "Client.InvalidKMSKey.InvalidState"),
        ("missing", "Client.InvalidKMSKey.NotFound"),
        ("denied", "Client.InternalError"),
    ],
)
def test_a_disk_whose_key_does_not_work_kills_the_instance(account: Account, state: str, code: str) -> None:
    key = "arn:aws:kms:us-west-2:123456789012:key/dead"
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "Encrypted": True, "KmsKeyId": key}}
    account.add_template("keyed", BlockDeviceMappings=[disk])
    account.ec2.apply({"kmsKeys": {"key": "*:key/dead", "state": state}})
    instance_id = account.launch(template="keyed")

    account.wait(10)

    assert account.instance(instance_id)["State"]["Name"] == "terminated"
    assert account.instance(instance_id)["StateReason"]["Code"] == code
    account.ec2.apply({"kmsKeys": {"key": "*:key/dead", "state": "usable"}})
    second = account.launch(template="keyed")
    account.wait(10)
    assert account.instance(second)["State"]["Name"] == "running"


def test_an_instance_that_died_gives_its_place_back(account: Account) -> None:
    account.ec2.apply({"capacity": {"count": 1}, "failures": {"kind": "dies", "times": 1}})
    account.launch()

    account.wait(1)

    assert len(ids_of(account.fleet())) == 1


def test_addresses_are_never_given_twice(account: Account) -> None:
    small = account.add_subnet(ZONES[0], 3, size=28)
    override = {"InstanceType": "m5.large", "SubnetId": small}

    first = account.fleet(override, count=20)

    assert len(ids_of(first)) == 11
    addresses = [account.instance(each)["PrivateIpAddress"] for each in ids_of(first)]
    assert len(set(addresses)) == 11
    account.call("TerminateInstances", InstanceIds=ids_of(first)[::4])
    account.wait(60)
    second = account.fleet(override, count=20)
    assert len(ids_of(second)) == 3
    assert {account.instance(each)["PrivateIpAddress"] for each in ids_of(second)} == set(addresses[::4])


def test_prefixes_take_sixteen_addresses_each_and_efa_only_takes_none(account: Account) -> None:
    before = account.ec2.subnets[account.subnets[ZONES[0]]].free_addresses
    account.add_template(
        "wide",
        InstanceType="c5n.18xlarge",
        NetworkInterfaces=[
            {"DeviceIndex": 0, "Ipv4PrefixCount": 2, "Groups": [account.group]},
            {"DeviceIndex": 1, "InterfaceType": "efa-only", "Groups": [account.group]},
        ],
    )

    (instance_id,) = ids_of(account.fleet(account.at("c5n.18xlarge"), template="wide"))

    assert account.ec2.subnets[account.subnets[ZONES[0]]].free_addresses == before - 33
    interfaces = account.instance(instance_id)["NetworkInterfaces"]
    assert [each["InterfaceType"] for each in interfaces] == ["interface", "efa-only"]
    assert interfaces[1]["PrivateIpAddresses"] == []


def test_watchers_hear_of_every_change_until_they_stop(account: Account) -> None:
    heard: list[tuple[str, str]] = []
    stop = account.ec2.watch(lambda change: heard.append((change.what, change.instance.state)))
    instance_id = account.launch()
    account.wait(10)
    account.call("CreateTags", Resources=[instance_id], Tags=[{"Key": "a", "Value": "b"}])
    stop()

    account.call("TerminateInstances", InstanceIds=[instance_id])

    assert heard == [("state", "pending"), ("state", "running"), ("tags", "running")]
