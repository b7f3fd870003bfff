# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.contract import ModelError
from karpenter.sandbox.ec2.seeds import seeded
from karpenter.sandbox.ec2.world import World
from tests.unit.sandbox.ec2.calling import a_world, ask

ROLE = "arn:aws:iam::123456789012:role/KarpenterNodeRole-sandbox"
EKS_PATH = "/aws/service/eks/optimized-ami"


@pytest.fixture
def world() -> World:
    return a_world()


def code_of(world: World, service: str, operation: str, **parameters: Any) -> str:
    with pytest.raises(ModelError) as refused:
        ask(world, service, operation, **parameters)
    return refused.value.code


def test_keys_that_were_handed_out_know_their_role(world: World) -> None:
    assumed = ask(world, "sts", "AssumeRole", RoleArn=ROLE, RoleSessionName="me")
    key = assumed["Credentials"]["AccessKeyId"]

    who = ask(world, "sts", "GetCallerIdentity", access_key=key)
    anybody = ask(world, "sts", "GetCallerIdentity", access_key="x")

    assert who["Arn"] == "arn:aws:sts::123456789012:assumed-role/KarpenterNodeRole-sandbox/me"
    assert assumed["Credentials"]["Expiration"] == world.clock.now() + timedelta(hours=1)
    assert "KarpenterControllerRole-sandbox" in anybody["Arn"]


def test_a_role_that_does_not_exist_cannot_be_assumed(world: World) -> None:
    assert code_of(world, "sts", "AssumeRole", RoleArn=ROLE + "x", RoleSessionName="me") == "AccessDenied"
    web = {"RoleArn": ROLE, "RoleSessionName": "me"}
    assert (
        code_of(world, "sts", "AssumeRoleWithWebIdentity", WebIdentityToken=" ", **web)
        == "InvalidIdentityToken"
    )
    assert "Credentials" in ask(world, "sts", "AssumeRoleWithWebIdentity", WebIdentityToken="t", **web)


@pytest.mark.parametrize(
    "name",
    [
        f"{EKS_PATH}/1.32/amazon-linux-2/recommended/image_id",
        f"{EKS_PATH}/1.32/amazon-linux-2-arm64/recommended/image_id",
        f"{EKS_PATH}/1.32/amazon-linux-2-gpu/recommended/image_id",
        f"{EKS_PATH}/1.33/amazon-linux-2023/arm64/nvidia/recommended/image_id",
        f"{EKS_PATH}/1.34/amazon-linux-2023/x86_64/neuron/recommended/image_id",
        "/aws/service/bottlerocket/aws-k8s-1.33-nvidia/arm64/latest/image_id",
        "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.33/image_id",
        f"arn:aws:ssm:us-west-2::parameter{EKS_PATH}/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id",
        f"{EKS_PATH}/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id:1",
    ],
)
def test_every_family_has_a_parameter_that_leads_to_an_image(world: World, name: str) -> None:
    value = ask(world, "ssm", "GetParameter", Name=name)["Parameter"]["Value"]

    assert ask(world, "ec2", "DescribeImages", ImageIds=[value])["Images"][0]["State"] == "available"


def test_pinned_and_newest_parameters_name_the_same_image_of_the_last_release(world: World) -> None:
    stem = f"{EKS_PATH}/1.33/amazon-linux-2023/x86_64/standard"
    newest = ask(world, "ssm", "GetParameter", Name=f"{stem}/recommended/image_id")["Parameter"]["Value"]
    name = ask(world, "ec2", "DescribeImages", ImageIds=[newest])["Images"][0]["Name"]

    assert ask(world, "ssm", "GetParameter", Name=f"{stem}/{name}/image_id")["Parameter"]["Value"] == newest


def test_parameters_that_do_not_exist(world: World) -> None:
    good = f"{EKS_PATH}/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"

    assert code_of(
        world, "ssm", "GetParameter", Name=f"{EKS_PATH}/1.33/amazon-linux-2/recommended/image_id"
    ) == ("ParameterNotFound")
    found = ask(world, "ssm", "GetParameters", Names=[good, "/none"])
    assert len(found["Parameters"]) == 1
    assert found["InvalidParameters"] == ["/none"]


