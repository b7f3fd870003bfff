# SPDX-License-Identifier: Apache-2.0
"""The instances of one cluster: found, looked up in batches, terminated, tagged.

EC2 lists lag: a new instance may be unknown for a while to every call, and a dead one may still look alive. So
absence is proof only for an instance that was not launched a moment ago: what this process has just launched is given
as it was launched until EC2 knows it. What was read is kept for a few seconds, no longer, so that a machine that died
behind our back is noticed soon.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from karpenter.api import labels
from karpenter.api.base import EMPTY
from karpenter.cloud.aws.api import Aws, AwsError
from karpenter.cloud.aws.batching import Batcher, OnBatch
from karpenter.cloud.aws.codes import is_not_found
from karpenter.cloud.aws.fleet import CLAIM_UID_TAG, LAUNCH_TAG, Launched
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock

__all__ = [
    "LAG_S",
    "Instance",
    "Instances",
    "ProviderIdError",
    "format_provider_id",
    "launched_instance",
    "parse_provider_id",
    "read_instance",
]

# For how long after its launch an instance may be unknown to EC2's lists. Usually seconds; a minute is a wide margin.
LAG_S: Final = 60.0

_CACHED_S: Final = 5.0
_FOUND_STATES: Final = ("pending", "running", "shutting-down", "stopping", "stopped")
_PROVIDER_ID: Final = re.compile(r"aws:///(?P<zone>[^/]+)/(?P<id>[^/]+)")
# EC2 takes at most 200 values in a filter.
_MAX_FILTER_VALUES: Final = 200
_MAX_TERMINATED_AT_ONCE: Final = 500


class ProviderIdError(NodeClaimNotFoundError):
    """A provider id that does not name an EC2 instance, so there is none."""

    def __init__(self, provider_id: str) -> None:
        hint = f'"{provider_id}" names no EC2 instance; ids look like aws:///us-west-2a/i-0123456789abcdef0'
        super().__init__(provider_id, hint=hint, has_ended=True)


def format_provider_id(zone: str, instance_id: str) -> str:
    """Return the provider id of an instance, as its node will have it."""
    return f"aws:///{zone}/{instance_id}"


def parse_provider_id(provider_id: str) -> str:
    """Return the instance id in a provider id.

    Raises:
        ProviderIdError: It is not one of EC2.
    """
    match = _PROVIDER_ID.fullmatch(provider_id)
    if match is None:
        raise ProviderIdError(provider_id)
    return match["id"]


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance as EC2 describes it; ``state_reason`` is what EC2 says of its death, code first."""

    id: str
    instance_type: str
    zone: str
    state: str
    capacity_type: str = labels.ON_DEMAND
    zone_id: str = ""
    image_id: str = ""
    subnet_id: str = ""
    security_group_ids: frozenset[str] = frozenset()
    reservation_id: str = ""
    placement_group_id: str = ""
    partition: str = ""
    tenancy: str = "default"
    instance_profile: str = ""
    private_dns_name: str = ""
    addresses: frozenset[str] = frozenset()
    state_reason: str = ""
    launched_at: datetime | None = None
    tags: Mapping[str, str] = field(default=EMPTY)

    @property
    def provider_id(self) -> str:
        """The instance as nodes name it."""
        return format_provider_id(self.zone, self.id)

    @property
    def is_living(self) -> bool:
        """Whether it may still become or be a node."""
        return self.state in {"pending", "running"}


def read_instance(described: Mapping[str, Any]) -> Instance:
    """Return an instance from an item of DescribeInstances."""
    placement = described.get("Placement", {})
    reason = described.get("StateReason", {})
    profile = described.get("IamInstanceProfile", {}).get("Arn", "")
    partition = placement.get("PartitionNumber")
    return Instance(
        id=described["InstanceId"],
        instance_type=described.get("InstanceType", ""),
        zone=placement.get("AvailabilityZone", ""),
        zone_id=placement.get("AvailabilityZoneId", ""),
        state=described.get("State", {}).get("Name", "pending"),
        capacity_type=_capacity_type(described),
        image_id=described.get("ImageId", ""),
        subnet_id=described.get("SubnetId", ""),
        security_group_ids=frozenset(group["GroupId"] for group in described.get("SecurityGroups", ())),
        reservation_id=described.get("CapacityReservationId", ""),
        placement_group_id=placement.get("GroupId", ""),
        partition=str(partition) if partition else "",
        tenancy=placement.get("Tenancy") or "default",
        instance_profile=profile.rpartition("/")[2],
        private_dns_name=described.get("PrivateDnsName", ""),
        addresses=frozenset(_addresses(described)),
        state_reason=": ".join(filter(None, (reason.get("Code", ""), reason.get("Message", "")))),
        launched_at=described.get("LaunchTime"),
        tags={tag["Key"]: tag["Value"] for tag in described.get("Tags", ())},
    )


