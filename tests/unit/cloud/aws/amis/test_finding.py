# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.api.ec2nodeclass import AMISelectorTerm, EC2NodeClass, EC2NodeClassSpec
from karpenter.api.meta import ObjectMeta
from karpenter.cloud.aws.amis import (
    NOT_FOUND,
    UNSUPPORTED_ALIAS,
    Amis,
    AmiSelectionError,
    FamilyError,
    NoteKind,
)
from karpenter.cloud.aws.api import AwsError
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.fakes import FakeAws, aws_error

EKS = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023"
STANDARD = f"{EKS}/x86_64/standard/recommended/image_id"
NVIDIA = f"{EKS}/x86_64/nvidia/recommended/image_id"
AVAILABLE = {"Name": "state", "Values": ["available"]}


def node_class(*terms: AMISelectorTerm, family: str = "", generation: int = 1) -> EC2NodeClass:
    return EC2NodeClass(
        metadata=ObjectMeta(name="default", uid="u-1", generation=generation),
        spec=EC2NodeClassSpec(ami_selector_terms=terms, ami_family=family),
    )


def alias(text: str = "al2023@latest") -> EC2NodeClass:
    return node_class(AMISelectorTerm(alias=text))


def described(image_id: str, **told: Any) -> dict[str, Any]:
    return {
        "ImageId": image_id,
        "Name": f"name of {image_id}",
        "Architecture": "x86_64",
        "CreationDate": "2025-06-01T00:00:00.000Z",
        "OwnerId": "602401143452",
        "ImageOwnerAlias": "amazon",
    } | told


def world(parameters: Mapping[str, str], *images: Mapping[str, Any], own: tuple[str, ...] = ()) -> FakeAws:
    """AWS with these parameters and images; image-id filters and the owner self are obeyed, nothing else is."""

    def get_parameter(Name: str) -> Any:  # noqa: N803  boto's spelling
        if Name not in parameters:
            return aws_error("ParameterNotFound", service="ssm", operation="GetParameter")
        return {"Parameter": {"Name": Name, "Value": parameters[Name]}}

    def describe_images(**wanted: Any) -> Any:
        filters = {each["Name"]: each["Values"] for each in wanted["Filters"]}
        ids = filters.get("image-id")
        found = [image for image in images if ids is None or image["ImageId"] in ids]
        if wanted.get("Owners") == ["self"]:
            found = [image for image in found if image["ImageId"] in own]
        return {"Images": found}

    return FakeAws({"GetParameter": get_parameter, "DescribeImages": describe_images})


def finder(aws: FakeAws, clock: FakeClock | None = None) -> Amis:
    return Amis(aws, clock or FakeClock(datetime(2026, 1, 1, tzinfo=UTC)))


async def test_an_alias_gives_one_image_for_each_kind_of_type() -> None:
    aws = world({STANDARD: "ami-s", NVIDIA: "ami-n"}, described("ami-s"), described("ami-n"))

    found = await finder(aws).find(alias(), "1.32.4-eks-1")

    assert [(image.id, image.ssm_parameter) for image in found.images] == [
        ("ami-n", NVIDIA),
        ("ami-s", STANDARD),
    ]
    assert [ami.requirements[-1].operator for ami in found.status()] == ["Exists", "DoesNotExist"]
    assert found.notes == ()
    assert aws.named("DescribeImages") == [
        {
            "Filters": [{"Name": "image-id", "Values": ["ami-n", "ami-s"]}, AVAILABLE],
            "IncludeDeprecated": True,
            "MaxResults": 1000,
        }
    ]


async def test_one_image_may_serve_several_kinds_of_hardware() -> None:
    gpu = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id"
    aws = world({gpu: "ami-g"}, described("ami-g"))

    found = await finder(aws).find(alias("al2@latest"), "1.32")

    assert [str(image.requirements) for image in found.images] == [
        "karpenter.k8s.aws/instance-accelerator-count Exists, kubernetes.io/arch In [amd64]",
        "karpenter.k8s.aws/instance-gpu-count Exists, kubernetes.io/arch In [amd64]",
    ]


