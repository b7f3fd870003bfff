# SPDX-License-Identifier: Apache-2.0
"""Real boto3 against the model: every service answers, and errors come as boto3 shows them."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from tests.component.ec2model.standing import Model

DISCOVERY = [{"Name": "tag:karpenter.sh/discovery", "Values": ["sandbox"]}]
AL2023 = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"


def code_of(call: Any, **parameters: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as refused:
        call(**parameters)
    answer = refused.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


def launch(model: Model, count: int = 1, capacity_type: str = "on-demand") -> list[str]:
    """Launches instances by CreateFleet, in the way of a node autoscaler, and gives their ids."""
    ec2 = model.client("ec2")
    image = model.client("ssm").get_parameter(Name=AL2023)["Parameter"]["Value"]
    groups = ec2.describe_security_groups(Filters=DISCOVERY)["SecurityGroups"]
    names = [each["LaunchTemplateName"] for each in ec2.describe_launch_templates()["LaunchTemplates"]]
    if "karpenter.k8s.aws/1" not in names:
        ec2.create_launch_template(
            LaunchTemplateName="karpenter.k8s.aws/1",
            LaunchTemplateData={
                "ImageId": image,
                "SecurityGroupIds": [each["GroupId"] for each in groups],
                "UserData": "aGVsbG8=",
            },
        )
    fleet = ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": "karpenter.k8s.aws/1",
                    "Version": "$Latest",
                },
                "Overrides": [
                    {"InstanceType": "m5.large", "SubnetId": subnet["SubnetId"]}
                    for subnet in ec2.describe_subnets(Filters=DISCOVERY)["Subnets"]
                ],
            }
        ],
        TargetCapacitySpecification={
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": capacity_type,
        },
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "a&b<c>"}]}],
    )
    return [each for row in fleet["Instances"] for each in row["InstanceIds"]]


def test_a_fresh_model_has_what_a_cluster_needs(model: Model) -> None:
    ec2 = model.client("ec2")

    subnets = ec2.describe_subnets(Filters=DISCOVERY)["Subnets"]
    groups = ec2.describe_security_groups(Filters=DISCOVERY)["SecurityGroups"]
    cluster = model.client("eks").describe_cluster(name="sandbox")["cluster"]
    image = model.client("ssm").get_parameter(Name=AL2023)["Parameter"]["Value"]

    assert len({each["AvailabilityZone"] for each in subnets}) == 3
    assert len(groups) == 2
    assert cluster["createdAt"].timestamp() == 1767225600
    assert ec2.describe_images(ImageIds=[image])["Images"][0]["Architecture"] == "x86_64"
    assert model.client("iam").get_role(RoleName="KarpenterNodeRole-sandbox")["Role"][
        "AssumeRolePolicyDocument"
    ]
    assert model.client("sqs").get_queue_url(QueueName="sandbox")["QueueUrl"].startswith(model.url)
    assert len(model.client("events").list_rules()["Rules"]) == 5
    assert model.client("sts").get_caller_identity()["Account"] == "123456789012"
    managed = model.client("arc-zonal-shift").get_managed_resource(resourceIdentifier=cluster["arn"])
    assert managed["zonalShifts"] == []
    pages = model.client("pricing").get_paginator("get_products").paginate(ServiceCode="AmazonEC2")
    assert sum(len(page["PriceList"]) for page in pages) > 1000


def test_an_instance_is_launched_seen_and_ended_and_the_queue_hears_of_it(model: Model) -> None:
    ec2, sqs = model.client("ec2"), model.client("sqs")
    url = sqs.get_queue_url(QueueName="sandbox")["QueueUrl"]

    (instance,) = launch(model)
    model.post("clock", {"advanceSeconds": 30})
    shown = ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
    ec2.terminate_instances(InstanceIds=[instance])
    model.post("clock", {"advanceSeconds": 60})
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)["Messages"]

    assert shown["State"]["Name"] == "running"
    assert {"Key": "team", "Value": "a&b<c>"} in shown["Tags"]
    events = [json.loads(message["Body"]) for message in messages]
    assert {event["detail-type"] for event in events} == {"EC2 Instance State-change Notification"}
    assert {event["detail"]["instance-id"] for event in events} == {instance}
    assert {"running", "shutting-down", "terminated"} <= {event["detail"]["state"] for event in events}


def test_a_spot_interruption_warns_through_the_queue(model: Model) -> None:
    sqs = model.client("sqs")
    (instance,) = launch(model, capacity_type="spot")
    model.post("clock", {"advanceSeconds": 30})
    url = sqs.get_queue_url(QueueName="sandbox")["QueueUrl"]
    sqs.purge_queue(QueueUrl=url)

    model.post("interrupt", {"instanceIds": [instance]})

    (message,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    event = json.loads(message["Body"])
    assert event["version"] == "0"
    assert event["source"] == "aws.ec2"
    assert event["detail-type"] == "EC2 Spot Instance Interruption Warning"
    assert event["detail"]["instance-id"] == instance


def test_an_experiment_of_fis_interrupts_a_spot_instance(model: Model) -> None:
    fis, iam = model.client("fis"), model.client("iam")
    trust = {"Version": "2012-10-17", "Statement": [{"Principal": {"Service": "fis.amazonaws.com"}}]}
    role = iam.create_role(RoleName="experimenter", AssumeRolePolicyDocument=json.dumps(trust))["Role"]
    (instance,) = launch(model, capacity_type="spot")
    model.post("clock", {"advanceSeconds": 30})

    template = fis.create_experiment_template(
        description="interrupt",
        roleArn=role["Arn"],
        stopConditions=[{"source": "none"}],
        targets={
            "them": {
                "resourceType": "aws:ec2:spot-instance",
                "selectionMode": "ALL",
                "resourceArns": [f"arn:aws:ec2:us-west-2:123456789012:instance/{instance}"],
            }
        },
        actions={
            "itn": {
                "actionId": "aws:ec2:send-spot-instance-interruptions",
                "parameters": {"durationBeforeInterruption": "PT2M"},
                "targets": {"SpotInstances": "them"},
            }
        },
    )["experimentTemplate"]
    experiment = fis.start_experiment(experimentTemplateId=template["id"])["experiment"]
    model.post("clock", {"advanceSeconds": 120})

    ended = model.client("ec2").describe_instances(InstanceIds=[instance])
    assert ended["Reservations"][0]["Instances"][0]["State"]["Name"] == "shutting-down"
    assert fis.get_experiment(id=experiment["id"])["experiment"]["state"]["status"] == "completed"
    fis.delete_experiment_template(id=template["id"])
    assert code_of(fis.get_experiment_template, id=template["id"]) == ("ResourceNotFoundException", 404)


@pytest.mark.parametrize(
    ("service", "method", "parameters", "expected"),
    [
        (
            "ec2",
            "describe_instances",
            {"InstanceIds": ["i-0aaaaaaaaaaaaaaaa"]},
            ("InvalidInstanceID.NotFound", 400),
        ),
        ("ec2", "describe_instance_types", {"DryRun": True}, ("DryRunOperation", 412)),
        ("iam", "get_instance_profile", {"InstanceProfileName": "none"}, ("NoSuchEntity", 404)),
        ("sqs", "get_queue_url", {"QueueName": "none"}, ("AWS.SimpleQueueService.NonExistentQueue", 400)),
        ("ssm", "get_parameter", {"Name": "/none"}, ("ParameterNotFound", 400)),
        ("eks", "describe_cluster", {"name": "none"}, ("ResourceNotFoundException", 404)),
        ("pricing", "get_products", {"ServiceCode": "None"}, ("InvalidParameterException", 400)),
        ("events", "describe_rule", {"Name": "none"}, ("ResourceNotFoundException", 400)),
        ("ec2", "create_vpn_gateway", {"Type": "ipsec.1"}, ("NotImplemented", 501)),
    ],
)
def test_errors_come_as_boto3_shows_them(
    model: Model, service: str, method: str, parameters: dict[str, Any], expected: tuple[str, int]
) -> None:
    assert code_of(getattr(model.client(service), method), **parameters) == expected


def test_unknown_and_missing_parameters_are_refused_by_the_model_itself(model: Model) -> None:
    ec2 = model.client("ec2", parameter_validation=False)

    assert code_of(ec2.terminate_instances) == ("MissingParameter", 400)
    assert code_of(ec2.create_fleet, Type="never") == ("InvalidParameterValue", 400)


def test_a_lost_reply_breaks_the_connection_and_keeps_the_effect(model: Model) -> None:
    ec2 = model.client("ec2")
    model.post("fault", {"service": "ec2", "operation": "CreateVpc", "lost": "reply", "times": 1})
    before = len(ec2.describe_vpcs()["Vpcs"])

    with pytest.raises(ConnectionClosedError):
        ec2.create_vpc(CidrBlock="10.7.0.0/16")

    assert len(ec2.describe_vpcs()["Vpcs"]) == before + 1
    (call,) = model.get("calls?mutating=1")["calls"]
    assert (call["operation"], call["outcome"], call["lost"]) == ("CreateVpc", "ok", True)


def test_a_message_is_not_handed_to_who_has_hung_up(model: Model) -> None:
    sqs = model.client("sqs")
    url = sqs.get_queue_url(QueueName="sandbox")["QueueUrl"]
    connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=5)
    poll = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20})
    connection.request("POST", "/", poll, {"X-Amz-Target": "AmazonSQS.ReceiveMessage"})
    connection.close()
    model.get("clock")

    sqs.send_message(QueueUrl=url, MessageBody="hello")

    assert len(sqs.receive_message(QueueUrl=url)["Messages"]) == 1


def test_wrong_credentials_regions_and_permissions_are_refused_as_told(model: Model) -> None:
    model.post("credentials", {"accept": ["other"]})
    assert code_of(model.client("ec2").describe_vpcs) == ("AuthFailure", 401)
    assert code_of(model.client("sts").get_caller_identity) == ("InvalidClientTokenId", 403)
    model.post("credentials", {"region": "own"})
    assert code_of(model.client("ec2", region="eu-west-1").describe_vpcs) == ("AuthFailure", 403)
    model.post("credentials", {})
    model.post("deny", {"service": "ec2", "operation": "RunInstances"})
    image = model.client("ssm").get_parameter(Name=AL2023)["Parameter"]["Value"]
    run = {"ImageId": image, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1, "DryRun": True}
    assert code_of(model.client("ec2").run_instances, **run) == ("UnauthorizedOperation", 403)


def test_the_request_buckets_of_ec2_run_dry(model: Model) -> None:
    ec2 = model.client("ec2")
    codes = []
    for _ in range(12):
        try:
            ec2.create_fleet(
                LaunchTemplateConfigs=[
                    {"LaunchTemplateSpecification": {"LaunchTemplateName": "none", "Version": "$Latest"}}
                ],
                TargetCapacitySpecification={"TotalTargetCapacity": 1},
                DryRun=True,
            )
        except ClientError as refused:
            codes.append(refused.response["Error"]["Code"])

    assert codes.count("RequestLimitExceeded") >= 4
    assert model.get("state")["throttled"] >= 4
