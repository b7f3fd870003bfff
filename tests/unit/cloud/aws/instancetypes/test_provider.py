# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.ec2nodeclass import AMI, KubeletConfiguration, NetworkInterface, Subnet
from karpenter.cloud.aws.instancetypes.compatibility import Incompatibility
from karpenter.cloud.aws.instancetypes.provider import InstanceTypes, NoInstanceTypesError, TypesChange
from karpenter.cloud.aws.unavailable import CapacityTypeOut, PoolOut, Unavailable
from karpenter.kit.clock import FakeClock
from karpenter.model.instancetypes import InstanceType
from tests.unit.cloud.aws.fakes import FakeAws, aws_error
from tests.unit.cloud.aws.instancetypes.described import SUBNETS, Group, described, node_class, reservation
from tests.unit.cloud.aws.instancetypes.test_offerings import Priced

MIB = 1024**2
GRAVITON = {"SupportedArchitectures": ["arm64"], "Manufacturer": "AWS", "SustainedClockSpeedInGhz": 2.5}


def answers(
    *entries: dict[str, Any], zones: tuple[str, ...] = ("us-west-2a", "us-west-2b")
) -> dict[str, Any]:
    described_types = list(entries) or [
        described("m5.large"),
        described("c6g.large", ProcessorInfo=GRAVITON),
        described("a1.large", ProcessorInfo=GRAVITON),
    ]
    return {
        "DescribeInstanceTypes": {"InstanceTypes": described_types},
        "DescribeInstanceTypeOfferings": {
            "InstanceTypeOfferings": [
                {"InstanceType": entry["InstanceType"], "Location": zone}
                for entry in described_types
                if "InstanceType" in entry
                for zone in zones
            ]
        },
    }


class Fixture:
    """A provider with everything around it in reach."""

    def __init__(self, prepared: dict[str, Any] | None = None, **options: Any) -> None:
        self.clock = FakeClock()
        self.aws = FakeAws(prepared or answers())
        self.unavailable = Unavailable(self.clock)
        self.prices = Priced(
            listed={"m5.large": 0.1, "c6g.large": 0.08, "a1.large": 0.05},
            market={(name, f"us-west-2{zone}"): 0.02 for name in ("m5.large", "c6g.large") for zone in "ab"},
        )
        self.counts = {"cr-1": 3}
        self.shifted: frozenset[str] = frozenset()
        self.types = InstanceTypes(
            self.aws,
            self.clock,
            prices=self.prices,
            unavailable=self.unavailable,
            reservation_count=lambda name: self.counts[name],
            shifted_zone_ids=lambda: self.shifted,
            **options,
        )

    def named(self, *arguments: Any, **options: Any) -> dict[str, InstanceType]:
        return {kind.name: kind for kind in self.types.list(*arguments, **options)}


