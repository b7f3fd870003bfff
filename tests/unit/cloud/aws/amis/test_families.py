# SPDX-License-Identifier: Apache-2.0
import pytest

from karpenter.api.ec2nodeclass import AMISelectorTerm, EC2NodeClass, EC2NodeClassSpec
from karpenter.cloud.aws.amis import (
    AL2,
    AL2023,
    BOTTLEROCKET,
    CUSTOM,
    FAMILIES,
    WINDOWS2019,
    WINDOWS2022,
    WINDOWS2025,
    Alias,
    Family,
    FamilyError,
    Variant,
    alias_of,
    family_named,
    family_of,
)

EKS = "/aws/service/eks/optimized-ami/1.32"


def paths(family: Family, version: str) -> list[str]:
    return [image.parameter("1.32", version) for image in family.images]


def spelled(family: Family) -> list[list[str]]:
    return [[str(requirements) for requirements in image.serves] for image in family.images]


STANDARD = str(Variant.STANDARD.requirements)
NVIDIA = str(Variant.NVIDIA.requirements)
NEURON = str(Variant.NEURON.requirements)


def test_variants_tell_hardware_by_what_is_counted() -> None:
    assert STANDARD == (
        "karpenter.k8s.aws/instance-accelerator-count DoesNotExist, karpenter.k8s.aws/instance-gpu-count DoesNotExist"
    )
    assert NVIDIA == "karpenter.k8s.aws/instance-gpu-count Exists"
    assert NEURON == "karpenter.k8s.aws/instance-accelerator-count Exists"


def test_al2_is_published_for_each_architecture_and_for_accelerators() -> None:
    assert paths(AL2, "latest") == [
        f"{EKS}/amazon-linux-2/recommended/image_id",
        f"{EKS}/amazon-linux-2-arm64/recommended/image_id",
        f"{EKS}/amazon-linux-2-gpu/recommended/image_id",
    ]
    assert paths(AL2, "v20250101") == [
        f"{EKS}/amazon-linux-2/amazon-eks-node-1.32-v20250101/image_id",
        f"{EKS}/amazon-linux-2-arm64/amazon-eks-arm64-node-1.32-v20250101/image_id",
        f"{EKS}/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20250101/image_id",
    ]
    assert spelled(AL2) == [[STANDARD], [STANDARD], [NEURON, NVIDIA]]


def test_al2023_is_published_for_each_architecture_and_variant() -> None:
    assert paths(AL2023, "latest") == [
        f"{EKS}/amazon-linux-2023/x86_64/standard/recommended/image_id",
        f"{EKS}/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
        f"{EKS}/amazon-linux-2023/x86_64/neuron/recommended/image_id",
        f"{EKS}/amazon-linux-2023/arm64/standard/recommended/image_id",
        f"{EKS}/amazon-linux-2023/arm64/nvidia/recommended/image_id",
    ]
    assert paths(AL2023, "v20250101")[4] == (
        f"{EKS}/amazon-linux-2023/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.32-v20250101/image_id"
    )
    assert spelled(AL2023) == [[STANDARD], [NVIDIA], [NEURON], [STANDARD], [NVIDIA]]


@pytest.mark.parametrize("version", ["v1.46.0", "1.46.0"])
def test_bottlerocket_is_published_without_the_v_of_its_releases(version: str) -> None:
    assert paths(BOTTLEROCKET, version) == [
        "/aws/service/bottlerocket/aws-k8s-1.32/x86_64/1.46.0/image_id",
        "/aws/service/bottlerocket/aws-k8s-1.32/arm64/1.46.0/image_id",
        "/aws/service/bottlerocket/aws-k8s-1.32-nvidia/x86_64/1.46.0/image_id",
        "/aws/service/bottlerocket/aws-k8s-1.32-nvidia/arm64/1.46.0/image_id",
    ]
    assert paths(BOTTLEROCKET, "latest")[0] == "/aws/service/bottlerocket/aws-k8s-1.32/x86_64/latest/image_id"
    assert spelled(BOTTLEROCKET) == [[STANDARD, NEURON], [STANDARD], [NVIDIA], [NVIDIA]]


@pytest.mark.parametrize(
    ("family", "year", "build"),
    [(WINDOWS2019, 2019, "10.0.17763"), (WINDOWS2022, 2022, "10.0.20348"), (WINDOWS2025, 2025, "10.0.26100")],
)
def test_windows_is_published_by_year_and_serves_its_build(family: Family, year: int, build: str) -> None:
    assert paths(family, "latest") == [
        f"/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-1.32/image_id"
    ]
    assert spelled(family) == [
        [f"kubernetes.io/os In [windows], node.kubernetes.io/windows-build In [{build}]"]
    ]
    assert (family.windows_build, family.os, family.fixed_pods) == (build, "windows", 110)
    assert family.is_windows


def test_families_differ_in_memory_pods_and_disks() -> None:
    overhead = {name for name, family in FAMILIES.items() if family.eni_limited_memory_overhead}
    per_core = {name for name, family in FAMILIES.items() if not family.pods_per_core}
    disks = {
        name: [(disk.device_name, disk.ebs.volume_size) for disk in family.disks if disk.ebs]
        for name, family in FAMILIES.items()
    }

    assert overhead == {"AL2", "AL2023", "Custom"}
    assert per_core == {"Bottlerocket"}
    assert disks == {
        "AL2": [("/dev/xvda", "20Gi")],
        "AL2023": [("/dev/xvda", "20Gi")],
        "Bottlerocket": [("/dev/xvda", "4Gi"), ("/dev/xvdb", "20Gi")],
        "Windows2019": [("/dev/sda1", "50Gi")],
        "Windows2022": [("/dev/sda1", "50Gi")],
        "Windows2025": [("/dev/sda1", "50Gi")],
        "Custom": [],
    }
    assert {name for name, family in FAMILIES.items() if family.is_windows} == {
        "Windows2019",
        "Windows2022",
        "Windows2025",
    }


def test_an_alias_is_a_family_and_a_release() -> None:
    latest, pinned = Alias.parse("al2023@latest"), Alias.parse("bottlerocket@v1.46.0")

    assert (latest.family, latest.is_mutable, str(latest)) == (AL2023, True, "al2023@latest")
    assert (pinned.family, pinned.is_mutable, str(pinned)) == (BOTTLEROCKET, False, "bottlerocket@v1.46.0")


@pytest.mark.parametrize("text", ["al2023", "al2023@", "ubuntu@latest", "custom@latest", "AL2023@latest"])
def test_what_is_no_alias_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(FamilyError, match=f'alias "{text}"') as caught:
        Alias.parse(text)

    assert "al2023@latest" in caught.value.hint


def test_a_family_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(FamilyError, match="Ubuntu") as caught:
        family_named("Ubuntu")

    assert "Bottlerocket" in caught.value.hint


@pytest.mark.parametrize(
    ("family", "alias", "expected"),
    [
        ("", "windows2022@latest", WINDOWS2022),
        ("AL2", "", AL2),
        ("Custom", "al2023@latest", CUSTOM),
        ("", "", CUSTOM),
    ],
)
def test_the_named_family_wins_over_that_of_the_alias(family: str, alias: str, expected: Family) -> None:
    terms = (AMISelectorTerm(alias=alias),) if alias else (AMISelectorTerm(id="ami-1"),)
    of = EC2NodeClass(spec=EC2NodeClassSpec(ami_family=family, ami_selector_terms=terms))

    assert family_of(of) is expected
    assert str(alias_of(of) or "") == alias
