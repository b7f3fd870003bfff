# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from benchmarks.peers.offers import Offer, Wishes, fits, is_pending, list_offers, pod_amounts

from tests.unit.benchmarks.builders import daemon, instance_type, pod, pool, requirement

ARCH = "kubernetes.io/arch"
ZONE = "topology.kubernetes.io/zone"
NANO = 10**9
GIB = 2**30 * NANO
TAINT = {"key": "team", "value": "data", "effect": "NoSchedule"}


def offers(
    *, pools: list[Any] | None = None, types: list[Any] | None = None, daemons: Any = ()
) -> list[Offer]:
    return list(list_offers(pools or [pool()], types or [instance_type()], daemons))


def accepts(spec: dict[str, Any], offer: Offer) -> bool:
    return Wishes.of(pod(**spec)["spec"]).accept(offer)


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_an_offer_has_the_room_of_its_type_less_the_daemonsets() -> None:
    [offer] = offers(
        types=[instance_type(cpu="4", memory="16Gi")], daemons=[daemon(cpu="500m", memory="1Gi")]
    )

    assert offer.room == {"cpu": 3_500_000_000, "memory": 15 * GIB, "pods": 99 * NANO}


def test_a_type_that_cannot_hold_the_daemonsets_is_no_offer() -> None:
    small, large = instance_type("s", cpu="1"), instance_type("l", cpu="8")

    [offer] = offers(types=[small, large], daemons=[daemon(cpu="1500m")])

    assert offer.labels["node.kubernetes.io/instance-type"] == "l"


def test_a_daemonset_that_does_not_run_there_takes_nothing() -> None:
    [offer] = offers(daemons=[daemon(cpu="1", nodeSelector={ARCH: "arm64"})])

    assert offer.room["cpu"] == 4 * NANO


@pytest.mark.parametrize(
    ("demand", "suits"),
    [
        (requirement(ARCH, "In", "amd64", "arm64"), True),
        (requirement(ARCH, "In", "arm64"), False),
        (requirement(ARCH, "NotIn", "amd64"), False),
        (requirement(ARCH, "Exists"), True),
        (requirement(ARCH, "DoesNotExist"), False),
        (requirement(ARCH, "Gt", "5"), False),
        (requirement("generation", "Gt", "5"), False),
        (requirement("generation", "Gte", "5"), True),
        (requirement("generation", "Lt", "6"), True),
        (requirement("generation", "Lte", "4"), False),
        (requirement("beta.kubernetes.io/arch", "In", "arm64"), False),
        (requirement("a-label-of-the-pool-alone", "In", "x"), True),
    ],
)
def test_a_pool_buys_only_what_its_requirements_allow(demand: dict[str, Any], *, suits: bool) -> None:
    found = offers(pools=[pool(requirements=[demand])], types=[instance_type(labels={"generation": "5"})])

    assert bool(found) is suits


def test_each_zone_and_capacity_type_is_an_offer_of_its_own() -> None:
    both = instance_type(offerings=[("zone-a", "spot", 0.4), ("zone-b", "on-demand", 1.0)])

    found = offers(pools=[pool(requirements=[requirement(ZONE, "In", "zone-b")])], types=[both])

    assert [float(offer.price_per_hour) for offer in found] == [1.0]


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        ({}, True),
        ({"nodeSelector": {ARCH: "amd64"}}, True),
        ({"nodeSelector": {ARCH: "arm64"}}, False),
        ({"nodeSelector": {"failure-domain.beta.kubernetes.io/zone": "zone-a"}}, True),
        ({"nodeSelector": {"karpenter.sh/nodepool": "default"}}, True),
        ({"nodeSelector": {"karpenter.sh/nodepool": "other"}}, False),
        ({"nodeSelector": {"tier": "web"}}, True),
        ({"nodeSelector": {"color": "red"}}, True),
        ({"nodeSelector": {"color": "green"}}, False),
        ({"nodeSelector": {"nobody": "knows"}}, False),
        ({"nodeSelector": {"kubernetes.io/hostname": "any"}}, True),
        ({"nodeSelector": {"topology.kubernetes.io/region": "us-east-1"}}, True),
        ({"affinity": affinity([requirement("nobody", "DoesNotExist")])}, True),
        ({"affinity": affinity([requirement("nobody", "Exists")])}, False),
        ({"affinity": affinity([requirement("color", "Exists")])}, True),
        (
            {"affinity": affinity([requirement(ARCH, "In", "arm64")], [requirement(ZONE, "In", "zone-a")])},
            True,
        ),
        (
            {
                "nodeSelector": {ZONE: "zone-b"},
                "affinity": affinity([requirement(ARCH, "In", "amd64")]),
            },
            False,
        ),
    ],
)
def test_a_pod_accepts_what_its_selector_and_affinity_allow(spec: dict[str, Any], *, accepted: bool) -> None:
    colors = requirement("color", "In", "red", "blue")
    [offer] = offers(pools=[pool(requirements=[colors], labels={"tier": "web"})])

    assert accepts(spec, offer) is accepted


@pytest.mark.parametrize(
    ("toleration", "accepted"),
    [
        ({"key": "team", "value": "data", "effect": "NoSchedule"}, True),
        ({"key": "team", "operator": "Equal", "value": "data"}, True),
        ({"key": "team", "value": "other"}, False),
        ({"key": "team"}, False),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_a_taint_needs_a_toleration_that_matches(toleration: dict[str, Any], *, accepted: bool) -> None:
    [offer] = offers(pools=[pool(taints=[TAINT])])

    assert accepts({"tolerations": [toleration]}, offer) is accepted
    assert not accepts({}, offer)


def test_a_soft_taint_keeps_nobody_away() -> None:
    [offer] = offers(pools=[pool(taints=[{**TAINT, "effect": "PreferNoSchedule"}])])

    assert accepts({}, offer)


def test_a_pod_takes_the_larger_of_its_init_phase_and_its_life() -> None:
    def container(cpu: str, **fields: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **fields}

    spec = {
        "initContainers": [container("1", restartPolicy="Always"), container("5")],
        "containers": [container("2"), container("1")],
        "overhead": {"cpu": "250m"},
    }

    assert pod_amounts(spec) == {"cpu": 6_250_000_000, "pods": NANO}


def test_a_limit_without_a_request_is_the_request_and_zero_is_nothing() -> None:
    resources = {"limits": {"nvidia.com/gpu": "2", "cpu": "4"}, "requests": {"cpu": "0"}}

    assert pod_amounts({"containers": [{"resources": resources}]}) == {
        "nvidia.com/gpu": 2 * NANO,
        "pods": NANO,
    }


def test_what_a_node_does_not_have_does_not_fit() -> None:
    assert fits({"cpu": 1}, {"cpu": 1})
    assert not fits({"cpu": 2}, {"cpu": 1})
    assert not fits({"gpu": 1}, {"cpu": 1})


@pytest.mark.parametrize(
    ("change", "pending"),
    [
        ({}, True),
        ({"spec": {"nodeName": "n1"}}, False),
        ({"status": {"phase": "Succeeded"}}, False),
        ({"status": {"phase": "Pending"}}, True),
        ({"metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}}, False),
        ({"metadata": {"ownerReferences": [{"kind": "ReplicaSet"}]}}, True),
    ],
)
def test_only_pods_that_still_need_a_node_are_pending(change: dict[str, Any], *, pending: bool) -> None:
    assert is_pending({**pod(), **change}) is pending
