# SPDX-License-Identifier: Apache-2.0
"""An installation against the EC2 model: planned, made, checked, made again, mended, removed, and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from karpenter.cli.main import karpenter
from karpenter.cli.main import run as run_command
from karpenter.cloud.aws.install import Account, Choices, InstallError, read_site
from karpenter.cloud.aws.install.emitting import FORMS
from tests.component.aws.stand import Model, running_model

_CLUSTER = "prod"
# Each command makes clients for five services of its own, which takes a second of reading.
pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module")
def _bare_model() -> Iterator[Model]:
    with running_model("--bare", "--cluster-name", _CLUSTER) as model:
        yield model


@pytest.fixture
def bare(_bare_model: Model, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A cluster in which nobody has installed anything."""
    _bare_model.do("reset")
    for name, value in _bare_model.environment.items():
        monkeypatch.setenv(name, value)
    return _bare_model


def _run(*arguments: str, verb: str = "install") -> Result:
    return CliRunner().invoke(karpenter, [verb, "aws", "--cluster-name", _CLUSTER, *arguments])


def _actions(*arguments: str) -> list[str]:
    done = _run("--plan", "-o", "json", *arguments)
    return [each["action"] for each in json.loads(done.stdout)]


def _client(service: str, model: Model) -> Any:
    return boto3.client(service, endpoint_url=model.url, region_name=model.region)


def _account_state(model: Model) -> dict[str, Any]:
    """Give what an installation may touch, as AWS shows it."""
    iam, ec2, eks = _client("iam", model), _client("ec2", model), _client("eks", model)
    return {
        "roles": sorted(each["RoleName"] for each in iam.list_roles()["Roles"]),
        "profiles": iam.list_instance_profiles()["InstanceProfiles"],
        "queues": _client("sqs", model).list_queues().get("QueueUrls", []),
        "rules": _client("events", model).list_rules()["Rules"],
        "tags": sorted(map(str, ec2.describe_tags()["Tags"])),
        "entries": eks.list_access_entries(clusterName=_CLUSTER)["accessEntries"],
    }


def test_a_plan_changes_nothing_and_names_every_piece(bare: Model) -> None:
    before = _account_state(bare)

    done = _run("--plan")

    assert done.exit_code == 0
    for name in (
        "KarpenterNodeRole-prod",
        "KarpenterNodeInstanceProfile-prod",
        "KarpenterControllerRole-prod",
        "prod-SpotInterruptionRule",
        "subnet-",
        "sg-",
    ):
        assert name in done.stdout
    assert _account_state(bare) == before


def test_install_check_again_and_uninstall_end_where_they_began(bare: Model) -> None:
    before = _account_state(bare)

    first = _run("--yes")
    check = _run("--check")
    installed = _account_state(bare)
    again = _run("--yes")
    removed = _run("--yes", verb="uninstall")

    assert first.exit_code == check.exit_code == again.exit_code == removed.exit_code == 0
    assert "14 changes made" in first.stderr
    assert "nothing to do" in again.stderr
    assert "KarpenterNodeRole-prod" in installed["roles"]
    assert len(installed["rules"]) == 5
    assert _account_state(bare) == before


def test_the_roles_are_what_nodes_and_controller_need(bare: Model) -> None:
    _run("--yes")
    iam = _client("iam", bare)

    attached = iam.list_attached_role_policies(RoleName="KarpenterNodeRole-prod")["AttachedPolicies"]
    trust = iam.get_role(RoleName="KarpenterControllerRole-prod")["Role"]["AssumeRolePolicyDocument"]
    policies = iam.list_role_policies(RoleName="KarpenterControllerRole-prod")["PolicyNames"]

    assert {each["PolicyName"] for each in attached} == {
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryReadOnly",
        "AmazonSSMManagedInstanceCore",
    }
    statement = trust["Statement"][0]
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert "system:serviceaccount:karpenter:karpenter" in statement["Condition"]["StringEquals"].values()
    assert len(policies) == 5


def test_pod_identity_needs_no_identity_provider(bare: Model) -> None:
    iam = _client("iam", bare)
    for each in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]:
        iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=each["Arn"])

    refused = run_command(["install", "aws", "--cluster-name", _CLUSTER, "--plan"])
    done = _run("--pod-identity", "--yes")
    check = _run("--pod-identity", "--check")

    assert refused == 1
    assert done.exit_code == check.exit_code == 0
    listed = _client("eks", bare).list_pod_identity_associations(clusterName=_CLUSTER)["associations"]
    assert [(each["namespace"], each["serviceAccount"]) for each in listed] == [("karpenter", "karpenter")]


