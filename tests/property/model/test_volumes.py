# SPDX-License-Identifier: Apache-2.0
"""Several volumes with alternatives each, against trying every node there could be."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSource,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    Volume,
    VolumeNodeAffinity,
)
from karpenter.api.labels import BIND_COMPLETED, ZONE
from karpenter.api.meta import ObjectMeta
from karpenter.model.volumes import Storage, volume_demand

VALUES = ("a", "b", "c")
NODES = [
    {key: value for key, value in ((ZONE, zone), ("rack", rack)) if value}
    for zone, rack in product((*VALUES, ""), (*VALUES, ""))
]

expressions = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from([ZONE, "rack"]),
    operator=st.sampled_from(["In", "NotIn"]),
    values=st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple),
)
terms = st.builds(
    NodeSelectorTerm, match_expressions=st.lists(expressions, min_size=1, max_size=2).map(tuple)
)
reaches = st.lists(st.lists(terms, max_size=3), max_size=3)


def holds(expression: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    return (labels.get(expression.key) in expression.values) is (expression.operator == "In")


def reached(volume_terms: list[NodeSelectorTerm], labels: dict[str, str]) -> bool:
    return not volume_terms or any(
        all(holds(expression, labels) for expression in term.match_expressions) for term in volume_terms
    )


def world(volumes: list[list[NodeSelectorTerm]]) -> tuple[Pod, Storage]:
    names = [f"v{index}" for index in range(len(volumes))]
    sources = (PersistentVolumeClaimSource(claim_name=name) for name in names)
    pod = Pod(
        metadata=ObjectMeta(namespace="n"),
        spec=PodSpec(volumes=tuple(Volume(name="v", persistent_volume_claim=source) for source in sources)),
    )
    claims = [
        PersistentVolumeClaim(
            metadata=ObjectMeta(name=name, namespace="n", annotations={BIND_COMPLETED: "yes"}),
            spec=PersistentVolumeClaimSpec(volume_name=name),
        )
        for name in names
    ]
    bound = [
        PersistentVolume(
            metadata=ObjectMeta(name=name),
            spec=PersistentVolumeSpec(
                node_affinity=VolumeNodeAffinity(required=NodeSelector(node_selector_terms=tuple(own)))
                if own
                else None
            ),
        )
        for name, own in zip(names, volumes, strict=True)
    ]
    return pod, Storage.of(claims, bound)


@given(reaches)
def test_a_node_meets_an_alternative_exactly_where_it_reaches_every_volume(
    volumes: list[list[NodeSelectorTerm]],
) -> None:
    demand = volume_demand(*world(volumes))

    for labels in NODES:
        expected = all(reached(own, labels) for own in volumes)
        assert any(alternative.allows(labels) for alternative in demand.alternatives) is expected
    assert bool(demand.problems) is not bool(demand.alternatives)
    assert len(set(demand.alternatives)) == len(demand.alternatives)


@given(reaches)
def test_the_order_of_the_volumes_does_not_change_the_places(volumes: list[list[NodeSelectorTerm]]) -> None:
    one = volume_demand(*world(volumes))

    other = volume_demand(*world(volumes[::-1]))

    assert set(one.alternatives) == set(other.alternatives)
