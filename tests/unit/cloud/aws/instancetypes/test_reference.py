# SPDX-License-Identifier: Apache-2.0
"""What is left for pods on types of every kind, beside figures that were not computed by this package.

Those marked by nothing are from Karpenter's own published reference of instance types; the rest were worked out by
hand from EC2's figures, with the sum beside them.
"""

import pytest

from karpenter import facts
from karpenter.api import labels
from karpenter.cloud.aws.amis.families import FAMILIES, family_of
from karpenter.cloud.aws.instancetypes.compatibility import is_launchable
from karpenter.cloud.aws.instancetypes.sizes import SizeSettings, size_of
from karpenter.cloud.aws.instancetypes.traits import labels_of
from karpenter.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from tests.unit.cloud.aws.instancetypes.described import fact, node_class

MIB = 1024**2
GIB = 1024**3

# Type, millicores, memory in MiB, pods, branch interfaces, devices.
REFERENCE: tuple[tuple[str, int, int, int, int, dict[str, int]], ...] = (
    ("a1.medium", 940, 1392, 8, 10, {}),
    ("a1.metal", 15890, 27322, 234, 54, {}),
    ("c1.medium", 1930, 1122, 12, 0, {}),
    ("c3.8xlarge", 31850, 53903, 234, 0, {}),
    ("c4.8xlarge", 35840, 53903, 234, 0, {}),
    ("c5.large", 1930, 3114, 29, 9, {}),
    ("c5.xlarge", 3920, 6584, 58, 18, {}),
    ("c5n.18xlarge", 71750, 173400, 737, 107, {labels.EFA: 1}),
    ("c6a.48xlarge", 191450, 355262, 737, 107, {labels.EFA: 1}),
    ("c6g.medium", 940, 1392, 8, 4, {}),
    ("c7g.16xlarge", 63770, 112720, 737, 107, {labels.EFA: 1}),
    # A node of the walkthroughs.
    ("c7i.2xlarge", 7910, 14162, 58, 38, {}),
    ("d2.xlarge", 3920, 27896, 58, 0, {}),
    ("d3.xlarge", 3920, 29845, 10, 42, {}),
    ("g4dn.xlarge", 3920, 14481, 29, 39, {labels.NVIDIA_GPU: 1}),
    ("g4dn.metal", 95690, 355262, 737, 107, {labels.NVIDIA_GPU: 8, labels.EFA: 1}),
    ("g5.48xlarge", 191450, 723299, 345, 115, {labels.NVIDIA_GPU: 8, labels.EFA: 1}),
    ("g5g.xlarge", 3920, 6525, 58, 18, {labels.NVIDIA_GPU: 1}),
    ("h1.2xlarge", 7910, 29317, 58, 0, {}),
    ("hpc7g.16xlarge", 63770, 118649, 198, 0, {labels.EFA: 1}),
    ("i3.large", 1930, 13770, 29, 0, {}),
    ("i4i.metal", 127610, 961470, 737, 120, {labels.EFA: 1}),
    ("im4gn.large", 1930, 6844, 29, 9, {}),
    ("inf1.24xlarge", 95690, 177976, 321, 111, {labels.NEURON: 16, labels.NEURON_CORE: 64, labels.EFA: 1}),
    ("inf2.xlarge", 3920, 14162, 58, 18, {labels.NEURON: 1, labels.NEURON_CORE: 2}),
    ("is4gen.medium", 940, 5181, 8, 4, {}),
    ("m1.small", 940, 1166, 8, 0, {}),
    ("m4.16xlarge", 63770, 239554, 234, 0, {}),
    ("m5.large", 1930, 6903, 29, 9, {}),
    ("m5.metal", 95690, 355262, 737, 120, {}),
    ("m6i.32xlarge", 127610, 476504, 737, 107, {labels.EFA: 1}),
    ("m7a.medium", 940, 3345, 8, 4, {}),
    ("m7i-flex.8xlarge", 31850, 118312, 234, 54, {}),
    ("m8gd.metal-24xl", 95690, 355203, 737, 107, {labels.EFA: 1}),
    ("m8gd.48xlarge", 191450, 718928, 737, 107, {labels.EFA: 1}),
    ("p3dn.24xlarge", 95690, 718987, 737, 107, {labels.NVIDIA_GPU: 8, labels.EFA: 1}),
    ("p4d.24xlarge", 95690, 1082712, 737, 62, {labels.NVIDIA_GPU: 8, labels.EFA: 4}),
    ("p5.48xlarge", 191450, 1938410, 100, 120, {labels.NVIDIA_GPU: 8, labels.EFA: 32}),
    ("p5en.48xlarge", 191450, 1937332, 198, 120, {labels.NVIDIA_GPU: 8, labels.EFA: 16}),
    ("p6-b200.48xlarge", 191450, 1937332, 198, 120, {labels.NVIDIA_GPU: 8, labels.EFA: 8}),
    ("r5b.large", 1930, 14481, 29, 9, {}),
    ("r6idn.metal", 127610, 965243, 394, 106, {labels.EFA: 2}),
    ("r6in.16xlarge", 63770, 476504, 737, 107, {}),
    ("r6in.32xlarge", 127610, 965243, 394, 106, {labels.EFA: 2}),
    ("r7a.medium", 940, 7134, 8, 4, {}),
    ("t1.micro", 940, 180, 4, 0, {}),
    ("t2.nano", 940, 74, 4, 0, {}),
    ("t3.micro", 1930, 548, 4, 0, {}),
    ("t3.medium", 1930, 3246, 17, 0, {}),
    ("t3a.small", 1930, 1451, 8, 0, {}),
    ("t4g.nano", 1930, 15, 4, 0, {}),
    ("t4g.2xlarge", 7910, 29258, 58, 0, {}),
    ("trn1.32xlarge", 127610, 481894, 247, 82, {labels.NEURON: 16, labels.NEURON_CORE: 32, labels.EFA: 8}),
    ("u-6tb1.112xlarge", 446810, 5811134, 737, 0, {}),
    ("u7in-32tb.224xlarge", 893690, 31033160, 394, 106, {labels.EFA: 2}),
    ("vt1.24xlarge", 95690, 173400, 737, 107, {labels.EFA: 1}),
    ("x1.32xlarge", 127610, 1846005, 234, 0, {}),
    ("x2gd.metal", 63770, 961411, 737, 107, {}),
    ("z1d.large", 1930, 14481, 29, 13, {}),
    # 4096 - 308 - (11 x 29 + 255) - 100; pods 3 x 9 + 2.
    ("c7i-flex.large", 1930, 3114, 29, 3, {}),
    # 4096 - 64 - 303 - (11 x 29 + 255) - 100.
    ("c8g.large", 1930, 3055, 29, 9, {}),
    # 4096 - 64 - 303 - (11 x 8 + 255) - 100; pods 2 x 3 + 2.
    ("m8g.medium", 940, 3286, 8, 4, {}),
    # 8192 - 615 - (11 x 20 + 255) - 100; pods 2 x 9 + 2; an eighth of a GPU is none.
    ("g6f.large", 1930, 7002, 20, 10, {}),
    # 1572864 - 117965 - (11 x 492 + 255) - 100; pods 10 x 49 + 2 on the first of four cards.
    ("g6e.48xlarge", 191450, 1449132, 492, 82, {labels.NVIDIA_GPU: 8, labels.EFA: 4}),
    # 1572864 - 117965 - (11 x 394 + 255) - 100; pods 8 x 49 + 2.
    ("i7ie.metal-48xl", 191450, 1450210, 394, 107, {labels.EFA: 1}),
    # 2097152 - 157287 - (11 x 100 + 255) - 100; pods 2 x 49 + 2; 16 devices with 8 cores each.
    ("trn2.48xlarge", 191450, 1938410, 100, 0, {labels.NEURON: 16, labels.NEURON_CORE: 128, labels.EFA: 16}),
    # 384 cores: 60 + 10 + 10 + 950; 3145728 - 235930 - (11 x 1514 + 255) - 100; pods 24 x 63 + 2.
    ("r8i.96xlarge", 382970, 2892789, 1514, 98, {labels.EFA: 1}),
)

