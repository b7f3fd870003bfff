# SPDX-License-Identifier: Apache-2.0
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from karpenter import facts
from karpenter.cloud.aws.pricing import (
    ListPrices,
    PriceChange,
    PriceError,
    Prices,
    Quote,
    RefusedPrice,
    Source,
)
from karpenter.errors import KarpenterError
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.fakes import FakeAws, aws_error

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATIC = facts.on_demand_prices("us-east-1")


def product(name: str, *prices: float | str, currency: str = "USD") -> str:
    dimensions = {f"{name}.{i}": {"pricePerUnit": {currency: str(price)}} for i, price in enumerate(prices)}
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": name}},
            "terms": {"OnDemand": {"term": {"priceDimensions": dimensions}}},
        }
    )


def listed(shared: list[str], metal: list[str] | None = None) -> Any:
    def answer(**parameters: Any) -> dict[str, Any]:
        filters = {each["Field"]: each["Value"] for each in parameters["Filters"]}
        if filters["tenancy"] == "Shared":
            return {"PriceList": shared}
        return {"PriceList": [product("m5.metal", 4.6)] if metal is None else metal}

    return answer


def spot(name: str, zone: str, price: float | str, at: datetime | None = NOW) -> dict[str, Any]:
    return {"InstanceType": name, "AvailabilityZone": zone, "SpotPrice": str(price), "Timestamp": at}


def prices(
    products: Any = None,
    market: list[dict[str, Any]] | None = None,
    *,
    region: str = "us-west-2",
    **options: Any,
) -> Prices:
    aws = FakeAws(
        {
            "GetProducts": products or listed([product("m5.large", 0.1)]),
            "DescribeSpotPriceHistory": {
                "SpotPriceHistory": [spot("m5.large", "us-west-2a", 0.03)] if market is None else market
            },
        },
        region=region,
    )
    return Prices(aws, FakeClock(NOW), **options)


def aws_of(given: Prices) -> FakeAws:
    assert isinstance(given._aws, FakeAws)
    return given._aws


def test_the_start_is_the_package_with_spot_at_the_list_price() -> None:
    given = prices()

    assert given.on_demand("m5.large") == given.spot("m5.large", "us-west-2a") == STATIC["m5.large"]
    assert given.quote("m5.large", "spot", "us-west-2a") == Quote(0.096, Source.PACKAGE, None)
    assert given.on_demand("no.such") is None
    assert given.quote("no.such", "on-demand") is None


async def test_a_refresh_takes_in_both_sources_and_tells_what_changed() -> None:
    given = prices()

    report = await given.refresh()

    assert given.on_demand("m5.large") == 0.1
    assert given.spot("m5.large", "us-west-2a") == 0.03
    assert given.spot("m5.large", "us-west-2b") is None
    assert report.changes == (
        PriceChange("m5.large", "on-demand", "", 0.096, 0.1),
        PriceChange("m5.metal", "on-demand", "", 4.608, 4.6),
        PriceChange("m5.large", "spot", "us-west-2a", None, 0.03),
    )
    assert (report.errors, report.refused, report.skipped) == ((), (), "")


async def test_prices_that_did_not_move_are_no_change_but_get_younger() -> None:
    given = prices()
    await given.refresh()
    version = given.version
    given._clock.tick(500)  # type: ignore[attr-defined]

    report = await given.refresh()

    assert report.changes == ()
    assert given.version == version
    assert given.quote("m5.large", "on-demand") == Quote(0.1, Source.PRICE_LIST, 0.0)


async def test_a_change_moves_the_version() -> None:
    given = prices()

    before = given.version
    await given.refresh()

    assert given.version > before


async def test_a_price_that_is_not_named_any_more_keeps_its_value_and_grows_old() -> None:
    given = prices()
    aws_of(given)._queues["GetProducts"] = [
        listed([product("m5.large", 0.1)]),
        listed([product("m5.large", 0.1)]),
        listed([product("c5.large", 0.09)]),
        listed([product("c5.large", 0.09)]),
    ]
    await given.refresh()
    given._clock.tick(3600)  # type: ignore[attr-defined]

    await given.refresh()

    assert given.quote("m5.large", "on-demand") == Quote(0.1, Source.PRICE_LIST, 3600)
    assert given.quote("c5.large", "on-demand") == Quote(0.09, Source.PRICE_LIST, 0)