async def test_an_image_published_under_two_names_serves_what_both_promise() -> None:
    aws = world({STANDARD: "ami-1", NVIDIA: "ami-1"}, described("ami-1"))

    assert len((await finder(aws).find(alias(), "1.32")).images) == 2


@pytest.mark.parametrize(
    ("text", "version", "problem"),
    [
        ("al2@latest", "1.33", "no AL2 images for Kubernetes 1.33 and newer, the cluster runs 1.33"),
        ("windows2025@latest", "1.34", "Windows2025 needs Kubernetes 1.35 or newer, the cluster runs 1.34"),
        ("al2023@latest", "latest", '"latest" is not a version of Kubernetes'),
    ],
)
async def test_an_alias_that_does_not_serve_the_version_is_refused_with_a_way_out(
    text: str, version: str, problem: str
) -> None:
    with pytest.raises(AmiSelectionError, match=problem) as caught:
        await finder(world({})).find(alias(text), version)

    assert caught.value.reason == UNSUPPORTED_ALIAS
    assert caught.value.node_class == "default"
    assert caught.value.hint


async def test_windows_2025_serves_from_its_first_version_on() -> None:
    name = "/aws/service/ami-windows-latest/Windows_Server-2025-English-Core-EKS_Optimized-1.35/image_id"
    aws = world({name: "ami-w"}, described("ami-w"))

    (image,) = (await finder(aws).find(alias("windows2025@latest"), "1.35")).images

    assert image.ssm_parameter == name


async def test_an_alias_without_any_image_says_what_was_looked_for() -> None:
    with pytest.raises(
        AmiSelectionError, match=r"al2023@v1 and Kubernetes 1\.32 in us-west-2; SSM par"
    ) as caught:
        await finder(world({})).find(alias("al2023@v1"), "1.32")

    assert caught.value.reason == NOT_FOUND
    assert len(caught.value.notes) == 5
    assert "@latest" in caught.value.hint


async def test_an_alias_that_is_none_is_refused() -> None:
    with pytest.raises(FamilyError, match="ubuntu"):
        await finder(world({})).find(alias("ubuntu@latest"), "1.32")


async def test_a_parameter_that_may_not_be_read_ends_the_search() -> None:
    aws = FakeAws({"GetParameter": aws_error("AccessDeniedException", service="ssm")})

    with pytest.raises(AwsError, match="AccessDenied"):
        await finder(aws).find(alias(), "1.32")


async def test_parameters_of_an_alias_are_believed_for_a_day() -> None:
    clock = FakeClock()
    aws = world({STANDARD: "ami-s"}, described("ami-s"))
    amis = finder(aws, clock)

    await amis.find(alias(), "1.32")
    clock.tick(24 * 3600 - 61)
    await amis.find(alias(), "1.32")
    asked = [each["Name"] for each in aws.named("GetParameter")]
    clock.tick(61)
    await amis.find(alias(), "1.32")

    assert asked.count(STANDARD) == 1
    assert [each["Name"] for each in aws.named("GetParameter")].count(STANDARD) == 2


async def test_a_parameter_of_the_users_is_believed_for_five_minutes() -> None:
    clock = FakeClock()
    aws = world({"/mine": "ami-1"}, described("ami-1"))
    amis = finder(aws, clock)
    of = node_class(AMISelectorTerm(ssm_parameter="/mine"), family="AL2023")

    for wait_s in (0, 239, 61):
        clock.tick(wait_s)
        (image,) = (await amis.find(of, "1.32")).images

    assert len(aws.named("GetParameter")) == 2
    assert image.ssm_parameter == "/mine"


