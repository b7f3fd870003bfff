# SPDX-License-Identifier: Apache-2.0
import pytest

from karpenter import facts
from karpenter.cloud.aws.instancetypes.listing import UnknownRegionError, listed_types
from karpenter.cloud.aws.pricing import ListPrices
from karpenter.model.catalogue import Catalogue
from tests.unit.cloud.aws.instancetypes.described import node_class


def test_a_region_can_be_planned_for_without_an_account() -> None:
    types = {kind.name: kind for kind in listed_types("us-west-2")}

    m5 = types["m5.large"]
    assert m5.allocatable["memory"] == 6903 * 1024**2
    assert {offering.zone[-1] for offering in m5.offerings} == set("abcd")
    assert {offering.price_per_hour for offering in m5.offerings} == {0.096}
    assert all(offering.available for offering in m5.offerings)


def test_the_types_make_a_catalogue() -> None:
    catalogue = Catalogue(listed_types("us-east-2"))

    assert len(catalogue) > 5000
    assert catalogue.type_at(0).name == "t4g.nano"


def test_machines_that_kubernetes_has_no_nodes_of_are_left_out() -> None:
    names = {kind.name for kind in listed_types("us-east-1")}

    assert "mac2.metal" in facts.offered("us-east-1")
    assert "mac2.metal" not in names


def test_the_node_class_settles_sizes_and_what_goes() -> None:
    types = {kind.name: kind for kind in listed_types("us-east-1", node_class(ami_family="Windows2022"))}

    assert types["m5.large"].capacity["pods"] == 110
    assert not any(offering.available for offering in types["c6g.large"].offerings)


def test_a_region_that_is_not_in_the_tables_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownRegionError, match='"mars-north-1"') as caught:
        listed_types("mars-north-1")

    assert "us-east-1" in caught.value.hint


def test_list_prices_serve_for_spot_too() -> None:
    prices = ListPrices("us-east-1")

    assert prices.on_demand("m5.large") == prices.spot("m5.large", "us-east-1a") == 0.096
    assert prices.on_demand("no.such") is None
    assert prices.version == 0
