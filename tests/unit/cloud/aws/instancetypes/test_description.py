# SPDX-License-Identifier: Apache-2.0
import pytest

from karpenter.cloud.aws.instancetypes.description import read_type
from karpenter.facts import Accelerator, Disks, Gpu, NetworkCard, NeuronDevice
from tests.unit.cloud.aws.instancetypes.described import described


def test_an_entry_is_read_with_the_figures_that_ec2_does_not_tell() -> None:
    facts = read_type(described())

    assert facts is not None
    assert (facts.name, facts.vcpus, facts.memory_mib, facts.architectures) == (
        "m5.large",
        2,
        8192,
        ("x86_64",),
    )
    assert (facts.ebs_optimized, facts.ebs_max_mbps, facts.ena) == ("default", 4750, "required")
    assert facts.network_cards == (NetworkCard(3),)
    assert (facts.network_bandwidth_mbps, facts.branch_interfaces) == (750, 9)


def test_figures_that_ec2_does_not_tell_may_be_given() -> None:
    facts = read_type(described(), untold=(None, 4))

    assert facts is not None
    assert (facts.network_bandwidth_mbps, facts.branch_interfaces) == (None, 4)


def test_devices_are_read() -> None:
    memory = {"SizeInMiB": 16384}

    facts = read_type(
        described(
            GpuInfo={
                "Gpus": [
                    {
                        "Name": "T4",
                        "Manufacturer": "NVIDIA",
                        "Count": 1,
                        "MemoryInfo": memory,
                        "LogicalGpuCount": 1,
                    }
                ]
            },
            NeuronInfo={
                "NeuronDevices": [
                    {
                        "Name": "Trainium",
                        "Count": 2,
                        "CoreInfo": {"Count": 4, "Version": 3},
                        "MemoryInfo": memory,
                    }
                ]
            },
            InferenceAcceleratorInfo={"Accelerators": [{"Name": "A", "Manufacturer": "B", "Count": 3}]},
            MediaAcceleratorInfo={"Accelerators": [{"Name": "U30"}]},
            FpgaInfo={"Fpgas": [{"Name": "F"}]},
            InstanceStorageInfo={
                "TotalSizeInGB": 100,
                "NvmeSupport": "required",
                "Disks": [{"Count": 2, "SizeInGB": 50, "Type": "hdd"}],
            },
        )
    )

    assert facts is not None
    assert facts.gpus == (Gpu("T4", "NVIDIA", 1, 16384, 1, 1.0),)
    assert facts.neuron_devices == (NeuronDevice("Trainium", 2, 4, 16384, 3),)
    assert facts.inference_accelerators == (Accelerator("A", "B", 3, 0),)
    assert (facts.media_accelerators[0].name, facts.fpgas[0].name) == ("U30", "F")
    assert (facts.storage_gb, facts.disks) == (100, (Disks(2, 50, "hdd"),))


def test_network_cards_stand_in_the_order_of_their_index() -> None:
    network = {
        "DefaultNetworkCardIndex": 1,
        "NetworkCards": [
            {
                "NetworkCardIndex": 1,
                "MaximumNetworkInterfaces": 7,
                "InterfaceTypes": ["interface", "efa-only"],
            },
            {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 2},
        ],
        "Ipv4AddressesPerInterface": 10,
    }

    facts = read_type(described(NetworkInfo=network))

    assert facts is not None
    assert [card.max_interfaces for card in facts.network_cards] == [2, 7]
    assert [card.efa for card in facts.network_cards] == [False, True]
    assert facts.default_network_card == 1


@pytest.mark.parametrize("missing", ["InstanceType", "VCpuInfo", "MemoryInfo", "NetworkInfo"])
def test_an_entry_without_what_every_type_has_is_refused(missing: str) -> None:
    entry = {key: value for key, value in described().items() if key != missing}

    assert read_type(entry) is None


def test_an_entry_whose_default_card_does_not_exist_is_refused() -> None:
    network = {**described()["NetworkInfo"], "DefaultNetworkCardIndex": 1}

    assert read_type(described(NetworkInfo=network)) is None
