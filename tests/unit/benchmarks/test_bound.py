# SPDX-License-Identifier: Apache-2.0
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers import bound as bound_module
from benchmarks.peers.bound import Bound, BoundRefusedError, resource_bound
from benchmarks.peers.problems import make_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.benchmarks.builders import catalogue, daemon, instance_type, pod, pool, problem, requirement

CATALOGUE = Path(__file__).parents[3] / "benchmarks" / "peers" / "catalogue.json"
ARCH = "kubernetes.io/arch"


@pytest.mark.parametrize(
    ("shape", "count", "price_per_hour"),
    [
        ("inflate", 5, 0.0445),
        ("generic", 30, 0.6206),
        ("generic", 200, 4.5513),
        ("generic", 1000, 23.8569),
        ("shapes", 500, 35.3049),
        ("big", 60, 34.3956),
        ("pools", 600, 2.6654),
        ("diverse", 1000, 25.6441),
    ],
)
def test_the_bounds_of_the_benchmark_problems(shape: str, count: int, price_per_hour: float) -> None:
    types = json.loads(CATALOGUE.read_text(encoding="utf-8"))

    found = resource_bound(make_problem(shape, count), types)

    assert found.price_per_hour == pytest.approx(price_per_hour, abs=5e-5)
    assert (found.pods, found.unplaceable_pods) == (count, 0)


def test_one_resource_costs_its_share_of_a_node() -> None:
    types = catalogue(instance_type(cpu="4", price=2.0))

    found = resource_bound(problem(pool(), pod(cpu="1"), pod(cpu="2")), types)

    assert found.price_per_hour == pytest.approx(1.5)


def test_pod_slots_are_a_resource_too() -> None:
    types = catalogue(instance_type(pods="2", price=2.0))

    found = resource_bound(problem(pool(), *(pod(cpu="1m", memory="1Mi") for _ in range(5))), types)

    assert found.price_per_hour == pytest.approx(5.0)


def test_the_daemonsets_raise_the_bound() -> None:
    types = catalogue(instance_type(cpu="4", price=1.0))

    found = resource_bound(problem(pool(), daemon(cpu="2"), pod(cpu="2")), types)

    assert found.price_per_hour == pytest.approx(1.0)


def test_pods_that_share_no_offer_share_no_node() -> None:
    types = catalogue(
        instance_type("cores", cpu="4", memory="1Gi", price=1.0),
        instance_type("bytes", cpu="1", memory="4Gi", price=1.0, labels={ARCH: "arm64"}),
    )
    hungry = pod(cpu="4", memory="1Mi", nodeSelector={ARCH: "amd64"})
    wide = pod(cpu="1m", memory="4Gi", nodeSelector={ARCH: "arm64"})

    found = resource_bound(problem(pool(), hungry, wide), types)

    assert found.price_per_hour == pytest.approx(2.0)


def test_a_picky_pod_does_not_force_the_others_onto_its_dear_offer() -> None:
    types = catalogue(
        instance_type("cheap", cpu="4", price=1.0),
        instance_type("dear", cpu="4", price=10.0, labels={ARCH: "arm64"}),
    )
    picky = pod(cpu="2", nodeSelector={ARCH: "arm64"})

    alone = resource_bound(problem(pool(), picky), types)
    together = resource_bound(problem(pool(), picky, pod(cpu="4")), types)

    assert alone.price_per_hour == pytest.approx(5.0)
    assert together.price_per_hour == pytest.approx(6.0)


def test_a_pod_that_fits_nothing_is_counted_and_left_out() -> None:
    types = catalogue(instance_type(cpu="4", price=1.0))
    strangers = (pod(cpu="5"), pod(nodeSelector={ARCH: "arm64"}))

    found = resource_bound(problem(pool(), pod(cpu="4"), *strangers), types)

    assert found.price_per_hour == pytest.approx(1.0)
    assert (found.pods, found.unplaceable_pods) == (1, 2)


def test_nothing_to_place_costs_nothing() -> None:
    bound = pod(nodeName="n1")

    assert resource_bound(problem(pool(), bound), catalogue(instance_type())) == Bound(0.0, 0, 0)


