# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from msgspec.structs import replace

from karpenter import facts
from karpenter.api import labels
from karpenter.api.ec2nodeclass import EBS, BlockDeviceMapping, KubeletConfiguration, NetworkInterface
from karpenter.cloud.aws.amis.families import family_of
from karpenter.cloud.aws.instancetypes.sizes import (
    Size,
    SizeSettings,
    interface_limited_pods,
    pod_limit,
    size_of,
)
from karpenter.facts import Gpu
from karpenter.kit.quantity import QuantityError
from tests.unit.cloud.aws.instancetypes.described import fact, node_class

MIB = 1024**2
GIB = 1024**3


def size(name: str = "m5.large", settings: SizeSettings | None = None, **spec: Any) -> Size:
    chosen = node_class(**spec)
    return size_of(fact(name), chosen, family_of(chosen), settings or SizeSettings())


def kubelet(**options: Any) -> KubeletConfiguration:
    return KubeletConfiguration(**options)


def interface(card: int, device: int, kind: str = "efa-only") -> NetworkInterface:
    return NetworkInterface(network_card_index=card, device_index=device, interface_type=kind)


def test_the_walkthroughs_c7i_2xlarge_comes_out_exactly() -> None:
    left = size("c7i.2xlarge").allocatable

    assert left.to_quantities() == {
        "cpu": "7910m",
        "memory": "14162Mi",
        "pods": "58",
        "ephemeral-storage": "17Gi",
        "vpc.amazonaws.com/pod-eni": "38",
    }


def test_capacity_lacks_only_what_the_hypervisor_takes() -> None:
    whole = size("c7i.2xlarge").capacity

    assert whole.to_quantities() == {
        "cpu": "8",
        "memory": "15155Mi",
        "pods": "58",
        "ephemeral-storage": "20Gi",
        "vpc.amazonaws.com/pod-eni": "38",
    }


def test_the_share_of_memory_that_is_lacking_can_be_set() -> None:
    assert size(settings=SizeSettings(vm_memory_overhead_percent=0)).capacity["memory"] == 8192 * MIB
    assert size(settings=SizeSettings(vm_memory_overhead_percent=0.1)).capacity["memory"] == 7372 * MIB
    with pytest.raises(ValueError, match="from 0 to below 1"):
        SizeSettings(vm_memory_overhead_percent=2)


def test_memory_that_a_real_node_had_replaces_the_estimate() -> None:
    chosen = node_class()

    learnt = size_of(
        fact("m5.large"), chosen, family_of(chosen), SizeSettings(), learnt_memory_bytes=7900 * MIB
    )

    assert learnt.capacity["memory"] == 7900 * MIB
    assert learnt.allocatable["memory"] == (7900 - 11 * 29 - 255 - 100) * MIB


def test_reserved_interfaces_cost_pods_but_the_kubelet_still_reserves_for_all() -> None:
    whole, less = size(), size(settings=SizeSettings(reserved_enis=1))

    assert (whole.capacity["pods"], less.capacity["pods"]) == (29, 20)
    assert whole.allocatable["memory"] == less.allocatable["memory"]


def test_no_pod_fits_where_all_interfaces_are_reserved() -> None:
    assert size(settings=SizeSettings(reserved_enis=3)).capacity["pods"] == 0
    assert size(settings=SizeSettings(reserved_enis=9)).capacity["pods"] == 0


def test_efa_only_interfaces_on_the_first_card_cost_pods() -> None:
    interfaces = (interface(0, 0, "interface"), interface(0, 1), interface(1, 1))

    assert interface_limited_pods(fact("p4d.24xlarge"), interfaces) == 14 * 49 + 2


def test_configured_interfaces_settle_the_number_of_efas() -> None:
    configured = size("p4d.24xlarge", network_interfaces=(interface(0, 0, "interface"), interface(0, 1)))

    assert size("p4d.24xlarge").capacity[labels.EFA] == 4
    assert configured.capacity[labels.EFA] == 1


def test_max_pods_wins_over_interfaces_but_not_over_the_kubelets_memory() -> None:
    few = size(kubelet=kubelet(max_pods=10))

    assert few.allocatable["pods"] == 10
    assert few.allocatable["memory"] == size().allocatable["memory"]


def test_on_bottlerocket_the_kubelet_reserves_for_the_real_number_of_pods() -> None:
    few = size(ami_family="Bottlerocket", kubelet=kubelet(max_pods=10))

    assert few.allocatable["memory"] == (7577 - 11 * 10 - 255 - 100) * MIB


def test_max_pods_may_be_zero() -> None:
    assert (
        pod_limit(
            fact("m5.large"),
            node_class(kubelet=kubelet(max_pods=0)),
            family_of(node_class()),
            SizeSettings(),
        )
        == 0
    )


@pytest.mark.parametrize(
    ("family", "pods"), [("AL2023", 6), ("AL2", 6), ("Custom", 6), ("Windows2022", 6), ("Bottlerocket", 29)]
)
def test_pods_per_core_limits_pods_where_the_family_can(family: str, pods: int) -> None:
    assert size(ami_family=family, kubelet=kubelet(pods_per_core=3)).capacity["pods"] == pods


def test_pods_per_core_never_raises_the_limit() -> None:
    assert size(kubelet=kubelet(pods_per_core=1000)).capacity["pods"] == 29
    assert size(kubelet=kubelet(pods_per_core=0)).capacity["pods"] == 29


