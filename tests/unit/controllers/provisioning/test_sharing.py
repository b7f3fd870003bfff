# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from karpenter.controllers.provisioning.sharing import alike
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.requirements import Requirement, Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling import NewNode


def shop(count: int = 8) -> Catalogue:
    """Types at rising prices, one offering each."""
    size = Resources.parse({"cpu": "4", "memory": "8Gi"})
    types = [
        InstanceType(f"t{number}", {}, size, size, (Offering("us-west-2a", "on-demand", 1.0 + number),))
        for number in range(count)
    ]
    return Catalogue(types)


def planned(catalogue: Catalogue, usable: int, **parts: Any) -> NewNode:
    """A node that could be any of these offerings."""
    fields: dict[str, Any] = {
        "pool": "default",
        "labels": {},
        "pods": (),
        "requests": Resources(),
        "daemon_overhead": Resources(),
        "pool_requirements": Requirements(),
        **parts,
    }
    return NewNode(catalogue=catalogue, usable=usable, **fields)


def test_nodes_that_begin_with_the_same_offering_ask_for_what_they_have_in_common() -> None:
    catalogue = shop()

    found = alike([planned(catalogue, 0b0111), planned(catalogue, 0b1111), planned(catalogue, 0b1011)])

    assert [node.usable for node in found] == [0b0011, 0b0011, 0b0011]
    assert {node.price_per_hour for node in found} == {1.0}


def test_a_node_with_far_more_choice_keeps_it() -> None:
    catalogue = shop()

    found = alike([planned(catalogue, 0b1), planned(catalogue, 0b11111111), planned(catalogue, 0b1)])

    assert [node.usable for node in found] == [0b1, 0b11111111, 0b1]


def test_nodes_of_other_pools_offerings_or_labels_stay_apart() -> None:
    catalogue = shop()
    nodes = [
        planned(catalogue, 0b0111),
        planned(catalogue, 0b1110),
        planned(catalogue, 0b1111, pool="other"),
        planned(catalogue, 0b1111, labels={"team": "a"}),
        planned(shop(), 0b1111),
    ]

    assert alike(nodes) == tuple(nodes)


def test_a_wish_for_many_values_is_left_alone_unless_it_was_given_up() -> None:
    catalogue = shop()
    wish = Requirements([Requirement.of("node.kubernetes.io/instance-type", "Exists", (), min_values=3)])
    strict = [planned(catalogue, mask, pool_requirements=wish) for mask in (0b0111, 0b1101)]
    relaxed = [
        planned(catalogue, mask, pool_requirements=wish, min_values_relaxed=True) for mask in (0b0111, 0b1101)
    ]

    assert [node.usable for node in alike(strict)] == [0b0111, 0b1101]
    assert [node.usable for node in alike(relaxed)] == [0b0101, 0b0101]


@given(st.lists(st.integers(1, 255), max_size=12))
def test_every_node_keeps_its_choice_and_at_least_half_of_the_others(masks: list[int]) -> None:
    catalogue = shop()
    nodes = [planned(catalogue, mask) for mask in masks]

    found = alike(nodes)

    assert len(found) == len(nodes)
    for before, after in zip(nodes, found, strict=True):
        assert after.usable & before.usable == after.usable
        assert after.price_per_hour == before.price_per_hour
        assert 2 * after.usable.bit_count() >= before.usable.bit_count()