async def test_types_and_offers_are_asked_as_karpenter_asks() -> None:
    given = Fixture()

    await given.types.refresh()

    assert given.aws.named("DescribeInstanceTypes") == [
        {
            "Filters": [
                {"Name": "supported-virtualization-type", "Values": ["hvm"]},
                {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
            ],
            "MaxResults": 100,
        }
    ]
    assert given.aws.named("DescribeInstanceTypeOfferings") == [
        {"LocationType": "availability-zone", "MaxResults": 1000}
    ]


async def test_the_types_of_a_class_come_with_sizes_labels_and_offerings() -> None:
    given = Fixture()
    await given.types.refresh()

    types = given.named(node_class())

    assert list(types) == ["a1.large", "c6g.large", "m5.large"]
    m5 = types["m5.large"]
    assert m5.labels[labels.REGION] == "us-west-2"
    assert m5.allocatable["memory"] == 6903 * MIB
    assert [(each.zone, each.capacity_type, each.price_per_hour) for each in m5.offerings] == [
        ("us-west-2a", "on-demand", 0.1),
        ("us-west-2a", "spot", 0.02),
        ("us-west-2b", "on-demand", 0.1),
        ("us-west-2b", "spot", 0.02),
    ]


async def test_all_pages_are_read() -> None:
    prepared = answers(described("m5.large"), described("m5.xlarge"))
    first, second = prepared["DescribeInstanceTypes"]["InstanceTypes"]
    prepared["DescribeInstanceTypes"] = [
        {"InstanceTypes": [first], "NextToken": "more"},
        {"InstanceTypes": [second]},
    ]
    given = Fixture(prepared)

    await given.types.refresh()

    assert set(given.types.facts) == {"m5.large", "m5.xlarge"}
    assert given.types.sold_in["m5.xlarge"] == ("us-west-2a", "us-west-2b")


async def test_a_type_that_cannot_be_read_hides_no_other() -> None:
    given = Fixture(
        answers(described("m5.large"), described("x9.odd", VCpuInfo=None), described("", MemoryInfo=None))
    )

    change = await given.types.refresh()

    assert change.unreadable == ("", "x9.odd")
    assert set(given.types.facts) == {"m5.large"}


async def test_machines_that_kubernetes_has_no_nodes_of_are_left_out() -> None:
    mac = described("mac2.metal", ProcessorInfo={"SupportedArchitectures": ["arm64_mac"]})
    given = Fixture(answers(described("m5.large"), mac))

    await given.types.refresh()

    assert set(given.types.facts) == {"m5.large"}


async def test_a_refresh_tells_what_changed() -> None:
    before = answers(described("m5.large"), described("m5.xlarge"), described("m4.large"))
    after = answers(described("m5.large"), described("m5.xlarge", Hypervisor="xen"), described("m6i.large"))
    offers = after["DescribeInstanceTypeOfferings"]["InstanceTypeOfferings"]
    offers.remove({"InstanceType": "m5.large", "Location": "us-west-2b"})
    given = Fixture({name: [before[name], after[name]] for name in before})

    first, second = await given.types.refresh(), await given.types.refresh()

    assert first.added == ("m4.large", "m5.large", "m5.xlarge")
    assert second == TypesChange(
        added=("m6i.large",), removed=("m4.large",), changed=("m5.xlarge",), moved=("m5.large", "m6i.large")
    )


async def test_a_refresh_without_news_keeps_the_lists() -> None:
    given = Fixture()
    await given.types.refresh()
    listed = given.types.list(node_class())

    given.clock.tick(600)
    change = await given.types.refresh()

    assert not change
    assert given.types.list(node_class()) is listed
    assert given.types.age_s == 0


async def test_a_class_that_nobody_asked_for_in_an_hour_is_forgotten() -> None:
    given = Fixture()
    await given.types.refresh()
    listed = given.types.list(node_class())

    given.clock.tick(3600)

    assert given.types.list(node_class()) == listed
    assert given.types.list(node_class()) is not listed


async def test_age_counts_from_the_last_refresh_that_succeeded() -> None:
    refused = aws_error("UnauthorizedOperation")
    prepared = answers()
    given = Fixture({**prepared, "DescribeInstanceTypes": [prepared["DescribeInstanceTypes"], refused]})
    assert given.types.age_s is None
    await given.types.refresh()

    given.clock.tick(100)
    with pytest.raises(type(refused)):
        await given.types.refresh()

    assert given.types.age_s == 100
    assert len(given.types.list(node_class())) == 3


@pytest.mark.parametrize("empty", ["DescribeInstanceTypes", "DescribeInstanceTypeOfferings"])
async def test_an_empty_answer_is_refused_and_what_was_known_stays(empty: str) -> None:
    prepared = answers()
    given = Fixture({**prepared, empty: [prepared[empty], {}]})
    await given.types.refresh()

    with pytest.raises(NoInstanceTypesError, match="us-west-2"):
        await given.types.refresh()

    assert len(given.types.list(node_class())) == 3


def test_nothing_can_be_listed_before_the_first_refresh() -> None:
    with pytest.raises(NoInstanceTypesError, match="no instance types are known yet"):
        Fixture().types.list(node_class())


async def test_a_class_without_subnets_is_refused_by_name() -> None:
    given = Fixture()
    await given.types.refresh()

    with pytest.raises(NoInstanceTypesError, match="EC2NodeClass default has found no subnets"):
        given.types.list(node_class(subnets=()))


async def test_the_same_tuple_is_returned_while_nothing_moved() -> None:
    given = Fixture()
    await given.types.refresh()
    free_addresses_changed = node_class(subnets=tuple(reversed(SUBNETS)))

    assert given.types.list(node_class()) is given.types.list(free_addresses_changed)


def _price(given: Fixture) -> None:
    given.prices.listed["m5.large"] = 0.2
    given.prices.version += 1


def _sell_out(given: Fixture) -> None:
    given.unavailable.mark(PoolOut("spot", "m5.large", "us-west-2a"))


def _shift(given: Fixture) -> None:
    given.shifted = frozenset({"usw2-az2"})


def _spend(given: Fixture) -> None:
    given.counts["cr-1"] = 2


def _learn(given: Fixture) -> None:
    given.types.memory.learn("m5.large", [], 7000 * MIB)


@pytest.mark.parametrize("move", [_price, _sell_out, _shift, _spend, _learn])
async def test_whatever_a_list_depends_on_makes_a_new_one(move: Callable[[Fixture], None]) -> None:
    given = Fixture()
    await given.types.refresh()
    chosen = node_class(reservations=(reservation(),))
    before = given.types.list(chosen)

    move(given)

    after = given.types.list(chosen)
    assert after is not before
    assert after != before
    assert given.types.list(chosen) is after


@pytest.mark.parametrize(
    "other",
    [
        node_class(kubelet=KubeletConfiguration(max_pods=5)),
        node_class(ami_family="Bottlerocket"),
        node_class(instance_store_policy="RAID0"),
        node_class(amis=(AMI(id="ami-1", requirements=()),)),
        node_class(
            network_interfaces=(
                NetworkInterface(network_card_index=0, device_index=0, interface_type="interface"),
            )
        ),
        node_class(subnets=(*SUBNETS, Subnet(id="subnet-c", zone="us-west-2c", zone_id="usw2-az3"))),
    ],
)
async def test_a_changed_class_makes_a_new_list(other: Any) -> None:
    given = Fixture()
    await given.types.refresh()
    before = given.types.list(node_class())

    assert given.types.list(other) is not before


async def test_what_is_sold_out_remakes_only_its_own_type() -> None:
    given = Fixture()
    await given.types.refresh()
    before = given.named(node_class())

    given.unavailable.mark(PoolOut("spot", "m5.large", "us-west-2a"))
    after = given.named(node_class())

    assert after["c6g.large"] is before["c6g.large"]
    assert [each.available for each in after["m5.large"].offerings] == [True, False, True, True]


async def test_what_was_sold_out_comes_back_by_itself() -> None:
    given = Fixture()
    await given.types.refresh()
    given.unavailable.mark(CapacityTypeOut("spot"))
    assert not given.named(node_class())["m5.large"].offerings[1].available

    given.clock.tick(180)

    assert given.named(node_class())["m5.large"].offerings[1].available


async def test_tenancies_and_stated_prices_are_part_of_the_list() -> None:
    given = Fixture()
    await given.types.refresh()

    types = given.named(node_class(), tenancies=("default", "dedicated"), stated_prices={"a1.large": 9.0})

    assert len(types["m5.large"].offerings) == 8
    assert types["a1.large"].offerings[1].price_per_hour == 9.0


async def test_lists_of_other_tenancies_stand_side_by_side() -> None:
    given = Fixture()
    await given.types.refresh()
    plain = given.types.list(node_class())

    dedicated = given.types.list(node_class(), tenancies=("dedicated",))

    assert given.types.list(node_class()) is plain
    assert given.types.list(node_class(), tenancies=("dedicated",)) is dedicated


async def test_of_many_ways_of_asking_the_oldest_is_made_anew() -> None:
    given = Fixture()
    await given.types.refresh()
    first = given.types.list(node_class())

    for price in range(1, 5):
        given.types.list(node_class(), stated_prices={"m5.large": float(price)})

    again = given.types.list(node_class())
    assert again == first
    assert again is not first


async def test_one_type_can_be_asked_for() -> None:
    given = Fixture()
    await given.types.refresh()

    found = given.types.get("m5.large", node_class())

    assert found is given.named(node_class())["m5.large"]
    assert given.types.get("no.such", node_class()) is None


async def test_a_type_that_does_not_go_with_the_class_tells_why() -> None:
    given = Fixture()
    await given.types.refresh()

    obstacles = given.types.obstacles(node_class())

    assert obstacles == {"a1.large": Incompatibility.IMAGE_FAMILY}
    assert not any(each.available for each in given.named(node_class())["a1.large"].offerings)


async def test_a_placement_group_is_part_of_labels_and_offerings() -> None:
    given = Fixture()
    await given.types.refresh()

    types = given.named(node_class(), group=Group(strategy="partition", partition_count=2))

    assert types["m5.large"].labels[labels.PLACEMENT_GROUP_ID] == "pg-1"
    assert len(types["m5.large"].offerings) == 8
    assert given.types.get("m5.large", node_class(), group=Group(strategy="none")) is not None


ARM = AMI(
    id="ami-arm", requirements=(NodeSelectorRequirement(key=labels.ARCH, operator="In", values=("arm64",)),)
)
X86 = AMI(
    id="ami-x86", requirements=(NodeSelectorRequirement(key=labels.ARCH, operator="In", values=("amd64",)),)
)


async def test_memory_is_learnt_from_a_node_on_the_current_image() -> None:
    given = Fixture()
    await given.types.refresh()
    chosen = node_class(amis=(ARM, X86))
    node_labels = {labels.INSTANCE_TYPE: "m5.large", labels.ARCH: "amd64"}

    assert given.types.learn(chosen, node_labels, "ami-x86", 7000 * MIB)

    assert given.named(chosen)["m5.large"].capacity["memory"] == 7000 * MIB
    assert given.named(node_class())["m5.large"].capacity["memory"] == 7577 * MIB


async def test_what_is_learnt_of_one_type_leaves_all_others_as_they_are() -> None:
    given = Fixture()
    await given.types.refresh()
    chosen = node_class(amis=(ARM, X86))
    before = given.named(chosen)

    given.types.learn(chosen, {labels.INSTANCE_TYPE: "m5.large", labels.ARCH: "amd64"}, "ami-x86", 7000 * MIB)
    after = given.named(chosen)

    assert after["m5.large"].capacity["memory"] == 7000 * MIB
    assert [name for name in before if after[name] is not before[name]] == ["m5.large"]


async def test_a_node_on_another_image_teaches_nothing() -> None:
    given = Fixture()
    chosen = node_class(amis=(ARM, X86))
    node_labels = {labels.INSTANCE_TYPE: "m5.large", labels.ARCH: "amd64"}

    assert not given.types.learn(chosen, node_labels, "ami-old", 7000 * MIB)
    assert not given.types.learn(node_class(amis=(ARM,)), node_labels, "ami-arm", 7000 * MIB)


async def test_reservations_are_offered_to_their_type() -> None:
    given = Fixture()
    await given.types.refresh()
    chosen = node_class(reservations=(reservation(), reservation(id="cr-2", instance_type="c6g.large")))
    given.counts["cr-2"] = 0

    types = given.named(chosen)

    assert types["m5.large"].offerings[-1].reservation_capacity == 3
    assert (types["c6g.large"].offerings[-1].reservation_id, types["c6g.large"].offerings[-1].available) == (
        "cr-2",
        False,
    )
