# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.api.legacy import ConversionWarning, ObjectRef, Refusal, Step


def test_an_object_is_called_by_kind_and_name() -> None:
    assert str(ObjectRef("Provisioner", "default", 2)) == "Provisioner default"


def test_an_object_without_a_name_is_called_by_its_place() -> None:
    assert str(ObjectRef("Provisioner", "", 2)) == "Provisioner (object 3, no name)"


def test_findings_read_object_field_reason() -> None:
    ref = ObjectRef("NodePool", "a", 0)

    assert str(Refusal(ref, "spec.x", "too much")) == "NodePool a: spec.x: too much"
    assert str(ConversionWarning(ref, "spec.y", "moved")) == "NodePool a: spec.y: moved"


def test_a_reason_that_names_the_field_is_not_given_it_twice() -> None:
    refusal = Refusal(ObjectRef("NodePool", "a", 0), "spec.x", 'unknown field "spec.x"')

    assert str(refusal) == 'NodePool a: unknown field "spec.x"'


def test_a_step_is_converted_if_something_else_came_out() -> None:
    ref = ObjectRef("NodePool", "a", 0)
    before = {"kind": "NodePool"}

    assert Step(ref, before, ({"kind": "Other"},)).converted
    assert not Step(ref, before, (before,)).converted
    assert not Step(ref, before, (), refused=True).converted
