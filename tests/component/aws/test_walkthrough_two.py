# SPDX-License-Identifier: Apache-2.0
"""The Provisioner and AWSNodeTemplate of Karpenter 0.27 to 0.31, up to the launch template in EC2."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pytest

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.legacy import convert
from karpenter.api.manifests import read_manifests
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClassRef, ResourceRequests
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.api import BotoAws
from karpenter.cloud.aws.provider import AwsSettings, connect
from tests.component.aws.stand import CLUSTER, Model, found_status, make_profile, running_model

REGION = "ap-northeast-2"
AL2_PARAMETERS = (
    (labels.AMD64, "/aws/service/eks/optimized-ami/{version}/amazon-linux-2/recommended/image_id"),
    (labels.ARM64, "/aws/service/eks/optimized-ami/{version}/amazon-linux-2-arm64/recommended/image_id"),
)


@pytest.fixture
def korea(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    # Amazon Linux 2 is not published for Kubernetes 1.33 and newer.
    with running_model("--cluster-version", "1.32", region=REGION) as model:
        for name, value in model.environment.items():
            monkeypatch.setenv(name, value)
        yield model


_EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def _converted() -> tuple[NodePool, EC2NodeClass]:
    """The manifests of the examples, converted to v1."""
    text = (_EXAMPLES / "default-provisioner.yaml").read_text(encoding="utf-8")
    outcome = convert([manifest.object for manifest in read_manifests(text)])
    by_kind = {each["kind"]: each for each in outcome.objects}
    return (
        msgspec.convert(by_kind["NodePool"], NodePool),
        msgspec.convert(by_kind["EC2NodeClass"], EC2NodeClass),
    )


async def _claim(pool: NodePool) -> NodeClaim:
    """A claim of the pool for a pod of 1475m and 1686Mi."""
    return NodeClaim(
        metadata=ObjectMeta(
            name="karpenter-default-x7k2p",
            uid="2b1f0f3c-7a57-4a62-9a3c-5f8b6f1f0001",
            labels={labels.NODEPOOL: pool.metadata.name, **pool.spec.template.metadata.labels},
        ),
        spec=NodeClaimSpec(
            requirements=pool.spec.template.spec.requirements,
            node_class_ref=NodeClassRef(
                group=labels.AWS_GROUP, kind="EC2NodeClass", name="karpenter-default"
            ),
            resources=ResourceRequests(requests={"cpu": "1475m", "memory": "1686Mi", "pods": "5"}),
        ),
    )


@pytest.mark.timeout(60)
async def test_the_old_node_template_becomes_a_launch_template_with_every_field(korea: Model) -> None:
    pool, node_class = _converted()
    aws = BotoAws()
    await make_profile(aws, node_class.spec.instance_profile)
    node_class = msgspec.structs.replace(
        node_class,
        metadata=ObjectMeta(name=node_class.metadata.name, uid="class-1", generation=1),
        status=await found_status(aws, *AL2_PARAMETERS),
    )
    provider = await connect(AwsSettings(cluster_name=CLUSTER, cluster_dns_ip="10.100.0.10"), aws=aws)

    machine = await provider.create(await _claim(pool), node_class)
    await provider.close()
    aws.close()

    assert machine.labels[labels.ZONE] in {"ap-northeast-2a", "ap-northeast-2c"}
    assert machine.labels[labels.CAPACITY_TYPE] == labels.SPOT
    assert machine.labels[labels.INSTANCE_CATEGORY] in {"c", "m", "r", "t"}
    (instance,) = korea.living()
    data = _read_back(instance["id"])
    _assert_every_field(data, node_class)
    _assert_user_data(data["UserData"])


def _read_back(instance_id: str) -> dict[str, Any]:
    """The launch template that the instance names, read by a client of our own."""
    ec2 = boto3.client("ec2", region_name=REGION)
    found = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]
    tags = {tag["Key"]: tag["Value"] for tag in found["Tags"]}
    named = ec2.describe_launch_template_versions(
        LaunchTemplateId=tags["aws:ec2launchtemplate:id"], Versions=[tags["aws:ec2launchtemplate:version"]]
    )
    ec2.close()
    data: dict[str, Any] = named["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    return data


def _assert_every_field(data: dict[str, Any], node_class: EC2NodeClass) -> None:
    (disk,) = data["BlockDeviceMappings"]
    assert disk == {
        "DeviceName": "/dev/xvda",
        "Ebs": {
            "VolumeSize": 30,
            "VolumeType": "gp3",
            "Iops": 3000,
            "Throughput": 125,
            "Encrypted": True,
            "DeleteOnTermination": True,
            "KmsKeyId": "arn:aws:kms:ap-northeast-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        },
    }
    assert data["IamInstanceProfile"] == {"Name": "KarpenterNodeInstanceProfile-example"}
    assert data["Monitoring"] == {"Enabled": True}
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    assert data["ImageId"] in {image.id for image in node_class.status.amis}
    (interface,) = data["NetworkInterfaces"]
    assert interface["Groups"] == [group.id for group in node_class.status.security_groups]
    tags = {tag["Key"]: tag["Value"] for tag in data["TagSpecifications"][0]["Tags"]}
    assert tags == {
        "team": "platform",
        "environment": "example",
        f"kubernetes.io/cluster/{CLUSTER}": "owned",
        "eks:eks-cluster-name": CLUSTER,
        labels.NODEPOOL_TAG: "karpenter-default",
        labels.EC2NODECLASS_TAG: "karpenter-default",
    }


def _assert_user_data(encoded: str) -> None:
    text = base64.b64decode(encoded).decode()
    assert "/etc/eks/bootstrap.sh" in text
    assert "--eviction-max-pod-grace-period=60" in text
    assert "--dns-cluster-ip" in text
    assert "karpenter.sh/nodepool=karpenter-default" in text
    assert "karpenter.sh/unregistered" in text
