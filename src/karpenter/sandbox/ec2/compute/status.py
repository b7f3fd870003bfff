# SPDX-License-Identifier: Apache-2.0
"""DescribeInstanceStatus: status checks of instances and hosts, and events that AWS has announced.

Without ``IncludeAllInstances`` only running instances are told, as in EC2. A filter on events passes an instance
when one of its events does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.sandbox.ec2.compute.describing import find_instances
from karpenter.sandbox.ec2.compute.filters import Field
from karpenter.sandbox.ec2.compute.records import STATE_CODES, Instance, ScheduledEvent
from karpenter.sandbox.ec2.compute.seam import Params
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["describe_instance_status"]

_FIELDS: Final[Mapping[str, Field]] = {
    "availability-zone": lambda sight: sight.instance.zone,
    "instance-state-name": lambda sight: sight.instance.seen.state,
    "instance-state-code": lambda sight: STATE_CODES[sight.instance.seen.state],
    "event.code": lambda sight: [event.code for event in sight.instance.events],
    "event.description": lambda sight: [event.description for event in sight.instance.events],
    "event.instance-event-id": lambda sight: [event.id for event in sight.instance.events],
}


def describe_instance_status(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeInstanceStatus."""
    if params.get("InstanceIds") and params.get("MaxResults"):
        raise ModelError(
            "InvalidParameterCombination",
            "The parameter instancesSet cannot be used with the parameter maxResults",
        )
    now = ec2.now()

    def read(*, system: bool, detail: bool) -> Field:
        return lambda sight: _check(ec2, sight.instance, now, system=system)[1 if detail else 0]

    fields: dict[str, Field] = {
        **_FIELDS,
        "instance-status.status": read(system=False, detail=False),
        "instance-status.reachability": read(system=False, detail=True),
        "system-status.status": read(system=True, detail=False),
        "system-status.reachability": read(system=True, detail=True),
    }
    filters = list(params.get("Filters") or ())
    if not params.get("IncludeAllInstances"):
        filters.append({"Name": "instance-state-name", "Values": ["running"]})
    page, token = find_instances(ec2, {**params, "Filters": filters}, fields)
    return {"InstanceStatuses": [_view(ec2, instance, now) for instance in page], **token}


def _check(
    ec2: Store, instance: Instance, now: datetime, *, system: bool
) -> tuple[str, str, datetime | None]:
    """Gives a status check's summary, its detail, and since when it fails."""
    state = instance.seen.state if instance.seen else instance.state
    if state != "running":
        return "not-applicable", "", None
    since = instance.system_impaired_since if system else instance.instance_impaired_since
    if since:
        return "impaired", "failed", since
    settling = timedelta(seconds=ec2.settings.status_initializing_s)
    if now < (instance.changed or instance.launched) + settling:
        return "initializing", "initializing", None
    return "ok", "passed", None


def _summary(ec2: Store, instance: Instance, now: datetime, *, system: bool) -> dict[str, Any]:
    status, detail, since = _check(ec2, instance, now, system=system)
    details = [{"Name": "reachability", "Status": detail}] if detail else []
    if since:
        return {"Status": status, "Details": [{**details[0], "ImpairedSince": since}]}
    return {"Status": status, "Details": details}


def _view(ec2: Store, instance: Instance, now: datetime) -> dict[str, Any]:
    state = instance.seen.state if instance.seen else instance.state
    return {
        "InstanceId": instance.id,
        "AvailabilityZone": instance.zone,
        "AvailabilityZoneId": instance.zone_id,
        "InstanceState": {"Code": STATE_CODES[state], "Name": state},
        "InstanceStatus": _summary(ec2, instance, now, system=False),
        "SystemStatus": _summary(ec2, instance, now, system=True),
        "AttachedEbsStatus": {"Status": "ok" if state == "running" else "not-applicable", "Details": []},
        "Events": [_event(event) for event in instance.events],
    }


def _event(event: ScheduledEvent) -> dict[str, Any]:
    view: dict[str, Any] = {
        "InstanceEventId": event.id,
        "Code": event.code,
        "Description": event.description,
        "NotBefore": event.not_before,
    }
    if event.not_after:
        view["NotAfter"] = event.not_after
    return view
