# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from karpenter.kit.backoff import BackoffPolicy, BackoffTable
from karpenter.kit.clock import FakeClock

POLICIES = st.builds(
    BackoffPolicy,
    base_s=st.floats(0.001, 10),
    cap_s=st.floats(10, 1000),
    factor=st.floats(1, 10),
    jitter=st.floats(0, 1),
    seed=st.text(max_size=3),
)


@given(POLICIES, st.integers(1, 10_000), st.text(max_size=5))
def test_a_delay_lies_between_its_jitter_and_the_cap(policy: BackoffPolicy, failures: int, key: str) -> None:
    plain = BackoffPolicy(base_s=policy.base_s, cap_s=policy.cap_s, factor=policy.factor)

    delay_s = policy.delay_s(failures, key)

    assert plain.delay_s(failures) * (1 - policy.jitter) <= delay_s <= plain.delay_s(failures) <= policy.cap_s
    assert policy.delay_s(failures, key) == delay_s


@given(POLICIES, st.integers(0, 10_000))
def test_without_jitter_delays_never_shrink(policy: BackoffPolicy, failures: int) -> None:
    plain = BackoffPolicy(base_s=policy.base_s, cap_s=policy.cap_s, factor=policy.factor)

    assert plain.delay_s(failures) <= plain.delay_s(failures + 1)


@given(st.lists(st.integers(0, 20)), st.integers(1, 5))
def test_a_table_holds_the_keys_that_failed_last_and_no_more(keys: list[int], most: int) -> None:
    table = BackoffTable[int](FakeClock(), BackoffPolicy(), max_keys=most)

    for key in keys:
        table.failed(key)

    last = list(dict.fromkeys(reversed(keys)))[:most]
    assert [key for key in range(21) if table.failures(key)] == sorted(last)
    assert len(table) == len(last)
