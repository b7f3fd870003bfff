# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.core import Taint, Toleration
from karpenter.model.taints import (
    canonical_tolerations,
    discouraging_taints,
    forbidding_taints,
    merge_taints,
    tolerates,
    tolerates_all,
)

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

taints = st.builds(
    Taint, key=st.sampled_from("ab"), value=st.sampled_from(["", "x", "y"]), effect=st.sampled_from(EFFECTS)
)
tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["", "a", "b"]),
    operator=st.sampled_from(["", "Equal", "Exists", "Lt"]),
    value=st.sampled_from(["", "x", "y"]),
    effect=st.sampled_from(["", *EFFECTS]),
    toleration_seconds=st.none() | st.integers(0, 9),
)


def naive(toleration: Toleration, taint: Taint) -> bool:
    values = {"": {toleration.value}, "Equal": {toleration.value}, "Exists": {taint.value}}
    return (
        toleration.key in ("", taint.key)
        and toleration.effect in ("", taint.effect)
        and taint.value in values.get(toleration.operator, set())
    )


@given(st.lists(tolerations, max_size=3), taints)
def test_one_matching_toleration_is_enough_and_folding_them_changes_nothing(
    held: list[Toleration], taint: Taint
) -> None:
    expected = any(naive(toleration, taint) for toleration in held)

    assert tolerates(held, taint) is expected
    assert tolerates(canonical_tolerations(held), taint) is expected


@given(st.lists(taints, max_size=4), st.lists(tolerations, max_size=3))
def test_what_forbids_and_what_dissuades_are_all_that_is_not_tolerated(
    tainted: list[Taint], held: list[Toleration]
) -> None:
    forbids, dissuades = forbidding_taints(tainted, held), discouraging_taints(tainted, held)

    untolerated = [taint for taint in tainted if not any(naive(toleration, taint) for toleration in held)]
    assert sorted(map(repr, (*forbids, *dissuades))) == sorted(map(repr, untolerated))
    assert {taint.effect for taint in dissuades} <= {"PreferNoSchedule"}
    assert tolerates_all(tainted, held) is (not forbids)
    assert tolerates_all(tainted, held, heed_wishes=True) is (not untolerated)


@given(st.lists(taints, max_size=4), st.lists(taints, max_size=4))
def test_merged_taints_name_each_key_and_effect_once(one: list[Taint], two: list[Taint]) -> None:
    merged = merge_taints(one, two)

    names = [(taint.key, taint.effect) for taint in merged]
    assert len(set(names)) == len(names)
    assert set(names) == {(taint.key, taint.effect) for taint in (*one, *two)}
    assert merge_taints(merged, two) == merged
