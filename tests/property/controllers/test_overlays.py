# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api import labels as names
from karpenter.controllers.overlays.applying import Overlay, conflicts, in_order
from karpenter.model.requirements import Requirement, Requirements
from tests.unit.controllers.overlays.test_overlays import kind


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([(), ("a",), ("b",)]), st.floats(0, 1)), max_size=6)
)
def test_the_order_in_which_overlays_come_does_not_matter(
    rows: list[tuple[int, tuple[str, ...], float]],
) -> None:
    types = [kind("m5.large")]
    made = [
        Overlay(
            f"o{number}",
            weight,
            Requirements([Requirement.of(names.ZONE, "In", zones)] if zones else []),
            price=price,
        )
        for number, (weight, zones, price) in enumerate(rows)
    ]

    forth, back = in_order(made), in_order(reversed(made))

    assert forth == back
    bad = conflicts(types, forth, {})
    sound = [each for each in forth if each.name not in bad]
    assert conflicts(types, sound, {}) == {}
