# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.controllers.lifecycle.disarming import (
    ANSWER,
    Disarming,
    disarming_patch,
    is_armed,
    is_shielded,
)
from tests.unit.state.worlds import node

ARMED = {"key": names.UNREGISTERED_TAINT.key, "effect": "NoExecute"}
DISARMED = {"key": names.UNREGISTERED_TAINT.key, "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
FOREIGN = {"key": "foreign", "effect": "NoExecute", "value": "x"}


def joined(*taints: dict[str, str], annotated: bool = True, ready: bool = True) -> Node:
    """A node with taints."""
    metadata: dict[str, Any] = {"resourceVersion": "7", "annotations": {ANSWER: "0"} if annotated else {}}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return node("n1", "aws:///a/i-1", taints=list(taints), metadata=metadata, conditions=conditions)


def test_the_patch_swaps_our_taint_alone_and_takes_the_annotation_off() -> None:
    patch = disarming_patch(joined(ARMED, FOREIGN))

    assert patch["metadata"] == {"resourceVersion": "7", "annotations": {ANSWER: None}}
    assert patch["spec"]["taints"] == [FOREIGN, DISARMED]


def test_nobody_is_asked_by_an_annotation_that_is_not_there() -> None:
    assert disarming_patch(joined(ARMED, annotated=False))["metadata"] == {"resourceVersion": "7"}


@pytest.mark.parametrize(
    ("taints", "ready", "expected"),
    [
        ([ARMED, NOT_READY], False, (True, True)),
        ([ARMED, NOT_READY], True, (True, False)),
        ([ARMED], False, (True, False)),
        ([DISARMED, NOT_READY], False, (False, True)),
        ([FOREIGN], True, (False, False)),
    ],
)
def test_a_node_is_shielded_while_it_is_not_ready_and_says_so_by_its_taint(
    taints: list[dict[str, str]], *, ready: bool, expected: tuple[bool, bool]
) -> None:
    found = joined(*taints, ready=ready)

    assert (is_armed(found), is_shielded(found)) == expected


def test_a_node_waits_until_the_annotation_is_back_but_not_for_ever() -> None:
    known = Disarming()
    known.note("c1", joined(ARMED), 100.0)

    silent = [known.wait_s("c1", joined(DISARMED, annotated=False), now) for now in (100.0, 110.0, 116.0)]
    answered = known.wait_s("c1", joined(DISARMED), 100.1)

    assert silent == [15.0, 5.0, 0.0]
    assert answered == 0.0
    assert known.wait_s("c1", joined(ARMED), 100.0) == 0.0


@pytest.mark.parametrize(("ready", "limit_s"), [(True, 0.25), (False, 1.0)])
def test_a_node_that_could_not_be_asked_about_waits_for_a_moment_and_is_asked_about_when_it_can_be(
    *, ready: bool, limit_s: float
) -> None:
    known = Disarming()
    bare = joined(DISARMED, annotated=False, ready=ready)
    known.note("c1", joined(ARMED, annotated=False), 100.0)

    first, last = known.wait_s("c1", bare, 100.0), known.wait_s("c1", bare, 100.0 + limit_s)
    could, can = known.can_ask("c1", bare), known.can_ask("c1", joined(DISARMED))
    known.note("c1", joined(DISARMED), 100.1)

    assert (first, last) == (limit_s, 0.0)
    assert (could, can, known.can_ask("c1", joined(DISARMED))) == (False, True, False)


def test_an_answer_for_a_node_that_has_just_joined_counts_only_after_a_moment() -> None:
    known = Disarming()
    booting = joined(DISARMED, ready=False)
    known.note("c1", joined(ARMED, ready=False), 100.0)

    waits = [known.wait_s("c1", booting, now) for now in (100.0, 100.75, 101.0)]

    assert waits == [1.0, 0.25, 0.0]


def test_what_is_forgotten_begins_anew() -> None:
    known = Disarming()
    known.note("c1", joined(ARMED), 100.0)

    known.forget("c1")

    assert known.wait_s("c1", joined(DISARMED, annotated=False), 500.0) == 0.25
    assert known.can_ask("c1", joined(DISARMED))