async def test_the_age_of_a_source_counts_from_its_last_good_answer() -> None:
    given = prices()
    assert given.age_s("on-demand") is None
    await given.refresh()

    given._clock.tick(60)  # type: ignore[attr-defined]
    aws_of(given).answers = {
        "GetProducts": aws_error("ThrottlingException"),
        "DescribeSpotPriceHistory": {"SpotPriceHistory": [spot("m5.large", "us-west-2a", 0.03)]},
    }
    await given.refresh()

    assert (given.age_s("on-demand"), given.age_s("spot")) == (60, 0)


async def test_the_price_list_is_asked_as_karpenter_asks() -> None:
    given = prices()

    await given.refresh_on_demand()

    asked = aws_of(given).named("GetProducts")
    filters = [{each["Field"]: each["Value"] for each in call["Filters"]} for call in asked]
    common = {
        "regionCode": "us-west-2",
        "serviceCode": "AmazonEC2",
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    assert filters == [
        {**common, "tenancy": "Shared", "productFamily": "Compute Instance"},
        {**common, "tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"},
    ]
    assert all(each["Type"] == "TERM_MATCH" for call in asked for each in call["Filters"])
    assert {(call["ServiceCode"], call["MaxResults"]) for call in asked} == {("AmazonEC2", 100)}


async def test_the_spot_market_is_asked_for_linux_from_now() -> None:
    given = prices()

    await given.refresh_spot()

    assert aws_of(given).named("DescribeSpotPriceHistory") == [
        {
            "StartTime": NOW,
            "ProductDescriptions": ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
            "MaxResults": 1000,
        }
    ]


async def test_in_china_prices_are_in_yuan() -> None:
    given = prices(
        listed(
            [product("m5.large", 0.1), product("c5.large", 0.7, currency="CNY")],
            [product("m5.metal", 40, currency="CNY")],
        ),
        region="cn-north-1",
    )

    await given.refresh_on_demand()

    assert given.on_demand("c5.large") == 0.7
    assert given.on_demand("m5.large") == facts.on_demand_prices("cn-north-1")["m5.large"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"isolated_vpc": True}, "the price list cannot be reached from an isolated VPC"),
        ({"region": "us-gov-west-1"}, "AWS GovCloud has no price list"),
    ],
)
async def test_where_the_price_list_cannot_be_asked_the_market_still_is(
    options: dict[str, Any], why: str
) -> None:
    given = prices(**options)

    report = await given.refresh()

    assert report.skipped == why
    assert aws_of(given).named("GetProducts") == []
    assert given.spot("m5.large", "us-west-2a") == 0.03


@pytest.mark.parametrize("shared", [[], ["no json"], [json.dumps({"product": {}})], [product("m5.large", 0)]])
async def test_a_price_list_without_prices_is_an_error_and_the_last_good_ones_stay(shared: list[str]) -> None:
    given = prices(listed(shared))

    report = await given.refresh_on_demand()

    assert [type(error) for error in report.errors] == [PriceError]
    assert given.on_demand("m5.large") == STATIC["m5.large"]
    assert given.on_demand("m5.metal") == STATIC["m5.metal"]


async def test_the_bare_metal_list_must_answer_too() -> None:
    report = await prices(listed([product("m5.large", 0.1)], [])).refresh_on_demand()

    assert report.errors


async def test_one_sources_failure_leaves_the_other_alone() -> None:
    given = prices(aws_error("AccessDeniedException", service="pricing", operation="GetProducts"))

    report = await given.refresh()

    # One for each of the two lists.
    assert len(report.errors) == 2
    assert given.on_demand("m5.large") == STATIC["m5.large"]
    assert given.spot("m5.large", "us-west-2a") == 0.03


