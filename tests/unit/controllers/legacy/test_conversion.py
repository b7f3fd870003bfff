# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.controllers.legacy import (
    CONVERSION_HASH,
    CONVERTED_FROM,
    STORED_PROVISIONERS,
    STORED_TEMPLATES,
)
from karpenter.kube import ConflictError, InvalidError, NotFoundError, ServerError
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS
from tests.unit.controllers.legacy.paperold import OldScene, provisioner, template
from tests.unit.state.worlds import claim, stored_class, stored_pool

READY = {"type": "Ready", "status": "True", "reason": "Ready"}


def pool_of(scene: OldScene, name: str = "default") -> dict[str, Any]:
    """A NodePool as it is stored."""
    raw = scene.client.raw_object(STORED_NODE_POOLS, name)
    assert raw is not None
    return raw


def class_names(scene: OldScene) -> list[str]:
    """The names of all node classes."""
    return sorted(each.metadata.name for each in scene.cluster.informers.classes)


async def test_a_provisioner_and_its_template_become_v1_objects_that_they_own() -> None:
    scene = OldScene()
    scene.apply_example("default-provisioner")

    again_s = await scene.settle()

    pool = pool_of(scene, "karpenter-default")
    assert again_s == 300
    assert pool["metadata"]["annotations"][CONVERTED_FROM] == "Provisioner/karpenter-default"
    assert pool["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "karpenter.sh/v1alpha5",
            "kind": "Provisioner",
            "name": "karpenter-default",
            "uid": "uid-Provisioner-karpenter-default",
            "controller": True,
        }
    ]
    assert pool["spec"]["limits"] == {"cpu": "1000", "memory": "1000Gi"}
    node_class = scene.client.raw_object(STORED_NODE_CLASSES, "karpenter-default")
    assert node_class is not None
    assert node_class["metadata"]["ownerReferences"][0]["kind"] == "AWSNodeTemplate"
    assert [call.plural for call in scene.client.writes("apply")] == ["ec2nodeclasses", "nodepools"]
    assert ("Provisioner/karpenter-default", "Converted") in [each[:2] for each in scene.events()]


async def test_a_change_is_applied_and_what_is_taken_out_goes() -> None:
    scene = OldScene()
    scene.store(provisioner(weight=7, limits={"resources": {"cpu": 10}}), template())
    await scene.settle()
    before = pool_of(scene)["metadata"]["annotations"][CONVERSION_HASH]

    scene.store(provisioner(limits={"resources": {"cpu": 20}}), template())
    await scene.settle()

    assert pool_of(scene)["spec"]["limits"] == {"cpu": 20}
    assert "weight" not in pool_of(scene)["spec"]
    assert pool_of(scene)["metadata"]["annotations"][CONVERSION_HASH] != before
    assert len(scene.client.writes("apply", "ec2nodeclasses")) == 1


async def test_what_somebody_changes_by_hand_is_put_back_and_what_others_add_is_left() -> None:
    scene = OldScene()
    scene.store(provisioner(weight=7), template())
    await scene.settle()

    change = {"metadata": {"annotations": {"mine": "yes"}}, "spec": {"weight": 9, "limits": {"cpu": 5}}}
    await scene.client.patch(STORED_NODE_POOLS, "default", change)
    scene.client.calls.clear()
    await scene.settle()

    assert pool_of(scene)["spec"]["weight"] == 7
    assert pool_of(scene)["spec"]["limits"] == {"cpu": 5}
    assert pool_of(scene)["metadata"]["annotations"]["mine"] == "yes"
    assert len(scene.client.writes("apply")) == 1


