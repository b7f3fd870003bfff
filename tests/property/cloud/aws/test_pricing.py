# SPDX-License-Identifier: Apache-2.0
import asyncio
import json
import math
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.cloud.aws.pricing import Prices
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.fakes import FakeAws

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("m5.large", "c5.large", "z9.new")
ZONES = ("us-west-2a", "us-west-2b")

texts = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.sampled_from(["", "0", "-1", "NaN", "1e309", "0.1", "0.05", "x", "0.0000000001"]),
    st.text(max_size=5),
)
junk = st.recursive(
    st.none() | st.booleans() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def _product(name: str, price: str) -> str:
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": name}},
            "terms": {"OnDemand": {"t": {"priceDimensions": {"d": {"pricePerUnit": {"USD": price}}}}}},
        }
    )


entries = st.builds(_product, st.sampled_from(NAMES), texts) | junk.map(json.dumps) | st.text(max_size=8)
markets = st.lists(
    st.fixed_dictionaries(
        {
            "InstanceType": st.sampled_from(NAMES),
            "AvailabilityZone": st.sampled_from(ZONES),
            "SpotPrice": texts,
            "Timestamp": st.none() | st.just(NOW),
        }
    ),
    max_size=5,
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(entries, max_size=5), markets), max_size=3))
def test_no_answer_of_aws_makes_a_price_that_is_not_a_sane_number(
    rounds: list[tuple[list[str], list[dict[str, Any]]]],
) -> None:
    aws = FakeAws()
    prices = Prices(aws, FakeClock(NOW))

    for listed, market in rounds:
        aws.answers = {
            "GetProducts": {"PriceList": listed},
            "DescribeSpotPriceHistory": {"SpotPriceHistory": market},
        }
        asyncio.run(prices.refresh())

        found = [prices.on_demand(name) for name in NAMES]
        found += [prices.spot(name, zone) for name in NAMES for zone in ZONES]
        assert all(price is None or (math.isfinite(price) and 0 < price <= 10_000) for price in found)
        assert prices.on_demand("m5.large") is not None
