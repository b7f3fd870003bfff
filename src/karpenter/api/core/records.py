# SPDX-License-Identifier: Apache-2.0
"""Records that controllers keep in the API: leases (who leads) and events (what was done to whom)."""

from __future__ import annotations

from datetime import datetime

from karpenter.api.base import Frozen
from karpenter.api.meta import ObjectMeta

__all__ = ["Event", "EventSeries", "EventSource", "Lease", "LeaseSpec", "ObjectReference"]


class LeaseSpec(Frozen):
    """Who holds a lease, since when, for how long, and how often it has changed hands."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(Frozen):
    """A lease (coordination.k8s.io/v1)."""

    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class ObjectReference(Frozen):
    """Points at an object of any kind."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Frozen):
    """The program that reported an event."""

    component: str = ""
    host: str = ""


class EventSeries(Frozen):
    """How often a repeated event was seen."""

    count: int = 0
    last_observed_time: datetime | None = None


class Event(Frozen):
    """An event (v1)."""

    api_version: str = "v1"
    kind: str = "Event"
    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    action: str = ""
    count: int = 0
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""
    series: EventSeries | None = None
