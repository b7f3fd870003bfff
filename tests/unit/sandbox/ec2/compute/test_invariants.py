# SPDX-License-Identifier: Apache-2.0
"""Whatever is launched, ended, tagged and waited for, in whatever order: the books agree with the machines."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from karpenter.sandbox.ec2.compute.capacity import Pool
from tests.unit.sandbox.ec2.compute.account import ZONES, Account, ids_of, only, tags

TYPES = ("m5.large", "c5.large", "g5.xlarge")


class Life(RuleBasedStateMachine):
    """An account to which anything may happen."""

    def __init__(self) -> None:
        super().__init__()
        self.account = Account()
        self.launched: list[str] = []
        self.answers: dict[str, Any] = {}

    @rule(
        kinds=st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        count=st.integers(1, 6),
        market=st.sampled_from(["on-demand", "spot"]),
        least=st.integers(0, 6),
        team=st.sampled_from("ab"),
    )
    def launch(self, kinds: list[str], count: int, market: str, least: int, team: str) -> None:
        options = {"MinTargetCapacity": least} if least else {}
        extra: dict[str, Any] = {"SpotOptions" if market == "spot" else "OnDemandOptions": options}
        fleet = self.account.fleet(
            *[self.account.at(kind, zone) for kind in kinds for zone in ZONES],
            count=count,
            market=market,
            TagSpecifications=[tags("instance", team=team)],
            **extra,
        )
        ids = ids_of(fleet)
        assert len(ids) <= count
        assert not ids or len(ids) >= min(least, count)
        assert len(ids) == count or fleet["Errors"]
        self.launched += ids

    @rule(token=st.sampled_from("xyz"))
    def launch_with_a_token(self, token: str) -> None:
        answer = self.account.fleet(ClientToken=token)
        if token in self.answers:
            assert answer == self.answers[token]
        else:
            self.launched += ids_of(answer)
        self.answers[token] = answer

    @precondition(lambda self: self.launched)
    @rule(data=st.data())
    def terminate(self, data: st.DataObject) -> None:
        known = [each for each in self.launched if each in self.account.ec2.instances]
        victim = data.draw(st.sampled_from(known)) if known else ""
        if victim and self.account.ec2.instances[victim].seen:
            self.account.call("TerminateInstances", InstanceIds=[victim])

    @precondition(lambda self: self.launched)
    @rule(data=st.data(), team=st.sampled_from("abc"))
    def tag(self, data: st.DataObject, team: str) -> None:
        known = [each for each in self.account.ec2.instances.values() if each.seen]
        if known:
            chosen = data.draw(st.sampled_from([each.id for each in known]))
            self.account.call("CreateTags", Resources=[chosen], Tags=[{"Key": "team", "Value": team}])

    @rule(seconds=st.sampled_from([0, 1, 5, 60, 4000]))
    def wait(self, seconds: int) -> None:
        self.account.wait(seconds)

    @rule(count=st.one_of(st.none(), st.integers(0, 3)), kind=st.sampled_from([*TYPES, "*"]))
    def set_capacity(self, count: int | None, kind: str) -> None:
        self.account.ec2.apply({"capacity": {"instanceType": kind, "count": count}})

    @rule(most=st.sampled_from([0, 3, 30]), which=st.sampled_from(["launchLag", "stateLag", "tagLag"]))
    def set_lag(self, most: int, which: str) -> None:
        self.account.ec2.apply({"settings": {f"{which}Seconds": [0, most]}})

    @rule()
    def interrupt_some(self) -> None:
        self.account.ec2.apply({"interrupt": {"count": 1, "warningSeconds": 2}})

    @invariant()
    def pools_count_the_living(self) -> None:
        living = Counter(
            Pool(each.instance_type, each.zone, each.capacity_type)
            for each in self.account.ec2.instances.values()
            if each.alive
        )
        assert +self.account.ec2.capacity.used == living
        assert not -self.account.ec2.capacity.used

    @invariant()
    def every_machine_has_its_own_address(self) -> None:
        holding = [each for each in self.account.ec2.instances.values() if each.state != "terminated"]
        addresses = [each.address for each in holding]
        assert len(set(addresses)) == len(addresses)
        taken = sum(len(subnet.taken) for subnet in self.account.ec2.subnets.values())
        assert taken == len(addresses) == len(self.account.ec2.interfaces)

    @invariant()
    def lists_agree_with_what_is_seen(self) -> None:
        ec2 = self.account.ec2
        for state in ("pending", "running", "shutting-down", "terminated"):
            by_filter = {
                each["InstanceId"] for each in self.account.listed(only("instance-state-name", state))
            }
            assert by_filter == {
                each.id for each in ec2.instances.values() if each.seen and each.seen.state == state
            }
        for team in "abc":
            by_tag = {each["InstanceId"] for each in self.account.listed(only("tag:team", team))}
            assert by_tag == {
                each.id for each in ec2.instances.values() if each.seen and each.seen.tags.get("team") == team
            }

    @invariant()
    def nothing_is_launched_that_nobody_asked_for(self) -> None:
        assert set(self.account.ec2.instances) <= set(self.launched)

    def teardown(self) -> None:
        for instance in list(self.account.ec2.instances.values()):
            if instance.seen is None:
                self.account.wait(60)
            self.account.call("TerminateInstances", InstanceIds=[instance.id])
        self.account.wait(60)
        self.account.wait(4000)
        self.account.wait(60)
        ec2 = self.account.ec2
        assert not ec2.instances
        assert not ec2.disks
        assert not ec2.spot_requests
        assert not any(values for values in ec2.seen_by_tag.values())
        assert not any(ec2.seen_by_state.values())
        assert sum(len(subnet.taken) for subnet in ec2.subnets.values()) == 0


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
