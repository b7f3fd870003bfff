# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.sandbox.workloads.resources import Wire
from karpenter.sandbox.workloads.rolling import Rollout, resolve, roll, share_out


def _set(name: str, size: int, available: int) -> Wire:
    return {
        "metadata": {"name": name},
        "spec": {"replicas": size},
        "status": {"availableReplicas": available},
    }


@pytest.mark.parametrize(
    ("value", "up", "expected"),
    [("25%", True, 3), ("25%", False, 2), (4, True, 4), ("7", True, 7), (None, True, 1), ("x", True, 0)],
)
def test_a_number_or_a_share_is_rounded_as_asked(value: str | int | None, *, up: bool, expected: int) -> None:
    assert resolve(value, 10, up=up, default=1) == expected


def test_a_rollout_that_could_never_move_may_miss_one() -> None:
    said = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "1%"}}

    assert Rollout.of({"replicas": 3, "strategy": said}) == Rollout(3, 0, 1)


@given(
    replicas=st.integers(1, 12),
    surge=st.integers(0, 4),
    unavailable=st.integers(0, 4),
    old=st.lists(st.integers(0, 8), min_size=1, max_size=3),
    new=st.integers(0, 12),
    data=st.data(),
)
def test_no_step_exceeds_the_surge_nor_takes_what_must_stay(
    replicas: int, surge: int, unavailable: int, old: list[int], new: int, data: st.DataObject
) -> None:
    rollout = Rollout(replicas, surge, min(unavailable or (0 if surge else 1), replicas))
    sets = [_set(f"old{i}", size, data.draw(st.integers(0, size))) for i, size in enumerate(old)]
    newest = _set("new", min(new, replicas), data.draw(st.integers(0, min(new, replicas))))
    before = {each["metadata"]["name"]: each["spec"]["replicas"] for each in [newest, *sets]}

    after = {**before, **roll(rollout, newest, sets)}

    grown = sum(after.values()) > sum(before.values())
    assert not grown or sum(after.values()) <= rollout.most
    ready = {each["metadata"]["name"]: each["status"]["availableReplicas"] for each in [newest, *sets]}
    have = sum(ready.values())
    # The worst that deleting can do is to take available pods first, beyond those that were not.
    left = sum(min(ready[name], after[name]) for name in after)
    assert left >= min(have, replicas - rollout.unavailable)


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 20), min_size=1),
    st.integers(0, 60),
)
def test_shares_add_up_to_the_total(sizes: dict[str, int], total: int) -> None:
    shares = share_out(sizes, total)

    assert sum(shares.values()) == total
    assert all(each >= 0 for each in shares.values())