# Windows reserves for 110 pods (1465 MiB) on every type and keeps 44 of 50 GiB: memory in MiB, addresses.
WINDOWS: tuple[tuple[str, int, int, int], ...] = (
    ("t3.large", 1930, 8192 - 615 - 1465 - 100, 11),
    ("m5.large", 1930, 8192 - 615 - 1465 - 100, 9),
    ("m5.metal", 95690, 393216 - 29492 - 1465 - 100, 49),
    ("c6i.2xlarge", 7910, 16384 - 1229 - 1465 - 100, 14),
    ("g4dn.xlarge", 3920, 16384 - 1229 - 1465 - 100, 9),
    ("r5.4xlarge", 15890, 131072 - 9831 - 1465 - 100, 29),
)


# Type, manufacturer, MHz, EBS Mbps, network Mbps, NVMe GB, hypervisor, encryption: "" where there is no label.
LABELS: tuple[tuple[str, str, str, str, str, str, str, str], ...] = (
    ("m8gd.metal-24xl", "aws", "2800", "30000", "40000", "5700", "", "true"),
    ("p4d.24xlarge", "intel", "3000", "19000", "400000", "8000", "nitro", "true"),
    ("p5en.48xlarge", "intel", "2400", "100000", "3200000", "30400", "nitro", "true"),
    ("p6-b200.48xlarge", "intel", "2400", "100000", "3200000", "30400", "nitro", "true"),
    ("r3.large", "intel", "2500", "", "", "", "xen", "false"),
    ("r6in.large", "intel", "3500", "25000", "3125", "", "nitro", "true"),
    ("r7a.medium", "amd", "3700", "10000", "390", "", "nitro", "true"),
    ("u7in-32tb.224xlarge", "intel", "1900", "100000", "200000", "", "nitro", "true"),
    ("vt1.3xlarge", "intel", "2500", "4750", "3120", "", "nitro", "true"),
    ("x1e.4xlarge", "intel", "2300", "1750", "2500", "", "xen", "false"),
)


