# SPDX-License-Identifier: Apache-2.0
"""Pods that contradict themselves, and pods with alternatives of which none will do."""

from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    ZONE,
)
from karpenter.scheduling import Cause
from tests.strategies.clusters import nodepool, volume, volume_claim
from tests.strategies.expressions import (
    expression,
    node_term,
    taint,
)
from tests.strategies.machines import ZONES
from tests.strategies.pods import pod
from tests.unit.scheduling.refusals import causes, only_constraint, only_reason, refusal

A, B, C = ZONES


def test_a_pod_that_contradicts_itself_is_blamed_alone() -> None:
    asked = pod(
        node_selector={ZONE: A, ARCH: "amd64"},
        node_affinity=[node_term(expression(ZONE, "In", B), expression(ZONE, "In", B, C))],
    )

    found = only_reason(refusal(asked, nodepool(), nodepool("other", taints=[taint("a")])))

    assert found.pools == ()
    assert [(each.cause, each.subject, each.wanted, each.offered) for each in found.constraints] == [
        (Cause.CONTRADICTION, ZONE, f"In [{A}]", "nodeSelector"),
        (Cause.CONTRADICTION, ZONE, f"In [{B}, {C}]", "node affinity"),
    ]


def test_a_pod_whose_every_alternative_contradicts_itself_is_blamed_alone() -> None:
    asked = pod(
        node_selector={ZONE: A, ARCH: "amd64"},
        node_affinity=[node_term(expression(ZONE, "In", B)), node_term(expression(ARCH, "In", "arm64"))],
    )

    found = only_reason(refusal(asked))

    assert set(causes(found)) == {Cause.CONTRADICTION}
    assert found.hint == "each of its 2 alternatives contradicts itself"


def test_a_pod_that_wants_two_names_for_its_node_contradicts_itself() -> None:
    term = node_term(name=("In", "n1"))
    both = type(term)(match_fields=(*term.match_fields, *node_term(name=("In", "n2")).match_fields))

    found = only_reason(refusal(pod(node_affinity=[both])))

    assert [each.wanted for each in found.constraints] == ["In [n1]", "In [n2]"]


def test_a_pod_that_insists_on_another_zone_than_its_volume_is_blamed_alone() -> None:
    found = only_reason(
        refusal(
            pod(claims=["data"], node_selector={ZONE: B}),
            claims=(volume_claim("data", volume_name="v"),),
            volumes=(volume("v", zones=[A]),),
        )
    )

    assert found.pools == ()
    assert [each.offered for each in found.constraints] == ["nodeSelector", "its volumes"]


def test_node_affinity_that_cannot_be_read_is_quoted() -> None:
    asked = pod(node_affinity=[node_term(expression("generation", "Gt", "new"))])

    found = only_constraint(refusal(asked))

    assert found.cause is Cause.CONTRADICTION
    assert '"new" is not a number' in found.hint


def test_an_unreadable_term_beside_a_contradiction_does_not_hide_it() -> None:
    asked = pod(
        node_selector={ZONE: A},
        node_affinity=[
            node_term(expression("generation", "Gt", "new")),
            node_term(expression(ZONE, "In", B)),
        ],
    )

    assert [each.offered for each in only_reason(refusal(asked)).constraints] == [
        "nodeSelector",
        "node affinity",
    ]


def test_node_affinity_of_empty_terms_is_met_by_no_node() -> None:
    found = only_constraint(refusal(pod(node_affinity=[node_term()])))

    assert found.hint == "an empty term matches no node"


def test_alternatives_are_blamed_by_the_labels_that_exclude_them_all() -> None:
    asked = pod(
        node_affinity=[
            node_term(expression(ZONE, "In", "mars"), expression(CAPACITY_TYPE, "In", "spot")),
            node_term(expression(ZONE, "In", "venus"), expression(CAPACITY_TYPE, "In", "on-demand")),
        ]
    )

    found = only_constraint(refusal(asked))

    assert (found.subject, found.wanted) == (ZONE, "mars or venus")
