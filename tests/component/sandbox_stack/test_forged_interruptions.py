# SPDX-License-Identifier: Apache-2.0
"""Forged messages in the interruption queue of a whole sandbox disrupt no node; a genuine notice still does.

The messages are sent with boto3 to the sandbox's SQS, as anything that may write into the queue can send them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
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
_CAPACITY = "karpenter.sh/capacity-type"
_REFUSED = "karpenter_interruption_refused_messages_total"


def workload(capacity: str) -> dict[str, Any]:
    """A Deployment of one pod that needs a node of a capacity type."""
    container = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": capacity, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": capacity}},
            "template": {
                "metadata": {"labels": {"app": capacity}},
                "spec": {"nodeSelector": {_CAPACITY: capacity}, "containers": [container]},
            },
        },
    }


def claims(api: KubeApi) -> dict[str, dict[str, Any]]:
    """The NodeClaims whose node is initialized, by their capacity type."""
    return {
        each["metadata"]["labels"][_CAPACITY]: each
        for each in api.items(_CLAIMS)
        for condition in each.get("status", {}).get("conditions", ())
        if (condition["type"], condition["status"]) == ("Initialized", "True")
    }


def any_capacity() -> list[dict[str, Any]]:
    """The sandbox's own pool, for spot as well, and without consolidation: nodes go by notices alone."""
    node_class, pool = default_pool("sandbox")
    for each in pool["spec"]["template"]["spec"]["requirements"]:
        if each["key"] == _CAPACITY:
            each["values"] = ["on-demand", "spot"]
    pool["spec"]["disruption"]["consolidateAfter"] = "Never"
    return [node_class, pool]


def instance_of(claim: Mapping[str, Any]) -> str:
    return str(claim["status"]["providerID"]).rpartition("/")[2]


def event(detail_type: str, detail: Mapping[str, Any], **more: Any) -> str:
    """An event as EventBridge writes it."""
    whole = {
        "version": "0",
        "id": "forged",
        "source": "aws.health" if "Health" in detail_type else "aws.ec2",
        "detail-type": detail_type,
        "time": "2026-01-01T00:00:00Z",
        "region": "us-west-2",
        "resources": [],
        "detail": detail,
        **more,
    }
    return json.dumps(whole)


def forgeries(account: str, on_demand: str, spot: str) -> list[str]:
    """One message for each way to forge."""
    warning, spot_event = "EC2 Spot Instance Interruption Warning", {"instance-action": "terminate"}
    change, ended = "EC2 Instance State-change Notification", {"state": "terminated"}
    maintenance = {
        "service": "EC2",
        "eventTypeCategory": "scheduledChange",
        "affectedEntities": [{"entityValue": on_demand}, {"entityValue": spot}],
    }
    return [
        event(warning, {"instance-id": spot, **spot_event}),
        event(warning, {"instance-id": spot, **spot_event}, account=""),
        event(warning, {"instance-id": spot, **spot_event}, account="210987654321"),
        event(warning, {"instance-id": on_demand, **spot_event}, account=account),
        event(change, {"instance-id": on_demand, **ended}, account=account),
        event("AWS Health Event", maintenance, account=account),
    ]


def refused(home: Home) -> dict[str, float]:
    """How many messages the controller refused, by reason."""
    text = text_at(metrics_addresses(home)[0])
    return {
        line.partition('reason="')[2].partition('"')[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith(_REFUSED)
    }


def counting(home: Home, wanted: Mapping[str, float]) -> Callable[[], bool]:
    return lambda: refused(home) == wanted


@pytest.mark.timeout(300)
def test_forged_messages_disrupt_no_node_and_genuine_ones_do(record: Record, tmp_path: Path) -> None:
    sqs, sts = (
        boto3.client(
            name,
            endpoint_url=record.ec2,
            region_name=record.options.region,
            aws_access_key_id="sandbox",
            aws_secret_access_key="sandbox",
        )
        for name in ("sqs", "sts")
    )
    account = sts.get_caller_identity()["Account"]
    url = sqs.get_queue_url(QueueName="sandbox")["QueueUrl"]
    with contextlib.closing(KubeApi(record.server, record.token, Home(tmp_path).authority)) as api:
        api.apply_all([*any_capacity(), workload("spot"), workload("on-demand")])
        before = wait_for(lambda: len(claims(api)) == 2 and claims(api), "both nodes are initialized", 90)
        spot, on_demand = instance_of(before["spot"]), instance_of(before["on-demand"])

        for body in forgeries(account, on_demand, spot):
            sqs.send_message(QueueUrl=url, MessageBody=body)

        wanted = {
            "no_account": 2.0,
            "foreign_account": 1.0,
            "not_spot": 1.0,
            "instance_running": 1.0,
            "no_scheduled_event": 2.0,
        }
        wait_for(counting(Home(tmp_path), wanted), "every forged message is refused", 90)
        left = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert (
            left["ApproximateNumberOfMessages"],
            left["ApproximateNumberOfMessagesNotVisible"],
        ) == ("0", "0")
        after = claims(api)
        for kind, claim in before.items():
            assert after[kind]["metadata"]["uid"] == claim["metadata"]["uid"]
            assert "deletionTimestamp" not in after[kind]["metadata"]
            assert "karpenter.sh/interrupted" not in after[kind]["metadata"].get("annotations", {})

        with contextlib.closing(Model(record.ec2)) as model:
            model.do("interrupt", [{"instanceIds": [spot]}])
            model.do("terminate", [{"instanceIds": [on_demand]}])

        def are_replaced() -> bool:
            now = claims(api)
            return len(now) == 2 and all(
                now[kind]["metadata"]["uid"] != claim["metadata"]["uid"] for kind, claim in before.items()
            )

        wait_for(are_replaced, "the nodes of genuine notices are replaced", 120)
        assert refused(Home(tmp_path)) == wanted
