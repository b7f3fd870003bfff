# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from karpenter.cli.demo.deciding import Meter
from karpenter.cli.demo.money import hourly, monthly, otherwise, total
from karpenter.cli.demo.reasons import Offer, offers_of, reasons
from karpenter.cli.demo.seeing import Picture, State, picture
from karpenter.cli.demo.telling import Line, bar, changes
from karpenter.sandbox.stack.errors import CallError
from tests.unit.cli.demo.objects import GIB, claim, node, pod

PRICES = {"i-1": 0.096, "i-2": 0.096}
OFFERS = [
    Offer("c5.large", 0.085, 3 * GIB),
    Offer("m5.large", 0.096, 6 * GIB),
    Offer("r5.large", 0.126, 14 * GIB),
]


def seen(*claims: Any, nodes: Any = (), pods: Any = (), events: Any = ()) -> Picture:
    return picture(claims=claims, nodes=nodes, pods=pods, events=events, prices=PRICES)


def told(
    before: Picture, after: Picture, took: tuple[float | None, float | None] = (12.3, 0.09)
) -> list[Line]:
    return list(changes(before, after, lambda _: ["because"], lambda: took))


def test_a_machine_is_as_far_as_its_objects_say() -> None:
    ready = seen(claim("a", instance="i-1"), nodes=[node("ip-1", "i-1")])
    leaving = seen(claim("a", instance="i-1", deletionTimestamp="now"), nodes=[node("ip-1", "i-1")])

    assert seen(claim("a")).machines[0].state == State.ORDERED
    assert seen(claim("a", instance="i-1")).machines[0].state == State.LAUNCHED
    assert (
        seen(claim("a", instance="i-1"), nodes=[node("ip-1", "i-1", ready=False)]).machines[0].state
        == State.JOINED
    )
    assert ready.machines[0].state == State.READY
    assert leaving.machines[0].state == State.LEAVING
    assert ready.machines[0].shown == "ip-1"
    assert seen(claim("a")).machines[0].shown == "a"


def test_pods_fill_the_node_that_they_are_on() -> None:
    full = "ip-1.us-west-2.compute.internal"
    found = seen(
        claim("a", instance="i-1"),
        nodes=[node("ip-1", "i-1")],
        pods=[
            pod("one", on=full),
            pod("two", on=full, phase="Pending"),
            pod("three"),
            pod("old", on=full, deletionTimestamp="now"),
            pod("done", on=full, phase="Succeeded"),
        ],
    )

    assert found.machines[0].pods == 2
    assert found.machines[0].memory_share == 2 / 8
    assert found.machines[0].cpu_share == 0
    assert (found.running, len(found.pods), [each.key for each in found.pending]) == (1, 3, ["other/three"])
    assert not found.is_quiet
    assert found.pods[0].workload == "other/inflate"


def test_the_story_of_a_node_is_told_in_order() -> None:
    waiting = seen(pods=[pod("one"), pod("two")])
    ordered = seen(claim("a", pods=2), pods=[pod("one"), pod("two")])
    up = seen(claim("a", instance="i-1", pods=2), nodes=[node("ip-1", "i-1")], pods=[pod("one"), pod("two")])

    assert [(each.what, each.about) for each in told(Picture(), waiting)] == [
        ("2 pods pending", "other/inflate  2 x memory 1Gi")
    ]
    assert [(each.what, each.about) for each in told(waiting, ordered)] == [
        ("decided in 12 ms", "1 more node for 2 pods: NodeClaim a   (no plan for them is below $0.090/h)")
    ]
    assert [(each.what, each.about, each.more) for each in told(ordered, up)] == [
        ("launched", "m5.large on-demand us-west-2a  $0.096/h  i-1", ("because",)),
        ("joined the cluster", "ip-1", ()),
        ("node ready", "ip-1 (m5.large)", ()),
    ]
    assert told(up, up) == []


def test_a_removal_is_told_with_the_controllers_reason() -> None:
    event = {
        "reason": "DisruptionTerminating",
        "involvedObject": {"kind": "NodeClaim", "name": "a"},
        "message": "Disrupting Node: Empty: nobody is on it",
    }
    up = seen(claim("a", instance="i-1"), nodes=[node("ip-1", "i-1")])
    leaving = seen(
        claim("a", instance="i-1", deletionTimestamp="now"), nodes=[node("ip-1", "i-1")], events=[event]
    )

    assert told(up, leaving) == [
        Line("removing a node", "ip-1 (m5.large)  $0.096/h", ("Empty: nobody is on it",))
    ]
    bare = seen(claim("a", instance="i-1", deletionTimestamp="now"), nodes=[node("ip-1", "i-1")])
    assert told(bare, leaving) == [Line("because", "Empty: nobody is on it")]
    assert told(leaving, Picture()) == [Line("gone", "ip-1 (m5.large), i-1")]