def test_windows_runs_110_pods_and_counts_addresses() -> None:
    left = size(ami_family="Windows2022").allocatable

    assert left.to_quantities() == {
        "cpu": "1930m",
        # 8192 - 615 of the hypervisor, 11 x 110 + 255 of the kubelet, 100 for eviction.
        "memory": "6012Mi",
        "pods": "110",
        # 50 less a tenth and one.
        "ephemeral-storage": "44Gi",
        "vpc.amazonaws.com/pod-eni": "9",
        "vpc.amazonaws.com/PrivateIPv4Address": "9",
    }


def test_reserved_amounts_replace_the_defaults_key_by_key() -> None:
    given = size(
        kubelet=kubelet(
            kube_reserved={"cpu": "200m", "pid": "1000"}, system_reserved={"memory": "1Gi", "cpu": "100m"}
        )
    ).allocatable

    assert given["cpu"] == 2000 - 200 - 100
    assert given["memory"] == size().allocatable["memory"] - GIB
    assert given["ephemeral-storage"] == 17 * GIB
    assert "pid" not in given


def test_nothing_may_be_reserved_on_purpose() -> None:
    given = size(kubelet=kubelet(kube_reserved={"cpu": "0", "memory": "0", "ephemeral-storage": "0"}))

    assert given.allocatable["cpu"] == 2000
    assert given.allocatable["memory"] == (7577 - 100) * MIB
    assert given.allocatable["ephemeral-storage"] == 18 * GIB


@pytest.mark.parametrize(
    ("threshold", "kept_mib"),
    [("500Mi", 500), ("10%", 757.7), ("0%", 0), ("100%", 0), ("100.0%", 0), ("0", 0)],
)
def test_hard_eviction_of_memory_is_an_amount_or_a_share(threshold: str, kept_mib: float) -> None:
    left = size(kubelet=kubelet(eviction_hard={"memory.available": threshold})).allocatable["memory"]

    assert left == pytest.approx((7577 - 574 - kept_mib) * MIB, abs=1)


def test_hard_eviction_of_storage_is_an_amount_or_a_share() -> None:
    def left(threshold: str) -> int:
        return size(kubelet=kubelet(eviction_hard={"nodefs.available": threshold})).allocatable[
            "ephemeral-storage"
        ]

    assert left("5%") == 18 * GIB
    assert left("2Gi") == 17 * GIB


def test_soft_eviction_and_other_signals_change_nothing() -> None:
    given = size(
        kubelet=kubelet(
            eviction_soft={"memory.available": "50%"},
            eviction_soft_grace_period={"memory.available": "1m"},
            eviction_hard={"imagefs.available": "50%"},
        )
    )

    assert given == size()


def test_a_node_that_reserves_more_than_it_has_has_no_room_and_no_debt() -> None:
    left = size(kubelet=kubelet(system_reserved={"memory": "100Gi", "cpu": "64"})).allocatable

    assert (left["memory"], left["cpu"]) == (0, 0)
    assert left["pods"] == 29


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kube_reserved", {"cpu": "a lot"}, r"kubelet\.kubeReserved\[cpu\]"),
        ("system_reserved", {"memory": "1GiB"}, r"kubelet\.systemReserved\[memory\]"),
        ("eviction_hard", {"memory.available": "some"}, r"kubelet\.evictionHard\[memory\.available\]"),
        ("eviction_hard", {"nodefs.available": "x%"}, r"kubelet\.evictionHard\[nodefs\.available\]"),
        ("eviction_hard", {"nodefs.available": "101%"}, r"kubelet\.evictionHard\[nodefs\.available\]"),
        ("eviction_hard", {"nodefs.available": "nan%"}, r"kubelet\.evictionHard\[nodefs\.available\]"),
    ],
)
def test_an_amount_that_cannot_be_read_names_its_field(
    field: str, value: dict[str, str], message: str
) -> None:
    with pytest.raises(QuantityError, match=message):
        size(kubelet=kubelet(**{field: value}))


def test_storage_follows_the_disks_of_the_node_class() -> None:
    root = BlockDeviceMapping(device_name="/dev/xvda", ebs=EBS(volume_size="100Gi"))

    assert size(block_device_mappings=(root,)).capacity["ephemeral-storage"] == 100 * GIB
    assert size("c6gd.xlarge", instance_store_policy="RAID0").capacity["ephemeral-storage"] == 237 * 10**9
    assert size("m5.large", instance_store_policy="RAID0").capacity["ephemeral-storage"] == 20 * GIB


def test_gpus_are_resources_of_their_maker() -> None:
    chosen = node_class()
    odd = replace(fact("m5.large"), gpus=(Gpu("V520", "AMD", 2, 8192), Gpu("HL-205", "Habana", 4, 32768)))

    whole = size_of(odd, chosen, family_of(chosen), SizeSettings()).capacity

    assert (whole[labels.AMD_GPU], whole[labels.HABANA_GAUDI], whole[labels.NVIDIA_GPU]) == (2, 4, 0)


def test_the_kubelets_share_of_cores_equals_karpenters_floating_point_for_any_machine() -> None:
    tiers = ((0, 1000, 0.06), (1000, 2000, 0.01), (2000, 4000, 0.005), (4000, 1 << 31, 0.0025))
    chosen = node_class()

    for vcpus in {kind.vcpus for kind in facts.instance_types().values()} | set(range(1, 300)):
        expected = sum(
            int(float(min(vcpus * 1000, end) - start) * share)
            for start, end, share in tiers
            if vcpus * 1000 >= start
        )
        machine = replace(fact("m5.large"), vcpus=vcpus)
        left = size_of(machine, chosen, family_of(chosen), SizeSettings()).allocatable

        assert left["cpu"] == vcpus * 1000 - expected
