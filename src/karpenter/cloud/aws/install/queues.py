# SPDX-License-Identifier: Apache-2.0
"""The interruption queue, and the rules of EventBridge that fill it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.cloud.aws.install.account import Account, tag_list
from karpenter.cloud.aws.install.pieces import ABSENT, MARK, Found, Piece, same_json

__all__ = ["RULES", "TARGET", "QueuePiece", "RulePiece", "queue_policy"]

# Name of each rule, and the source and detail type that it lets through.
RULES: Final[Mapping[str, tuple[str, str]]] = {
    "ScheduledChangeRule": ("aws.health", "AWS Health Event"),
    "SpotInterruptionRule": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "RebalanceRule": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "InstanceStateChangeRule": ("aws.ec2", "EC2 Instance State-change Notification"),
    "CapacityReservationInterruptionRule": (
        "aws.ec2",
        "EC2 Capacity Reservation Instance Interruption Warning",
    ),
}
TARGET: Final = "KarpenterInterruptionQueueTarget"
_NO_QUEUE: Final = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
_NO_RULE: Final = frozenset({"ResourceNotFoundException"})


def queue_policy(arn: str, rule_arns: Sequence[str]) -> dict[str, Any]:
    """Return who may put messages into the queue: EventBridge for our own rules alone, and only by TLS.

    Without the conditions EventBridge delivers for a rule of any account, and what it delivers disrupts nodes.
    """
    return {
        "Id": "EC2InterruptionPolicy",
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "AllowEvents",
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
                "Condition": {
                    "StringEquals": {"aws:SourceAccount": arn.split(":")[4]},
                    "ArnEquals": {"aws:SourceArn": list(rule_arns)},
                },
            },
            {
                "Sid": "DenyHTTP",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": arn,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    }


@dataclass(frozen=True)
class QueuePiece(Piece):
    """The queue that notices of interruptions go to."""

    name: str
    cluster: str
    arn: str
    rule_arns: tuple[str, ...]
    kind: str = "queue"

    @property
    def purpose(self) -> str:
        """Say what it is for."""
        return "holds notices of spot interruptions, maintenance and state changes for five minutes"

    @property
    def policy(self) -> dict[str, Any]:
        """Who may send to the queue."""
        return queue_policy(self.arn, self.rule_arns)

    @property
    def attributes(self) -> dict[str, str]:
        """What is wanted of the queue."""
        return {
            "MessageRetentionPeriod": "300",
            "SqsManagedSseEnabled": "true",
            "Policy": json.dumps(self.policy),
        }

    def find(self, account: Account) -> Found:
        """Look at it."""
        url = self._url(account)
        if url is None:
            return ABSENT
        if account.call("sqs", "ListQueueTags", QueueUrl=url).get("Tags", {}).get(MARK) != self.cluster:
            return self.foreign(f"queue {self.name}")
        names = list(self.attributes)
        found = account.call("sqs", "GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]
        return Found.compared(
            [
                f"its {name}"
                for name, wanted in self.attributes.items()
                if not same_json(found.get(name, ""), wanted)
            ]
        )

    def make(self, account: Account) -> None:
        """Make or mend it."""
        url = self._url(account)
        if url is None:
            account.call(
                "sqs",
                "CreateQueue",
                QueueName=self.name,
                Attributes=self.attributes,
                tags={MARK: self.cluster},
            )
        else:
            account.call("sqs", "SetQueueAttributes", QueueUrl=url, Attributes=self.attributes)

    def remove(self, account: Account) -> None:
        """Remove it, if it is ours."""
        url = self._url(account)
        if url is not None:
            account.call("sqs", "DeleteQueue", QueueUrl=url)

    def _url(self, account: Account) -> str | None:
        answer = account.ask("sqs", "GetQueueUrl", _NO_QUEUE, QueueName=self.name)
        return answer["QueueUrl"] if answer else None


@dataclass(frozen=True)
class RulePiece(Piece):
    """A rule that sends one kind of event to the queue."""

    name: str
    cluster: str
    source: str
    detail_type: str
    queue_arn: str
    kind: str = "event rule"

    @property
    def purpose(self) -> str:
        """Say what it is for."""
        return f"sends '{self.detail_type}' to the queue"

    @property
    def pattern(self) -> dict[str, list[str]]:
        """What the rule lets through."""
        return {"source": [self.source], "detail-type": [self.detail_type]}

    def find(self, account: Account) -> Found:
        """Look at it."""
        rule = account.ask("events", "DescribeRule", _NO_RULE, Name=self.name)
        if rule is None:
            return ABSENT
        tags = account.call("events", "ListTagsForResource", ResourceARN=rule["Arn"])["Tags"]
        if {each["Key"]: each["Value"] for each in tags}.get(MARK) != self.cluster:
            return self.foreign(f"event rule {self.name}")
        differences = [] if same_json(rule["EventPattern"], self.pattern) else ["its pattern"]
        if rule.get("State") != "ENABLED":
            differences.append("it is switched off")
        targets = account.call("events", "ListTargetsByRule", Rule=self.name)["Targets"]
        if self.queue_arn not in [each["Arn"] for each in targets]:
            differences.append("it does not lead to the queue")
        return Found.compared(differences)

    def make(self, account: Account) -> None:
        """Make or mend it."""
        there = account.ask("events", "DescribeRule", _NO_RULE, Name=self.name)
        # EventBridge takes tags only with a new rule.
        tags = {} if there else {"Tags": tag_list({MARK: self.cluster})}
        pattern = json.dumps(self.pattern)
        account.call("events", "PutRule", Name=self.name, EventPattern=pattern, State="ENABLED", **tags)
        target = {"Id": TARGET, "Arn": self.queue_arn}
        account.call("events", "PutTargets", Rule=self.name, Targets=[target])

    def remove(self, account: Account) -> None:
        """Remove it, if it is ours."""
        if account.ask("events", "DescribeRule", _NO_RULE, Name=self.name) is None:
            return
        targets = account.call("events", "ListTargetsByRule", Rule=self.name)["Targets"]
        if targets:
            account.call("events", "RemoveTargets", Rule=self.name, Ids=[each["Id"] for each in targets])
        account.call("events", "DeleteRule", Name=self.name)