def test_parameters_of_ones_own(world: World) -> None:
    ask(world, "ssm", "PutParameter", Name="mine", Value="1", Type="String")

    assert code_of(world, "ssm", "PutParameter", Name="mine", Value="2") == "ParameterAlreadyExists"
    assert ask(world, "ssm", "PutParameter", Name="mine", Value="2", Overwrite=True)["Version"] == 2
    assert ask(world, "ssm", "GetParameter", Name="mine:1")["Parameter"]["Value"] == "1"
    arn = "arn:aws:ssm:us-west-2:123456789012:parameter/mine"
    assert ask(world, "ssm", "GetParameter", Name=arn)["Parameter"]["ARN"] == arn
    assert code_of(world, "ssm", "PutParameter", Name="/aws/service/x", Value="2") == "AccessDeniedException"
    ask(world, "ssm", "DeleteParameter", Name="mine")
    assert code_of(world, "ssm", "DeleteParameter", Name="mine") == "ParameterNotFound"


def test_a_path_is_listed_in_pages(world: World) -> None:
    names: list[str] = []
    token = None
    while True:
        page = ask(
            world,
            "ssm",
            "GetParametersByPath",
            Path="/aws/service/bottlerocket/",
            Recursive=True,
            NextToken=token,
        )
        assert len(page["Parameters"]) <= 10
        names += [each["Name"] for each in page["Parameters"]]
        token = page["NextToken"]
        if token is None:
            break

    assert len(names) == len(set(names)) == 48
    assert ask(world, "ssm", "GetParametersByPath", Path="/aws/service")["Parameters"] == []
    assert code_of(world, "ssm", "GetParametersByPath", Path="aws") == "ValidationException"
    assert code_of(world, "ssm", "GetParametersByPath", Path="/aws", NextToken="?") == "InvalidNextToken"


def test_the_cluster_has_what_a_node_needs_to_join(world: World) -> None:
    cluster = ask(world, "eks", "DescribeCluster", name="sandbox")["cluster"]

    assert cluster["arn"] == "arn:aws:eks:us-west-2:123456789012:cluster/sandbox"
    assert cluster["version"] == "1.33"
    assert cluster["status"] == "ACTIVE"
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16"
    assert cluster["certificateAuthority"]["data"]
    assert cluster["endpoint"].startswith("https://")
    assert cluster["identity"]["oidc"]["issuer"].startswith("https://oidc.eks.us-west-2")
    assert len(cluster["resourcesVpcConfig"]["subnetIds"]) == 3
    assert ask(world, "eks", "ListClusters")["clusters"] == ["sandbox"]
    versions = ask(world, "eks", "DescribeClusterVersions", clusterVersions=["1.33"])["clusterVersions"]
    assert [each["clusterVersion"] for each in versions] == ["1.33"]


def test_principals_are_let_into_a_cluster(world: World) -> None:
    entry = {"clusterName": "sandbox", "principalArn": "arn:p"}
    ask(world, "eks", "CreateAccessEntry", **entry, kubernetesGroups=["g"])
    ask(
        world,
        "eks",
        "AssociateAccessPolicy",
        **entry,
        policyArn="arn:policy",
        accessScope={"type": "cluster"},
    )

    assert ask(world, "eks", "DescribeAccessEntry", **entry)["accessEntry"]["kubernetesGroups"] == ["g"]
    policies = ask(world, "eks", "ListAssociatedAccessPolicies", **entry)["associatedAccessPolicies"]
    assert [each["policyArn"] for each in policies] == ["arn:policy"]
    assert code_of(world, "eks", "CreateAccessEntry", **entry) == "ResourceInUseException"
    assert "arn:p" in ask(world, "eks", "ListAccessEntries", clusterName="sandbox")["accessEntries"]
    ask(world, "eks", "DeleteAccessEntry", **entry)
    assert code_of(world, "eks", "DescribeAccessEntry", **entry) == "ResourceNotFoundException"


