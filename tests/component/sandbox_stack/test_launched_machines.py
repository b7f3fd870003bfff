# SPDX-License-Identifier: Apache-2.0
"""Machines of a whole sandbox: what they are labelled and tagged with, and what is told where AWS refuses or fails.

The controller is confined by a policy that permits TerminateInstances by the tag Name alone, as people write it.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import boto3
import pytest

from karpenter.sandbox.stack.calls import KubeApi, Model, text_at
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.manifests import default_pool
from karpenter.sandbox.stack.record import Record
from karpenter.sandbox.stack.replicas import metrics_addresses
from tests.component.sandbox_stack.test_whole import wait_for

_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_PODS = "/api/v1/namespaces/default/pods"
_CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
_TENANCY = "karpenter.k8s.aws/instance-tenancy"
_ROLE = "KarpenterControllerRole-sandbox"
_FAILURES = "karpenter_cloudprovider_instance_termination_failures_total"


def _policy(names: str) -> str:
    """Everything, but for terminations: those only of instances with such a Name."""
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "NotAction": "ec2:TerminateInstances", "Resource": "*"},
                {
                    "Effect": "Allow",
                    "Action": "ec2:TerminateInstances",
                    "Resource": "*",
                    "Condition": {"StringLike": {"ec2:ResourceTag/Name": names}},
                },
            ],
        }
    )


def _pool(name: str, tag: str) -> list[dict[str, Any]]:
    """A pool that says nothing of tenancy and is never consolidated, and a class that names its instances."""
    node_class, pool = default_pool("sandbox")
    for each in (node_class, pool):
        each["metadata"]["name"] = name
    node_class["spec"]["tags"] = {"Name": tag}
    template = pool["spec"]["template"]
    template["metadata"] = {"labels": {"team": name}}
    template["spec"]["nodeClassRef"]["name"] = name
    pool["spec"]["disruption"]["consolidateAfter"] = "Never"
    return [node_class, pool]


def _pod(name: str, **selector: str) -> dict[str, Any]:
    container = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeSelector": selector, "containers": [container]},
    }


def _running(api: KubeApi) -> int:
    return sum(each["status"].get("phase") == "Running" for each in api.items(_PODS))


def _claims(api: KubeApi) -> dict[str, dict[str, Any]]:
    """The claims whose instance has its tags, by team."""
    return {
        each["metadata"]["labels"]["team"]: each
        for each in api.items(_CLAIMS)
        if each["metadata"]["annotations"].get("karpenter.k8s.aws/tagged") == "true"
    }


# Which objects hear of an instance that cannot be ended.
_CONCERNED = {"EC2NodeClass", "Node", "NodeClaim", "NodePool"}


def _events(api: KubeApi, reason: str) -> dict[str, str]:
    return {
        each["involvedObject"]["kind"]: each["message"]
        for each in api.items("/api/v1/events")
        if each["reason"] == reason
    }


def _condition(thing: dict[str, Any], kind: str) -> tuple[str, str]:
    conditions = thing.get("status", {}).get("conditions", [])
    found = [each for each in conditions if each["type"] == kind]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


@pytest.mark.timeout(300)
def test_machines_are_as_asked_for_and_trouble_with_aws_is_told(record: Record, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"aws_access_key_id": "admin", "aws_secret_access_key": "admin"}
    iam, ec2 = (
        boto3.client(name, endpoint_url=record.ec2, region_name=record.options.region, **keys)
        for name in ("iam", "ec2")
    )
    iam.put_role_policy(RoleName=_ROLE, PolicyName="named", PolicyDocument=_policy("karpenter-*"))
    with (
        contextlib.closing(KubeApi(record.server, record.token, Home(tmp_path).authority)) as api,
        contextlib.closing(Model(record.ec2)) as model,
    ):
        model.do("enforce", {"accessKey": "sandbox", "role": _ROLE})
        api.apply_all([*_pool("web", "karpenter-web"), *_pool("old", "legacy")])
        api.apply_all([_pod("web", team="web", **{_TENANCY: "dedicated"}), _pod("old", team="old")])
        wait_for(lambda: _running(api) == 2, "both pods run", 90)
        wait_for(lambda: len(_claims(api)) == 2, "both instances are tagged", 30)
        claims = _claims(api)

        by_id = {
            each["InstanceId"]: each
            for reservation in ec2.describe_instances()["Reservations"]
            for each in reservation["Instances"]
        }
        assert len(by_id) == 2
        machines = {
            team: by_id[each["status"]["providerID"].rpartition("/")[2]] for team, each in claims.items()
        }
        tenancies = {team: each["Placement"]["Tenancy"] for team, each in machines.items()}
        tags = {team: {tag["Key"]: tag["Value"] for tag in each["Tags"]} for team, each in machines.items()}
        assert tenancies == {"web": "dedicated", "old": "default"}
        assert {team: each["metadata"]["labels"][_TENANCY] for team, each in claims.items()} == tenancies
        assert (tags["web"]["Name"], tags["old"]["Name"]) == ("karpenter-web", "legacy")
        assert tags["old"]["karpenter.sh/nodeclaim"] == claims["old"]["metadata"]["name"]

        for name in ("web", "old"):
            api.delete(f"{_PODS}/{name}")
        for each in claims.values():
            api.delete(f"{_CLAIMS}/{each['metadata']['name']}")
        told = wait_for(
            lambda: (found := _events(api, "TerminationRefused")).keys() >= _CONCERNED and found,
            "it is told",
            90,
        )
        wait_for(lambda: len(api.items(_CLAIMS)) == 1, "the one that may be ended is gone", 60)

        arn = f"arn:aws:ec2:us-west-2:123456789012:instance/{machines['old']['InstanceId']}"
        assert all(
            f"ec2:TerminateInstances on {arn} is refused (UnauthorizedOperation)" in words
            for words in told.values()
        )
        refused = ("False", "TerminationRefused")
        assert _condition(api.items(_CLAIMS)[0], "InstanceTerminating") == refused
        assert _condition(api.get(f"{_CLASSES}/old"), "InstanceTerminationHealthy") == refused
        assert _condition(api.get(f"{_CLASSES}/web"), "InstanceTerminationHealthy") == ("", "")
        assert _condition(api.get(f"{_CLASSES}/old"), "Ready")[0] == "True"
        assert _FAILURES in text_at(metrics_addresses(Home(tmp_path))[0])

        iam.put_role_policy(RoleName=_ROLE, PolicyName="named", PolicyDocument=_policy("*"))
        wait_for(lambda: not api.items(_CLAIMS), "once allowed, the other goes too", 120)
        assert _condition(api.get(f"{_CLASSES}/old"), "InstanceTerminationHealthy")[0] == "True"

        model.do("fault", {"service": "ec2", "operation": "DescribeInstances", "code": "InternalError"})
        api.apply_all([_pod("next", team="web")])
        wait_for(
            lambda: any(_condition(each, "Launched")[0] == "True" for each in api.items(_CLAIMS)),
            "an instance is launched while none can be described",
            60,
        )
        told = wait_for(lambda: _events(api, "AWSCallFailing"), "that is told as well", 30)
        assert told["EC2NodeClass"].startswith("ec2 DescribeInstances fails: InternalError")

        # Its node registers as soon as EC2 says what the instance is called: a forged Node must not take its place.
        model.do("clearFaults", {})
        wait_for(lambda: _running(api) == 1, "the pod runs once instances can be described", 60)
