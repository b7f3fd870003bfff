# SPDX-License-Identifier: Apache-2.0
"""Messages as EventBridge puts them into the queue."""

from __future__ import annotations

import json
from typing import Any

SPOT = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
STATE = "EC2 Instance State-change Notification"
RESERVED = "EC2 Capacity Reservation Instance Interruption Warning"
HEALTH = "AWS Health Event"


def event(detail_type: str, detail: Any, **more: Any) -> bytes:
    """One event of our own account and region."""
    return json.dumps(
        {
            "version": "0",
            "id": "event-1",
            "detail-type": detail_type,
            "source": "aws.health" if detail_type == HEALTH else "aws.ec2",
            "account": "111111111111",
            "time": "2026-01-01T00:00:10Z",
            "region": "us-west-2",
            "resources": [],
            "detail": detail,
            **more,
        }
    ).encode()


def spot(instance_id: str = "i-0a1", **more: Any) -> bytes:
    """A spot warning."""
    return event(SPOT, {"instance-id": instance_id, "instance-action": "terminate"}, **more)


def health(*entities: Any, service: str = "EC2", category: str = "scheduledChange") -> bytes:
    """A health event."""
    return event(
        HEALTH,
        {
            "service": service,
            "eventTypeCategory": category,
            "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            "affectedEntities": [
                each if isinstance(each, dict) else {"entityValue": each} for each in entities
            ],
        },
    )