def test_a_half_finished_installation_is_finished_and_a_changed_one_mended(bare: Model) -> None:
    _run("--yes")
    iam, events, sqs = _client("iam", bare), _client("events", bare), _client("sqs", bare)
    iam.delete_role_policy(
        RoleName="KarpenterControllerRole-prod", PolicyName="KarpenterControllerInterruptionPolicy-prod"
    )
    iam.remove_role_from_instance_profile(
        InstanceProfileName="KarpenterNodeInstanceProfile-prod", RoleName="KarpenterNodeRole-prod"
    )
    iam.detach_role_policy(
        RoleName="KarpenterNodeRole-prod", PolicyArn="arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"
    )
    events.put_rule(Name="prod-RebalanceRule", EventPattern='{"source":["aws.s3"]}', State="DISABLED")
    url = sqs.get_queue_url(QueueName="prod")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"MessageRetentionPeriod": "60"})

    code = run_command(["install", "aws", "--cluster-name", _CLUSTER, "--check"])
    check = _run("--check")
    mended = _run("--yes")

    assert code == 1
    for words in (
        "policy KarpenterControllerInterruptionPolicy-prod is missing",
        "AmazonEKS_CNI_Policy is not attached",
        "its role is missing",
        "it is switched off",
        "its MessageRetentionPeriod",
    ):
        assert words in check.stdout
    assert "5 changes made" in mended.stderr
    assert set(_actions()) == {"keep"}


def test_what_has_our_name_and_is_not_ours_is_told_and_nothing_is_done(
    bare: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    trust = {"Version": "2012-10-17", "Statement": []}
    iam = _client("iam", bare)
    iam.create_role(RoleName="KarpenterNodeRole-prod", AssumeRolePolicyDocument=json.dumps(trust))
    before = _account_state(bare)

    code = run_command(["install", "aws", "--cluster-name", _CLUSTER, "--yes"])

    assert code == 1
    said = capsys.readouterr().err
    assert "role KarpenterNodeRole-prod exists and was not made by this installation" in said
    assert "nothing was done" in said
    assert _account_state(bare) == before
    assert _run("--yes", verb="uninstall").exit_code == 0
    assert _account_state(bare) == before


def test_a_subnet_of_another_cluster_is_a_conflict_and_one_tagged_by_hand_stays_tagged(bare: Model) -> None:
    ec2 = _client("ec2", bare)
    first, second, *_ = [each["SubnetId"] for each in ec2.describe_subnets()["Subnets"]]
    ec2.create_tags(Resources=[first], Tags=[{"Key": "karpenter.sh/discovery", "Value": "other"}])
    ec2.create_tags(Resources=[second], Tags=[{"Key": "karpenter.sh/discovery", "Value": _CLUSTER}])

    assert "conflict" in _actions()
    ec2.delete_tags(Resources=[first], Tags=[{"Key": "karpenter.sh/discovery"}])
    assert _run("--yes").exit_code == 0
    assert _run("--yes", verb="uninstall").exit_code == 0

    tagged = ec2.describe_subnets(Filters=[{"Name": "tag-key", "Values": ["karpenter.sh/discovery"]}])
    assert [each["SubnetId"] for each in tagged["Subnets"]] == [second]


def test_a_missing_right_is_named_and_the_next_run_goes_on(
    bare: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.do("deny", {"service": "sqs", "operation": "CreateQueue"})

    code = run_command(["install", "aws", "--cluster-name", _CLUSTER, "--yes"])
    said = capsys.readouterr().err
    bare.do("allowAll")
    again = _run("--yes")

    assert code == 1
    assert "you may not do sqs:CreateQueue" in said
    assert "allows sqs:CreateQueue" in said
    assert "12 changes made" in again.stderr


def test_a_wrong_name_or_region_is_told_with_the_clusters_there_are(bare: Model) -> None:
    with pytest.raises(InstallError) as refused:
        read_site(Account("us-west-2"), Choices("prd"))

    assert refused.value.message == "there is no EKS cluster 'prd' in region us-west-2"
    assert refused.value.hint == "there are prod"
    assert bare.url


def test_a_cluster_that_is_not_ready_is_refused(bare: Model) -> None:
    bare.do("cluster", {"status": "UPDATING"})

    with pytest.raises(InstallError, match="UPDATING, not ACTIVE"):
        read_site(Account(), Choices(_CLUSTER))


@pytest.mark.parametrize("form", sorted(FORMS))
def test_what_is_written_down_names_what_would_be_made(bare: Model, form: str) -> None:
    done = _run("--emit", form)

    assert done.exit_code == 0
    text = done.stdout
    if form == "yaml":
        assert "clusterName: prod" in text
        assert "role/KarpenterControllerRole-prod" in text
        return
    read = json.loads(text)
    assert "KarpenterNodeRole-prod" in text
    assert "prod-SpotInterruptionRule" in text
    assert "TerminateInstances" in text
    assert read
    assert _account_state(bare)["queues"] == []


def test_node_groups_are_covered_by_a_command_that_changes_nothing(bare: Model) -> None:
    done = CliRunner().invoke(karpenter, ["migrate", "nodegroups", "--cluster-name", _CLUSTER])

    assert done.exit_code == 0
    assert "kind: NodePool" in done.stdout
    assert "- m5.large" in done.stdout
    assert "us-west-2a" in done.stdout
    assert bare.see("calls?mutating=1")["calls"] == []
    none = CliRunner().invoke(
        karpenter, ["migrate", "nodegroups", "--cluster-name", _CLUSTER, "--skip", "system"]
    )
    assert "no managed node groups but those left out" in none.stderr
