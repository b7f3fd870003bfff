# SPDX-License-Identifier: Apache-2.0
"""What AWS does to running instances, and the events by which it says so.

Spot interruption: a warning, then the end two minutes later. Rebalance recommendation: a hint, nothing more. Health
event: a scheduled change that also shows in DescribeInstanceStatus. Capacity reservation interruption: as spot, for
instances in interruptible reservations. Each is a function that an administrator or a scenario calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.sandbox.ec2.compute.images import iso
from karpenter.sandbox.ec2.compute.instances import impair, terminate
from karpenter.sandbox.ec2.compute.records import Instance, ScheduledEvent, StateReason
from karpenter.sandbox.ec2.compute.store import Store

__all__ = [
    "EVENT_CODES",
    "impair_instances",
    "interrupt_reserved",
    "interrupt_spot",
    "kill",
    "recommend_rebalance",
    "schedule_event",
]

EVENT_CODES: Final = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
_SPOT_END: Final = StateReason(
    "Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Spot instance termination"
)
_RESERVATION_END: Final = StateReason(
    "Server.CapacityReservationInterruption",
    "Server.CapacityReservationInterruption: The interruptible capacity was taken back",
)


def interrupt_spot(
    ec2: Store, instances: Sequence[Instance], warning_s: float = 120.0, at: datetime | None = None
) -> None:
    """Warns of and then ends spot instances, from now on or a moment; what is no live spot instance is passed over."""
    moment = at or ec2.now()
    for instance in instances:
        if instance.capacity_type != "spot" or not instance.alive:
            continue
        _publish(
            ec2,
            instance,
            "EC2 Spot Instance Interruption Warning",
            {"instance-id": instance.id, "instance-action": "terminate"},
            moment,
        )
        _end_later(ec2, instance, moment + timedelta(seconds=warning_s), _SPOT_END)


def interrupt_reserved(ec2: Store, instances: Sequence[Instance], warning_s: float = 120.0) -> None:
    """Warns of and then ends instances in capacity reservations; others are passed over."""
    for instance in instances:
        if not instance.capacity_reservation_id or not instance.alive:
            continue
        _publish(
            ec2,
            instance,
            "EC2 Capacity Reservation Instance Interruption Warning",
            {
                "instance-id": instance.id,
                "capacity-reservation-id": instance.capacity_reservation_id,
                "instance-action": "terminate",
            },
            ec2.now(),
        )
        _end_later(ec2, instance, ec2.now() + timedelta(seconds=warning_s), _RESERVATION_END)


def recommend_rebalance(ec2: Store, instances: Sequence[Instance], at: datetime | None = None) -> None:
    """Recommends to move away from spot instances; others are passed over."""
    for instance in instances:
        if instance.capacity_type == "spot" and instance.alive:
            detail = {"instance-id": instance.id}
            _publish(ec2, instance, "EC2 Instance Rebalance Recommendation", detail, at or ec2.now())


def schedule_event(
    ec2: Store,
    instances: Sequence[Instance],
    code: str = "instance-retirement",
    description: str = "",
    starts: datetime | None = None,
) -> None:
    """Announces a scheduled change, by one AWS Health event and in the status of each instance."""
    now = ec2.now()
    begins = starts or now + timedelta(days=14)
    text = description or "The instance is running on degraded hardware"
    live = [instance for instance in instances if instance.alive]
    for instance in live:
        event_id = ec2.ids.next("instance-event")
        instance.events.append(ScheduledEvent(event_id, code, text, begins, begins + timedelta(hours=2)))
    if not live:
        return
    ec2.bus.publish(
        "aws.health",
        "AWS Health Event",
        {
            "eventArn": f"arn:aws:health:{ec2.account.region}::event/EC2/AWS_EC2_{code.upper().replace('-', '_')}",
            "service": "EC2",
            "eventTypeCode": f"AWS_EC2_{code.upper().replace('-', '_')}_SCHEDULED",
            "eventTypeCategory": "scheduledChange",
            "startTime": begins.strftime("%a, %d %b %Y %H:%M:%S GMT"),
            "eventDescription": [{"language": "en_US", "latestDescription": text}],
            "affectedEntities": [
                {"entityValue": instance.id, "lastUpdatedTime": iso(now), "status": "IMPAIRED"}
                for instance in live
            ],
        },
        [ec2.account.arn(f"instance/{instance.id}") for instance in live],
        now,
    )


def impair_instances(ec2: Store, instances: Sequence[Instance], *, system: bool = False) -> None:
    """Fails the status checks of instances, or of their hosts, from now on."""
    for instance in instances:
        if instance.alive:
            impair(instance, ec2.now(), system=system)


def kill(ec2: Store, instances: Sequence[Instance], code: str = "", message: str = "") -> None:
    """Ends instances at once, as when somebody does it by hand in the console or hardware fails."""
    reason = StateReason(
        code or "Client.UserInitiatedShutdown", message or f"{code or 'Client.UserInitiatedShutdown'}: ended"
    )
    for instance in instances:
        terminate(ec2, instance, ec2.now(), reason)


def _end_later(ec2: Store, instance: Instance, due: datetime, reason: StateReason) -> None:
    end: Callable[[datetime], Any] = lambda at: terminate(  # noqa: E731 - one step of the timers
        ec2, instance, at, reason, f"{reason.code.partition('.')[0]} initiated ({at:%Y-%m-%d %H:%M:%S} GMT)"
    )
    ec2.timers.at(due, f"{instance.id} is interrupted", end)


def _publish(ec2: Store, instance: Instance, detail_type: str, detail: dict[str, Any], at: datetime) -> None:
    ec2.bus.publish("aws.ec2", detail_type, detail, [ec2.account.arn(f"instance/{instance.id}")], at)
