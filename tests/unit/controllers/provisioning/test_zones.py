# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from karpenter.controllers.provisioning.zones import effective_zone, pods_by_zone
from karpenter.model.volumes import Storage

ZONE = "topology.kubernetes.io/zone"


def pod(**spec: Any) -> Pod:
    """A pod with this spec."""
    made: Pod = msgspec.convert(
        {"metadata": {"name": "p", "namespace": "shop"}, "spec": spec}, Pod, strict=False
    )
    return made


def terms(*terms: Any) -> dict[str, Any]:
    """A node affinity that requires one of some terms."""
    required = {"nodeSelectorTerms": [{"matchExpressions": list(each)} for each in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def within(*zones: str, operator: str = "In") -> dict[str, Any]:
    """An expression about the zone."""
    return {"key": ZONE, "operator": operator, "values": list(zones)}


def storage(zone: str) -> Storage:
    """A bound claim whose volume is in one zone."""
    required = {"nodeSelectorTerms": [{"matchExpressions": [within(zone)]}]}
    volume = {"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": required}}}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    meta = {"name": "c", "namespace": "shop", "annotations": bound}
    claim = {"metadata": meta, "spec": {"volumeName": "v"}}
    return Storage.of(
        [msgspec.convert(claim, PersistentVolumeClaim, strict=False)],
        [msgspec.convert(volume, PersistentVolume, strict=False)],
    )


MOUNTS = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}


@pytest.mark.parametrize(
    ("spec", "zone"),
    [
        ({}, "flexible"),
        ({"nodeSelector": {"disk": "fast"}}, "flexible"),
        ({"nodeSelector": {ZONE: "us-west-2a"}}, "us-west-2a"),
        ({"affinity": terms([within("us-west-2a", "us-west-2b")])}, "flexible"),
        ({"affinity": terms([within("us-west-2a")], [within("us-west-2b")])}, "flexible"),
        ({"affinity": terms([within("us-west-2a", operator="NotIn")])}, "flexible"),
        ({"nodeSelector": {ZONE: "us-west-2a"}, "affinity": terms([within("us-west-2b")])}, "none"),
        (MOUNTS, "us-west-2c"),
        ({**MOUNTS, "nodeSelector": {ZONE: "us-west-2a"}}, "none"),
    ],
)
def test_a_pod_is_bound_to_the_zone_that_it_and_its_volumes_name(spec: dict[str, Any], zone: str) -> None:
    assert effective_zone(pod(**spec), storage("us-west-2c")) == zone


def test_pods_are_counted_by_zone() -> None:
    pods = (pod(), pod(), pod(nodeSelector={ZONE: "us-west-2a"}))

    assert pods_by_zone(pods, Storage()) == {"flexible": 2, "us-west-2a": 1}
