# SPDX-License-Identifier: Apache-2.0
from karpenter.kit.clock import FakeClock
from karpenter.state import Nominations


def test_a_promise_ends_with_its_time_its_pod_or_its_member() -> None:
    clock = FakeClock()
    found = Nominations(clock)
    found.promise(["a", "b", "c"], "m1", 10)
    found.promise(["c"], "m2", 20)

    found.withdraw("b")
    clock.tick(10)

    assert (found.member_of("a"), found.member_of("b"), found.member_of("c")) == ("", "", "m2")
    assert found.members() == ("m2",)
    assert found.withdraw_all("m2") == ("c",)
    assert len(found) == 0


def test_promises_of_a_ready_member_end_sooner_but_never_later() -> None:
    clock = FakeClock()
    found = Nominations(clock)
    found.promise(["a"], "m1", 900)
    found.promise(["b"], "m1", 5)
    found.promise(["c"], "m2", 900)

    found.hasten("m1", 20)
    found.hasten("nobody", 20)
    clock.tick(5)
    after_five = (found.member_of("a"), found.member_of("b"))
    clock.tick(15)

    assert after_five == ("m1", "")
    assert (found.member_of("a"), found.member_of("c")) == ("", "m2")


def test_where_nobody_tells_every_member_counts_as_told() -> None:
    found = Nominations(FakeClock())
    found.promise(["a"], "m1", 10)

    assert found.is_told("m1")


def test_a_member_is_told_until_it_is_promised_more_or_something_is_forgotten() -> None:
    found = Nominations(FakeClock())
    found.is_telling = True
    heard: list[str] = []
    found.on_told(heard.append)
    found.promise(["a"], "m1", 10)
    states = [found.is_told("m1"), found.is_told("without pods")]

    for change in (
        lambda: found.tell("m1"),
        lambda: found.tell("m1"),
        lambda: found.promise(["b"], "m1", 10),
        lambda: found.tell("m1"),
        lambda: found.untell("m1"),
        lambda: found.withdraw_all("m1"),
        lambda: found.tell("m1"),
    ):
        change()
        states.append(found.is_told("m1"))

    assert states == [False, True, True, True, False, True, False, True, True]
    assert heard == ["m1", "m1"]
