# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from karpenter.facts import instance_types
from karpenter.sandbox.kubelets.boot import AL2, AL2023, BOTTLEROCKET, WINDOWS, Boot
from karpenter.sandbox.kubelets.capacity import attachable_volumes, devices_of, size_of
from karpenter.sandbox.kubelets.kubeletconfig import BootError, KubeletConfig, read_flags

MIB = 1024**2
GIB = 1024**3
M5 = instance_types()["m5.large"]


def boot(config: KubeletConfig | None = None, *, family: str = AL2023, raid0: bool = False) -> Boot:
    return Boot("shop", "https://x", config or KubeletConfig(), family, raid0=raid0)


def test_a_machine_has_less_memory_than_is_sold_and_keeps_some_for_itself() -> None:
    size = size_of(M5, boot(), {"/dev/xvda": 20}, memory_loss=0.06)

    assert size.capacity["cpu"] == 2000
    assert size.capacity["memory"] == int(8192 * 1024 * 0.94) * 1024
    assert size.capacity["pods"] == 3 * 9 + 2
    assert 19.98 * GIB < size.capacity["ephemeral-storage"] < 20 * GIB
    assert size.allocatable["cpu"] == 2000 - 70
    kept = (255 + 11 * 29 + 100) * MIB
    assert size.capacity["memory"] - size.allocatable["memory"] == kept
    assert size.allocatable["pods"] == 29


def test_a_map_of_a_configuration_is_merged_and_one_of_a_flag_stands_alone() -> None:
    config = KubeletConfig(kube_reserved={"cpu": "500m"}, eviction_hard={"memory.available": "10%"})
    flags = read_flags(["--kube-reserved=cpu=500m", "--eviction-hard=memory.available<10%"])

    merged = size_of(M5, boot(config), {"/dev/xvda": 20}, memory_loss=0)
    alone = size_of(M5, boot(flags, family=AL2), {"/dev/xvda": 20}, memory_loss=0)

    assert merged.allocatable["cpu"] == alone.allocatable["cpu"] == 1500
    assert merged.allocatable["memory"] == 8 * GIB - (255 + 11 * 29) * MIB - int(8 * GIB * 0.1)
    assert alone.allocatable["memory"] == 8 * GIB - int(8 * GIB * 0.1)
    assert alone.allocatable["ephemeral-storage"] == alone.capacity["ephemeral-storage"]


def test_huge_pages_are_a_resource_and_no_memory_for_other_pods() -> None:
    plain = size_of(M5, boot(), {"/dev/xvda": 20}, memory_loss=0.06)
    huge = size_of(M5, dataclasses.replace(boot(), huge_pages=1024), {"/dev/xvda": 20}, memory_loss=0.06)

    assert "hugepages-2Mi" not in plain.capacity
    assert huge.capacity["hugepages-2Mi"] == huge.allocatable["hugepages-2Mi"] == 2 * GIB
    assert huge.capacity["memory"] == plain.capacity["memory"]
    assert plain.allocatable["memory"] - huge.allocatable["memory"] == 2 * GIB


def test_pods_are_limited_as_the_kubelet_is_told() -> None:
    few = size_of(M5, boot(KubeletConfig(max_pods=110, pods_per_core=4)), {}, memory_loss=0)
    windows = size_of(M5, boot(family=WINDOWS), {}, memory_loss=0)

    assert few.capacity["pods"] == 8
    assert windows.capacity["pods"] == 9


def test_files_of_pods_are_on_the_data_disk_or_on_the_disks_of_the_instance() -> None:
    disks = {"/dev/xvda": 2, "/dev/xvdb": 80}
    local = instance_types()["i3en.large"]

    bottlerocket = size_of(M5, boot(family=BOTTLEROCKET), disks, memory_loss=0)
    raid = size_of(local, boot(raid0=True), disks, memory_loss=0)
    root = size_of(M5, boot(), disks, memory_loss=0, root_device="/dev/xvdb")

    assert 79 * GIB < bottlerocket.capacity["ephemeral-storage"] < 80 * GIB
    assert root.capacity == bottlerocket.capacity
    assert 1249 * 10**9 < raid.capacity["ephemeral-storage"] < 1250 * 10**9


def test_a_threshold_of_a_hundred_percent_is_switched_off() -> None:
    config = KubeletConfig(eviction_hard={"memory.available": "100%", "nodefs.available": "1Gi"})

    size = size_of(M5, boot(config), {"/dev/xvda": 20}, memory_loss=0)

    assert size.allocatable["memory"] == 8 * GIB - (255 + 11 * 29) * MIB
    assert size.capacity["ephemeral-storage"] - size.allocatable["ephemeral-storage"] == 2 * GIB


@pytest.mark.parametrize(
    "config",
    [
        KubeletConfig(kube_reserved={"cpu": "much"}),
        KubeletConfig(system_reserved={"memory": "a lot"}),
        KubeletConfig(eviction_hard={"memory.available": "x%"}),
        KubeletConfig(eviction_hard={"memory.available": "x"}),
    ],
)
def test_an_amount_that_is_none_keeps_the_kubelet_from_starting(config: KubeletConfig) -> None:
    with pytest.raises(BootError, match="the kubelet cannot read"):
        size_of(M5, boot(config), {}, memory_loss=0)


@pytest.mark.parametrize(
    ("kind", "name", "count"),
    [
        ("g5.xlarge", "nvidia.com/gpu", 1),
        ("inf2.xlarge", "aws.amazon.com/neuron", 1),
        ("inf2.xlarge", "aws.amazon.com/neuroncore", 2),
        ("p4d.24xlarge", "vpc.amazonaws.com/efa", 4),
        ("m5.large", "vpc.amazonaws.com/pod-eni", 9),
    ],
)
def test_plugins_report_the_devices_of_the_type(kind: str, name: str, count: int) -> None:
    assert devices_of(instance_types()[kind], AL2023)[name] == count


def test_windows_reports_addresses_in_place_of_interfaces() -> None:
    found = devices_of(M5, WINDOWS)

    assert dict(found) == {"vpc.amazonaws.com/PrivateIPv4Address": 9}


def test_the_driver_counts_the_volumes_beside_the_machines_own() -> None:
    assert attachable_volumes(M5, 2) == M5.ebs_max_attachments - 2
    assert attachable_volumes(replace(M5, ebs_max_attachments=0), 0) == 26
