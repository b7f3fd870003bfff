# SPDX-License-Identifier: Apache-2.0
import pytest

from karpenter.api.meta import OwnerReference
from karpenter.consolidation import Memory, MemoryUnreadableError, Settings, workload_of
from karpenter.consolidation.memory import PROMISES_KEPT
from tests.strategies.pods import pod
from tests.unit.consolidation.world import NOW, replica

SETTINGS = Settings(horizon_h=2.0, horizon_floor_h=0.5)
HOUR = 3600.0
DAY = 24 * HOUR
WEB = "default/ReplicaSet/web"


def learnt(memory: Memory) -> float:
    return memory.horizon_h("default", SETTINGS)


def test_a_pool_that_has_taught_nothing_has_the_horizon_of_the_settings() -> None:
    assert learnt(Memory()) == SETTINGS.horizon_h


def test_buying_back_within_the_hour_is_regret_and_counts_once() -> None:
    removed = Memory().removed(["default"], NOW, SETTINGS)

    once = removed.launched(["default", "other"], NOW + HOUR, SETTINGS)

    assert learnt(once) == pytest.approx(2 / 1.5)
    assert once.pools["default"].regrets == 1
    assert once.launched(["default"], NOW + HOUR, SETTINGS) == once
    assert "other" not in once.pools


def test_buying_later_is_no_regret() -> None:
    removed = Memory().removed(["default"], NOW, SETTINGS)

    assert learnt(removed.launched(["default"], NOW + HOUR + 1, SETTINGS)) == 2


def test_a_missed_promise_is_regret_too_down_to_the_floor() -> None:
    memory = Memory()
    for _ in range(20):
        memory = memory.missed(["default"], NOW, SETTINGS)

    assert learnt(memory) == SETTINGS.horizon_floor_h


def watched(memory: Memory, *levels: int) -> Memory:
    """Return the memory after days until now with so many replicas in each half hour, over and over."""
    slots = 49
    for slot in range(slots):
        replicas = {WEB: levels[slot % len(levels)]}
        memory = memory.counted(replicas, NOW - (slots - 1 - slot) * 1800)
    return memory


def test_each_quiet_hour_lengthens_the_horizon_once_up_to_the_ceiling() -> None:
    start = watched(Memory(), 3).hour_passed(["default"], NOW, SETTINGS)

    one = start.hour_passed(["default"], NOW + HOUR, SETTINGS)

    assert learnt(one) == pytest.approx(2.5)
    assert learnt(one.hour_passed(["default"], NOW + HOUR + 1, SETTINGS)) == pytest.approx(2.5)
    assert learnt(one.hour_passed(["default"], NOW + 3 * HOUR, SETTINGS)) == pytest.approx(2.5 * 1.25**2)
    assert learnt(one.hour_passed(["default"], NOW + 10_000 * HOUR, SETTINGS)) == SETTINGS.horizon_ceiling_h


def test_before_a_day_is_known_quiet_hours_teach_nothing() -> None:
    memory = Memory().missed(["default"], NOW - DAY, SETTINGS)

    quiet = memory.hour_passed(["default"], NOW, SETTINGS)
    known = watched(quiet, 3)

    assert learnt(quiet) == pytest.approx(2 / 1.5)
    assert learnt(known.hour_passed(["default"], NOW, SETTINGS)) == pytest.approx(2 / 1.5)
    assert learnt(known.hour_passed(["default"], NOW + HOUR, SETTINGS)) == pytest.approx(2 / 1.5 * 1.25)


def test_a_saving_lasts_no_longer_than_things_stay_as_they_are_by_yesterday() -> None:
    night, day = [20] * 24, [30] * 24
    long = Settings(horizon_h=24.0)

    at_night = watched(Memory(), *night, *day)
    by_day = at_night.counted({WEB: 30}, NOW + 11.5 * HOUR)
    late = at_night.counted({WEB: 30}, NOW + 23 * HOUR)

    # A day ago the night had just begun, and it took 12 hours.
    assert at_night.horizon_h("default", long) == 12.0
    # By day a third of the replicas is gone 12.5 hours later: waiting for that spares few evictions for its time.
    assert by_day.horizon_h("default", long) == pytest.approx(3.75)
    # Where they are gone in an hour it spares many, but half an hour is always expected.
    assert late.horizon_h("default", long) == 0.5


def test_regret_starts_the_quiet_hour_anew() -> None:
    memory = Memory().hour_passed(["default"], NOW, SETTINGS).missed(["default"], NOW + 3000, SETTINGS)

    assert learnt(memory.hour_passed(["default"], NOW + HOUR, SETTINGS)) == pytest.approx(2 / 1.5)


