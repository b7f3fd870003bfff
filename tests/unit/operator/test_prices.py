# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from structlog.testing import capture_logs

from karpenter.api.labels import ON_DEMAND, SPOT
from karpenter.cloud.aws.api import AwsUnreachableError
from karpenter.cloud.aws.pricing import Prices
from karpenter.kit.clock import FakeClock
from karpenter.observe import Metrics, get_log
from karpenter.operator.aws import _show_price_age
from karpenter.operator.prices import refresh_prices
from tests.unit.cloud.aws.fakes import FakeAws
from tests.unit.cloud.aws.test_pricing import listed, product, spot

NO_ROUTE = AwsUnreachableError("pricing", "GetProducts", "no route", hint="check the VPC endpoint")
PRODUCTS = listed([product("m5.large", 0.1)])
MARKET = {"SpotPriceHistory": [spot("m5.large", "us-west-2a", 0.04, datetime(2026, 1, 1, tzinfo=UTC))]}


def world(
    products: Any = PRODUCTS, market: Any = MARKET, **options: Any
) -> tuple[FakeAws, FakeClock, Prices]:
    aws, clock = FakeAws({"GetProducts": products, "DescribeSpotPriceHistory": market}), FakeClock()
    return aws, clock, Prices(aws, clock, **options)


@contextlib.asynccontextmanager
async def refreshing(prices: Prices, clock: FakeClock) -> AsyncIterator[list[Any]]:
    with capture_logs() as lines:
        task = asyncio.create_task(refresh_prices(prices, clock, get_log("aws")))
        await clock.settle()
        yield lines
        task.cancel()
        await asyncio.wait({task})


async def test_a_price_list_out_of_reach_is_asked_again_with_backoff_while_spot_is_current() -> None:
    aws, clock, prices = world([NO_ROUTE, NO_ROUTE, NO_ROUTE, NO_ROUTE, PRODUCTS])

    async with refreshing(prices, clock) as lines:
        assert prices.spot("m5.large", "us-west-2a") == 0.04
        await clock.advance(30)
        await clock.advance(60)

        assert prices.on_demand("m5.large") == 0.1
        failed = [line for line in lines if line["log_level"] == "error"]
        assert [line["retry_in"] for line in failed] == ["27s", "53s"]
        assert failed[0]["event"] == "prices cannot be refreshed, the last good ones stay in use"
        assert failed[0]["prices_in_use"] == "list prices of this release"
        assert (failed[0]["capacity_type"], failed[0]["error"]) == (ON_DEMAND, NO_ROUTE)
        assert lines[-1]["event"] == "prices are refreshed again"
        assert len(aws.named("DescribeSpotPriceHistory")) == 1


async def test_prices_are_refreshed_every_twelve_hours_and_their_age_is_logged_when_that_fails() -> None:
    _, clock, prices = world(market=[MARKET, NO_ROUTE])

    async with refreshing(prices, clock) as lines:
        await clock.advance(12 * 3600)

        assert lines[-1]["capacity_type"] == SPOT
        assert lines[-1]["prices_in_use"] == "of 12h ago"


async def test_a_replica_that_takes_over_refreshes_what_became_old_meanwhile() -> None:
    aws, clock, prices = world()
    await prices.refresh()
    await clock.advance(5 * 3600)

    async with refreshing(prices, clock):
        assert len(aws.named("DescribeSpotPriceHistory")) == 1
        await clock.advance(7 * 3600)
        assert len(aws.named("DescribeSpotPriceHistory")) == 2

    await clock.advance(48 * 3600)
    async with refreshing(prices, clock):
        assert len(aws.named("DescribeSpotPriceHistory")) == 3


async def test_a_spot_market_that_never_answered_leaves_spot_at_on_demand_prices_and_says_so() -> None:
    _, clock, prices = world(market=NO_ROUTE)

    async with refreshing(prices, clock) as lines:
        told = next(line for line in lines if line["log_level"] == "error")

        assert told["prices_in_use"] == "on-demand prices, because the spot market has not answered yet"


async def test_an_isolated_vpc_is_logged_once_and_its_price_list_never_asked() -> None:
    aws, clock, prices = world(isolated_vpc=True)

    async with refreshing(prices, clock) as lines:
        await clock.advance(24 * 3600)

        assert [line["event"] for line in lines] == ["prices of the package are used"]
        assert not aws.named("GetProducts")


async def test_an_implausible_price_is_logged_by_type() -> None:
    _, clock, prices = world(listed([product("m5.large", 99_999)]))

    async with refreshing(prices, clock) as lines:
        (line,) = [each for each in lines if each["log_level"] == "warning"]

        assert (line["instance_type"], line["price"]) == ("m5.large", 99_999)
        assert line["reason"].startswith("it is above")


async def test_the_age_of_prices_is_a_metric_and_not_a_number_for_those_of_the_package() -> None:
    _, clock, prices = world()
    metrics = Metrics()
    _show_price_age(metrics, prices)

    await prices.refresh_spot()
    await clock.advance(90)

    shown = metrics.render().decode()
    assert 'karpenter_cloudprovider_price_age_seconds{capacity_type="on-demand"} NaN' in shown
    assert 'karpenter_cloudprovider_price_age_seconds{capacity_type="spot"} 90.0' in shown
