# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.ec2nodeclass import AMI
from karpenter.cloud.aws.amis import Image, Images, Variant, ami_for, map_amis, why_no_ami
from karpenter.cloud.aws.amis.images import keep_best, read_image
from karpenter.model.requirements import NO_REQUIREMENTS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AMD = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
ARM = {"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux"}
GPU = AMD | {"karpenter.k8s.aws/instance-gpu-count": "1"}


def image(image_id: str, variant: Variant | None = None, **described: Any) -> Image:
    serves = variant.requirements if variant else NO_REQUIREMENTS
    told = {"ImageId": image_id, "Architecture": "x86_64", "CreationDate": "2025-06-01T00:00:00.000Z"}
    return read_image(told | described, serves, NOW)


def test_an_image_is_read_with_its_dates_and_architecture() -> None:
    read = image("ami-1", Name="mine", Architecture="arm64", DeprecationTime="2026-01-01T00:00:00.000Z")

    assert (read.id, read.name, read.deprecated) == ("ami-1", "mine", True)
    assert read.created == datetime(2025, 6, 1, tzinfo=UTC)
    assert str(read.requirements) == "kubernetes.io/arch In [arm64]"


@pytest.mark.parametrize("date", ["", "yesterday"])
def test_an_odd_date_costs_no_image(date: str) -> None:
    read = image("ami-1", CreationDate=date, DeprecationTime=date)

    assert read.created == datetime.min.replace(tzinfo=UTC)
    assert not read.deprecated


def test_a_date_without_zone_is_in_utc() -> None:
    assert image("ami-1", CreationDate="2025-01-01T00:00:00").created == datetime(2025, 1, 1, tzinfo=UTC)


def test_the_status_shows_short_keys_first() -> None:
    status = image("ami-1", Variant.STANDARD, Name="n").status()

    assert status == AMI(
        id="ami-1",
        name="n",
        requirements=(
            NodeSelectorRequirement(key="kubernetes.io/arch", operator="In", values=("amd64",)),
            NodeSelectorRequirement(key="karpenter.k8s.aws/instance-gpu-count", operator="DoesNotExist"),
            NodeSelectorRequirement(
                key="karpenter.k8s.aws/instance-accelerator-count", operator="DoesNotExist"
            ),
        ),
    )
    assert image("ami-2", Variant.NVIDIA).status().requirements[1].operator == "Exists"


def test_of_images_for_the_same_types_the_best_one_is_kept() -> None:
    deprecated = image("ami-a", CreationDate="2025-12-01T00:00:00Z", DeprecationTime="2025-12-02T00:00:00Z")
    old = image("ami-b", CreationDate="2025-01-01T00:00:00Z")
    new = image("ami-c", CreationDate="2025-02-01T00:00:00Z", Name="a")
    same_day = image("ami-d", CreationDate="2025-02-01T00:00:00Z", Name="b")
    twin = image("ami-e", CreationDate="2025-02-01T00:00:00Z", Name="b")
    other = image("ami-f", Architecture="arm64", CreationDate="2025-03-01T00:00:00Z")

    assert keep_best([deprecated, old]) == (old,)
    assert keep_best([old, new, deprecated]) == (new,)
    assert keep_best([new, same_day, twin]) == (same_day,)
    assert keep_best([new, other]) == (other, new)


def test_images_of_one_day_are_listed_by_id() -> None:
    first, second = image("ami-a"), image("ami-b", Architecture="arm64")

    assert keep_best([second, first]) == (first, second)


def test_a_type_takes_the_first_image_that_it_can_boot() -> None:
    amis = Images((image("ami-g", Variant.NVIDIA), image("ami-s", Variant.STANDARD))).status()

    taken = [ami_for(amis, labels) for labels in (AMD, GPU, ARM)]

    assert [ami and ami.id for ami in taken] == ["ami-s", "ami-g", None]


def test_types_are_mapped_to_images_and_those_left_over_say_why() -> None:
    amis = Images((image("ami-s", Variant.STANDARD),)).status()

    taken, left = map_amis(amis, {"m5.large": AMD, "m6g.large": ARM, "c5.large": AMD, "g5.xlarge": GPU})

    assert taken == {"ami-s": ("m5.large", "c5.large")}
    assert [str(each) for each in left] == [
        "no image for m6g.large: ami-s: kubernetes.io/arch In [amd64] is wanted, the type has arm64",
        "no image for g5.xlarge: ami-s: karpenter.k8s.aws/instance-gpu-count DoesNotExist is wanted, the type has 1",
    ]


def test_a_label_that_the_type_lacks_is_said_to_be_missing() -> None:
    amis = (image("ami-g", Variant.NVIDIA).status(),)

    assert str(why_no_ami(amis, "m5.large", AMD)) == (
        "no image for m5.large: ami-g: karpenter.k8s.aws/instance-gpu-count Exists is wanted,"
        " the type has no such label"
    )


def test_without_images_there_is_nothing_to_explain() -> None:
    assert str(why_no_ami((), "m5.large", AMD)) == "no image for m5.large"