def _addresses(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield the private addresses of an instance, of all its interfaces."""
    yield from filter(None, (described.get("PrivateIpAddress"), described.get("Ipv6Address")))
    for interface in described.get("NetworkInterfaces", ()):
        yield from (each["PrivateIpAddress"] for each in interface.get("PrivateIpAddresses", ()))
        yield from (each["Ipv6Address"] for each in interface.get("Ipv6Addresses", ()))


def launched_instance(launched: Launched, tags: Mapping[str, str]) -> Instance:
    """Return an instance that was just launched as EC2 will first show it."""
    return Instance(
        id=launched.instance_id,
        instance_type=launched.instance_type,
        zone=launched.zone,
        state="pending",
        capacity_type=launched.capacity_type,
        image_id=launched.image_id,
        subnet_id=launched.subnet_id,
        reservation_id=launched.reservation_id,
        tenancy=launched.tenancy,
        partition=launched.partition,
        tags=tags,
    )


def _capacity_type(described: Mapping[str, Any]) -> str:
    if described.get("SpotInstanceRequestId") or described.get("InstanceLifecycle") == "spot":
        return labels.SPOT
    asked = described.get("CapacityReservationSpecification", {}).get("CapacityReservationPreference", "")
    # An instance may slip into an open reservation by chance; only one that was sent there is reserved.
    if described.get("CapacityReservationId") and asked == "capacity-reservations-only":
        return labels.RESERVED
    if described.get("InstanceLifecycle") in {"capacity-block", "interruptible-capacity-reservation"}:
        return labels.RESERVED
    return labels.ON_DEMAND


class Instances:
    """Finds and ends the instances of one cluster."""

    def __init__(
        self,
        aws: Aws,
        clock: Clock,
        *,
        cluster_name: str,
        on_batch: OnBatch = lambda _name, _size, _seconds: None,
    ) -> None:
        """Makes no call yet.

        Args:
            aws: Where instances are asked for.
            clock: Counts ages and windows.
            cluster_name: Whose instances count.
            on_batch: Is told name and size of each batch, and for how long it was gathered.
        """
        self._aws = aws
        self._cluster_name = cluster_name
        self._known: TTLCache[str, Instance] = TTLCache(clock, ttl_s=_CACHED_S, max_size=20_000)
        self._fresh: TTLCache[str, Instance] = TTLCache(clock, ttl_s=LAG_S, max_size=20_000)
        self._describing: Batcher[str, Instance] = Batcher(
            clock,
            self._describe,
            idle_s=0.1,
            max_s=1.0,
            max_items=_MAX_FILTER_VALUES,
            on_batch=partial(on_batch, "describe_instances"),
        )
        self._searching: Batcher[str, tuple[Instance, ...]] = Batcher(
            clock,
            self._search,
            idle_s=0.035,
            max_s=1.0,
            max_items=_MAX_FILTER_VALUES,
            on_batch=partial(on_batch, "find_claims"),
        )
        self._terminating: Batcher[str, bool | AwsError] = Batcher(
            clock,
            self._terminate,
            idle_s=0.1,
            max_s=1.0,
            max_items=_MAX_TERMINATED_AT_ONCE,
            on_batch=partial(on_batch, "terminate_instances"),
        )

    def note(self, instance: Instance) -> None:
        """Remember an instance that was just launched, until EC2's lists are sure to have it."""
        self._fresh.set(instance.id, instance)

    def is_fresh(self, instance_id: str) -> bool:
        """Return whether this process launched it so lately that EC2 may not know it yet."""
        return instance_id in self._fresh

    async def get(self, instance_id: str, *, cached: bool = True) -> Instance | None:
        """Return an instance in whatever state, terminated included; None if EC2 does not know it.

        Raises:
            AwsError: EC2 refuses.
            AwsUnreachableError: There was no answer.
        """
        known = self._known.get(instance_id) if cached else None
        if known is not None:
            return known
        found = await self._describing.ask(instance_id)
        if found is None:
            return self._fresh.get(instance_id)
        self._known.set(instance_id, found)
        return found

    async def list(self) -> tuple[Instance, ...]:
        """Return every instance of the cluster that is not terminated, by id."""
        filters = [
            *self._ours(),
            {"Name": "tag-key", "Values": [labels.NODEPOOL_TAG]},
            {"Name": "tag-key", "Values": [labels.EC2NODECLASS_TAG]},
            {"Name": "instance-state-name", "Values": list(_FOUND_STATES)},
        ]
        found = {each.id: each async for each in self._pages(filters)}
        for instance_id, fresh in self._fresh.items():
            found.setdefault(instance_id, fresh)
        return tuple(found[each] for each in sorted(found))

    async def of_claim(self, claim_uid: str) -> tuple[Instance, ...]:
        """Return the living instances that were launched for a claim, the oldest first."""
        return await self._searching.ask(claim_uid) or ()

    async def of_launch(self, token: str) -> tuple[Instance, ...]:
        """Return the living instances that one launch brought, by id."""
        filters = [*self._ours(), {"Name": f"tag:{LAUNCH_TAG}", "Values": [token]}]
        found = [each async for each in self._pages(filters) if each.is_living]
        return tuple(sorted(found, key=lambda each: each.id))

    async def terminate(self, instance_id: str) -> bool:
        """Order an instance to be terminated, and return whether EC2 knows it.

        Raises:
            AwsError: EC2 refuses.
            AwsUnreachableError: There was no answer.
        """
        known = await self._terminating.ask(instance_id)
        if isinstance(known, AwsError):
            raise known
        self._known.delete(instance_id)
        if known:
            # It may be listed as alive for a moment, but nobody should hear so from us.
            self._fresh.delete(instance_id)
        return bool(known)

    async def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Write tags to an instance.

        Raises:
            AwsError: EC2 refuses, or does not know the instance.
            AwsUnreachableError: There was no answer.
        """
        pairs = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
        await self._aws.call("ec2", "CreateTags", Resources=[instance_id], Tags=pairs)
        known = self._known.get(instance_id)
        if known is not None:
            self._known.set(instance_id, replace(known, tags={**known.tags, **tags}))

    async def close(self) -> None:
        """Give up on what has not been answered."""
        for batcher in (self._describing, self._searching, self._terminating):
            await batcher.close()

    def _ours(self) -> tuple[dict[str, Any], ...]:
        return ({"Name": f"tag:{labels.EKS_CLUSTER_NAME_TAG}", "Values": [self._cluster_name]},)

    async def _pages(self, filters: Iterable[Mapping[str, Any]]) -> Any:
        pages = self._aws.pages("ec2", "DescribeInstances", Filters=list(filters), MaxResults=1000)
        async for page in pages:
            for reservation in page.get("Reservations", ()):
                for described in reservation.get("Instances", ()):
                    yield read_instance(described)

    async def _describe(self, ids: tuple[str, ...]) -> Mapping[str, Instance]:
        # By filter, not by InstanceIds: an id that EC2 does not know would fail the whole batch.
        return {each.id: each async for each in self._pages([{"Name": "instance-id", "Values": list(ids)}])}

    async def _search(self, claim_uids: tuple[str, ...]) -> Mapping[str, tuple[Instance, ...]]:
        filters = [
            {"Name": f"tag:{CLAIM_UID_TAG}", "Values": list(claim_uids)},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        found: dict[str, list[Instance]] = {}
        async for each in self._pages(filters):
            found.setdefault(each.tags[CLAIM_UID_TAG], []).append(each)
        return {uid: tuple(sorted(each, key=_age)) for uid, each in found.items()}

    async def _terminate(self, ids: tuple[str, ...]) -> Mapping[str, bool | AwsError]:
        try:
            await self._aws.call("ec2", "TerminateInstances", InstanceIds=list(ids))
        except AwsError as error:
            if not error.is_refusal:
                raise
            if len(ids) == 1:
                return {} if is_not_found(error.code) else {ids[0]: error}
            # One that is unknown or may not be ended fails all of them; halves find it in few calls.
            middle = len(ids) // 2
            return {**await self._terminate(ids[:middle]), **await self._terminate(ids[middle:])}
        return dict.fromkeys(ids, True)


def _age(instance: Instance) -> tuple[str, str]:
    return instance.launched_at.isoformat() if instance.launched_at else "", instance.id
