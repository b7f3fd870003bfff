# SPDX-License-Identifier: Apache-2.0
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter import facts
from karpenter.api import labels
from karpenter.api.ec2nodeclass import (
    EBS,
    BlockDeviceMapping,
    EC2NodeClass,
    EC2NodeClassSpec,
    KubeletConfiguration,
    NetworkInterface,
)
from karpenter.cloud.aws.amis.families import FAMILIES, family_of
from karpenter.cloud.aws.instancetypes.compatibility import incompatibility, is_launchable
from karpenter.cloud.aws.instancetypes.offerings import UNPRICED, Market, Zone, offerings_of
from karpenter.cloud.aws.instancetypes.sizes import SizeSettings, interface_limited_pods, size_of
from karpenter.cloud.aws.instancetypes.traits import labels_of
from karpenter.cloud.aws.unavailable import PoolOut, Unavailable
from karpenter.facts import TypeFacts
from karpenter.kit.clock import FakeClock

TYPES = [kind for kind in facts.instance_types().values() if is_launchable(kind)]

types = st.sampled_from(TYPES)
amounts = st.sampled_from(["0", "1", "100m", "1Gi", "64Gi", "5T"])
thresholds = st.sampled_from(["0%", "5%", "99.99%", "100%", "100Mi", "1Ti"])
interfaces = st.lists(
    st.builds(
        NetworkInterface,
        network_card_index=st.integers(0, 3),
        device_index=st.integers(0, 4),
        interface_type=st.sampled_from(["interface", "efa-only"]),
    ),
    max_size=4,
).map(tuple)
kubelets = st.none() | st.builds(
    KubeletConfiguration,
    max_pods=st.none() | st.integers(0, 2000),
    pods_per_core=st.none() | st.integers(0, 50),
    kube_reserved=st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage", "pid"]), amounts),
    system_reserved=st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage"]), amounts),
    eviction_hard=st.dictionaries(st.sampled_from(["memory.available", "nodefs.available"]), thresholds),
)
classes = st.builds(
    lambda **spec: EC2NodeClass(spec=EC2NodeClassSpec(**spec)),
    ami_family=st.sampled_from(sorted(FAMILIES)),
    kubelet=kubelets,
    network_interfaces=interfaces,
    instance_store_policy=st.sampled_from(["", "RAID0"]),
    block_device_mappings=st.lists(
        st.builds(
            BlockDeviceMapping,
            device_name=st.sampled_from(["/dev/xvda", "/dev/xvdb", "/dev/sda1"]),
            ebs=st.none() | st.builds(EBS, volume_size=st.sampled_from(["", "1Gi", "500G", "64T"])),
            root_volume=st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
)
size_settings = st.builds(
    SizeSettings,
    vm_memory_overhead_percent=st.floats(0, 1, exclude_max=True),
    reserved_enis=st.integers(0, 20),
)


@settings(deadline=None)
@given(types, classes, size_settings)
def test_pods_never_get_more_than_there_is_or_less_than_nothing(
    kind: TypeFacts, chosen: EC2NodeClass, given_settings: SizeSettings
) -> None:
    size = size_of(kind, chosen, family_of(chosen), given_settings)

    assert all(amount > 0 for amount in size.capacity.values())
    assert all(0 < amount <= size.capacity[name] for name, amount in size.allocatable.items())
    assert set(size.allocatable) <= set(size.capacity)


@settings(deadline=None)
@given(types, classes, st.integers(0, 20), st.integers(0, 20))
def test_more_reserved_interfaces_never_mean_more_pods(
    kind: TypeFacts, chosen: EC2NodeClass, few: int, more: int
) -> None:
    nics = chosen.spec.network_interfaces

    fewer_pods = interface_limited_pods(kind, nics, reserved_enis=few + more)

    assert 0 <= fewer_pods <= interface_limited_pods(kind, nics, reserved_enis=few)


@settings(deadline=None)
@given(types, classes)
def test_labels_are_texts_under_known_names_and_tell_the_type(kind: TypeFacts, chosen: EC2NodeClass) -> None:
    found = labels_of(kind, "us-east-1", family_of(chosen))

    assert set(found) <= labels.WELL_KNOWN
    assert all(isinstance(value, str) for value in found.values())
    assert found[labels.INSTANCE_TYPE] == kind.name
    assert kind.name == f"{found[labels.INSTANCE_FAMILY]}.{found[labels.INSTANCE_SIZE]}"
    assert found == labels_of(kind, "us-east-1", family_of(chosen))


class _AnyPrices:
    version = 0

    def __init__(self, prices: dict[str, float | None]) -> None:
        self._prices = prices

    def on_demand(self, instance_type: str) -> float | None:  # noqa: ARG002
        return self._prices.get("")

    def spot(self, instance_type: str, zone: str) -> float | None:  # noqa: ARG002
        return self._prices.get(zone)

    def usual_spot(self, instance_type: str, zone: str) -> float | None:  # noqa: ARG002
        return None


ZONES = {name: Zone(name, f"id-{name}", (f"subnet-{name}",)) for name in ("za", "zb", "zc")}


@settings(deadline=None)
@given(
    types,
    classes,
    st.dictionaries(
        st.sampled_from(["", *ZONES]), st.none() | st.floats(0.0001, 10_000, allow_nan=False), max_size=4
    ),
    st.sets(st.tuples(st.sampled_from(["spot", "on-demand"]), st.sampled_from(sorted(ZONES)))),
    st.sets(st.sampled_from(sorted(ZONES))),
    st.sets(st.sampled_from(sorted(ZONES))),
)
def test_only_what_has_a_price_and_is_not_out_is_available(
    kind: TypeFacts,
    chosen: EC2NodeClass,
    prices: dict[str, float | None],
    sold_out: set[tuple[str, str]],
    sold_in: set[str],
    shifted: set[str],
) -> None:
    unavailable = Unavailable(FakeClock())
    for capacity_type, zone in sold_out:
        unavailable.mark(PoolOut(capacity_type, kind.name, zone))
    market = Market(
        zones=ZONES,
        prices=_AnyPrices(prices),
        unavailable=unavailable,
        reservations={},
        reservation_count=lambda _: 0,
        shifted_zone_ids=frozenset(f"id-{zone}" for zone in shifted),
    )
    compatible = incompatibility(kind, chosen.spec, family_of(chosen)) is None

    offerings = offerings_of(kind, sold_in, market, compatible=compatible)

    sold_as = {"spot", "on-demand"} & set(kind.usage_classes)
    assert {(each.capacity_type, each.zone) for each in offerings} == {
        (capacity_type, zone) for capacity_type in sold_as for zone in sold_in
    }
    for each in offerings:
        price = prices.get(each.zone if each.capacity_type == "spot" else "")
        assert each.price_per_hour == (UNPRICED if price is None else price)
        assert each.price_per_hour > 0
        assert each.available == (
            compatible
            and price is not None
            and (each.capacity_type, each.zone) not in sold_out
            and each.zone not in shifted
        )