async def test_a_market_that_fails_or_is_empty_keeps_the_last_good_prices() -> None:
    given = prices()
    await given.refresh()

    aws_of(given).answers = {"DescribeSpotPriceHistory": aws_error("RequestLimitExceeded")}
    failed = await given.refresh_spot()
    aws_of(given).answers = {"DescribeSpotPriceHistory": {"SpotPriceHistory": []}}
    empty = await given.refresh_spot()

    assert failed.errors
    assert isinstance(empty.errors[0], PriceError)
    assert given.spot("m5.large", "us-west-2a") == 0.03


@pytest.mark.parametrize(
    ("price", "why"),
    [
        ("NaN", "it is not a number"),
        ("inf", "it is not a number"),
        ("cheap", "it is not a number"),
        (-0.1, "it is not above zero"),
        (9.7, "it is above 9.6"),
        (0.00095, "it is below 0.00096"),
    ],
)
async def test_an_absurd_list_price_is_refused_and_reported(price: float | str, why: str) -> None:
    given = prices(listed([product("m5.large", price), product("c5.large", 0.09)]))

    report = await given.refresh_on_demand()

    assert given.on_demand("m5.large") == 0.096
    assert given.on_demand("c5.large") == 0.09
    refused = report.refused[0]
    assert (refused.instance_type, refused.capacity_type, refused.reference, refused.why) == (
        "m5.large",
        "on-demand",
        0.096,
        why,
    )


@pytest.mark.parametrize("price", ["NaN", "0", "-1", "100", "0.00001", "x", ""])
async def test_an_absurd_spot_price_is_refused_and_reported(price: str) -> None:
    given = prices(market=[spot("m5.large", "us-west-2a", price), spot("m5.large", "us-west-2b", 0.03)])

    report = await given.refresh_spot()

    assert given.spot("m5.large", "us-west-2a") is None
    assert given.spot("m5.large", "us-west-2b") == 0.03
    assert [(each.instance_type, each.zone) for each in report.refused] == [("m5.large", "us-west-2a")]


async def test_a_spot_price_is_measured_against_the_last_good_one() -> None:
    given = prices(market=[spot("m5.large", "us-west-2a", 0.001)])
    await given.refresh_spot()

    aws_of(given).answers = {
        "DescribeSpotPriceHistory": {"SpotPriceHistory": [spot("m5.large", "us-west-2a", 0.2)]}
    }
    report = await given.refresh_spot()

    assert given.spot("m5.large", "us-west-2a") == 0.001
    assert report.refused == (RefusedPrice("m5.large", "spot", "us-west-2a", 0.2, 0.001, "it is above 0.1"),)


@pytest.mark.parametrize(("price", "taken"), [(5.0, True), (20_000.0, False), (0.00001, False)])
async def test_the_price_of_a_type_nobody_knew_must_be_in_sane_bounds(price: float, taken: bool) -> None:  # noqa: FBT001
    given = prices(listed([product("z9.new", price), product("m5.large", 0.1)]))

    report = await given.refresh_on_demand()

    assert (given.on_demand("z9.new") is not None) is taken
    assert bool(report.refused) is not taken


async def test_the_newest_entry_of_the_market_counts_and_odd_ones_do_not() -> None:
    given = prices(
        market=[
            spot("m5.large", "us-west-2a", 0.05, NOW),
            spot("m5.large", "us-west-2a", 0.04, NOW - timedelta(hours=1)),
            spot("m5.large", "us-west-2b", 0.04, NOW - timedelta(hours=1)),
            spot("m5.large", "us-west-2b", 0.05, NOW),
            spot("m5.large", "us-west-2c", 0.05, None),
            spot("", "us-west-2c", 0.05),
            spot("m5.large", "", 0.05),
        ]
    )

    await given.refresh_spot()

    assert given.spot("m5.large", "us-west-2a") == 0.05
    assert given.spot("m5.large", "us-west-2b") == 0.05
    assert given.spot("m5.large", "us-west-2c") is None


async def test_a_dimension_at_price_zero_does_not_hide_the_real_one() -> None:
    given = prices(listed([product("m5.large", 0.1, 0)]))

    await given.refresh_on_demand()

    assert given.on_demand("m5.large") == 0.1


