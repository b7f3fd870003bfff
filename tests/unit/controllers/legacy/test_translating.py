# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api.legacy.conversion import convert
from karpenter.controllers.legacy.naming import kept_names
from karpenter.controllers.legacy.translating import fulfils, originals_of, translate
from tests.unit.controllers.legacy.paperold import provisioner, stored, template

POOLS = [
    provisioner("a"),
    provisioner("b", kubeletConfiguration={"maxPods": 20}),
    provisioner("c", kubeletConfiguration={"maxPods": 20}),
    provisioner("d", requirements=[{"key": "x"}], kubeletConfiguration={"maxPods": 30}),
]
TEMPLATES = [template(), template("other")]


@settings(max_examples=20, deadline=None)
@given(st.permutations(POOLS), st.permutations(TEMPLATES))
def test_the_order_in_which_objects_are_heard_of_changes_nothing(
    pools: list[dict[str, Any]], templates: list[dict[str, Any]]
) -> None:
    expected = translate(originals_of(map(stored, POOLS), map(stored, TEMPLATES)), "p", {})

    found = translate(originals_of(map(stored, pools), map(stored, templates)), "p", {})

    assert found == expected


def test_a_refused_pool_still_counts_as_a_user_of_its_class() -> None:
    found = translate(originals_of(map(stored, POOLS), map(stored, TEMPLATES)), "p", {})

    classes = [wanted.name for each in found[4:] for wanted in each.wanted]
    assert classes == ["default", "default-a", "default-d", "other"]
    assert found[3].wanted == ()
    assert any("spec.requirements[0].operator" in each for each in found[3].refusals)


def test_who_came_first_keeps_the_name_of_a_shared_class() -> None:
    old = provisioner("z")
    old["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    new = provisioner("a", kubeletConfiguration={"maxPods": 20})
    new["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"

    found = translate(originals_of([stored(new), stored(old)], [stored(template())]), "p", {})

    assert [(each.original.name, each.wanted[0].class_name) for each in found[:2]] == [
        ("z", "default"),
        ("a", "default-a"),
    ]


def test_labels_and_annotations_come_along() -> None:
    old = provisioner()
    old["metadata"] |= {"labels": {"team": "a"}, "annotations": {"note": "b"}}

    wanted = translate(originals_of([stored(old)], ()), "p", {})[0].wanted[0]

    assert wanted.manifest["metadata"]["labels"] == {"team": "a"}
    assert wanted.manifest["metadata"]["annotations"]["note"] == "b"


def test_what_the_server_fills_in_is_no_difference_and_a_longer_list_is() -> None:
    wanted = translate(originals_of([stored(provisioner())], ()), "p", {})[0].wanted[0]
    spec = {**wanted.manifest["spec"], "weight": 3}
    metadata = {**wanted.manifest["metadata"], "name": "default", "labels": {"other": "x"}}
    requirements = [*spec["template"]["spec"]["requirements"], {"key": "k", "operator": "Exists"}]
    longer = {"template": {"spec": {**spec["template"]["spec"], "requirements": requirements}}}

    assert fulfils(stored({"metadata": metadata, "spec": spec}), wanted)
    assert not fulfils(stored({"metadata": metadata, "spec": {**spec, **longer}}), wanted)
    assert not fulfils(stored({"metadata": {**metadata, "ownerReferences": []}, "spec": spec}), wanted)


def test_a_class_that_stands_keeps_its_name_when_a_newcomer_brings_a_majority() -> None:
    newcomers = [provisioner(name, kubeletConfiguration={"maxPods": 20}) for name in ("b", "c")]
    old = originals_of(map(stored, [provisioner("a"), *newcomers]), [stored(template())])

    alone = translate(old, "p", {})
    found = translate(old, "p", {"default": {"default": {}}})

    assert [each.wanted[0].class_name for each in alone[:3]] == ["default-a", "default", "default"]
    assert [each.wanted[0].class_name for each in found[:3]] == ["default", "default-b", "default-b"]
    assert {each.name: each.manifest["spec"].get("kubelet") for each in found[3].wanted} == {
        "default": None,
        "default-b": {"maxPods": 20},
    }


def test_settings_that_are_changed_in_place_keep_their_class() -> None:
    changed = provisioner("a", kubeletConfiguration={"maxPods": 30})

    found = translate(
        originals_of([stored(changed)], [stored(template())]), "p", {"default": {"default": {}}}
    )

    assert found[0].wanted[0].class_name == "default"
    assert [each.name for each in found[1].wanted] == ["default"]


def test_two_templates_that_come_upon_the_same_name_keep_those_of_the_conversion() -> None:
    documents = [
        provisioner("b", "t", kubeletConfiguration={"maxPods": 1}),
        provisioner("a", "t"),
        provisioner("c", "t-b"),
        template("t"),
        template("t-b"),
    ]
    outcome = convert(documents, default_instance_profile="p")

    assert kept_names(outcome, {"t": {"t": {}}}) == {}
    assert kept_names(outcome, {}) == {"t": "t", "t-a": "t-a", "t-b": "t-b"}


@given(
    st.lists(st.sampled_from([{}, {"maxPods": 1}, {"maxPods": 2}]), min_size=1, max_size=3),
    st.dictionaries(
        st.sampled_from(["default", "default-p0", "default-p1", "x"]),
        st.sampled_from([{}, {"maxPods": 1}, {"maxPods": 2}]),
    ),
)
@settings(max_examples=50, deadline=None)
def test_names_differ_and_are_the_same_the_next_time(
    kubelets: list[dict[str, int]], standing: dict[str, dict[str, int]]
) -> None:
    documents = [provisioner(f"p{n}", kubeletConfiguration=each) for n, each in enumerate(kubelets)]
    outcome = convert([*documents, template()], default_instance_profile="p")
    wanted = {
        each["metadata"]["name"]: each["spec"].get("kubelet", {})
        for each in outcome.objects
        if each["kind"] == "EC2NodeClass"
    }

    chosen = kept_names(outcome, {"default": standing})
    made = {chosen[name]: kubelet for name, kubelet in wanted.items()}

    assert len(made) == len(wanted)
    assert kept_names(outcome, {"default": made}) == chosen
    for name, kubelet in standing.items():
        if kubelet in wanted.values() and list(standing.values()).count(kubelet) == 1:
            assert made[name] == kubelet
