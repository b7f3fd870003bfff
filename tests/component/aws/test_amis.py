# SPDX-License-Identifier: Apache-2.0
"""Images found over HTTP with boto3, as the EC2 model publishes them."""

from __future__ import annotations

import pytest

from karpenter.api import labels
from karpenter.api.ec2nodeclass import AMISelectorTerm, EC2NodeClass, EC2NodeClassSpec
from karpenter.api.meta import ObjectMeta
from karpenter.cloud.aws.amis import Amis, AmiSelectionError, ami_for
from karpenter.kit.clock import SystemClock
from tests.component.aws.stand import CLUSTER, Remembering

AMD = {labels.ARCH: "amd64", labels.OS: "linux"}
TYPES = {
    "plain": AMD,
    "arm": AMD | {labels.ARCH: "arm64"},
    "gpu": AMD | {labels.INSTANCE_GPU_COUNT: "1"},
    "neuron": AMD | {labels.INSTANCE_ACCELERATOR_COUNT: "1"},
}


def node_class(*terms: AMISelectorTerm) -> EC2NodeClass:
    return EC2NodeClass(metadata=ObjectMeta(name="default"), spec=EC2NodeClassSpec(ami_selector_terms=terms))


async def kubernetes(aws: Remembering) -> str:
    version: str = (await aws.call("eks", "DescribeCluster", name=CLUSTER))["cluster"]["version"]
    return version


@pytest.mark.parametrize("alias", ["al2023@latest", "bottlerocket@latest"])
async def test_an_alias_has_an_image_for_every_kind_of_hardware(aws: Remembering, alias: str) -> None:
    found = await Amis(aws, SystemClock()).find(
        node_class(AMISelectorTerm(alias=alias)), await kubernetes(aws)
    )

    taken = {name: ami_for(found.status(), type_labels) for name, type_labels in TYPES.items()}

    assert None not in taken.values()
    assert all(image.ssm_parameter.startswith("/aws/service/") for image in found.images)
    assert found.notes == ()


async def test_an_image_is_found_again_by_id_and_by_name(aws: Remembering) -> None:
    amis, version = Amis(aws, SystemClock()), await kubernetes(aws)
    image = (await amis.find(node_class(AMISelectorTerm(alias="al2023@latest")), version)).images[0]

    by_id = await Amis(aws, SystemClock()).find(node_class(AMISelectorTerm(id=image.id)), version)
    by_name = await Amis(aws, SystemClock()).find(node_class(AMISelectorTerm(name=image.name)), version)

    assert [each.id for each in (*by_id.images, *by_name.images)] == [image.id, image.id]
    assert by_id.notes == ()


async def test_an_unknown_release_is_refused(aws: Remembering) -> None:
    with pytest.raises(AmiSelectionError, match="al2023@v19990101"):
        await Amis(aws, SystemClock()).find(
            node_class(AMISelectorTerm(alias="al2023@v19990101")), await kubernetes(aws)
        )


async def test_while_nothing_is_deprecated_nothing_is_dropped(aws: Remembering) -> None:
    amis = Amis(aws, SystemClock())
    await amis.find(node_class(AMISelectorTerm(alias="al2023@latest")), await kubernetes(aws))

    assert await amis.drop_deprecated() == ()
