# SPDX-License-Identifier: Apache-2.0
"""Everything that a scenario or an admin call may ask of the world, as typed data.

An action is a name and a document; ``ACTIONS`` says for each name which type the document must be read as and what is
then done. Documents with fields that the type does not have are refused. Actions that fit the types but not the
world (a cluster, a queue, an instance that does not exist) raise ActionError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from karpenter.errors import KarpenterError
from karpenter.sandbox.ec2.behaviour.access import Credentials, Denial
from karpenter.sandbox.ec2.behaviour.faults import Fault
from karpenter.sandbox.ec2.behaviour.throttling import Limits
from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.compute import Ec2
from karpenter.sandbox.ec2.compute.fields import ChangeError
from karpenter.sandbox.ec2.releases import release

if TYPE_CHECKING:
    from karpenter.sandbox.ec2.world import World

__all__ = ["ACTIONS", "ActionError", "Document", "Verb", "perform", "read"]


_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


class ActionError(KarpenterError):
    """An action that the world cannot take: something that it names does not exist, or a field is wrong."""


class Document(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """What an action says; fields that it does not have are refused."""


class Nothing(Document):
    """For actions that need no words."""


class Clock(Document):
    """Moves the model's time, sets it, or changes its speed; exactly one of the three."""

    advance_seconds: float | None = None
    set: datetime | None = None
    speed: float | None = None

    def __post_init__(self) -> None:
        """Refuses none and several."""
        if sum(each is not None for each in (self.advance_seconds, self.set, self.speed)) != 1:
            raise ValueError("exactly one of advanceSeconds, set, speed")


class ZonalShift(Document):
    """Moves traffic of the cluster away from a zone (name or id) for some minutes; 0 ends a shift."""

    zone: str
    minutes: float = 60.0
    cluster: str = ""


class ClusterChange(Document):
    """Changes what EKS says of a cluster."""

    cluster: str = ""
    version: str = ""
    status: str = ""
    endpoint: str = ""
    authentication_mode: str = ""


class Message(Document):
    """Puts a text into a queue, once or several times, past EventBridge."""

    body: str
    queue: str = ""
    copies: int = 1


class Event(Document):
    """Publishes an event on the bus, as the service that it names would."""

    source: str
    detail_type: str
    detail: dict[str, Any] = {}
    resources: list[str] = []
    copies: int = 1


class Enforcement(Document):
    """Puts an access key under the policies that a role has at each moment; without a role it is free again."""

    access_key: str
    role: str = ""


class SsmParameter(Document):
    """Sets a parameter, public ones included."""

    name: str
    value: str


class Release(Document):
    """Publishes machine images of now; by default named by the day, for the cluster's version and its neighbours."""

    name: str = ""
    versions: list[str] = []

    def __post_init__(self) -> None:
        """Refuses what are no names of releases and versions."""
        if self.name and not re.fullmatch(r"v\d{8}\w*", self.name):
            raise ValueError(f"name must look like v20261101: {self.name!r}")
        for version in self.versions:
            if not re.fullmatch(r"1\.\d+", version):
                raise ValueError(f"versions must look like 1.33: {version!r}")


class _Change(NamedTuple):
    """A change that EC2's own actions read."""

    change: Mapping[str, Any]


class Verb(NamedTuple):
    """How an action is read and done, and what it is for."""

    type: type[Any]
    do: Callable[[World, Any], Any]
    about: str

    @property
    def fields(self) -> tuple[str, ...]:
        """Gives the names of the document's fields; none for documents that EC2's own actions read."""
        return getattr(self.type, "__struct_encode_fields__", ())


def read(name: str, document: Any) -> Any:
    """Reads the document of an action.

    Raises:
        ActionError: There is no such action, or the document does not fit; the message names the field.
    """
    verb = ACTIONS.get(name)
    if verb is None:
        raise ActionError(f"there is no action {name!r}", hint=f"one of {', '.join(sorted(ACTIONS))}")
    try:
        if verb.type is _Change:
            return _checked_change(name, document)
        return msgspec.convert({} if document is None else document, verb.type)
    except msgspec.ValidationError as wrong:
        fields = ", ".join(verb.fields)
        raise ActionError(f"{name}: {wrong}", hint=f"{name} takes {fields or 'no fields'}") from wrong


