# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.cloud.errors import CloudError
from karpenter.controllers.overlays import Overlays, OverlayStore, applied, conflicts, read_overlay
from karpenter.controllers.overlays.applying import OverlayError, in_order
from karpenter.kit.clock import FakeClock
from karpenter.kube import ConflictError, NotFoundError
from karpenter.kube.kinds import NODE_OVERLAYS
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.resources import Resources
from karpenter.observe import Metrics
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import stored_class, stored_pool


def kind(name: str, price: float = 0.1) -> InstanceType:
    """A type in two zones."""
    size = Resources.parse({"cpu": "2", "memory": "8Gi"})
    offerings = tuple(Offering(zone, "on-demand", price) for zone in ("a", "b"))
    return InstanceType(name, {names.ARCH: "amd64"}, size, size, offerings)


def overlay(name: str = "o", weight: int | None = None, **spec: Any) -> NodeOverlay:
    """An overlay of everything."""
    whole = {"requirements": [], **({"weight": weight} if weight else {}), **spec}
    made = {"metadata": {"name": name, "uid": f"uid-{name}", "generation": 1}, "spec": whole}
    return msgspec.convert(made, NodeOverlay, strict=False)


def wants(key: str, *values: str) -> list[dict[str, Any]]:
    """Requirements with one label."""
    return [{"key": key, "operator": "In", "values": list(values)}]


def test_an_overlay_changes_what_it_usually_costs_too() -> None:
    steady = kind("m5.large")
    first, second = steady.offerings
    moving = replace(steady, offerings=(replace(first, usual_price_per_hour=0.2), second))

    [found] = applied([moving], [read_overlay(overlay(priceAdjustment="+50%"))], {})

    assert [each.usual_price_per_hour for each in found.offerings] == [pytest.approx(0.3), None]


@pytest.mark.parametrize(
    ("spec", "price"),
    [
        ({"price": "0.05"}, 0.05),
        ({"priceAdjustment": "-10%"}, 0.09),
        ({"priceAdjustment": "+50%"}, 0.15),
        ({"priceAdjustment": "-0.03"}, 0.07),
        ({"priceAdjustment": "+0.03"}, 0.13),
        ({"priceAdjustment": "-5"}, 0.0),
        ({"priceAdjustment": "-100%"}, 0.0),
        ({}, 0.1),
    ],
)
def test_an_overlay_sets_or_changes_prices(spec: dict[str, Any], price: float) -> None:
    types = [kind("m5.large")]

    [found] = applied(types, [read_overlay(overlay(**spec))], {})

    assert [each.price_per_hour for each in found.offerings] == pytest.approx([price, price])


def test_an_overlay_is_about_the_offerings_that_its_requirements_allow() -> None:
    types = [kind("m5.large"), kind("m5.xlarge")]
    cheap = read_overlay(
        overlay(price="0.01", requirements=wants(names.INSTANCE_TYPE, "m5.large") + wants(names.ZONE, "b"))
    )
    team = read_overlay(overlay("team", price="0.02", requirements=wants("team", "a")))

    large, xlarge = applied(types, [cheap, team], {})

    assert [each.price_per_hour for each in large.offerings] == [0.1, 0.01]
    assert xlarge is types[1]
    assert applied(types, [team], {"team": "a"})[1].offerings[0].price_per_hour == 0.02


def test_an_overlay_adds_extended_resources_and_the_heavier_wins() -> None:
    types = [kind("m5.large")]
    light = read_overlay(overlay("light", 1, capacity={"smarter-devices/fuse": "1", "a/b": "1"}))
    heavy = read_overlay(overlay("heavy", 2, capacity={"smarter-devices/fuse": "5"}))

    [found] = applied(types, in_order([light, heavy]), {})

    assert found.allocatable["smarter-devices/fuse"] == 5
    assert found.capacity["a/b"] == 1
    assert found.capacity["cpu"] == 2000


def test_types_that_nothing_changes_stay_the_same_object() -> None:
    types = [kind("m5.large")]

    assert (
        applied(types, [read_overlay(overlay(price="1", requirements=wants(names.ZONE, "c")))], {}) is types
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"requirements": [{"key": "a", "operator": "Sometimes", "values": []}]},
        {"capacity": {"a/b": "many"}},
        {"capacity": {"cpu": "1"}},
        {"price": "cheap"},
        {"priceAdjustment": "a bit%"},
    ],
)
def test_what_cannot_be_read_is_refused_with_its_field(spec: dict[str, Any]) -> None:
    with pytest.raises(OverlayError, match=r"spec\."):
        read_overlay(overlay(**spec))


def test_equal_weights_on_the_same_price_or_resource_contradict_each_other() -> None:
    types = [kind("m5.large")]
    zone_b = wants(names.ZONE, "b")
    read = [
        read_overlay(each)
        for each in (
            overlay("a", 1, price="0.05"),
            overlay("b", 1, price="0.06", requirements=zone_b),
            overlay("c", 2, price="0.07"),
            overlay("d", 3, capacity={"x/y": "1"}),
            overlay("e", 3, capacity={"x/y": "2"}),
            overlay("f", 1, price="0.06", requirements=wants(names.ZONE, "c")),
        )
    ]

    assert conflicts(types, in_order(read), {}) == {"a": "b", "d": "e"}


