# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter import facts
from karpenter.sandbox.ec2.compute.prices import Prices
from tests.unit.sandbox.ec2.compute.account import START, ZONES, Account, only


@pytest.fixture
def account() -> Account:
    return Account()


def history(account: Account, **params: Any) -> list[Any]:
    return list(
        account.call("DescribeSpotPriceHistory", InstanceTypes=["m5.large"], **params)["SpotPriceHistory"]
    )


@given(st.sampled_from(["m5.large", "c5.xlarge", "g5.xlarge"]), st.integers(0, 10**6), st.integers(0, 5))
def test_spot_costs_between_a_fifth_and_nine_tenths_of_the_list_price(
    name: str, hours: int, seed: int
) -> None:
    prices = Prices("us-west-2", seed)
    moment = START + timedelta(hours=hours)

    spot, listed = prices.spot(name, ZONES[0], moment), prices.on_demand(name, moment)

    assert spot is not None
    assert listed is not None
    assert 0.2 * listed < spot < 0.9 * listed


def test_the_same_seed_gives_the_same_prices_and_another_seed_others() -> None:
    one, same, other = Prices("us-west-2", 1), Prices("us-west-2", 1), Prices("us-west-2", 2)

    assert one.spot("m5.large", ZONES[0], START) == same.spot("m5.large", ZONES[0], START)
    assert one.spot("m5.large", ZONES[0], START) != other.spot("m5.large", ZONES[0], START)


def test_prices_move_from_hour_to_hour_and_differ_by_zone() -> None:
    prices = Prices("us-west-2")

    by_hour = {prices.spot("m5.large", ZONES[0], START + timedelta(hours=hour)) for hour in range(24)}

    assert len(by_hour) > 20
    assert len({prices.spot("m5.large", zone, START) for zone in ZONES}) == 3


def test_what_is_not_sold_has_no_price() -> None:
    prices = Prices("us-west-2")
    only_on_demand = next(
        name
        for name, each in facts.instance_types().items()
        if "spot" not in each.usage_classes and name in prices.offered and prices.on_demand(name, START)
    )

    assert prices.on_demand("m99.large", START) is None
    assert prices.spot("m99.large", ZONES[0], START) is None
    assert prices.spot("m5.large", "mars-1a", START) is None
    assert prices.spot(only_on_demand, ZONES[0], START) is None
    assert prices.of("spot", "m99.large", ZONES[0], START) == math.inf


def test_asking_from_now_gives_one_price_per_zone(account: Account) -> None:
    rows = history(account, StartTime=account.clock.now(), ProductDescriptions=["Linux/UNIX"])

    assert [row["AvailabilityZone"] for row in rows] == list(facts.offered("us-west-2")["m5.large"])
    for row in rows:
        price = account.ec2.prices.spot("m5.large", row["AvailabilityZone"], account.clock.now())
        assert float(row["SpotPrice"]) == price
        assert row["Timestamp"] <= account.clock.now()


def test_the_past_is_told_newest_first(account: Account) -> None:
    rows = history(account, StartTime=START - timedelta(hours=5), AvailabilityZone=ZONES[0])

    moments = [row["Timestamp"] for row in rows]
    assert len(rows) == 6
    assert moments == sorted(moments, reverse=True)


def test_all_pools_come_in_pages_of_a_thousand_each_once(account: Account) -> None:
    seen: list[tuple[str, str]] = []
    token: dict[str, str] = {}
    sizes = []
    while True:
        page = account.call("DescribeSpotPriceHistory", StartTime=account.clock.now(), **token)
        sizes.append(len(page["SpotPriceHistory"]))
        seen += [(row["InstanceType"], row["AvailabilityZone"]) for row in page["SpotPriceHistory"]]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}

    expected = [
        (name, zone)
        for name, zones in facts.offered("us-west-2").items()
        for zone in zones
        if account.ec2.prices.spot(name, zone, account.clock.now()) is not None
    ]
    assert set(sizes[:-1]) == {1000}
    assert seen == sorted(expected)


def test_small_pages_and_filters_work_together(account: Account) -> None:
    filters = [only("instance-type", "m5.*"), only("availability-zone", ZONES[0])]
    token: dict[str, str] = {}
    seen = []
    while True:
        page = account.call(
            "DescribeSpotPriceHistory", StartTime=account.clock.now(), MaxResults=2, Filters=filters, **token
        )
        assert len(page["SpotPriceHistory"]) <= 2
        seen += [row["InstanceType"] for row in page["SpotPriceHistory"]]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}

    assert seen == sorted(name for name in facts.offered("us-west-2") if name.startswith("m5."))


def test_a_page_may_have_two_thousand_prices_or_more(account: Account) -> None:
    pages: list[list[Any]] = []
    token: dict[str, str] = {}
    while not pages or token:
        page = account.call("DescribeSpotPriceHistory", StartTime=START, MaxResults=2000, **token)
        pages.append(page["SpotPriceHistory"])
        token = {"NextToken": page["NextToken"]} if "NextToken" in page else {}

    assert [len(page) for page in pages[:-1]] == [2000] * (len(pages) - 1)
    assert len(pages) > 1
    keys = [(row["InstanceType"], row["AvailabilityZone"]) for page in pages for row in page]
    assert len(keys) == len(set(keys))
    whole = account.call("DescribeSpotPriceHistory", StartTime=START, MaxResults=10**6)
    assert len(whole["SpotPriceHistory"]) == len(keys)


def test_a_page_of_prices_has_a_thousand_rows_unless_more_are_asked_for(account: Account) -> None:
    page = account.call("DescribeSpotPriceHistory", StartTime=START)

    assert len(page["SpotPriceHistory"]) == 1000
    assert account.refused("DescribeSpotPriceHistory", MaxResults=0).code == "InvalidParameterValue"


def test_other_products_have_no_rows(account: Account) -> None:
    assert history(account, ProductDescriptions=["Windows"]) == []


def test_rules_bend_prices_for_their_span_and_show_in_the_history(account: Account) -> None:
    account.ec2.apply(
        {
            "prices": [
                {"instanceType": "*", "capacityType": "spot", "factor": 3},
                {
                    "instanceType": "m5.large",
                    "zone": ZONES[0],
                    "capacityType": "spot",
                    "price": 0.5,
                    "forSeconds": 600,
                },
            ]
        }
    )
    usual = Prices("us-west-2").spot("m5.large", ZONES[1], START)

    assert account.ec2.prices.spot("m5.large", ZONES[0], START) == 0.5
    assert account.ec2.prices.spot("m5.large", ZONES[1], START) == pytest.approx(3 * (usual or 0))
    assert account.ec2.prices.on_demand("m5.large", START) == facts.on_demand_prices("us-west-2")["m5.large"]
    account.wait(700)
    rows = history(account, StartTime=START, AvailabilityZone=ZONES[0])
    assert [float(row["SpotPrice"]) == 0.5 for row in rows] == [False, True]
    assert rows[0]["Timestamp"] == START + timedelta(seconds=600)


def test_list_prices_can_be_bent_too(account: Account) -> None:
    account.ec2.apply({"prices": {"instanceType": "m5.large", "capacityType": "on-demand", "factor": 2}})

    price = account.ec2.prices.on_demand("m5.large", START)

    assert price == pytest.approx(2 * facts.on_demand_prices("us-west-2")["m5.large"])
