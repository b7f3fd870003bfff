# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta

import pytest

from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import FakeClock


def test_an_entry_is_dead_at_the_very_end_of_its_life() -> None:
    clock = FakeClock()
    cache = TTLCache[str, int](clock, ttl_s=10, max_size=5)
    cache.set("a", 1)

    clock.tick(9.75)
    alive, left_s = cache.get("a"), cache.remaining_s("a")
    clock.tick(0.25)

    assert alive == 1
    assert left_s == 0.25
    assert cache.get("a") is None
    assert cache.remaining_s("a") == 0
    assert "a" not in cache


def test_what_is_missing_gives_the_default() -> None:
    cache = TTLCache[str, int](FakeClock(), ttl_s=10, max_size=5)

    assert cache.get("a") is None
    assert cache.get("a", "none") == "none"


def test_none_is_a_value_like_any_other() -> None:
    cache = TTLCache[str, None](FakeClock(), ttl_s=10, max_size=5)

    cache.set("a", None)

    assert "a" in cache
    assert cache.get("a", "none") is None


def test_an_entry_may_have_a_life_of_its_own() -> None:
    clock = FakeClock()
    cache = TTLCache[str, int](clock, ttl_s=10, max_size=5)
    cache.set("short", 1, ttl_s=1)
    cache.set("long", 2, ttl_s=100)

    clock.tick(50)

    assert cache.items() == [("long", 2)]


def test_setting_again_replaces_value_and_age() -> None:
    clock = FakeClock()
    cache = TTLCache[str, int](clock, ttl_s=10, max_size=5)
    cache.set("a", 1)
    clock.tick(9)

    cache.set("a", 2)
    clock.tick(9)

    assert cache.get("a") == 2
    assert len(cache) == 1


def test_a_life_of_nothing_stores_nothing_and_drops_what_was_there() -> None:
    cache = TTLCache[str, int](FakeClock(), ttl_s=10, max_size=2)
    cache.set("a", 1)
    cache.set("b", 2)

    cache.set("c", 3, ttl_s=0)
    before = list(cache)
    cache.set("a", 4, ttl_s=0)

    assert before == ["a", "b"]
    assert list(cache) == ["b"]


def test_reading_renews_an_entry_only_if_the_cache_slides() -> None:
    clock = FakeClock()
    sliding = TTLCache[str, int](clock, ttl_s=10, max_size=5, sliding=True)
    fixed = TTLCache[str, int](clock, ttl_s=10, max_size=5)
    for cache in (sliding, fixed):
        cache.set("a", 1, ttl_s=4)
        clock.tick(0)

    clock.tick(3)
    both = sliding.get("a"), fixed.get("a")
    clock.tick(3)

    assert both == (1, 1)
    assert sliding.get("a") == 1
    assert fixed.get("a") is None


def test_deleting_tells_whether_something_alive_was_there() -> None:
    clock = FakeClock()
    cache = TTLCache[str, int](clock, ttl_s=10, max_size=5)
    cache.set("a", 1)
    cache.set("dead", 2, ttl_s=1)
    clock.tick(1)

    assert cache.delete("a")
    assert not cache.delete("a")
    assert not cache.delete("dead")


def test_the_life_left_can_be_set_anew() -> None:
    clock = FakeClock()
    cache = TTLCache[str, int](clock, ttl_s=10, max_size=5)
    cache.set("a", 1)
    cache.set("b", 2)

    assert cache.expire("a", in_s=2)
    assert cache.expire("b", in_s=0)
    assert not cache.expire("c", in_s=2)
    assert cache.remaining_s("a") == 2
    assert "b" not in cache


def test_a_full_cache_drops_what_was_set_or_renewed_longest_ago() -> None:
    cache = TTLCache[str, int](FakeClock(), ttl_s=10, max_size=2)
    cache.set("a", 1)
    cache.set("b", 2)
    cache.set("a", 3)

    cache.set("c", 4)

    assert list(cache) == ["a", "c"]


def test_sweeping_drops_the_dead_and_counts_them() -> None:
    clock = FakeClock()
    cache = TTLCache[str, int](clock, ttl_s=10, max_size=5)
    cache.set("a", 1, ttl_s=1)
    cache.set("b", 2, ttl_s=2)
    cache.set("c", 3)
    clock.tick(2)

    assert cache.sweep() == 2
    assert cache.sweep() == 0
    assert list(cache) == ["c"]


def test_clearing_drops_everything() -> None:
    cache = TTLCache[str, int](FakeClock(), ttl_s=10, max_size=5)
    cache.set("a", 1)

    cache.clear()

    assert len(cache) == 0


def test_setting_the_time_of_day_neither_kills_nor_revives() -> None:
    clock = FakeClock()
    cache = TTLCache[str, int](clock, ttl_s=10, max_size=5)
    cache.set("a", 1)

    clock.set_time_of_day(clock.now() + timedelta(days=1))

    assert cache.get("a") == 1


@pytest.mark.parametrize(("ttl_s", "max_size"), [(0, 5), (-1, 5), (10, 0)])
def test_a_cache_that_can_hold_nothing_is_refused(ttl_s: float, max_size: int) -> None:
    with pytest.raises(ValueError, match="holds nothing"):
        TTLCache[str, int](FakeClock(), ttl_s=ttl_s, max_size=max_size)
