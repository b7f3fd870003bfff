# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from karpenter.sandbox.scheduler import Cluster, Decider, Placed, Refused
from karpenter.sandbox.scheduler.matching import Wire
from tests.unit.sandbox.scheduler.builders import ZONE, cluster, node, pod

EBS = "ebs.csi.aws.com"


def _uses(*claims: str) -> list[Wire]:
    return [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]


def _claim(name: str, *, volume: str = "", bound: bool = False, **spec: Any) -> Wire:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations},
        "spec": {"volumeName": volume, "storageClassName": "gp3", **asked, **spec},
    }


def _volume(name: str, *, zone: str = "", **spec: Any) -> Wire:
    content: Wire = {
        "csi": {"driver": EBS, "volumeHandle": name},
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "gp3",
        **spec,
    }
    if zone:
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        content["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"metadata": {"name": name, "labels": {}}, "spec": content}


def _stocked(
    claims: list[Wire], volumes: list[Wire], *, mode: str = "WaitForFirstConsumer", **more: Any
) -> Cluster:
    found = cluster([node("n0", zone="a"), node("n1", zone="b")])
    for each in claims:
        found.storage.claims["default", each["metadata"]["name"]] = each
    for each in volumes:
        found.storage.volumes[each["metadata"]["name"]] = each
    found.storage.classes["gp3"] = {"provisioner": EBS, "volumeBindingMode": mode, **more}
    return found


def _words(found: Cluster, **spec: Any) -> str:
    decision = Decider(found).decide(pod(**spec))
    assert isinstance(decision, Refused), decision
    return decision.message.removeprefix(f"0/{len(found.nodes)} nodes are available: ").partition(
        " preemption"
    )[0]


def test_a_bound_claim_keeps_its_pod_in_the_zone_of_its_volume() -> None:
    found = _stocked([_claim("c", volume="v", bound=True)], [_volume("v", zone="b")])

    assert Decider(found).decide(pod(volumes=_uses("c"))) == Placed("n1")
    found = _stocked([_claim("c", volume="v", bound=True)], [_volume("v", zone="z")])
    assert _words(found, volumes=_uses("c")) == "2 node(s) had volume node affinity conflict."


def test_labels_of_a_volume_say_its_zone_too() -> None:
    volume = _volume("v")
    volume["metadata"]["labels"] = {ZONE: "c__d"}

    assert _words(_stocked([_claim("c", volume="v", bound=True)], [volume]), volumes=_uses("c")) == (
        "2 node(s) had no available volume zone."
    )


def test_claims_that_are_missing_lost_leaving_or_unbound_keep_a_pod_everywhere() -> None:
    assert _words(_stocked([], []), volumes=_uses("c")) == 'persistentvolumeclaim "c" not found.'
    lost = _claim("c", volume="v", bound=True) | {"status": {"phase": "Lost"}}
    assert "non-existent persistentvolume" in _words(_stocked([lost], []), volumes=_uses("c"))
    leaving = _claim("c")
    leaving["metadata"]["deletionTimestamp"] = "now"
    assert (
        _words(_stocked([leaving], []), volumes=_uses("c")) == 'persistentvolumeclaim "c" is being deleted.'
    )
    at_once = _stocked([_claim("c")], [], mode="Immediate")
    assert _words(at_once, volumes=_uses("c")) == "pod has unbound immediate PersistentVolumeClaims."
    scratch = [{"name": "s", "ephemeral": {}}]
    assert "waiting for ephemeral volume controller" in _words(_stocked([], []), volumes=scratch)


def test_a_volume_that_is_gone_is_named_as_such() -> None:
    found = _stocked([_claim("c", volume="v", bound=True)], [])

    assert "bound to non-existent pv(s)" in _words(found, volumes=_uses("c"))


def test_a_waiting_claim_goes_where_its_class_can_make_a_volume() -> None:
    only_b = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]

    assert Decider(_stocked([_claim("c")], [], allowedTopologies=only_b)).decide(
        pod(volumes=_uses("c"))
    ) == Placed("n1")
    by_hand = _stocked([_claim("c")], [_volume("v", zone="a")], provisioner="kubernetes.io/no-provisioner")
    assert Decider(by_hand).decide(pod(volumes=_uses("c"))) == Placed("n0")
    none = _stocked([_claim("c")], [], provisioner="kubernetes.io/no-provisioner")
    assert _words(none, volumes=_uses("c")) == "2 node(s) didn't find available persistent volumes to bind."


def test_a_claim_whose_node_is_chosen_keeps_to_it() -> None:
    claim = _claim("c")
    claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n1"}

    assert Decider(_stocked([claim], [])).decide(pod(volumes=_uses("c"))) == Placed("n1")
    assumed = _stocked([_claim("c")], [])
    assumed.storage.assumed["default", "c"] = "n0"
    assert Decider(assumed).decide(pod(volumes=_uses("c"))) == Placed("n0")


def _csi(count: int) -> Wire:
    drivers = [{"name": EBS, "allocatable": {"count": count}}]
    return {"metadata": {"name": "n"}, "spec": {"drivers": drivers}}


def test_nodes_attach_no_more_volumes_than_they_can() -> None:
    claims = [_claim(name, volume=f"v{name}", bound=True) for name in ("a", "b")]
    found = _stocked(claims, [_volume("va"), _volume("vb")])
    for name in ("n0", "n1"):
        found.storage.set_csi_node(name, _csi(1))
    found.set_pod(pod("first", on="n0", volumes=_uses("a")))

    assert Decider(found).decide(pod(volumes=_uses("b"))) == Placed("n1")
    found.storage.set_attachment("x", {"spec": {"nodeName": "n1", "source": {"persistentVolumeName": "va"}}})
    assert _words(found, volumes=_uses("b")) == "2 node(s) exceed max volume count."
    found.storage.set_attachment("x", None)
    found.storage.set_csi_node("n0", None)
    assert isinstance(Decider(found).decide(pod(volumes=_uses("b"))), Placed)


def test_volumes_of_the_old_kind_count_for_the_driver_that_replaced_it() -> None:
    spec: Wire = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    volume = {"metadata": {"name": "v", "labels": {ZONE: "b"}}, "spec": spec}
    found = _stocked([_claim("c", volume="v", bound=True)], [volume])
    migrated = _csi(0)
    migrated["metadata"]["annotations"] = {
        "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"
    }
    for name in ("n0", "n1"):
        found.storage.set_csi_node(name, migrated)

    assert _words(found, volumes=_uses("c")) == "2 node(s) exceed max volume count."


def test_a_claim_for_one_pod_only_is_used_by_one_pod_only() -> None:
    claim = _claim("c", volume="v", bound=True, accessModes=["ReadWriteOncePod"])
    found = _stocked([claim], [_volume("v", zone="a")])
    found.set_pod(pod("first", on="n0", volumes=_uses("c")))

    assert "ReadWriteOncePod" in _words(found, volumes=_uses("c"))