def test_a_clock_that_goes_backwards_teaches_nothing() -> None:
    memory = Memory().hour_passed(["default"], NOW, SETTINGS)

    assert learnt(memory.hour_passed(["default"], NOW - 10 * HOUR, SETTINGS)) == 2


def test_pools_that_are_gone_and_old_moves_are_forgotten() -> None:
    memory = Memory().removed(["gone"], NOW, SETTINGS).moved([replica("a", "n", of="web")], NOW)

    later = memory.hour_passed(["default"], NOW + HOUR + 1, SETTINGS)

    assert set(later.pools) == {"default"}
    assert later.moves == {}


def test_a_successor_of_a_moved_pod_is_known_for_an_hour() -> None:
    moved = Memory().moved([replica("a", "n", of="web")], NOW - 10)
    successor, other = replica("b", "m", of="web"), replica("c", "m", of="api")
    elder = replica("d", "m", of="web", age_s=60)

    assert moved.was_moved(successor, NOW)
    assert not moved.was_moved(successor, NOW + HOUR)
    assert not moved.was_moved(elder, NOW)
    assert not moved.was_moved(other, NOW)


def test_a_workload_is_its_controller_or_the_pod_itself() -> None:
    assert workload_of(replica("a", "n", of="web")) == WEB
    assert workload_of(pod("alone", namespace="shop")) == "shop/Pod/alone"
    guardian = OwnerReference(api_version="v1", kind="Guardian", name="g", uid="g")
    assert workload_of(pod("alone", namespace="shop", owner=guardian)) == "shop/Pod/alone"


def seen(*steps: tuple[float, int]) -> Memory:
    memory = Memory()
    for minutes, number in steps:
        memory = memory.counted({WEB: number}, NOW + minutes * 60)
    return memory


def test_a_workload_that_only_goes_down_holds_no_room() -> None:
    assert seen((0, 12), (1, 5), (2, 1)).ghosts(NOW + 180) == {}


def test_a_workload_that_comes_back_holds_the_room_of_its_peak_for_half_an_hour() -> None:
    memory = seen((0, 10), (10, 8), (20, 10), (30, 7), (31, 7))

    assert memory.ghosts(NOW + 31 * 60) == {WEB: 3}
    assert memory.ghosts(NOW + 60 * 60) == {WEB: 3}
    assert memory.ghosts(NOW + 60 * 60 + 1) == {}


def test_the_highest_of_several_steps_down_counts() -> None:
    memory = seen((0, 10), (1, 6), (2, 10), (3, 9), (4, 8), (5, 4))

    assert memory.ghosts(NOW + 300) == {WEB: 6}
    assert memory.crests[WEB].seen == ((NOW + 180, 10), (NOW + 240, 9), (NOW + 300, 8), (NOW + 300, 4))


def test_a_workload_at_its_peak_has_no_ghosts() -> None:
    assert seen((0, 10), (1, 6), (2, 10)).ghosts(NOW + 120) == {}


def test_coming_back_long_after_is_no_swing() -> None:
    assert seen((0, 10), (1, 5), (62, 10), (63, 5)).ghosts(NOW + 63 * 60) == {}


def test_a_workload_that_swung_hours_ago_is_calm_again() -> None:
    memory = seen((0, 10), (10, 5), (20, 10))

    calm = memory.counted({WEB: 5}, NOW + 3 * HOUR)

    assert calm.ghosts(NOW + 3 * HOUR) == {}


def test_a_workload_that_is_gone_is_forgotten() -> None:
    assert seen((0, 10)).counted({}, NOW).crests == {}


def test_promises_are_kept_with_what_came_of_them() -> None:
    memory = Memory().promised("c1", "Empty", 0.5, NOW).promised("c2", "Drifted", 0.1, NOW)

    found = memory.realised("c1", 0.4).promises

    assert [(each.command, each.realised_per_hour) for each in found] == [("c1", 0.4), ("c2", None)]


def test_only_the_last_promises_are_kept() -> None:
    memory = Memory()
    for number in range(PROMISES_KEPT + 5):
        memory = memory.promised(f"c{number}", "Empty", 0.5, NOW)

    assert len(memory.promises) == PROMISES_KEPT
    assert memory.promises[0].command == "c5"


def test_it_survives_being_written_down() -> None:
    memory = (
        seen((0, 10), (1, 5))
        .removed(["default"], NOW, SETTINGS)
        .moved([replica("a", "n")], NOW)
        .promised("c1", "Empty", 0.5, NOW)
    )

    assert Memory.from_json(memory.to_json()) == memory
    assert Memory.from_json("{}") == Memory()


@pytest.mark.parametrize("text", ["", "[]", '{"pools": 3}', '{"moves": {"a": "b"}}'])
def test_something_else_is_refused(text: str) -> None:
    with pytest.raises(MemoryUnreadableError, match="cannot be read") as error:
        Memory.from_json(text)

    assert error.value.hint
