# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from karpenter.sandbox.workloads.attachments import Attachments
from karpenter.sandbox.workloads.resources import ATTACHMENT, CLAIM, NODE, POD, STORAGE_CLASS, VOLUME, Wire
from karpenter.sandbox.workloads.volumes import Claims, EphemeralClaims, Volumes
from tests.unit.sandbox.workloads.fakeserver import Stage

ZONE = "topology.kubernetes.io/zone"


def _class(mode: str = "Immediate", **more: Any) -> Wire:
    return {
        "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": mode,
        "reclaimPolicy": "Delete",
        **more,
    }


def _claim(name: str = "c", **spec: Any) -> Wire:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": {"storageClassName": "gp3", **asked, **spec}}


def _user(name: str, claim: str, *, node: str = "") -> Wire:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return {"metadata": {"name": name}, "spec": {"volumes": volumes, **({"nodeName": node} if node else {})}}


async def test_a_claim_gets_its_volume_at_once_in_a_zone_that_has_nodes() -> None:
    async with Stage() as stage:
        stage.play(Claims(stage.world), Volumes(stage.world))
        await stage.make(NODE, {"metadata": {"name": "n0", "labels": {ZONE: "b"}}})
        await stage.make(STORAGE_CLASS, _class())

        await stage.make(CLAIM, _claim())
        await stage.pass_time(1)

        [volume] = stage.all(VOLUME)
        term = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
        assert term["matchExpressions"][0]["values"] == ["b"]
        assert volume["status"]["phase"] == "Bound"
        claim = stage.get(CLAIM, "c")
        assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
        assert claim["status"]["phase"] == "Bound"


async def test_a_claim_that_waits_gets_its_volume_in_the_zone_of_the_chosen_node() -> None:
    async with Stage() as stage:
        stage.play(Claims(stage.world), Volumes(stage.world))
        for name, zone in (("n0", "a"), ("n1", "b")):
            await stage.make(NODE, {"metadata": {"name": name, "labels": {ZONE: zone}}})
        await stage.make(STORAGE_CLASS, _class("WaitForFirstConsumer"))
        await stage.make(CLAIM, _claim())
        await stage.pass_time(1)
        assert stage.all(VOLUME) == []
        assert "WaitForFirstConsumer" in stage.reasons("c")

        chosen = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
        await stage.change(CLAIM, "c", chosen)
        await stage.pass_time(1)

        [volume] = stage.all(VOLUME)
        assert "'b'" in str(volume["spec"]["nodeAffinity"])


async def test_the_smallest_free_volume_that_is_large_enough_is_taken() -> None:
    async with Stage() as stage:
        stage.play(Claims(stage.world), Volumes(stage.world))
        for name, size in (("large", "9Gi"), ("small", "512Mi"), ("right", "2Gi")):
            spec = {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "old",
            }
            await stage.make(VOLUME, {"metadata": {"name": name}, "spec": spec})

        await stage.make(CLAIM, _claim(storageClassName="old"))

        assert stage.get(CLAIM, "c")["spec"]["volumeName"] == "right"
        assert stage.get(VOLUME, "small")["status"]["phase"] == "Available"


async def test_a_claim_that_lost_its_volume_says_so() -> None:
    async with Stage() as stage:
        stage.play(Claims(stage.world))
        claim = _claim(volumeName="gone")
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}

        await stage.make(CLAIM, claim)

        assert stage.get(CLAIM, "c")["status"]["phase"] == "Lost"


async def test_a_claim_in_use_is_not_deleted_and_its_volume_goes_with_it() -> None:
    async with Stage() as stage:
        stage.play(Claims(stage.world), Volumes(stage.world))
        await stage.make(STORAGE_CLASS, _class())
        claim = _claim()
        claim["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
        await stage.make(CLAIM, claim)
        await stage.make(POD, _user("p", "c"))
        await stage.pass_time(1)

        await stage.remove(CLAIM, "c")
        assert len(stage.all(CLAIM)) == 1
        await stage.remove(POD, "p")
        await stage.pass_time(1)

        assert stage.all(CLAIM) == stage.all(VOLUME) == []


async def test_a_claim_without_a_class_gets_the_default_one() -> None:
    async with Stage() as stage:
        stage.play(Claims(stage.world))
        default = _class()
        default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        await stage.make(STORAGE_CLASS, default)
        claim = _claim()
        del claim["spec"]["storageClassName"]

        await stage.make(CLAIM, claim)

        assert stage.get(CLAIM, "c")["spec"]["storageClassName"] == "gp3"


async def test_an_ephemeral_volume_gets_a_claim_of_its_pods_own() -> None:
    async with Stage() as stage:
        stage.play(EphemeralClaims(stage.world))
        template = {"spec": _claim()["spec"]}
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]

        await stage.make(POD, {"metadata": {"name": "p"}, "spec": {"volumes": volumes}})

        [claim] = stage.all(CLAIM)
        assert claim["metadata"]["name"] == "p-scratch"
        assert claim["metadata"]["ownerReferences"][0]["name"] == "p"


async def test_volumes_follow_pods_and_wait_for_the_other_node_to_let_go() -> None:
    async with Stage() as stage:
        stage.play(Claims(stage.world), Volumes(stage.world), Attachments(stage.world))
        for name in ("n0", "n1"):
            await stage.make(NODE, {"metadata": {"name": name, "labels": {ZONE: "a"}}})
        await stage.make(STORAGE_CLASS, _class())
        await stage.make(CLAIM, _claim())
        await stage.pass_time(1)

        await stage.make(POD, _user("first", "c", node="n0"))
        await stage.pass_time(2)
        [attachment] = stage.all(ATTACHMENT)
        assert (attachment["spec"]["nodeName"], attachment["status"]["attached"]) == ("n0", True)

        await stage.make(POD, _user("second", "c", node="n1"))
        await stage.pass_time(1)
        assert "FailedAttachVolume" in stage.reasons("second")

        await stage.run_pods("Succeeded", only="first")
        await stage.pass_time(5)
        [attachment] = stage.all(ATTACHMENT)
        assert attachment["spec"]["nodeName"] == "n1"