class Cloud:
    """A cloud that sells one type."""

    def __init__(self) -> None:
        self.types: Sequence[InstanceType] = [kind("m5.large")]
        self.error: Exception | None = None

    async def instance_types(self, *_: Any) -> Sequence[InstanceType]:
        """Sell it to all."""
        if self.error is not None:
            raise self.error
        return self.types


class Scene:
    """A pool, overlays, and who judges them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.cloud = Cloud()
        self.client.store(STORED_NODE_CLASSES, stored_class())
        self.client.store(STORED_NODE_POOLS, stored_pool())
        self.store = OverlayStore()
        self.overlays = Overlays(
            client=self.client,
            cluster=self.cluster,
            cloud=self.cloud,  # type: ignore[arg-type]
            metrics=Metrics(),
            clock=self.clock,
            store=self.store,
        )

    def put(self, item: NodeOverlay) -> None:
        """Put an overlay in place."""
        self.overlays.informer.observe(self.client.store(NODE_OVERLAYS, item))

    def condition(self, name: str) -> tuple[str, str]:
        """Status and reason of an overlay's condition."""
        found = self.overlays.informer.get(name)
        assert found is not None
        [each] = [one for one in found.status.conditions if one.type == "ValidationSucceeded"]
        return each.status, each.reason

    @property
    def price(self) -> float:
        """What the pool pays."""
        pool = self.cluster.pool("default")
        assert pool is not None
        return self.store.adjust_cached(pool, self.cloud.types)[0].offerings[0].price_per_hour


async def test_sound_overlays_count_and_the_others_say_why_not() -> None:
    scene = Scene()
    assert scene.price == 0.1
    before = scene.cluster.stamp.value
    scene.put(overlay("good", 5, price="0.05"))
    scene.put(overlay("same-weight", 5, price="0.04", requirements=wants(names.ZONE, "a")))
    scene.put(overlay("broken", price="cheap"))

    await scene.overlays.reconcile("all")
    writes = len(scene.client.calls)
    await scene.overlays.reconcile("all")

    assert scene.condition("good") == ("False", "Conflict")
    assert scene.condition("same-weight") == ("True", "ValidationSucceeded")
    assert scene.condition("broken") == ("False", "RuntimeValidation")
    assert scene.price == 0.04
    assert len(scene.client.calls) == writes
    assert scene.cluster.stamp.value == before + 1


async def test_what_was_worked_out_is_kept_while_nothing_changes() -> None:
    scene = Scene()
    scene.put(overlay(price="0.05"))
    await scene.overlays.reconcile("all")
    pool = scene.cluster.pool("default")
    assert pool is not None

    first = scene.store.adjust_cached(pool, scene.cloud.types)

    assert scene.store.adjust_cached(pool, scene.cloud.types) is first
    assert scene.store.adjust_cached(pool, [kind("m5.large")]) is not first


async def test_a_cloud_that_does_not_answer_and_a_class_that_is_gone_contradict_nobody() -> None:
    scene = Scene()
    scene.put(overlay("a", price="0.05"))
    scene.put(overlay("b", price="0.06"))
    scene.cloud.error = CloudError("no")
    await scene.overlays.reconcile("all")
    assert scene.condition("a") == ("True", "ValidationSucceeded")
    await scene.client.delete(STORED_NODE_CLASSES, "default")

    await scene.overlays.reconcile("all")

    assert scene.condition("a") == ("True", "ValidationSucceeded")


async def test_an_overlay_that_went_meanwhile_is_no_trouble() -> None:
    scene = Scene()
    scene.put(overlay(price="0.05"))
    scene.client.fail("patch", "nodeoverlays", NotFoundError("gone", status=404))

    assert await scene.overlays.reconcile("all") == 6 * 3600.0


async def test_it_follows_overlays_and_judges_them_together() -> None:
    scene = Scene()
    stop = asyncio.Event()

    async def follow() -> None:
        scene.overlays.informer._synced.set()
        scene.put(overlay(price="0.05"))
        await stop.wait()

    scene.overlays.informer.run = follow  # type: ignore[method-assign]
    task = asyncio.ensure_future(scene.overlays.run())
    await scene.clock.advance(1)
    assert scene.price == 0.05
    scene.put(overlay(price="0.07"))
    scene.client.store(STORED_NODE_POOLS, stored_pool("other"))
    await scene.clock.advance(1)
    task.cancel()

    assert scene.price == 0.07


async def test_an_overlay_that_another_writes_to_meanwhile_is_judged_at_the_next_look() -> None:
    scene = Scene()
    scene.put(overlay("a", price="0.05"))
    scene.client.fail("patch", "nodeoverlays", ConflictError("modified", status=409))

    await scene.overlays.reconcile("all")
    found = scene.overlays.informer.get("a")
    await scene.overlays.reconcile("all")

    assert found is not None
    assert found.status.conditions == ()
    assert scene.condition("a") == ("True", "ValidationSucceeded")


async def test_types_without_a_pool_are_left_as_they_are() -> None:
    scene = Scene()
    scene.put(overlay(price="0.05"))
    await scene.overlays.reconcile("all")

    assert scene.store.adjust(None, scene.cloud.types) is scene.cloud.types
    assert scene.store.adjust(scene.cluster.pool("default"), scene.cloud.types) != scene.cloud.types