def perform(world: World, name: str, document: Any) -> Any:
    """Reads an action and does it; gives what it has to say, as JSON can hold it.

    Raises:
        ActionError: The action does not exist, does not fit its type, or does not fit the world.
    """
    return ACTIONS[name].do(world, read(name, document)) if name in ACTIONS else read(name, document)


def _clock(world: World, wanted: Clock) -> dict[str, Any]:
    if wanted.advance_seconds is not None:
        if not wanted.advance_seconds >= 0:
            raise ActionError(f"clock: advanceSeconds must not be negative: {wanted.advance_seconds}")
        world.advance(wanted.advance_seconds)
    elif wanted.set is not None:
        world.advance_to(wanted.set)
    elif wanted.speed is not None:
        world.clock.set_speed(wanted.speed)
    return {"now": world.clock.now(), "speed": world.clock.speed}


def _zonal_shift(world: World, wanted: ZonalShift) -> dict[str, Any]:
    cluster = _cluster(world, wanted.cluster)
    zone_id = world.zones.get(wanted.zone, wanted.zone)
    if zone_id not in world.zones.values():
        raise ActionError(
            f"zonalShift: no zone {wanted.zone!r} in {world.region}",
            hint=f"one of {', '.join([*world.zones, *world.zones.values()])}",
        )
    arn, now = world.eks.by_name[cluster].arn, world.clock.now()
    for shift in world.zonal_shifts.active(arn, now):
        if shift.zone_id == zone_id or wanted.minutes:
            world.zonal_shifts.cancel(shift.id, now)
    if not wanted.minutes:
        return {"shift": None}
    shift = world.zonal_shifts.start(arn, zone_id, now, timedelta(minutes=wanted.minutes), "set by hand")
    return {"shift": shift.id, "awayFrom": zone_id, "until": shift.ends_at}


def _change_cluster(world: World, wanted: ClusterChange) -> dict[str, Any]:
    cluster = world.eks.by_name[_cluster(world, wanted.cluster)]
    cluster.version = wanted.version or cluster.version
    cluster.status = wanted.status or cluster.status
    cluster.endpoint = wanted.endpoint or cluster.endpoint
    cluster.authentication_mode = wanted.authentication_mode or cluster.authentication_mode
    return {"cluster": cluster.name, "version": cluster.version, "status": cluster.status}


def _message(world: World, wanted: Message) -> dict[str, Any]:
    name = wanted.queue or world.options.cluster
    queue = world.sqs.by_name.get(name)
    if queue is None:
        raise ActionError(f"message: no queue {name!r}", hint=f"one of {', '.join(world.sqs.by_name)}")
    sent = [queue.send(wanted.body, world.clock.now()).id for _ in range(wanted.copies)]
    return {"queue": name, "sent": len(sent)}


def _event(world: World, wanted: Event) -> dict[str, Any]:
    ids = [
        world.bus.publish(wanted.source, wanted.detail_type, wanted.detail, wanted.resources)
        for _ in range(wanted.copies)
    ]
    return {"ids": ids}


def _ssm_parameter(world: World, wanted: SsmParameter) -> dict[str, Any]:
    return {"version": world.ssm.put(wanted.name, wanted.value, world.clock.now()).version}


def _fault(world: World, fault: Fault) -> dict[str, Any]:
    world.faults.add(fault)
    return {"faults": len(world.faults.active)}


def _clear_faults(world: World, _: Nothing) -> dict[str, Any]:
    world.faults.clear()
    return {"faults": 0}


def _deny(world: World, denial: Denial) -> dict[str, Any]:
    world.access.denials.append(denial)
    return {"denials": len(world.access.denials)}


def _allow_all(world: World, _: Nothing) -> dict[str, Any]:
    world.access.denials.clear()
    return {"denials": 0}


def _enforce(world: World, wanted: Enforcement) -> dict[str, Any]:
    if wanted.role and wanted.role not in world.iam.roles:
        raise ActionError(
            f"enforce: no role {wanted.role!r}", hint=f"one of {', '.join(sorted(world.iam.roles))}"
        )
    world.guard.roles.pop(wanted.access_key, None)
    if wanted.role:
        world.guard.roles[wanted.access_key] = wanted.role
    return {"roles": world.guard.roles}


def _credentials(world: World, wanted: Credentials) -> dict[str, Any]:
    world.access.credentials = wanted
    return {"credentials": msgspec.to_builtins(wanted)}