async def test_a_template_that_is_shared_with_two_kubelets_is_two_classes_until_it_is_not() -> None:
    scene = OldScene()
    scene.store(provisioner("a"), provisioner("b", kubeletConfiguration={"maxPods": 20}), template())
    await scene.settle()
    assert class_names(scene) == ["default", "default-b"]

    scene.store(provisioner("b"))
    await scene.settle()

    assert class_names(scene) == ["default"]
    assert pool_of(scene, "b")["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "default"


async def test_a_refused_provisioner_keeps_its_pool_and_says_where_it_is_wrong() -> None:
    scene = OldScene()
    scene.store(provisioner("a"), provisioner("b", kubeletConfiguration={"maxPods": 20}), template())
    await scene.settle()
    applied = len(scene.client.writes("apply"))

    nested = [{"requirements": [{"key": "k", "operator": "Exists"}]}]
    scene.store(provisioner("b", requirements=nested, kubeletConfiguration={"maxPods": 20}))
    await scene.settle()

    status, reason, message = scene.conditions("b")["Converted"]
    assert (status, reason) == ("False", "ConversionRefused")
    assert "spec.requirements[0].requirements" in message
    assert "one level up" in message
    assert scene.conditions("b")["Ready"][0] == "False"
    assert class_names(scene) == ["default", "default-b"]
    assert len(scene.client.writes("apply")) == applied
    assert any(each[:2] == ("Provisioner/b", "ConversionRefused") for each in scene.events())
    assert scene.conditions("a")["Converted"][0] == "True"


async def test_the_trouble_of_a_template_is_told_on_the_provisioners_that_use_it() -> None:
    scene = OldScene(profile="")
    scene.store(provisioner(), template())

    await scene.settle()

    status, reason, message = scene.conditions("default")["Converted"]
    assert (status, reason) == ("False", "ConversionRefused")
    assert message.startswith("AWSNodeTemplate default: spec.instanceProfile: Required value")
    assert message.endswith("--default-instance-profile")
    assert any(each[:2] == ("AWSNodeTemplate/default", "ConversionRefused") for each in scene.events())
    assert class_names(scene) == []


async def test_a_template_that_is_missing_is_named_by_its_old_name() -> None:
    scene = OldScene()
    scene.store(provisioner(), provisioner("v1", "mine"))
    scene.client.store(STORED_NODE_CLASSES, stored_class("mine"))

    await scene.settle()

    assert scene.conditions("default")["Ready"] == (
        "False",
        "NodeTemplateNotFound",
        "AWSNodeTemplate default is not there: create it, or correct spec.providerRef.name",
    )
    assert scene.conditions("v1")["Converted"][0] == "True"


async def test_a_pool_of_the_same_name_is_never_touched() -> None:
    scene = OldScene()
    scene.client.store(STORED_NODE_POOLS, stored_pool())
    scene.store(provisioner(weight=3), template())

    await scene.settle()

    assert "weight" not in pool_of(scene)["spec"]
    assert scene.client.writes("apply", "nodepools") == ()
    assert scene.conditions("default")["Converted"][:2] == ("False", "NameTaken")
    assert scene.conditions("default")["Active"][0] == "False"
    assert "kubectl delete nodepools.karpenter.sh default" in scene.conditions("default")["Converted"][2]
    assert class_names(scene) == ["default"]


async def test_a_pool_is_not_pointed_at_a_class_that_took_its_templates_name() -> None:
    scene = OldScene()
    scene.client.store(STORED_NODE_CLASSES, stored_class())
    scene.store(provisioner(), template())

    await scene.settle()

    assert scene.client.writes("apply") == ()
    assert "EC2NodeClass default is there" in scene.conditions("default")["Converted"][2]


async def test_a_pool_that_the_informer_does_not_know_yet_is_not_taken_over() -> None:
    scene = OldScene()
    scene.store(provisioner(), template())
    informers, scene.client.informers = scene.client.informers, None
    scene.client.store(STORED_NODE_POOLS, stored_pool())
    scene.client.informers = informers

    await scene.settle()

    assert scene.client.writes("apply", "nodepools") == ()


async def test_what_an_orphaned_provisioner_leaves_is_somebodys_own() -> None:
    scene = OldScene()
    scene.store(provisioner(), template())
    await scene.settle()

    await scene.client.edit(STORED_NODE_POOLS, "default", {"metadata": {"ownerReferences": []}})
    await scene.settle()

    assert scene.conditions("default")["Converted"][1] == "NameTaken"


async def test_what_somebody_applies_a_manifest_of_is_let_go_and_never_touched_again() -> None:
    scene = OldScene()
    scene.store(provisioner(weight=3), template())
    await scene.settle()
    owned = pool_of(scene)["metadata"]["ownerReferences"]
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "uid-x"}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    by_hand = {
        "metadata": {"annotations": applied, "ownerReferences": [*owned, other]},
        "spec": {"weight": 4},
    }
    await scene.client.edit(STORED_NODE_POOLS, "default", by_hand)
    await scene.client.patch(STORED_NODE_CLASSES, "default", {"metadata": {"annotations": applied}})

    await scene.settle()

    pool, node_class = pool_of(scene), scene.client.raw_object(STORED_NODE_CLASSES, "default")
    assert node_class is not None
    assert pool["spec"]["weight"] == 4
    assert [each["name"] for each in pool["metadata"]["ownerReferences"]] == ["x"]
    assert "ownerReferences" not in node_class["metadata"]
    for each in (pool, node_class):
        assert {CONVERTED_FROM, CONVERSION_HASH}.isdisjoint(each["metadata"]["annotations"])
    assert scene.conditions("default")["Converted"][:2] == ("False", "NameTaken")
    told = [each for each in scene.events() if each[1] == "TakenOver"]
    assert told[0][2] == "NodePool default was applied by hand and no longer follows it: it can be deleted"


