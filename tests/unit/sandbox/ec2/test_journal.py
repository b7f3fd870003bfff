# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from karpenter.sandbox.ec2.admin import Admin
from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.dispatch import Dispatcher
from karpenter.sandbox.ec2.front.routing import Arrived
from karpenter.sandbox.ec2.journal import Hands, Journal, JournalError
from karpenter.sandbox.ec2.seeds import seeded
from karpenter.sandbox.ec2.server import Server
from karpenter.sandbox.ec2.state import state_of
from karpenter.sandbox.ec2.world import Options, World

OPTIONS = Options(seed=7)
_open: list[Journal] = []


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    """No file outlives its test."""
    yield
    for each in _open:
        each.close()
    _open.clear()


def a_journal(path: Path, hands: Hands | None = None) -> Journal:
    journal = Journal(path, hands or Hands())
    _open.append(journal)
    return journal


def made(clock: ModelClock) -> World:
    return seeded(clock, OPTIONS)


def begun(path: Path) -> tuple[Journal, World, Hands]:
    hands = Hands()
    hands.hold(hands())
    journal = a_journal(path, hands)
    world = made(ModelClock(real=hands))
    journal.begin(world)
    return journal, world, hands


def again(path: Path, options: Options = OPTIONS) -> World:
    world = a_journal(path).resume(options, made)
    assert world is not None
    return world


async def call(world: World, journal: Journal, service: str, action: str, **parameters: str) -> int:
    scope = f"AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-west-2/{service}/aws4_request, Signature=00"
    version = {"ec2": "2016-11-15", "iam": "2010-05-08"}[service]
    body = urlencode({"Action": action, "Version": version, **parameters})
    arrived = Arrived("POST", "/", {"Authorization": scope}, body.encode())
    answer = await Dispatcher(world, journal=journal).answer(arrived)
    assert answer is not None
    return answer.status


async def launch(world: World, journal: Journal, instance_type: str = "m5.large") -> int:
    image = next(iter(world.ec2.images.values()))
    subnet = next(iter(world.ec2.subnets))
    return await call(
        world,
        journal,
        "ec2",
        "RunInstances",
        ImageId=image.id,
        InstanceType=instance_type,
        SubnetId=subnet,
        MinCount="1",
        MaxCount="1",
    )


def things(world: World) -> dict[str, Any]:
    """What exists, without what is only counted and without the seconds that have passed since."""
    found = state_of(world)
    return {name: found[name] for name in ("region", "roles", "queues", "faults", "ec2", "clusters")}


async def test_a_world_comes_back_as_it_was(tmp_path: Path) -> None:
    journal, world, hands = begun(tmp_path / "journal")
    server = Server(world, journal=journal)

    assert await launch(world, journal) == 200
    assert await launch(world, journal, "no.such") == 400
    assert await launch(world, journal) == 200
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    assert (
        await call(world, journal, "iam", "CreateRole", RoleName="r", AssumeRolePolicyDocument=trust) == 200
    )
    fault = [{"fault": {"operation": "CreateFleet", "code": "InternalError"}}]
    told = Admin(server).answer(Arrived("POST", "/_model/actions", {}, json.dumps(fault).encode()))
    assert told.status == 200
    hands.hold(hands() + 3600)
    [first, _] = world.ec2.instances
    assert await call(world, journal, "ec2", "TerminateInstances", **{"InstanceId.1": first}) == 200

    before = things(world)
    after = things(again(tmp_path / "journal"))

    assert len(before["ec2"]["instances"]) == 2
    assert before == after


async def test_what_only_reads_and_what_is_turned_away_is_not_written_down(tmp_path: Path) -> None:
    journal, world, _ = begun(tmp_path / "journal")

    await call(world, journal, "ec2", "DescribeVpcs")
    await call(world, journal, "ec2", "CreateVpc", CidrBlock="10.9.0.0/16", DryRun="true")

    assert len((tmp_path / "journal").read_bytes().splitlines()) == 1


async def test_time_that_passed_while_nobody_served_has_passed_in_the_model(tmp_path: Path) -> None:
    hands = Hands()
    hands.hold(hands() - 7200)
    journal = a_journal(tmp_path / "journal", hands)
    world = made(ModelClock(speed=10, real=hands))
    journal.begin(world)
    await launch(world, journal)

    resumed = again(tmp_path / "journal")

    assert resumed.clock.speed == 10
    assert 72_000 <= resumed.clock.elapsed_s() < 73_000
    assert [each.state for each in resumed.ec2.instances.values()] == ["pending"]
    resumed.settle()
    assert [each.state for each in resumed.ec2.instances.values()] == ["running"]


async def test_a_line_that_was_cut_short_is_dropped_and_writing_goes_on_behind_the_others(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal"
    journal, world, _ = begun(path)
    await launch(world, journal)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"call","at":1')

    second = a_journal(path)
    resumed = second.resume(OPTIONS, made)
    assert resumed is not None
    await launch(resumed, second)

    assert path.read_bytes().startswith(whole)
    assert len(again(path).ec2.instances) == 2


async def test_a_reset_begins_the_file_anew(tmp_path: Path) -> None:
    journal, world, _ = begun(tmp_path / "journal")
    await launch(world, journal)
    server = Server(world, journal=journal, fresh=lambda old: made(old.clock.restarted()))

    Admin(server).answer(Arrived("POST", "/_model/reset", {}, b""))

    assert again(tmp_path / "journal").ec2.instances == {}


def test_without_a_file_there_is_nothing_to_resume(tmp_path: Path) -> None:
    assert a_journal(tmp_path / "journal").resume(OPTIONS, made) is None


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda whole: b"{}\n" + whole, "line 1 cannot be read"),
        (lambda whole: whole.replace(b'"format":2', b'"format":9'), "line 1 does not begin as a journal"),
        (lambda whole: whole + b"no\n", "line 2 cannot be read"),
        (lambda whole: whole + whole, "line 2 begins a second time"),
    ],
)
def test_a_broken_file_is_refused_with_the_line(tmp_path: Path, spoil: Any, words: str) -> None:
    path = tmp_path / "journal"
    begun(path)
    path.write_bytes(spoil(path.read_bytes()))

    with pytest.raises(JournalError, match=words) as refused:
        again(path)

    assert "remove the file" in (refused.value.hint or "")


def test_a_file_of_another_world_is_refused(tmp_path: Path) -> None:
    begun(tmp_path / "journal")

    with pytest.raises(JournalError, match=r"is of a model with cluster version 1\.33, not 1\.30"):
        again(tmp_path / "journal", Options(seed=7, cluster_version="1.30"))


def test_a_place_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()

    with pytest.raises(JournalError, match="cannot be used"):
        begun(tmp_path / "dir")
    with pytest.raises(JournalError, match="cannot be used"):
        again(tmp_path / "dir")


def test_held_hands_never_go_back() -> None:
    hands = Hands()
    ahead = hands() + 500

    hands.hold(ahead)
    assert hands() == ahead
    hands.run()

    assert hands() >= ahead