@pytest.mark.parametrize("row", LABELS, ids=lambda row: row[0])
def test_labels_are_those_of_the_reference(row: tuple[str, str, str, str, str, str, str, str]) -> None:
    found = labels_of(fact(row[0]), "us-east-1", FAMILIES["AL2023"])

    assert row == (
        found[labels.INSTANCE_TYPE],
        found[labels.INSTANCE_CPU_MANUFACTURER],
        found[labels.INSTANCE_CPU_CLOCK_SPEED],
        found.get(labels.INSTANCE_EBS_BANDWIDTH, ""),
        found.get(labels.INSTANCE_NETWORK_BANDWIDTH, ""),
        found.get(labels.INSTANCE_LOCAL_NVME, ""),
        found[labels.INSTANCE_HYPERVISOR],
        found[labels.INSTANCE_ENCRYPTION_IN_TRANSIT],
    )


@pytest.mark.parametrize(("name", "cpu", "memory_mib", "pods", "branches", "devices"), REFERENCE)
def test_amazon_linux_leaves_what_the_reference_says(
    name: str, cpu: int, memory_mib: int, pods: int, branches: int, devices: dict[str, int]
) -> None:
    chosen = node_class()

    left = size_of(fact(name), chosen, family_of(chosen), SizeSettings()).allocatable

    expected = {CPU: cpu, MEMORY: memory_mib * MIB, PODS: pods, EPHEMERAL_STORAGE: 17 * GIB, **devices}
    assert dict(left) == {**expected, **({labels.POD_ENI: branches} if branches else {})}


@pytest.mark.parametrize(("name", "cpu", "memory_mib", "addresses"), WINDOWS)
def test_windows_leaves_what_was_worked_out(name: str, cpu: int, memory_mib: int, addresses: int) -> None:
    chosen = node_class(ami_family="Windows2022")

    left = size_of(fact(name), chosen, family_of(chosen), SizeSettings()).allocatable

    assert (left[CPU], left[MEMORY], left[PODS]) == (cpu, memory_mib * MIB, 110)
    assert left[EPHEMERAL_STORAGE] == 44 * GIB
    assert left[labels.PRIVATE_IPV4_ADDRESS] == addresses


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_type_of_the_catalogue_has_a_size_and_all_its_labels(family: str) -> None:
    chosen = node_class(ami_family=family)
    always = {
        labels.ARCH,
        labels.OS,
        labels.INSTANCE_TYPE,
        labels.REGION,
        labels.INSTANCE_FAMILY,
        labels.INSTANCE_SIZE,
        labels.INSTANCE_CATEGORY,
        labels.INSTANCE_GENERATION,
        labels.INSTANCE_CPU,
        labels.INSTANCE_MEMORY,
        labels.INSTANCE_HYPERVISOR,
        labels.INSTANCE_CPU_MANUFACTURER,
        labels.INSTANCE_CPU_CLOCK_SPEED,
        labels.INSTANCE_ENCRYPTION_IN_TRANSIT,
        labels.INSTANCE_CAPABILITY_FLEX,
    }

    launchable = [kind for kind in facts.instance_types().values() if is_launchable(kind)]

    assert len(launchable) > 1300
    for kind in launchable:
        size = size_of(kind, chosen, family_of(chosen), SizeSettings())
        assert size.allocatable[CPU] > 0
        assert size.allocatable[PODS] > 0
        assert size.allocatable[EPHEMERAL_STORAGE] > 0
        assert all(amount <= size.capacity[name] for name, amount in size.allocatable.items())
        assert always <= set(labels_of(kind, "us-east-1", family_of(chosen)))


def test_the_table_spans_families_architectures_devices_and_metal() -> None:
    kinds = [fact(row[0]) for row in REFERENCE]

    assert len(kinds) >= 40
    assert {kind.architectures[-1] for kind in kinds} == {"arm64", "x86_64"}
    assert any(kind.bare_metal for kind in kinds)
    assert any(kind.gpus for kind in kinds)
    assert any(kind.neuron_devices for kind in kinds)
    assert any(kind.burstable for kind in kinds)
    assert any("-flex" in kind.name for kind in kinds)
    assert {kind.hypervisor for kind in kinds} == {"", "nitro", "xen"}