async def test_what_is_applied_by_hand_and_gone_already_is_no_trouble() -> None:
    scene = OldScene()
    scene.store(provisioner(), template())
    await scene.settle()
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    await scene.client.patch(STORED_NODE_POOLS, "default", {"metadata": {"annotations": applied}})
    scene.client.fail("patch", "nodepools", NotFoundError("gone", status=404))

    following = asyncio.ensure_future(scene.conversion.old.run())
    await scene.clock.settle()
    assert await scene.conversion.reconcile() == 300
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)

    assert [each for each in scene.events() if each[1] == "TakenOver"] == []


async def test_of_what_is_being_deleted_nothing_is_made() -> None:
    scene = OldScene()
    leaving = provisioner()
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}
    scene.store(leaving, template())

    await scene.settle()

    assert class_names(scene) == ["default"]
    assert scene.client.raw_object(STORED_NODE_POOLS, "default") is None
    assert scene.conditions("default") == {}


async def test_a_pool_that_is_being_deleted_is_waited_for() -> None:
    scene = OldScene()
    scene.store(provisioner(weight=1), template())
    await scene.settle()
    pool_of(scene)["metadata"]["finalizers"] = ["x"]
    await scene.client.delete(STORED_NODE_POOLS, "default")
    scene.client.calls.clear()

    scene.store(provisioner(weight=2))
    await scene.settle()

    assert scene.client.writes("apply") == ()
    assert scene.conditions("default")["Active"][:2] == ("False", "Terminating")


async def test_finalizers_of_the_old_object_stay_there() -> None:
    scene = OldScene()
    old = provisioner()
    old["metadata"]["finalizers"] = ["example.com/hold"]
    scene.store(old, template())

    await scene.settle()

    assert "finalizers" not in pool_of(scene)["metadata"]


async def test_what_the_server_refuses_is_told_and_the_rest_goes_on() -> None:
    scene = OldScene()
    scene.client.fail("apply", "nodepools", InvalidError("spec is bad", status=422))
    scene.store(provisioner("a"), provisioner("b"), template())
    following = asyncio.ensure_future(scene.conversion.old.run())
    await scene.clock.settle()

    await scene.conversion.reconcile()

    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    refused = [name for name in ("a", "b") if scene.conditions(name)["Converted"][0] == "False"]
    assert len(refused) == 1
    assert scene.conditions(refused[0])["Converted"][1:] == (
        "NotAccepted",
        f"NodePool {refused[0]}: spec is bad",
    )


async def test_a_server_that_fails_is_tried_again_and_the_rest_goes_on() -> None:
    scene = OldScene()
    scene.client.fail("apply", "ec2nodeclasses", ServerError("no", status=500))
    scene.client.fail("patch", "provisioners", ServerError("no", status=500))
    scene.store(provisioner(), template())
    following = asyncio.ensure_future(scene.conversion.old.run())
    await scene.clock.settle()

    with pytest.raises(ServerError):
        await scene.conversion.reconcile()

    assert scene.client.raw_object(STORED_NODE_POOLS, "default") is not None
    await scene.conversion.reconcile()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert class_names(scene) == ["default"]


