# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest

from karpenter import facts

DATA = Path(facts.__file__).parent / "data"


def test_a_type_is_described_with_every_figure() -> None:
    kind = facts.instance_types()["c7i.2xlarge"]

    assert (kind.vcpus, kind.cores, kind.threads_per_core, kind.memory_mib) == (8, 4, 2, 16384)
    assert (kind.architectures, kind.processor_manufacturer, kind.clock_ghz) == (("x86_64",), "Intel", 3.2)
    assert (kind.hypervisor, kind.bare_metal, kind.usage_classes) == ("nitro", False, ("on-demand", "spot"))
    assert kind.network_cards == (facts.NetworkCard(4, "Up to 12.5 Gigabit", 3.125, 12.5, efa=False),)
    assert (kind.ipv4_per_interface, kind.ipv6, kind.ena, kind.efa_max) == (15, True, "required", 0)
    assert (kind.ebs_optimized, kind.ebs_max_mbps, kind.storage_gb) == ("default", 10000, 0)
    assert kind.placement_strategies == ("cluster", "partition", "spread")
    assert kind.processor_features == ("nested-virtualization", "metal-compatibility")
    assert kind.nitro_enclaves
    assert (kind.network_bandwidth_mbps, kind.branch_interfaces) == (3125, 38)


def test_devices_and_disks_are_told() -> None:
    gpu, neuron = facts.instance_types()["p4d.24xlarge"], facts.instance_types()["inf2.24xlarge"]

    assert gpu.gpus == (facts.Gpu("A100", "NVIDIA", 8, 40960, 8, 1.0),)
    assert gpu.disks == (facts.Disks(8, 1000, "ssd"),)
    assert (gpu.storage_gb, gpu.storage_nvme, len(gpu.network_cards), gpu.efa_max) == (8000, "required", 4, 4)
    assert neuron.neuron_devices == (facts.NeuronDevice("Inferentia2", 6, 2, 32768, 2),)
    assert neuron.inference_accelerators == (facts.Accelerator("Inferentia2", "AWS", 6, 32768),)


def test_a_type_without_branch_interfaces_or_published_bandwidth_says_so() -> None:
    kind = facts.instance_types()["t2.medium"]

    assert kind.branch_interfaces == 0
    assert kind.network_bandwidth_mbps is None


def test_types_come_in_the_order_of_their_names_and_cannot_be_changed() -> None:
    types = facts.instance_types()

    assert list(types) == sorted(types)
    assert len(types) > 1300
    with pytest.raises(TypeError):
        types["x"] = types["m5.large"]  # type: ignore[index]


def test_the_same_tables_are_shared() -> None:
    assert facts.instance_types() is facts.instance_types()
    assert facts.offered("eu-west-1") is facts.offered("eu-west-1")


@pytest.mark.parametrize(
    ("region", "count"),
    [
        ("us-east-1", 6),
        ("us-east-2", 3),
        ("us-west-2", 4),
        ("eu-west-1", 3),
        ("eu-central-1", 3),
        ("ap-northeast-2", 4),
        ("ap-southeast-1", 3),
    ],
)
def test_a_region_has_zones_with_ids(region: str, count: int) -> None:
    zones = facts.zones(region)

    assert len(zones) == len(set(zones.values())) == count
    assert all(name.startswith(region) and "-az" in zone_id for name, zone_id in zones.items())


def test_every_offer_is_of_a_known_type_in_a_zone_of_its_region() -> None:
    for region in facts.regions():
        zones = set(facts.zones(region))

        for name, where in facts.offered(region).items():
            assert name in facts.instance_types()
            assert where
            assert zones.issuperset(where)


def test_an_unknown_region_has_no_zones_and_offers_nothing() -> None:
    assert dict(facts.zones("mars-north-1")) == {}
    assert dict(facts.offered("mars-north-1")) == {}


def test_list_prices_of_an_unknown_region_are_those_of_us_east_1() -> None:
    assert facts.on_demand_prices("mars-north-1") == facts.on_demand_prices("us-east-1")
    assert not facts.has_prices("mars-north-1")
    assert facts.has_prices("us-gov-west-1")


def test_list_prices_are_the_published_ones_and_above_zero() -> None:
    prices = facts.on_demand_prices("us-east-1")

    assert (prices["m5.large"], prices["c7i.2xlarge"], prices["t3.medium"]) == (0.096, 0.357, 0.0416)
    for region in ("us-east-1", "us-gov-east-1", "us-gov-west-1", "cn-north-1"):
        assert all(0 < price < 2000 for price in facts.on_demand_prices(region).values())


def test_prices_in_china_are_in_yuan() -> None:
    assert facts.currency("cn-north-1") == "CNY"
    assert facts.currency("eu-west-1") == "USD"
    assert facts.on_demand_prices("cn-north-1")["m5.large"] > facts.on_demand_prices("us-east-1")["m5.large"]


def test_network_figures_are_known_for_types_that_nobody_describes_any_more() -> None:
    assert "p3.8xlarge" not in facts.instance_types()
    assert facts.network_bandwidth_mbps("p3.8xlarge") == 10000
    assert facts.branch_interfaces("g4ad.xlarge") == 12


def test_network_figures_of_an_unknown_type_are_none_and_zero() -> None:
    assert facts.network_bandwidth_mbps("no.such") is None
    assert facts.branch_interfaces("no.such") == 0
    assert (facts.network_bandwidth_mbps("m5.large"), facts.branch_interfaces("m5.large")) == (750, 9)


def test_the_tables_stay_small_and_one_record_is_one_line() -> None:
    sizes = {path.name: path.stat().st_size for path in DATA.iterdir()}

    assert set(sizes) == {"types.json", "regions.json", "prices.json", "network.json"}
    assert sum(sizes.values()) < 1_100_000
    assert len((DATA / "types.json").read_text().splitlines()) == len(facts.instance_types()) + 2
    assert all(json.loads((DATA / name).read_text()) for name in sizes)
