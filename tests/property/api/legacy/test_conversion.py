# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from copy import deepcopy

from hypothesis import HealthCheck, given, settings

from karpenter.api.legacy import RawObject, convert
from karpenter.api.schema import load_crds
from tests.property.api.legacy.strategies import inputs

_bounded = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(inputs())
@_bounded
def test_what_the_old_version_takes_v1_takes_once_converted(objects: list[RawObject]) -> None:
    for manifest in objects:
        assert load_crds().admit(manifest, strict=True).problems == ()

    conversion = convert(objects)

    assert conversion.refusals == ()
    for manifest in conversion.objects:
        assert manifest["apiVersion"].endswith("/v1")
        assert load_crds().admit(manifest, strict=True).problems == ()


@given(inputs())
@_bounded
def test_conversion_leaves_its_input_alone_and_always_says_the_same(objects: list[RawObject]) -> None:
    before = deepcopy(objects)

    first, second = convert(objects), convert(deepcopy(objects))

    assert objects == before
    assert first == second


@given(inputs())
@_bounded
def test_converting_the_outcome_again_gives_it_back(objects: list[RawObject]) -> None:
    once = convert(objects)

    again = convert(once.objects)

    assert again.objects == once.objects
    assert (again.warnings, again.refusals) == ((), ())


@given(inputs())
@_bounded
def test_every_pool_finds_its_kubelet_settings_on_the_class_it_points_at(objects: list[RawObject]) -> None:
    wanted = {
        manifest["metadata"]["name"]: manifest["spec"].get("kubeletConfiguration", {})
        if manifest["kind"] == "Provisioner"
        else manifest["spec"]["template"]["spec"].get("kubelet", {})
        for manifest in objects
        if manifest["kind"] in {"Provisioner", "NodePool"}
    }

    made = convert(objects).objects

    classes = {
        each["metadata"]["name"]: each["spec"].get("kubelet", {})
        for each in made
        if each["kind"] == "EC2NodeClass"
    }
    for pool in (each for each in made if each["kind"] == "NodePool"):
        reference = pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]
        if reference in classes:
            assert classes[reference] == wanted[pool["metadata"]["name"]]


@given(inputs())
@_bounded
def test_there_and_back_and_there_again_changes_nothing(objects: list[RawObject]) -> None:
    there = convert(objects)
    back = convert(there.objects, to="v1beta1")
    sayable = {(step.object.kind, step.object.name) for step in back.steps if not step.refused}

    again = convert(back.objects)

    assert again.refusals == ()
    kept = [each for each in there.objects if (each["kind"], each["metadata"]["name"]) in sayable]
    assert [_stored(each) for each in again.objects] == [_stored(each) for each in kept]


def _stored(manifest: RawObject) -> RawObject:
    """What the API server keeps: a default that is written out and one that is not are the same."""
    return load_crds().admit(manifest).object