@pytest.mark.parametrize("kind", ["Node", "NodeClaim"])
def test_a_problem_with_nodes_is_refused(kind: str) -> None:
    with pytest.raises(BoundRefusedError, match="paid for"):
        resource_bound(problem(pool(), pod(), {"kind": kind}), catalogue(instance_type()))


def test_an_offer_without_a_price_is_refused() -> None:
    with pytest.raises(BoundRefusedError, match="no price"):
        resource_bound(problem(pool(), pod()), catalogue(instance_type(price=0.0)))


def test_a_wrong_solver_can_weaken_the_bound_but_not_break_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = problem(pool(), pod(cpu="2", memory="8Gi"), pod(cpu="3", memory="1Gi"))
    types = catalogue(
        instance_type(cpu="4", memory="16Gi", price=1.0), instance_type("b", cpu="8", price=1.5)
    )
    right = resource_bound(asked, types).price_per_hour

    monkeypatch.setattr(bound_module, "row_worths", lambda singles, _best: [1e6 * cost for cost in singles])
    wrong = resource_bound(asked, types).price_per_hour

    assert 0 < wrong <= right


sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))
arches = st.sampled_from([None, "amd64", "arm64"])


@st.composite
def small_problems(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Draw up to four pods and two types, one of which holds any pod of its architecture."""
    pods = []
    for i, ((cpu, memory), arch) in enumerate(draw(st.lists(st.tuples(sizes, arches), max_size=4))):
        selector = {ARCH: arch} if arch else {}
        pods.append(pod(f"p{i}", cpu=str(cpu), memory=f"{memory}Gi", nodeSelector=selector))
    types = []
    for arch in ("amd64", "arm64"):
        cpu, memory = draw(st.tuples(st.integers(4, 8), st.integers(4, 8)))
        price = draw(st.integers(1, 20)) / 8
        types.append(
            instance_type(arch, cpu=str(cpu), memory=f"{memory}Gi", price=price, labels={ARCH: arch})
        )
    return pods, types


def cheapest_plan(pods: list[dict[str, Any]], types: list[dict[str, Any]]) -> float:
    """Try every way to put the pods onto at most as many nodes as there are pods, of every type."""
    best = float("inf")
    slots = [(each, i) for each in types for i in range(len(pods))]
    for places in product(slots, repeat=len(pods)):
        used: dict[str, dict[str, float]] = {}
        ok = True
        for each, (kind, i) in zip(pods, places, strict=True):
            wanted = each["spec"]["nodeSelector"].get(ARCH, kind["labels"][ARCH])
            requests = each["spec"]["containers"][0]["resources"]["requests"]
            node = used.setdefault(f"{kind['name']} {i}", {"cpu": 0, "memory": 0})
            node["cpu"] += float(requests["cpu"])
            node["memory"] += float(requests["memory"].removesuffix("Gi"))
            room = kind["allocatable"]
            ok = ok and wanted == kind["labels"][ARCH]
            ok = ok and node["cpu"] <= float(room["cpu"])
            ok = ok and node["memory"] <= float(room["memory"].removesuffix("Gi"))
        if ok:
            bought = {f"{kind['name']} {i}": kind["offerings"][0][2] for kind, i in places}
            best = min(best, sum(bought.values()))
    return best


@settings(max_examples=60, deadline=None)
@given(small_problems())
def test_no_plan_costs_less_than_the_bound(drawn: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> None:
    pods, types = drawn

    found = resource_bound(problem(pool(), *pods), catalogue(*types))

    assert found.unplaceable_pods == 0
    assert found.price_per_hour <= cheapest_plan(pods, types) + 1e-9


def test_weights_do_not_enter_the_bound() -> None:
    dear = pool("dear", requirements=[requirement("node.kubernetes.io/instance-type", "In", "dear")])
    dear["spec"]["weight"] = 100
    types = catalogue(instance_type("dear", price=9.0), instance_type("cheap", price=1.0))

    found = resource_bound(problem(dear, pool("cheap"), pod(cpu="4")), types)

    assert found.price_per_hour == pytest.approx(1.0)
