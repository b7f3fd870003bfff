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
from karpenter.sandbox.ec2.rights.policies import Asked, read_policy, weigh
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


_RULE = "arn:aws:events:us-west-2:{account}:rule/{name}"


def _may_send(policy: str, queue_arn: str, **context: str) -> bool:
    """Return whether a queue's policy lets EventBridge send for a rule; written by IAM's rules, not by ours."""
    keys = {key.replace("_", ":"): value for key, value in context.items()}
    found = weigh(read_policy(policy), Asked("sqs:SendMessage", queue_arn, {**keys}))
    return found is not None and found.allows


def _queue_policies(model: Model) -> dict[str, str]:
    """Give the queue's policy as each way of installing writes it."""
    _run("--yes")
    sqs = _client("sqs", model)
    url = sqs.get_queue_url(QueueName="prod")["QueueUrl"]
    made = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    formation = json.loads(_run("--emit", "cloudformation").stdout)["Resources"]
    document = formation["QueueProdPolicy"]["Properties"]["PolicyDocument"]
    terraform = json.loads(_run("--emit", "terraform").stdout)["resource"]
    written = terraform["aws_sqs_queue_policy"]["prod"]["policy"]
    return {"made": made, "cloudformation": json.dumps(document), "terraform": written}


def test_only_the_rules_of_this_installation_may_send_to_the_queue(bare: Model) -> None:
    account = _client("sts", bare).get_caller_identity()["Account"]
    queue_arn = f"arn:aws:sqs:us-west-2:{account}:prod"
    ours = _RULE.format(account=account, name="prod-SpotInterruptionRule")

    for way, policy in _queue_policies(bare).items():
        assert _may_send(policy, queue_arn, aws_SourceArn=ours, aws_SourceAccount=account), way
        for context in (
            {},
            {"aws_SourceArn": ours},
            {"aws_SourceAccount": account},
            {"aws_SourceArn": _RULE.format(account=account, name="other"), "aws_SourceAccount": account},
            {
                "aws_SourceArn": _RULE.format(account="210987654321", name="prod-SpotInterruptionRule"),
                "aws_SourceAccount": "210987654321",
            },
            {"aws_SourceArn": ours, "aws_SourceAccount": account, "aws_SecureTransport": "false"},
        ):
            assert not _may_send(policy, queue_arn, **context), (way, context)


def test_every_rule_that_is_made_may_send_to_the_queue(bare: Model) -> None:
    account = _client("sts", bare).get_caller_identity()["Account"]
    policy = _queue_policies(bare)["made"]

    rules = _client("events", bare).list_rules()["Rules"]

    assert len(rules) == 5
    for rule in rules:
        allowed = _may_send(
            policy,
            f"arn:aws:sqs:us-west-2:{account}:prod",
            aws_SourceArn=rule["Arn"],
            aws_SourceAccount=account,
        )
        assert allowed, rule["Name"]


def test_a_queue_that_lets_every_account_send_is_told_and_mended(bare: Model) -> None:
    tight = _queue_policies(bare)["made"]
    open_to_all = json.loads(tight)
    del open_to_all["Statement"][0]["Condition"]
    sqs = _client("sqs", bare)
    url = sqs.get_queue_url(QueueName="prod")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(open_to_all)})

    check = _run("--check")
    _run("--yes")

    assert "its Policy" in check.stdout
    mended = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    assert json.loads(mended) == json.loads(tight)


def test_the_pod_identity_role_trusts_the_controllers_service_account_of_this_cluster_alone(
    bare: Model,
) -> None:
    _run("--pod-identity", "--yes")
    role = _client("iam", bare).get_role(RoleName="KarpenterControllerRole-prod")["Role"]
    account = _client("sts", bare).get_caller_identity()["Account"]
    statements = read_policy(json.dumps(role["AssumeRolePolicyDocument"]))
    right = {
        "aws:RequestTag/eks-cluster-arn": f"arn:aws:eks:us-west-2:{account}:cluster/prod",
        "aws:RequestTag/kubernetes-namespace": "karpenter",
        "aws:RequestTag/kubernetes-service-account": "karpenter",
    }

    for action in ("sts:AssumeRole", "sts:TagSession"):
        assert weigh(statements, Asked(action, context=right)) is not None
        assert weigh(statements, Asked(action)) is None
        for key in right:
            assert weigh(statements, Asked(action, context={**right, key: "other"})) is None


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