def test_node_groups_are_those_that_were_put_there(world: World) -> None:
    assert ask(world, "eks", "ListNodegroups", clusterName="sandbox")["nodegroups"] == ["system"]
    assert code_of(world, "eks", "DescribeNodegroup", clusterName="sandbox", nodegroupName="x") == (
        "ResourceNotFoundException"
    )
    world.eks.by_name["sandbox"].nodegroups["x"] = {"nodegroupName": "x"}
    assert ask(world, "eks", "DescribeNodegroup", clusterName="sandbox", nodegroupName="x")["nodegroup"]
    assert code_of(world, "eks", "ListNodegroups", clusterName="other") == "ResourceNotFoundException"


def filters(**wanted: str) -> list[dict[str, str]]:
    return [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]


def price_of(product: str) -> float:
    (term,) = json.loads(product)["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    return float(dimension["pricePerUnit"]["USD"])


def test_the_price_list_has_the_prices_of_the_table(world: World) -> None:
    wanted = filters(
        instanceType="m5.large", regionCode="us-west-2", tenancy="Shared", operatingSystem="Linux"
    )

    (product,) = ask(world, "pricing", "GetProducts", ServiceCode="AmazonEC2", Filters=wanted)["PriceList"]

    assert price_of(product) == world.prices.on_demand("m5.large", world.clock.now()) == 0.096
    assert json.loads(product)["product"]["attributes"]["vcpu"] == "2"


def test_a_changed_price_is_listed(world: World) -> None:
    world.ec2.apply({"prices": [{"instanceType": "m5.large", "capacityType": "on-demand", "price": 0.5}]})

    (product,) = ask(
        world, "pricing", "GetProducts", ServiceCode="AmazonEC2", Filters=filters(instanceType="m5.large")
    )["PriceList"]

    assert price_of(product) == 0.5


def test_products_come_in_pages_of_a_hundred_and_metal_apart(world: World) -> None:
    names: list[str] = []
    token = None
    while True:
        page = ask(
            world,
            "pricing",
            "GetProducts",
            ServiceCode="AmazonEC2",
            Filters=filters(tenancy="Shared", productFamily="Compute Instance"),
            NextToken=token,
        )
        assert len(page["PriceList"]) <= 100
        names += [json.loads(each)["product"]["attributes"]["instanceType"] for each in page["PriceList"]]
        token = page["NextToken"]
        if token is None:
            break
    metal = ask(
        world, "pricing", "GetProducts", ServiceCode="AmazonEC2", Filters=filters(tenancy="Dedicated")
    )

    assert len(names) == len(set(names)) > 1000
    assert not any(name.endswith("metal") for name in names)
    assert metal["PriceList"]


def test_filters_that_contradict_each_other_find_nothing(world: World) -> None:
    wanted = [*filters(tenancy="Shared"), *filters(tenancy="Dedicated")]

    assert ask(world, "pricing", "GetProducts", ServiceCode="AmazonEC2", Filters=wanted)["PriceList"] == []
    assert code_of(world, "pricing", "GetProducts", ServiceCode="AmazonS3") == "InvalidParameterException"
    odd = [{"Type": "EQUALS", "Field": "a", "Value": "b"}]
    assert (
        code_of(world, "pricing", "GetProducts", ServiceCode="AmazonEC2", Filters=odd)
        == "InvalidParameterException"
    )
    assert ask(world, "pricing", "DescribeServices")["Services"][0]["ServiceCode"] == "AmazonEC2"


def test_a_rule_sends_events_of_ones_own_to_a_queue(world: World) -> None:
    pattern = json.dumps({"source": ["my.app"]})
    ask(world, "events", "PutRule", Name="mine", EventPattern=pattern)
    ask(
        world,
        "events",
        "PutTargets",
        Rule="mine",
        Targets=[{"Id": "1", "Arn": world.sqs.by_name["sandbox"].arn}],
    )
    ask(world, "events", "PutRule", Name="mine", EventPattern=pattern, Description="again")

    put = ask(
        world,
        "events",
        "PutEvents",
        Entries=[
            {"Source": "my.app", "DetailType": "t", "Detail": "{}"},
            {"Source": "aws.ec2", "DetailType": "t", "Detail": "{}"},
            {"Source": "my.app", "DetailType": "t", "Detail": "nonsense"},
            {"Source": "my.app", "Detail": "{}"},
        ],
    )

    assert put["FailedEntryCount"] == 3
    assert len(world.sqs.by_name["sandbox"].messages) == 1
    assert len(ask(world, "events", "ListTargetsByRule", Rule="mine")["Targets"]) == 1
    assert ask(world, "events", "DescribeRule", Name="mine")["Description"] == "again"
    assert code_of(world, "events", "DeleteRule", Name="mine") == "ValidationException"
    ask(world, "events", "RemoveTargets", Rule="mine", Ids=["1"])
    ask(world, "events", "DeleteRule", Name="mine")
    assert code_of(world, "events", "DescribeRule", Name="mine") == "ResourceNotFoundException"


def test_rules_have_limits(world: World) -> None:
    rule = "sandbox-RebalanceRule"
    targets = [{"Id": str(number), "Arn": "arn:x"} for number in range(5)]

    assert code_of(world, "events", "PutTargets", Rule=rule, Targets=targets) == "LimitExceededException"
    assert code_of(world, "events", "PutRule", Name="x") == "ValidationException"
    listed = ask(world, "events", "ListRules", NamePrefix="sandbox-", Limit=3)
    assert len(listed["Rules"]) == 3
    assert len(ask(world, "events", "ListRules", NextToken=listed["NextToken"])["Rules"]) == 2


def test_a_zonal_shift_starts_ends_by_itself_and_can_be_cancelled(world: World) -> None:
    arn, zone_id = world.eks.by_name["sandbox"].arn, world.zones["us-west-2b"]
    asked = {"resourceIdentifier": arn, "awayFrom": zone_id, "comment": "test"}
    service = "arc-zonal-shift"

    ask(world, service, "StartZonalShift", **asked, expiresIn="2h")
    assert code_of(world, service, "StartZonalShift", **asked, expiresIn="2h") == "ConflictException"
    world.advance(3 * 3600)
    assert ask(world, service, "GetManagedResource", resourceIdentifier=arn)["zonalShifts"] == []
    again = ask(world, service, "StartZonalShift", **asked, expiresIn="60m")
    assert ask(world, service, "CancelZonalShift", zonalShiftId=again["zonalShiftId"])["status"] == "CANCELED"
    assert (
        code_of(world, service, "CancelZonalShift", zonalShiftId=again["zonalShiftId"])
        == "ResourceNotFoundException"
    )
    assert code_of(world, service, "StartZonalShift", **asked, expiresIn="soon") == "ValidationException"
    asked["awayFrom"] = "moon"
    assert code_of(world, service, "StartZonalShift", **asked, expiresIn="1h") == "ValidationException"
    assert (
        code_of(world, service, "GetManagedResource", resourceIdentifier="arn:x")
        == "ResourceNotFoundException"
    )


def test_a_world_of_later_days_still_has_the_release_that_people_pinned() -> None:
    later = seeded(ModelClock.fixed(datetime(2026, 11, 1, tzinfo=UTC)))
    stem = f"{EKS_PATH}/1.33/amazon-linux-2023/x86_64/standard"
    pinned = f"{stem}/amazon-eks-node-al2023-x86_64-standard-1.33-v20260520/image_id"

    old, newest = (
        ask(later, "ssm", "GetParameter", Name=name)["Parameter"]["Value"]
        for name in (pinned, f"{stem}/recommended/image_id")
    )

    assert old != newest


def test_an_ipv6_cluster_says_so_and_its_subnets_give_ipv6_addresses() -> None:
    world = a_world(ip_family="ipv6")

    network = ask(world, "eks", "DescribeCluster", name="sandbox")["cluster"]["kubernetesNetworkConfig"]
    subnets = ask(world, "ec2", "DescribeSubnets")["Subnets"]

    assert network["ipFamily"] == "ipv6"
    assert network["serviceIpv6Cidr"].endswith("/108")
    assert "serviceIpv4Cidr" not in network
    assert all(each["AssignIpv6AddressOnCreation"] for each in subnets)
    blocks = {each["Ipv6CidrBlockAssociationSet"][0]["Ipv6CidrBlock"] for each in subnets}
    assert len(blocks) == 3
