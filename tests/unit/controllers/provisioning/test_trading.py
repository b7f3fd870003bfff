# SPDX-License-Identifier: Apache-2.0
"""Equal pods share the places that were planned for them."""

from __future__ import annotations

import msgspec
import pytest

from karpenter.api.core import Pod, PodStatus
from karpenter.controllers.provisioning.trading import heir
from tests.strategies import pod

WEB = {"app": "web"}


def web(name: str, *, nominated: str = "", **options: object) -> Pod:
    made = pod(name, labels=WEB, **options)  # type: ignore[arg-type]
    return msgspec.structs.replace(made, status=PodStatus(nominated_node_name=nominated))


def test_an_equal_pod_that_was_not_told_of_the_node_yet_is_the_heir() -> None:
    promised = [web("a"), web("b"), web("c", nominated="n1")]

    found = heir(web("newcomer", node_name="n1"), promised)

    assert found is promised[1]


def test_where_all_have_been_told_the_last_one_is_the_heir() -> None:
    promised = [web("b", nominated="n1"), web("a", nominated="n1")]

    assert heir(web("newcomer", node_name="n1"), promised) is promised[0]


@pytest.mark.parametrize(
    "other",
    [
        pod("other", labels=WEB, cpu="2"),
        pod("other", labels={"app": "db"}),
        pod("other", labels=WEB, namespace="shop"),
        pod("other", labels=WEB, claims=["data"]),
        pod("other", labels=WEB, devices=["gpu"]),
        pod("other", labels=WEB, node_name="n1"),
    ],
)
def test_pods_that_differ_or_are_tied_to_volumes_inherit_nothing(other: Pod) -> None:
    assert heir(web("newcomer", node_name="n1"), [other]) is None


def test_a_pod_that_is_tied_to_volumes_leaves_nothing() -> None:
    assert heir(web("newcomer", node_name="n1", claims=["data"]), [web("a")]) is None