async def test_a_refused_price_never_reaches_a_quote() -> None:
    given = prices(listed([product("m5.large", math.nan)]), [spot("m5.large", "us-west-2a", 0)])

    await given.refresh()

    assert given.quote("m5.large", "on-demand") == Quote(0.096, Source.PACKAGE, None)
    assert given.spot("m5.large", "us-west-2a") == 0.096


ZONE = "us-west-2a"


def moving(*by_sample: float | str) -> Any:
    """Answer with the newest of the prices now, and with one of them for each four hours before."""

    def answer(**parameters: Any) -> dict[str, Any]:
        at = parameters["StartTime"]
        sample = -1 if "EndTime" not in parameters else len(by_sample) - 1 - int((NOW - at).seconds / 14_400)
        return {"SpotPriceHistory": [spot("m5.large", ZONE, by_sample[sample], at)]}

    return answer


async def usual(*by_sample: float | str) -> Prices:
    given = prices()
    aws_of(given).answers = {"DescribeSpotPriceHistory": moving(*by_sample)}
    await given.refresh_spot()
    await given.refresh_usual()
    return given


async def test_the_usual_price_is_the_mean_of_the_day_and_the_price_is_the_newest() -> None:
    given = await usual(0.02, 0.03, 0.04, 0.05, 0.06, 0.08)

    assert given.spot("m5.large", ZONE) == 0.08
    assert given.usual_spot("m5.large", ZONE) == pytest.approx(0.28 / 6)
    assert given.usual_spot("m5.large", "us-west-2b") is None


async def test_before_the_day_was_asked_for_no_usual_price_is_known() -> None:
    given = prices()

    await given.refresh_spot()

    assert given.usual_spot("m5.large", ZONE) is None
    assert ListPrices("us-west-2").usual_spot("m5.large", ZONE) is None


async def test_a_price_of_the_day_that_cannot_be_right_does_not_count() -> None:
    given = await usual("nan", 0, 99.0, 0.04, 0.06, 0.05)

    assert given.usual_spot("m5.large", ZONE) == pytest.approx(0.05)


async def test_what_has_no_price_in_the_last_day_has_no_usual_one() -> None:
    given = await usual("nan", "nan", "nan", "nan", "nan", 0.05)
    assert given.usual_spot("m5.large", ZONE) == 0.05

    aws_of(given).answers = {"DescribeSpotPriceHistory": {"SpotPriceHistory": []}}
    given._clock = FakeClock(NOW + timedelta(days=2))
    await given.refresh_usual()

    assert given.usual_spot("m5.large", ZONE) is None


async def test_only_what_is_not_known_yet_is_asked_for_and_a_change_is_another_version() -> None:
    given = await usual(0.05, 0.05, 0.05, 0.05, 0.05, 0.05)
    asked, version = len(aws_of(given).named("DescribeSpotPriceHistory")), given.version

    await given.refresh_usual()

    assert asked == 7
    assert len(aws_of(given).named("DescribeSpotPriceHistory")) == 7
    assert given.version == version

    given._clock = FakeClock(NOW + timedelta(hours=4))
    dearer = {"SpotPriceHistory": [spot("m5.large", ZONE, 0.11)]}
    aws_of(given).answers = {"DescribeSpotPriceHistory": dearer}
    await given.refresh_usual()

    assert len(aws_of(given).named("DescribeSpotPriceHistory")) == 8
    assert given.version == version + 1
    assert given.usual_spot("m5.large", ZONE) == pytest.approx(0.06)


async def test_a_market_that_does_not_answer_leaves_what_was_known() -> None:
    given = await usual(0.05, 0.05, 0.05, 0.05, 0.05, 0.05)
    aws_of(given).answers = {"DescribeSpotPriceHistory": aws_error("RequestLimitExceeded")}
    given._clock = FakeClock(NOW + timedelta(hours=4))

    with pytest.raises(KarpenterError):
        await given.refresh_usual()

    assert given.usual_spot("m5.large", ZONE) == pytest.approx(0.05)