@pytest.mark.parametrize("error", [NotFoundError("gone", status=404), ConflictError("other", status=409)])
async def test_a_class_that_is_gone_already_is_no_trouble(error: Exception) -> None:
    scene = OldScene()
    scene.store(provisioner("a"), provisioner("b", kubeletConfiguration={"maxPods": 20}), template())
    await scene.settle()
    scene.client.fail("delete", "ec2nodeclasses", error)
    scene.store(provisioner("b"))
    following = asyncio.ensure_future(scene.conversion.old.run())
    await scene.clock.settle()

    assert await scene.conversion.reconcile() == 300

    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_status_comes_back_to_the_old_objects() -> None:
    scene = OldScene()
    scene.store(provisioner(), template())
    await scene.settle()
    assert scene.conditions("default")["Active"][:2] == ("Unknown", "AwaitingReconciliation")

    missing = {
        "type": "InstanceTypesFound",
        "status": "False",
        "reason": "NoCompatibleInstanceTypes",
        "message": "no EC2 instance type of this node class is called c",
    }
    status = {"conditions": [READY, missing], "resources": {"cpu": "2", "nodes": "1"}}
    await scene.client.edit(STORED_NODE_POOLS, "default", {"status": status}, subresource="status")
    found = {
        "subnets": [{"id": "s-1", "zone": "a", "zoneID": "1"}],
        "securityGroups": [{"id": "sg-1"}],
        "amis": [{"id": "ami-1", "requirements": [], "deprecated": True}],
    }
    await scene.client.edit(STORED_NODE_CLASSES, "default", {"status": found}, subresource="status")
    born = {"creationTimestamp": "2026-01-02T03:04:05Z"}
    scene.client.store(NODE_CLAIMS, claim("c1", provider_id="p1", metadata=born))
    await scene.settle()

    raw = scene.client.raw_object(STORED_PROVISIONERS, "default")
    assert raw is not None
    assert raw["status"]["resources"] == {"cpu": "2"}
    assert raw["status"]["lastScaleTime"] == "2026-01-02T03:04:05Z"
    assert scene.conditions("default")["Ready"][0] == "True"
    assert scene.conditions("default")["InstanceTypesFound"][2] == missing["message"]
    assert ("Provisioner/default", "NoCompatibleInstanceTypes", missing["message"]) in scene.events()
    old = scene.client.raw_object(STORED_TEMPLATES, "default")
    assert old is not None
    assert old["status"] == {
        "subnets": [{"id": "s-1", "zone": "a"}],
        "securityGroups": [{"id": "sg-1"}],
        "amis": [{"id": "ami-1", "requirements": []}],
    }


async def test_an_old_object_that_goes_while_it_is_reported_on_is_no_trouble() -> None:
    scene = OldScene()
    scene.client.fail("patch", "provisioners", NotFoundError("gone", status=404))
    scene.store(provisioner(), template())
    following = asyncio.ensure_future(scene.conversion.old.run())
    await scene.clock.settle()

    assert await scene.conversion.reconcile() == 300

    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_running_it_follows_changes_by_itself() -> None:
    scene = OldScene()
    task = asyncio.ensure_future(scene.conversion.run())
    await scene.clock.settle()

    scene.store(provisioner(), template())
    for _ in range(100):
        await scene.clock.advance(0.1)
        await asyncio.sleep(0.02)
        if scene.client.raw_object(STORED_NODE_POOLS, "default"):
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert pool_of(scene)["metadata"]["annotations"][CONVERTED_FROM] == "Provisioner/default"


async def test_nothing_is_done_before_both_kinds_are_known_or_while_there_is_nothing_old() -> None:
    scene = OldScene()
    scene.store(provisioner())

    assert await scene.conversion.reconcile() == 0.5

    scene = OldScene()
    following = asyncio.ensure_future(scene.conversion.old.run())
    await scene.clock.settle()
    assert await scene.conversion.reconcile() is None
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_failure_is_counted() -> None:
    scene = OldScene()

    scene.conversion._failed("all", ValueError("x"), 1.0)
    scene.conversion._informer_failed(ValueError("x"))
    scene.conversion._informer_failed(NotFoundError("not served", status=404))

    assert scene.metrics.reconcile_errors.labels("legacy.conversion")._value.get() == 1
