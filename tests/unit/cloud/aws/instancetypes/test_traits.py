# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from msgspec.structs import replace

from karpenter.api import labels
from karpenter.cloud.aws.amis.families import FAMILIES
from karpenter.cloud.aws.instancetypes.traits import architecture, labels_of
from karpenter.facts import Accelerator, Gpu
from tests.unit.cloud.aws.instancetypes.described import fact

AL2023 = FAMILIES["AL2023"]
AWS = "karpenter.k8s.aws/instance-"


def short(kind: str, **changes: Any) -> dict[str, str]:
    """The labels of AWS without their common prefix."""
    found = labels_of(replace(fact(kind), **changes), "us-west-2", AL2023)
    return {key.removeprefix(AWS): value for key, value in found.items() if key.startswith(AWS)}


def test_all_labels_of_an_ordinary_type() -> None:
    assert labels_of(fact("m5d.large"), "us-west-2", AL2023) == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m5d.large",
        "topology.kubernetes.io/region": "us-west-2",
        f"{AWS}category": "m",
        f"{AWS}family": "m5d",
        f"{AWS}generation": "5",
        f"{AWS}size": "large",
        f"{AWS}cpu": "2",
        f"{AWS}memory": "8192",
        f"{AWS}hypervisor": "nitro",
        f"{AWS}cpu-manufacturer": "intel",
        f"{AWS}cpu-sustained-clock-speed-mhz": "3100",
        f"{AWS}ebs-bandwidth": "4750",
        f"{AWS}network-bandwidth": "750",
        f"{AWS}local-nvme": "75",
        f"{AWS}encryption-in-transit-supported": "false",
        f"{AWS}capability-flex": "false",
    }


def test_a_gpu_type_names_its_gpus() -> None:
    found = short("g4dn.12xlarge")

    assert (found["gpu-name"], found["gpu-manufacturer"], found["gpu-count"], found["gpu-memory"]) == (
        "t4",
        "nvidia",
        "4",
        "16384",
    )
    assert "accelerator-name" not in found


def test_a_slice_of_a_gpu_counts_as_none() -> None:
    assert short("g6f.large")["gpu-count"] == "0"


def test_several_kinds_of_gpu_give_no_label() -> None:
    found = short("m5.large", gpus=(Gpu("A", "NVIDIA", 1, 1), Gpu("B", "AMD", 1, 1)))

    assert not any(key.startswith("gpu-") for key in found)


def test_neuron_devices_are_accelerators_of_aws() -> None:
    found = short("inf2.24xlarge")

    assert (found["accelerator-name"], found["accelerator-manufacturer"], found["accelerator-count"]) == (
        "inferentia2",
        "aws",
        "6",
    )


def test_other_accelerators_keep_their_maker_and_lose_their_blanks() -> None:
    found = short("dl2q.24xlarge")

    assert (found["accelerator-name"], found["accelerator-manufacturer"], found["accelerator-count"]) == (
        "qualcomm-ai100",
        "qualcomm",
        "8",
    )


def test_several_kinds_of_accelerator_give_no_label() -> None:
    kinds = (Accelerator("A", "X", 1, 1), Accelerator("B", "Y", 1, 1))

    assert not any(key.startswith("accelerator-") for key in short("m5.large", inference_accelerators=kinds))


@pytest.mark.parametrize(
    ("name", "category", "generation"),
    [
        ("c7i-flex.large", "c", "7"),
        ("u-6tb1.56xlarge", "u", "1"),
        ("u7in-32tb.224xlarge", "u", "7"),
        ("hpc7g.16xlarge", "hpc", "7"),
        ("is4gen.medium", "is", "4"),
        ("p6-b200.48xlarge", "p", "6"),
        ("x2iedn.32xlarge", "x", "2"),
        ("trn1n.32xlarge", "trn", "1"),
        ("m8gd.metal-24xl", "m", "8"),
    ],
)
def test_category_and_generation_are_read_from_the_name(name: str, category: str, generation: str) -> None:
    found = short(name)

    assert (found["category"], found["generation"]) == (category, generation)


def test_a_name_without_a_generation_has_neither_category_nor_generation() -> None:
    found = short("m5.large", name="mac-m4.metal")

    assert "category" not in found
    assert (found["family"], found["size"]) == ("mac-m4", "metal")


def test_flexible_types_say_so() -> None:
    assert short("c7i-flex.large")["capability-flex"] == "true"


def test_bare_metal_has_an_empty_hypervisor() -> None:
    assert short("m5.metal")["hypervisor"] == ""


def test_a_clock_that_is_not_told_runs_at_nothing() -> None:
    assert short("m5.large", clock_ghz=None)["cpu-sustained-clock-speed-mhz"] == "0"
    assert short("m5.large", clock_ghz=2.3)["cpu-sustained-clock-speed-mhz"] == "2300"


def test_bandwidth_is_left_out_where_nobody_publishes_it() -> None:
    assert "network-bandwidth" not in short("t2.medium")
    assert "ebs-bandwidth" not in short("m3.xlarge")


def test_only_nvme_disks_are_local_nvme() -> None:
    assert "local-nvme" not in short("d2.xlarge")
    assert short("i3.large")["local-nvme"] == "475"


def test_windows_carries_its_build() -> None:
    found = labels_of(fact("m5.large"), "us-west-2", FAMILIES["Windows2022"])

    assert found[labels.OS] == "windows"
    assert found[labels.WINDOWS_BUILD] == "10.0.20348"


def test_a_placement_group_is_a_label() -> None:
    found = labels_of(fact("m5.large"), "us-west-2", AL2023, group="pg-1")

    assert found[labels.PLACEMENT_GROUP_ID] == "pg-1"


def test_the_first_architecture_that_kubernetes_knows_counts() -> None:
    assert architecture(fact("t2.nano")) == "amd64"
    assert architecture(fact("c6g.medium")) == "arm64"
    assert architecture(fact("mac2.metal")) == ""