def test_a_claim_is_called_after_its_node_to_the_end() -> None:
    alone = claim("a", instance="i-1", deletionTimestamp="now")
    alone["status"]["nodeName"] = "ip-1.us-west-2.compute.internal"

    assert told(seen(alone), Picture()) == [Line("gone", "ip-1 (m5.large), i-1")]


def test_a_node_that_fails_and_pods_that_lose_theirs_are_told() -> None:
    on = "ip-1.us-west-2.compute.internal"
    up = seen(claim("a", instance="i-1"), nodes=[node("ip-1", "i-1")], pods=[pod("one", on=on, memory="")])
    down = seen(
        claim("a", instance="i-1"), nodes=[node("ip-1", "i-1", ready=False)], pods=[pod("one", memory="")]
    )

    assert told(up, down) == [
        Line("1 pod pending", "other/inflate  1 x asks for nothing"),
        Line("node not ready", "ip-1 (m5.large)"),
    ]


def test_pods_that_end_are_counted() -> None:
    assert told(seen(pods=[pod("one"), pod("two")]), seen(pods=[pod("one")])) == [
        Line("1 pod ended", "other/inflate  1 x memory 1Gi")
    ]


def test_a_successor_is_not_told_with_another_plans_bound() -> None:
    [line] = told(Picture(), seen(claim("a", pods=1)), (None, 0.09))

    assert line == Line("decided", "1 more node for 1 pod: NodeClaim a")


def test_the_reason_counts_what_cheaper_types_hold() -> None:
    assert reasons("m5.large", 5, GIB, OFFERS) == [
        "c5.large is cheaper ($0.085/h) but holds 3 of 5 pods; r5.large would do and costs more"
    ]
    assert reasons("c5.large", 1, GIB, OFFERS) == ["m5.large and r5.large would do and cost more"]
    assert reasons("p5.48xlarge", 1, GIB, OFFERS) == []
    assert reasons("m5.large", 5, 0, OFFERS) == []


def test_offers_have_the_sizes_that_the_controller_reckons_with() -> None:
    node_class = EC2NodeClass(spec=EC2NodeClassSpec(ami_family="AL2023"))

    found = offers_of(["m5.large", "c5.large", "none.such"], node_class, "us-west-2")

    assert [(each.instance_type, each.price_per_hour) for each in found] == [
        ("c5.large", 0.085),
        ("m5.large", 0.096),
    ]
    assert [each.holds(GIB) for each in found] == [3, 6]


def test_money_has_its_unit_and_the_unknown_is_said() -> None:
    assert hourly(0.096) == "$0.096/h"
    assert hourly(None) == "$?/h"
    assert monthly(0.192) == "$140.16/month"
    assert total(seen(claim("a", instance="i-1"))) == "$0.096/h  $70.08/month"


def test_what_it_would_cost_otherwise_is_reckoned_from_the_same_pods() -> None:
    on = "ip-1.us-west-2.compute.internal"
    found = seen(
        claim("a", instance="i-1"), nodes=[node("ip-1", "i-1")], pods=[pod(f"p{i}", on=on) for i in range(6)]
    )

    assert otherwise(found, OFFERS) == [
        "a node for each pod, 6 x c5.large: $0.510/h, 5.3 times as much",
        "the same packing on the largest type, 1 x r5.large: $0.126/h",
    ]
    assert otherwise(Picture(), OFFERS) == []
    assert otherwise(seen(claim("a", instance="i-1"), pods=[pod("a", memory="")]), OFFERS) == []


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.0, "    "), (1.0, "████"), (0.5, "██  "), (0.53, "██▏ "), (7.0, "████"), (-1.0, "    ")],
)
def test_bars_are_filled_by_eighths(share: float, shown: str) -> None:
    assert bar(share, 4) == shown


def metrics(took: float, count: int, bound: float) -> str:
    name = "karpenter_scheduler_scheduling_duration_seconds"
    return (
        f'{name}_bucket{{controller="provisioner",le="1"}} 3\n{name}_count{{controller="provisioner"}} {count}\n'
        f'{name}_sum{{controller="provisioner"}} {took}\nkarpenter_plan_lower_bound_per_hour {bound}\n'
    )


def test_the_meter_tells_of_the_decisions_since_it_was_read_last() -> None:
    texts = {"one": metrics(0.0, 0, 0.0), "two": metrics(0.5, 1, 0.09)}

    def get(address: str) -> str:
        if address not in texts:
            raise CallError("nobody is there")
        return texts[address]

    meter = Meter(["one", "two", "three"], get)

    assert meter.last() == (500.0, 0.09)
    assert meter.last() == (None, 0.09)
    texts["two"] = metrics(0.52, 2, 0.1)
    took_ms, bound = meter.last()
    assert took_ms == pytest.approx(20.0)
    assert bound == 0.1
    assert Meter([], get).last() == (None, None)
