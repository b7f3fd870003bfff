# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.kit.backoff import BackoffPolicy, BackoffTable
from karpenter.kit.clock import FakeClock

DOUBLING = BackoffPolicy(base_s=1, cap_s=10, factor=2)


def test_delays_grow_by_the_factor_up_to_the_cap() -> None:
    assert [DOUBLING.delay_s(failures) for failures in range(7)] == [0, 1, 2, 4, 8, 10, 10]


def test_a_million_failures_wait_as_long_as_the_cap() -> None:
    assert DOUBLING.delay_s(1_000_000) == 10


def test_a_factor_of_one_keeps_the_delay() -> None:
    assert BackoffPolicy(base_s=3, cap_s=3, factor=1).delay_s(1_000_000) == 3


def test_jitter_shortens_the_delay_by_the_same_amount_in_every_process() -> None:
    jittered = BackoffPolicy(base_s=100, cap_s=100, jitter=0.5)

    assert jittered.delay_s(1, "a") == pytest.approx(89.83, abs=0.01)
    assert jittered.delay_s(1, ("m5.large", "us-east-1a")) == pytest.approx(68.44, abs=0.01)


def test_keys_attempts_and_seeds_scatter_the_delays() -> None:
    jittered = BackoffPolicy(base_s=1, cap_s=1, jitter=1)
    reseeded = BackoffPolicy(base_s=1, cap_s=1, jitter=1, seed="replica-2")

    delays = {
        jittered.delay_s(1, "a"),
        jittered.delay_s(1, "b"),
        jittered.delay_s(2, "a"),
        reseeded.delay_s(1, "a"),
    }

    assert len(delays) == 4


@pytest.mark.parametrize(
    "policy",
    [
        {"base_s": 0.0},
        {"base_s": -1.0},
        {"base_s": 2.0, "cap_s": 1.0},
        {"factor": 0.5},
        {"jitter": -0.1},
        {"jitter": 1.1},
    ],
    ids=repr,
)
def test_a_policy_that_makes_no_sense_is_refused(policy: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        BackoffPolicy(**policy)  # type: ignore[arg-type]


def test_a_key_is_ready_until_it_fails_and_again_after_its_delay() -> None:
    clock = FakeClock()
    table = BackoffTable[str](clock, DOUBLING)
    assert table.is_ready("a")

    delay_s = table.failed("a")

    assert delay_s == 1
    assert not table.is_ready("a")
    clock.tick(0.25)
    assert table.remaining_s("a") == 0.75
    clock.tick(0.75)
    assert table.is_ready("a")


def test_failures_of_one_key_delay_no_other() -> None:
    table = BackoffTable[str](FakeClock(), DOUBLING)

    delays = [table.failed("a"), table.failed("a"), table.failed("b"), table.failed("a")]

    assert delays == [1, 2, 1, 4]
    assert table.failures("a") == 3
    assert table.is_ready("c")
    assert table.failures("c") == 0


def test_a_reset_key_starts_anew() -> None:
    table = BackoffTable[str](FakeClock(), DOUBLING)
    table.failed("a")
    table.failed("a")

    table.reset("a")
    table.reset("never seen")

    assert table.is_ready("a")
    assert table.failed("a") == 1


def test_a_key_that_was_quiet_for_long_starts_anew() -> None:
    clock = FakeClock()
    table = BackoffTable[str](clock, DOUBLING)
    table.failed("a")

    clock.tick(1 + 20)
    still = table.failures("a")
    clock.tick(0.5)

    assert still == 1
    assert table.failures("a") == 0
    assert len(table) == 0
    assert table.failed("a") == 1


def test_how_long_is_quiet_can_be_chosen() -> None:
    clock = FakeClock()
    table = BackoffTable[str](clock, DOUBLING, forget_after_s=0)
    table.failed("a")

    clock.tick(1.5)

    assert table.failed("a") == 1


def test_a_full_table_forgets_the_key_that_failed_longest_ago() -> None:
    table = BackoffTable[str](FakeClock(), DOUBLING, max_keys=2)
    table.failed("a")
    table.failed("b")
    table.failed("a")

    table.failed("c")

    assert len(table) == 2
    assert table.failures("a") == 2
    assert table.failures("b") == 0


def test_a_table_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="remembers nothing"):
        BackoffTable[str](FakeClock(), DOUBLING, max_keys=0)