async def test_what_was_found_is_believed_for_a_minute_and_one_generation() -> None:
    clock = FakeClock()
    aws = world({}, described("ami-1"))
    amis = finder(aws, clock)
    term = AMISelectorTerm(id="ami-1")

    await amis.find(node_class(term), "1.32")
    clock.tick(59)
    await amis.find(node_class(term), "1.32")
    assert len(aws.named("DescribeImages")) == 1

    await amis.find(node_class(term, generation=2), "1.32")
    await amis.find(node_class(term), "1.33")
    clock.tick(1)
    await amis.find(node_class(term), "1.32")
    assert len(aws.named("DescribeImages")) == 4


async def test_ids_and_parameters_are_asked_for_together() -> None:
    aws = world({"/mine": "ami-2"}, described("ami-1"), described("ami-2", Architecture="arm64"))
    terms = (AMISelectorTerm(id="ami-1"), AMISelectorTerm(ssm_parameter="/mine"), AMISelectorTerm(id="ami-1"))

    found = await finder(aws).find(node_class(*terms), "1.32")

    assert [image.id for image in found.images] == ["ami-1", "ami-2"]
    assert aws.named("DescribeImages")[0]["Filters"][0] == {"Name": "image-id", "Values": ["ami-1", "ami-2"]}


@pytest.mark.parametrize(
    ("term", "filters", "owners"),
    [
        (AMISelectorTerm(name="a-*"), [{"Name": "name", "Values": ["a-*"]}], ["self", "amazon"]),
        (
            AMISelectorTerm(name="a", owner="123456789012"),
            [{"Name": "name", "Values": ["a"]}],
            ["123456789012"],
        ),
        (
            AMISelectorTerm(tags={"team": "a", "any": "*"}),
            [{"Name": "tag-key", "Values": ["any"]}, {"Name": "tag:team", "Values": ["a"]}],
            None,
        ),
        (AMISelectorTerm(tags={"k": "v"}, owner="self"), [{"Name": "tag:k", "Values": ["v"]}], ["self"]),
    ],
)
async def test_terms_become_filters_and_a_name_alone_is_looked_for_among_trusted_owners(
    term: AMISelectorTerm, filters: list[Any], owners: list[str] | None
) -> None:
    aws = world({}, described("ami-1"), own=("ami-1",))

    await finder(aws).find(node_class(term), "1.32")

    (asked,) = aws.named("DescribeImages")
    assert asked["Filters"] == [*filters, AVAILABLE]
    assert asked.get("Owners") == owners


async def test_a_strangers_image_is_used_but_told() -> None:
    strange = described("ami-x", OwnerId="999999999999", ImageOwnerAlias=None, Architecture="arm64")
    own = described("ami-o", OwnerId="111111111111", ImageOwnerAlias=None)
    aws = world({}, strange, own, described("ami-a", CreationDate="2020-01-01T00:00:00Z"), own=("ami-o",))
    amis = finder(aws)
    of = node_class(*(AMISelectorTerm(id=each) for each in ("ami-x", "ami-o", "ami-a")))

    found = await amis.find(of, "1.32")

    (note,) = found.notes
    assert (note.kind, note.subject) == (NoteKind.FOREIGN_OWNER, "ami-x")
    assert "account 999999999999" in str(note)
    assert "ami-x" in {image.id for image in found.images}
    assert aws.named("DescribeImages")[1]["Owners"] == ["self"]


async def test_whose_an_image_is_is_asked_once_a_day() -> None:
    clock = FakeClock()
    aws = world({}, described("ami-x", OwnerId="", ImageOwnerAlias=None))
    amis = finder(aws, clock)
    of = node_class(AMISelectorTerm(tags={"k": "v"}))

    first = await amis.find(of, "1.32")
    clock.tick(60)
    second = await amis.find(of, "1.32")

    assert len(aws.named("DescribeImages")) == 3
    assert first.notes == second.notes
    assert "account unknown" in first.notes[0].message


async def test_an_owner_that_was_named_is_no_stranger() -> None:
    aws = world({}, described("ami-x", OwnerId="999999999999", ImageOwnerAlias=None))

    found = await finder(aws).find(node_class(AMISelectorTerm(name="x", owner="999999999999")), "1.32")

    assert found.notes == ()
    assert len(aws.calls) == 1


