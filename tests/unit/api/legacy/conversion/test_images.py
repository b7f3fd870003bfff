# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.labels import V1BETA1_UBUNTU
from karpenter.api.legacy import convert
from tests.unit.api.legacy.builders import beta_class, converted, node_template, refusals


@pytest.mark.parametrize(
    ("family", "alias"),
    [
        ("AL2", "al2@latest"),
        ("AL2023", "al2023@latest"),
        ("Bottlerocket", "bottlerocket@latest"),
        ("Windows2019", "windows2019@latest"),
        ("Windows2022", "windows2022@latest"),
    ],
)
def test_a_family_without_selector_becomes_its_alias(family: str, alias: str) -> None:
    for old in (node_template(amiFamily=family), beta_class(amiFamily=family)):
        (new,) = converted(old)

        assert new["spec"]["amiSelectorTerms"] == [{"alias": alias}]
        assert "amiFamily" not in new["spec"]


def test_a_template_without_family_boots_al2() -> None:
    (new,) = converted(node_template())

    assert new["spec"]["amiSelectorTerms"] == [{"alias": "al2@latest"}]


def test_a_family_with_selector_is_kept() -> None:
    (new,) = converted(node_template(amiFamily="Bottlerocket", amiSelector={"aws-ids": "ami-1"}))

    assert new["spec"]["amiSelectorTerms"] == [{"id": "ami-1"}]
    assert new["spec"]["amiFamily"] == "Bottlerocket"


def test_a_selector_without_family_names_al2_because_v1_would_not() -> None:
    (new,) = converted(node_template(amiSelector={"aws::name": "my-image"}))

    assert new["spec"]["amiSelectorTerms"] == [{"name": "my-image"}]
    assert new["spec"]["amiFamily"] == "AL2"


def test_ubuntu_with_selector_becomes_al2_with_ubuntus_root_disk() -> None:
    for old in (
        node_template(amiFamily="Ubuntu", amiSelector={"aws-ids": "ami-1"}),
        beta_class(amiFamily="Ubuntu", amiSelectorTerms=[{"id": "ami-1"}]),
    ):
        (new,) = converted(old)

        assert new["metadata"]["annotations"] == {V1BETA1_UBUNTU: "amiFamily,blockDeviceMappings"}
        assert new["spec"]["amiFamily"] == "AL2"
        assert new["spec"]["blockDeviceMappings"] == [
            {
                "deviceName": "/dev/sda1",
                "rootVolume": True,
                "ebs": {"encrypted": True, "volumeSize": "20Gi", "volumeType": "gp3"},
            }
        ]


def test_ubuntu_with_disks_of_its_own_keeps_them() -> None:
    disks = [{"deviceName": "/dev/sda1", "ebs": {"volumeSize": "50Gi"}}]

    (new,) = converted(
        node_template(amiFamily="Ubuntu", amiSelector={"aws-ids": "ami-1"}, blockDeviceMappings=disks)
    )

    assert new["metadata"]["annotations"] == {V1BETA1_UBUNTU: "amiFamily"}
    assert new["spec"]["blockDeviceMappings"] == disks


def test_ubuntu_without_selector_is_refused() -> None:
    for old in (node_template(amiFamily="Ubuntu"), beta_class(amiFamily="Ubuntu")):
        conversion = convert([old])

        assert conversion.objects == ()
        assert refusals(conversion) == [
            ("spec.amiFamily", "Ubuntu without an image selector: v1 knows no default images for it")
        ]


def test_an_image_selector_that_is_refused_does_not_blame_the_family() -> None:
    conversion = convert([node_template(amiFamily="Custom", amiSelector={"aws::name": "a,,b"})])

    assert [field for field, _ in refusals(conversion)] == ["spec.amiSelector[aws::name]"]
