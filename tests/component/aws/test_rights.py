# SPDX-License-Identifier: Apache-2.0
"""The rights that an installation gives are enough for all that the controller does, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from msgspec.structs import replace

from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.instances import parse_provider_id
from tests.component.aws.classes import desk_for, is_ready, written_class
from tests.component.aws.conftest import Connect
from tests.component.aws.rights import confine, statements
from tests.component.aws.stand import CLUSTER, Model, Remembering, simple_claim

# What only a controller with a queue or a shifted zone does; tests/e2e/test_policy.py sees these.
_ELSEWHERE = {
    "AllowInterruptionQueueActions",
    "AllowZonalShiftReadActions",
    "AllowPricingReadActions",
}


@pytest.fixture
def confined(model: Model) -> Iterator[Model]:
    confine(model.url, CLUSTER)
    yield model
    model.do("enforce", {"accessKey": "model"})


async def test_a_node_class_and_its_nodes_live_and_end_within_the_policies(
    confined: Model, aws: Remembering, connected: Connect
) -> None:
    desk = await desk_for(aws)
    written = written_class()

    await desk.resolve(written)
    resolved = await desk.resolve(written_class(tags={"cost-centre": "7"}))
    node_class = replace(written, status=resolved.status)
    provider = await connected()
    machine = await provider.create(simple_claim(1), node_class)
    identity = parse_provider_id(machine.provider_id)
    await aws.call("ec2", "CreateTags", Resources=[identity], Tags=[{"Key": "Name", "Value": "node-1"}])
    await provider.delete(machine.provider_id)

    assert is_ready(resolved)
    weighed = confined.see("rights")
    assert weighed["refused"] == []
    used = {each["sid"] for each in weighed["allowed"]}
    assert used >= set(statements(CLUSTER)) - _ELSEWHERE


async def test_another_clusters_instance_is_out_of_reach(
    confined: Model, aws: Remembering, connected: Connect
) -> None:
    desk = await desk_for(aws)
    written = written_class()
    provider = await connected()
    machine = await provider.create(
        simple_claim(1), replace(written, status=(await desk.resolve(written)).status)
    )
    identity = parse_provider_id(machine.provider_id)
    admin = boto3.client(
        "ec2",
        endpoint_url=confined.url,
        region_name=confined.region,
        aws_access_key_id="admin",
        aws_secret_access_key="admin",
    )
    # As if another cluster of the account had made it.
    admin.delete_tags(Resources=[identity], Tags=[{"Key": f"kubernetes.io/cluster/{CLUSTER}"}])
    admin.create_tags(Resources=[identity], Tags=[{"Key": "kubernetes.io/cluster/other", "Value": "owned"}])

    with pytest.raises(AwsError, match="UnauthorizedOperation"):
        await aws.call("ec2", "TerminateInstances", InstanceIds=[identity])
    with pytest.raises(AwsError, match="UnauthorizedOperation"):
        await aws.call("ec2", "CreateTags", Resources=[identity], Tags=[{"Key": "Name", "Value": "mine"}])

    assert [each["id"] for each in confined.living()] == [identity]


async def test_tags_of_other_names_cannot_be_written_on_our_own_instances(
    confined: Model, aws: Remembering, connected: Connect
) -> None:
    desk = await desk_for(aws)
    written = written_class()
    provider = await connected()
    machine = await provider.create(
        simple_claim(1), replace(written, status=(await desk.resolve(written)).status)
    )
    identity = parse_provider_id(machine.provider_id)

    with pytest.raises(AwsError, match="UnauthorizedOperation"):
        await aws.call("ec2", "CreateTags", Resources=[identity], Tags=[{"Key": "owner", "Value": "me"}])

    assert [each["action"] for each in confined.see("rights")["refused"]] == ["ec2:CreateTags"]


async def test_a_profile_with_another_role_is_not_made(confined: Model, aws: Remembering) -> None:
    desk = await desk_for(aws)

    resolved = await desk.resolve(written_class(role=f"KarpenterControllerRole-{CLUSTER}"))

    assert not is_ready(resolved)
    assert [each["action"] for each in confined.see("rights")["refused"]] == ["iam:PassRole"]