async def test_an_image_that_no_node_can_boot_is_left_out_by_name() -> None:
    aws = world({}, described("ami-1"), described("ami-m", Architecture="arm64_mac"))

    found = await finder(aws).find(node_class(AMISelectorTerm(name="*")), "1.32")

    assert [image.id for image in found.images] == ["ami-1"]
    assert [(note.kind, note.subject) for note in found.notes] == [
        (NoteKind.UNSUPPORTED_ARCHITECTURE, "ami-m")
    ]


async def test_a_selection_of_unusable_images_alone_names_them() -> None:
    aws = world({}, described("ami-m", Architecture=""))

    with pytest.raises(AmiSelectionError, match="no image matches; image ami-m is for an unknown") as caught:
        await finder(aws).find(node_class(AMISelectorTerm(id="ami-m")), "1.32")

    assert caught.value.hint == "choose an image for x86_64 or arm64"


async def test_a_selection_that_finds_nothing_is_refused_with_what_to_check() -> None:
    with pytest.raises(
        AmiSelectionError, match=r"EC2NodeClass default: spec\.amiSelectorTerms: no image"
    ) as caught:
        await finder(world({})).find(node_class(AMISelectorTerm(name="nothing")), "1.32")

    assert caught.value.reason == NOT_FOUND
    assert "region" in caught.value.hint


async def test_a_parameter_that_is_missing_or_no_image_is_told_and_the_rest_used() -> None:
    aws = world({"/odd": "hello"}, described("ami-1"))
    terms = (
        AMISelectorTerm(ssm_parameter="/gone"),
        AMISelectorTerm(ssm_parameter="/odd"),
        AMISelectorTerm(id="ami-1"),
    )

    found = await finder(aws).find(node_class(*terms), "1.32")

    assert [(note.kind, note.subject) for note in found.notes] == [
        (NoteKind.PARAMETER_NOT_FOUND, "/gone"),
        (NoteKind.PARAMETER_NOT_AN_IMAGE, "/odd"),
    ]


async def test_an_image_that_was_taken_back_is_looked_up_anew() -> None:
    parameters = {STANDARD: "ami-bad", NVIDIA: "ami-good", "/mine": "ami-bad"}
    bad = described("ami-bad", DeprecationTime="2025-12-31T00:00:00.000Z")
    aws = world(parameters, bad, described("ami-good"), described("ami-new"))
    amis = finder(aws)
    await amis.find(alias(), "1.32")
    await amis.find(node_class(AMISelectorTerm(ssm_parameter="/mine"), generation=9), "1.32")

    dropped = await amis.drop_deprecated()
    parameters[STANDARD] = "ami-new"
    found = await amis.find(alias(), "1.32")

    assert dropped == (STANDARD,)
    assert {image.id for image in found.images} == {"ami-new", "ami-good"}


async def test_while_all_images_are_good_nothing_is_forgotten() -> None:
    aws = world({STANDARD: "ami-s"}, described("ami-s"))
    amis = finder(aws)
    first = await amis.find(alias(), "1.32")

    assert await amis.drop_deprecated() == ()
    assert await amis.find(alias(), "1.32") is first


async def test_the_parameter_that_named_an_image_is_remembered_for_the_log() -> None:
    amis = finder(world({STANDARD: "ami-s"}, described("ami-s")))
    await amis.find(alias(), "1.32")

    assert amis.parameter_of("ami-s") == STANDARD
    assert amis.parameter_of("ami-other") == ""


async def test_releases_named_by_version_are_never_dropped() -> None:
    pinned = f"{EKS}/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.32-v1/image_id"
    aws = world({pinned: "ami-p"}, described("ami-p", DeprecationTime="2020-01-01T00:00:00Z"))
    amis = finder(aws)
    found = await amis.find(alias("al2023@v1"), "1.32")

    assert found.images[0].deprecated
    assert await amis.drop_deprecated() == ()
    assert len(aws.named("DescribeImages")) == 1
