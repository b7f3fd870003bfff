# SPDX-License-Identifier: Apache-2.0
"""Types and prices over real HTTP with real boto3: what the model writes is what the provider reads."""

from __future__ import annotations

from karpenter import facts
from karpenter.cloud.aws.api import Aws
from karpenter.cloud.aws.instancetypes.compatibility import is_launchable
from karpenter.cloud.aws.instancetypes.listing import listed_types
from karpenter.cloud.aws.instancetypes.provider import InstanceTypes
from karpenter.cloud.aws.pricing import Prices, Source
from karpenter.cloud.aws.unavailable import Unavailable
from karpenter.kit.clock import SystemClock
from tests.unit.cloud.aws.instancetypes.described import node_class


def provider(aws: Aws) -> InstanceTypes:
    clock = SystemClock()
    return InstanceTypes(aws, clock, prices=Prices(aws, clock), unavailable=Unavailable(clock))


async def test_every_type_of_the_region_comes_back_as_it_was_written(aws: Aws) -> None:
    types = provider(aws)

    change = await types.refresh()

    sold = facts.offered(aws.region)
    known = facts.instance_types()
    assert change.unreadable == ()
    assert dict(types.facts) == {name: known[name] for name in sold if is_launchable(known[name])}
    assert {name: types.sold_in[name] for name in types.facts} == {name: sold[name] for name in types.facts}


async def test_sizes_and_labels_equal_those_that_need_no_account(aws: Aws) -> None:
    types = provider(aws)
    await types.refresh()

    listed = {kind.name: kind for kind in types.list(node_class())}

    offline = {kind.name: kind for kind in listed_types(aws.region)}
    assert set(listed) == set(offline)
    for name, kind in listed.items():
        assert (kind.labels, kind.capacity, kind.allocatable) == (
            offline[name].labels,
            offline[name].capacity,
            offline[name].allocatable,
        )


async def test_prices_of_both_sources_are_taken_in(aws: Aws) -> None:
    prices = Prices(aws, SystemClock())

    report = await prices.refresh()

    assert report.errors == ()
    assert report.refused == ()
    quote = prices.quote("m5.large", "on-demand")
    assert quote is not None
    assert quote.source is Source.PRICE_LIST
    for zone in facts.offered(aws.region)["m5.large"]:
        price = prices.spot("m5.large", zone)
        assert price is not None
        assert 0 < price <= quote.price_per_hour