def _throttling(world: World, limits: Limits) -> dict[str, Any]:
    world.throttle.set(limits)
    return {"throttling": msgspec.to_builtins(limits)}


def _release(world: World, wanted: Release) -> dict[str, Any]:
    return {"images": release(world, world.clock.now(), wanted.versions, wanted.name)}


def _checked_change(name: str, document: Any) -> _Change:
    change = {name: document if document is not None else {}}
    # A change is read and made in one go, and the world that it will meet does not exist yet: it is tried on an empty
    # one, where nothing is amiss but the things that it names.
    empty = Ec2(clock=ModelClock.fixed(_SOME_DAY), bus=_Deaf(), profiles=lambda _: None)
    try:
        empty.apply(change)
    except ChangeError as refused:
        if not refused.field.endswith((".instanceIds", ".id", ".zone")):
            raise ActionError(refused.message, hint=refused.hint) from refused
    return _Change(change)


def _change(world: World, wanted: _Change) -> dict[str, Any]:
    try:
        world.ec2.apply(wanted.change)
    except ChangeError as refused:
        raise ActionError(refused.message, hint=refused.hint) from refused
    world.settle()
    return {}


class _Deaf:
    """A bus that nobody listens to."""

    def publish(self, *_: object, **__: object) -> None:
        """Drops the event."""


def _cluster(world: World, name: str) -> str:
    wanted = name or world.options.cluster
    if wanted not in world.eks.by_name:
        raise ActionError(f"no cluster {wanted!r}", hint=f"one of {', '.join(world.eks.by_name)}")
    return wanted


ACTIONS: Mapping[str, Verb] = {
    "clock": Verb(Clock, _clock, "advance the model's time by seconds, set it, or change its speed"),
    "fault": Verb(Fault, _fault, "make calls fail, wait, or lose their request or reply"),
    "clearFaults": Verb(Nothing, _clear_faults, "take all faults back"),
    "deny": Verb(Denial, _deny, "take a permission away"),
    "allowAll": Verb(Nothing, _allow_all, "give all permissions back"),
    "enforce": Verb(Enforcement, _enforce, "weigh the calls of an access key by a role's policies"),
    "credentials": Verb(Credentials, _credentials, "say which access keys are good"),
    "throttling": Verb(Limits, _throttling, "change EC2's request buckets, or switch them off"),
    "zonalShift": Verb(ZonalShift, _zonal_shift, "move traffic away from a zone, or back"),
    "cluster": Verb(ClusterChange, _change_cluster, "change what EKS says of the cluster"),
    "message": Verb(Message, _message, "put a text into a queue"),
    "event": Verb(Event, _event, "publish an event on the bus"),
    "ssmParameter": Verb(SsmParameter, _ssm_parameter, "set a parameter, public ones included"),
    "release": Verb(Release, _release, "publish new machine images and point the parameters at them"),
    "clear": Verb(
        _Change, _change, "forget rules: capacity, errors, quotas, kmsKeys, failures, prices, settings"
    ),
    "settings": Verb(_Change, _change, "EC2's dials: delays, lags, tokens"),
    "capacity": Verb(_Change, _change, "how many instances pools hold"),
    "errors": Verb(_Change, _change, "errors that launches from pools meet"),
    "quotas": Verb(_Change, _change, "vCPUs that the account may run"),
    "subnets": Verb(_Change, _change, "addresses left in subnets"),
    "kmsKeys": Verb(_Change, _change, "keys that do not work"),
    "failures": Verb(_Change, _change, "what goes wrong after launches"),
    "prices": Verb(_Change, _change, "set or multiply prices"),
    "images": Verb(_Change, _change, "register an image, or deprecate one"),
    "reservations": Verb(_Change, _change, "make capacity reservations"),
    "interrupt": Verb(_Change, _change, "warn spot instances and end them"),
    "interruptReserved": Verb(_Change, _change, "warn instances in reservations and end them"),
    "rebalance": Verb(_Change, _change, "recommend to rebalance spot instances"),
    "scheduleEvent": Verb(_Change, _change, "announce maintenance of instances"),
    "impair": Verb(_Change, _change, "fail status checks of instances"),
    "terminate": Verb(_Change, _change, "end instances as AWS does by itself"),
}
