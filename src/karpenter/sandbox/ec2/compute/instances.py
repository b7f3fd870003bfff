# SPDX-License-Identifier: Apache-2.0
"""The life of an instance: made from a plan, pending, running, shutting down, terminated, forgotten.

Truth and sight are kept apart. The truth changes at once, publishes EventBridge's state-change event and tells the
watchers; what lists see follows after the lags in the settings, in the same order. Capacity is given back when an
instance begins to shut down, addresses when it is terminated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.sandbox.ec2.compute.addresses import (
    free_addresses,
    gets_public_address,
    host_names,
    ipv6_of,
    public_address,
    take_addresses,
)
from karpenter.sandbox.ec2.compute.capacity import Pool, refusal
from karpenter.sandbox.ec2.compute.launching import Plan, address_count
from karpenter.sandbox.ec2.compute.listing import spec_tags
from karpenter.sandbox.ec2.compute.placement import choose_partition, refuse_if_full
from karpenter.sandbox.ec2.compute.records import (
    CapacityReservation,
    Disk,
    Instance,
    Interface,
    Seen,
    SpotRequest,
    StateReason,
)
from karpenter.sandbox.ec2.compute.reservations import enter, find_room
from karpenter.sandbox.ec2.compute.seam import Params
from karpenter.sandbox.ec2.compute.store import Change, Store
from karpenter.sandbox.ec2.compute.userdata import panic_after

__all__ = [
    "NODE_CLASS_TAG",
    "USER_SHUTDOWN",
    "Order",
    "begin",
    "create",
    "publish_tags",
    "stop",
    "terminate",
    "undo",
    "visible",
]

_NONE: Final = (0.0, 0.0)
NODE_CLASS_TAG: Final = "karpenter.k8s.aws/ec2nodeclass"
USER_SHUTDOWN: Final = StateReason(
    "Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"
)
_STATUS_CHECKS_EVERY: Final = timedelta(minutes=1)
_BLOCK_LEAD: Final = timedelta(minutes=30)
"""How long before the end of a capacity block EC2 ends its instances."""
_BLOCK_END: Final = StateReason(
    "Server.CapacityBlockEnded", "Server.CapacityBlockEnded: The capacity block is about to end"
)
_KEY_REASONS: Final[Mapping[str, StateReason]] = {
    "disabled": StateReason(
        "Client.InvalidKMSKey.InvalidState", "Client.InvalidKMSKey.InvalidState: The KMS key is disabled"
    ),
    "denied": StateReason("Client.InternalError", "Client.InternalError: Client error on launch"),
    "missing": StateReason(
        "Client.InvalidKMSKey.NotFound", "Client.InvalidKMSKey.NotFound: The KMS key does not exist"
    ),
}


@dataclass(frozen=True, slots=True)
class Order:
    """What an instance has from the call that made it rather than from its plan."""

    reservation_id: str
    tag_specifications: tuple[Params, ...] = ()
    client_token: str = ""
    fleet_id: str = ""
    template: Mapping[str, str] | None = None


def create(ec2: Store, plan: Plan, order: Order, at: datetime, launch_index: int = 0) -> Instance:
    """Makes an instance and takes its place, addresses and tags; nobody is told yet.

    Raises:
        ModelError: There is no room: capacity, quota, reservation, placement group, addresses, or no role for spot.
    """
    pool = plan.pool
    if pool.capacity_type == "spot" and not ec2.settings.spot_service_linked_role:
        raise refusal("AuthFailure.ServiceLinkedRoleCreationNotPermitted", pool)
    if plan.placement_group:
        refuse_if_full(ec2, plan.placement_group, pool.zone)
    room = _room(ec2, plan, at)
    if plan.subnet.free_addresses < plan.addresses:
        take_addresses(plan.subnet, plan.addresses)
    partition = 0
    if plan.placement_group:
        asked = (plan.data.get("Placement") or {}).get("PartitionNumber")
        partition = choose_partition(ec2, plan.placement_group, asked)
    instance = _record(ec2, plan, order, at, launch_index)
    attached = _attached_tags(plan, order)
    ec2.capacity.take(pool, plan.facts.vcpus, at, reserved=room is not None)
    instance.lifecycle = "spot" if pool.capacity_type == "spot" else ""
    if room:
        enter(room, instance)
    if plan.placement_group:
        instance.placement_group_id = plan.placement_group.id
        instance.partition = partition
        plan.placement_group.members.add(instance.id)
    _attach(ec2, instance, plan, attached, at)
    return ec2.add(instance)


def begin(ec2: Store, instance: Instance, at: datetime) -> None:
    """Lets a made instance live: announces it and sets in motion what becomes of it."""
    _announce(ec2, instance, at)
    if ec2.settings.launch_lag_s == _NONE:
        _show(ec2, instance)
    else:
        ec2.timers.at(
            at + ec2.drawn(ec2.settings.launch_lag_s, "launch", instance.id),
            f"{instance.id} becomes visible",
            lambda _: _show(ec2, instance),
        )
    _plan_trouble(ec2, instance, at)
    _plan_block_end(ec2, instance)
    running = at + ec2.drawn(ec2.settings.pending_s, "pending", instance.id)
    ec2.timers.at(running, f"{instance.id} runs", lambda due: _run(ec2, instance, due))


def _plan_block_end(ec2: Store, instance: Instance) -> None:
    """Sees to it that an instance leaves its capacity block in time, even if the block's end is moved."""
    block = ec2.reservations.get(instance.capacity_reservation_id)
    if block is None or block.reservation_type != "capacity-block" or block.ends is None:
        return

    def end(due: datetime) -> None:
        if block.ends and block.ends - _BLOCK_LEAD > due:
            _plan_block_end(ec2, instance)
        else:
            terminate(ec2, instance, due, _BLOCK_END, f"Server initiated ({due:%Y-%m-%d %H:%M:%S} GMT)")

    ec2.timers.at(block.ends - _BLOCK_LEAD, f"{instance.id} leaves its capacity block", end)


def _plan_trouble(ec2: Store, instance: Instance, at: datetime) -> None:
    """Sets in motion what is to go wrong with a new instance, if anything."""
    key_reason = _key_reason(ec2, instance)
    pool = Pool(instance.instance_type, instance.zone, instance.capacity_type)
    failure = ec2.capacity.failure_for(pool, instance.tags.get(NODE_CLASS_TAG, ""))
    if key_reason or (failure and failure.kind == "dies"):
        reason = key_reason or StateReason(
            (failure.code if failure else "") or "Client.InternalError",
            (failure.message if failure else "") or "Client.InternalError: Client error on launch",
        )
        after = timedelta(seconds=failure.after_s if failure and not key_reason else 1.0)
        ec2.timers.at(at + after, f"{instance.id} dies", lambda due: _end(ec2, instance, due, reason))
    elif failure and failure.kind in {"never-joins", "joins-not-ready"}:
        instance.boot = failure.kind
    elif failure:
        ec2.timers.at(
            at + timedelta(seconds=failure.after_s),
            f"{instance.id} becomes {failure.kind}",
            lambda due: impair(instance, due, system=failure.kind == "system-impaired"),
        )


def undo(ec2: Store, instance: Instance) -> None:
    """Takes back a made instance that was not begun."""
    _leave(ec2, instance)
    _detach(ec2, instance)
    ec2.drop(instance)
    ec2.spot_requests.pop(instance.spot_request_id, None)
    ec2.records.pop(instance.spot_request_id, None)


def terminate(
    ec2: Store, instance: Instance, at: datetime, reason: StateReason, transition: str = ""
) -> None:
    """Ends an instance; one that is ending or gone already is left alone."""
    if not instance.alive:
        return
    instance.reason = reason
    instance.transition = transition or f"User initiated ({at:%Y-%m-%d %H:%M:%S} GMT)"
    _leave(ec2, instance)
    _set_state(ec2, instance, "shutting-down", at)
    gone = at + ec2.drawn(ec2.settings.shutting_down_s, "down", instance.id)
    ec2.timers.at(gone, f"{instance.id} is terminated", lambda due: _end(ec2, instance, due, None))


def stop(ec2: Store, instance: Instance, at: datetime, reason: StateReason) -> None:
    """Stop a running instance: its place and its public address are given back, all else stays.

    An instance in another state is left alone.
    """
    if instance.state != "running":
        return
    instance.reason = reason
    instance.transition = f"User initiated ({at:%Y-%m-%d %H:%M:%S} GMT)"
    _release(ec2, instance)
    instance.capacity_reservation_id = ""
    for interface in instance.interfaces:
        interface.public_address = ""
    instance.lasting_xml = ""
    _set_state(ec2, instance, "stopping", at)
    stopped = at + ec2.drawn(ec2.settings.shutting_down_s, "stop", instance.id)
    ec2.timers.at(stopped, f"{instance.id} is stopped", lambda due: _stopped(ec2, instance, due))


def _stopped(ec2: Store, instance: Instance, at: datetime) -> None:
    if instance.state == "stopping":
        _set_state(ec2, instance, "stopped", at)


def impair(instance: Instance, at: datetime, *, system: bool) -> None:
    """Fails the status check of an instance, or of the host under it, from that moment on."""
    if system:
        instance.system_impaired_since = instance.system_impaired_since or at
    else:
        instance.instance_impaired_since = instance.instance_impaired_since or at


def visible(instance: Instance) -> bool:
    """Says whether calls that name the instance find it."""
    return instance.seen is not None


def publish_tags(ec2: Store, instance: Instance, at: datetime) -> None:
    """Lets lists see the instance's tags as they are now, after the tag lag."""
    tags = dict(instance.tags)
    if ec2.settings.tag_lag_s == _NONE:
        _show_tags(ec2, instance, tags)
        return
    due = at + ec2.drawn(ec2.settings.tag_lag_s, "tags", instance.id)
    ec2.timers.at(due, f"tags of {instance.id} become visible", lambda _: _show_tags(ec2, instance, tags))


def _room(ec2: Store, plan: Plan, at: datetime) -> CapacityReservation | None:
    if plan.pool.capacity_type == "spot":
        return None
    specification = dict(plan.data.get("CapacityReservationSpecification") or {})
    if plan.pool.capacity_type != "on-demand":
        specification.setdefault("CapacityReservationPreference", "capacity-reservations-only")
    return find_room(ec2, plan.pool.instance_type, plan.pool.zone, specification, at)


def _record(ec2: Store, plan: Plan, order: Order, at: datetime, launch_index: int) -> Instance:
    tags = spec_tags(plan.data.get("TagSpecifications"), "instance")
    tags |= spec_tags(order.tag_specifications, "instance")
    if order.template:
        tags |= {
            "aws:ec2launchtemplate:id": order.template["LaunchTemplateId"],
            "aws:ec2launchtemplate:version": order.template["Version"],
        }
    if order.fleet_id:
        tags["aws:ec2:fleet-id"] = order.fleet_id
    return Instance(
        ec2.ids.next("i"),
        ec2.next_seq(),
        tags,
        order.reservation_id,
        plan.facts.name,
        plan.facts.vcpus,
        plan.image.id,
        plan.image.architecture,
        plan.pool.capacity_type,
        plan.pool.zone,
        plan.subnet.zone_id,
        plan.subnet.id,
        plan.subnet.vpc_id,
        at,
        plan.data,
        launch_index=launch_index,
        groups=plan.groups,
        profile_arn=plan.profile.arn if plan.profile else "",
        profile_id=plan.profile.id if plan.profile else "",
        client_token=order.client_token,
        fleet_id=order.fleet_id,
        platform=plan.image.platform,
        root_device=plan.image.root_device,
        hypervisor="xen",
        host_names=host_names(plan.subnet, plan.data.get("PrivateDnsNameOptions") or {}),
    )


def _attached_tags(plan: Plan, order: Order) -> dict[str, dict[str, str]]:
    specifications = (*(plan.data.get("TagSpecifications") or ()), *order.tag_specifications)
    kinds = ("volume", "network-interface", "spot-instances-request")
    return {kind: spec_tags(specifications, kind) for kind in kinds}


def _attach(
    ec2: Store, instance: Instance, plan: Plan, tags: Mapping[str, dict[str, str]], at: datetime
) -> None:
    for spec in plan.disks:
        disk = Disk(
            ec2.ids.next("vol"),
            ec2.next_seq(),
            dict(tags["volume"]),
            instance.id,
            spec["DeviceName"],
            spec["Ebs"],
            instance.zone,
            at,
        )
        instance.disks.append(ec2.add(disk))
    for interface_spec in plan.interfaces:
        offsets = take_addresses(plan.subnet, address_count(interface_spec))
        address = str(plan.subnet.network[offsets[0]]) if offsets else ""
        seq = ec2.next_seq()
        addresses, prefixes = ipv6_of(plan.subnet, interface_spec, seq)
        interface = Interface(
            ec2.ids.next("eni"),
            seq,
            dict(tags["network-interface"]),
            instance.id,
            plan.subnet.id,
            plan.subnet.vpc_id,
            instance.zone,
            address,
            tuple(interface_spec.get("Groups") or plan.groups),
            interface_spec,
            offsets,
            public_address(seq)
            if gets_public_address(plan.subnet, interface_spec, len(plan.interfaces))
            else "",
            addresses,
            prefixes,
        )
        instance.interfaces.append(ec2.add(interface))
    if instance.capacity_type == "spot":
        request_tags = dict(tags["spot-instances-request"])
        request = SpotRequest(ec2.ids.next("sir"), ec2.next_seq(), request_tags, instance.id, at)
        instance.spot_request_id = ec2.add(request).id


def _detach(ec2: Store, instance: Instance) -> None:
    for interface in instance.interfaces:
        subnet = ec2.subnets.get(interface.subnet_id)
        if subnet:
            free_addresses(subnet, interface.offsets)
        ec2.drop(interface)
    for disk in instance.disks:
        if disk.spec.get("DeleteOnTermination", True):
            ec2.drop(disk)


def _release(ec2: Store, instance: Instance) -> None:
    """Give back the place in the pool or the reservation."""
    pool = Pool(instance.instance_type, instance.zone, instance.capacity_type)
    ec2.capacity.count(pool, instance.vcpus, -1, reserved=bool(instance.capacity_reservation_id))
    if instance.capacity_reservation_id in ec2.reservations:
        ec2.reservations[instance.capacity_reservation_id].used_by.discard(instance.id)


def _leave(ec2: Store, instance: Instance) -> None:
    """Give back the places that an instance still has, for good."""
    if instance.holds_capacity:
        _release(ec2, instance)
    if instance.placement_group_id in ec2.placement_groups:
        ec2.placement_groups[instance.placement_group_id].members.discard(instance.id)


def _key_reason(ec2: Store, instance: Instance) -> StateReason | None:
    for disk in instance.disks:
        if disk.spec.get("Encrypted") and (state := ec2.capacity.key_state(disk.spec.get("KmsKeyId") or "")):
            return _KEY_REASONS[state]
    return None


def _run(ec2: Store, instance: Instance, at: datetime) -> None:
    if instance.state != "pending":
        return
    _set_state(ec2, instance, "running", at)
    pause = panic_after(instance.data)
    if pause is not None:
        ec2.timers.at(at + pause, f"{instance.id} panics", lambda due: _panic(ec2, instance, due))


def _panic(ec2: Store, instance: Instance, at: datetime) -> None:
    """Let a machine hang: nothing in it answers any more, and the next status check fails."""
    if instance.state == "running":
        instance.boot = "silent"
        checked = at + _STATUS_CHECKS_EVERY
        ec2.timers.at(
            checked, f"{instance.id} fails its status check", lambda due: impair(instance, due, system=False)
        )


def _end(ec2: Store, instance: Instance, at: datetime, reason: StateReason | None) -> None:
    if instance.state == "terminated":
        return
    if instance.alive:
        _leave(ec2, instance)
    if reason:
        instance.reason = reason
        instance.transition = f"{reason.code.partition('.')[0]} initiated ({at:%Y-%m-%d %H:%M:%S} GMT)"
    _detach(ec2, instance)
    _set_state(ec2, instance, "terminated", at)
    forgotten = at + timedelta(seconds=ec2.settings.terminated_kept_s)
    ec2.timers.at(forgotten, f"{instance.id} is forgotten", lambda due: _forget(ec2, instance, due))


def _forget(ec2: Store, instance: Instance, at: datetime) -> None:
    _hide(ec2, instance)
    instance.seen = None
    ec2.drop(instance)
    if instance.spot_request_id in ec2.spot_requests:
        ec2.drop(ec2.spot_requests[instance.spot_request_id])
    ec2.tell(Change(instance, "forgotten", at))


def _set_state(ec2: Store, instance: Instance, state: str, at: datetime) -> None:
    instance.state = state
    _announce(ec2, instance, at)
    reason, transition = instance.reason, instance.transition
    if ec2.settings.state_lag_s == _NONE:
        _show_state(ec2, instance, state, reason, transition)
        return
    due = at + ec2.drawn(ec2.settings.state_lag_s, "state", instance.id)
    ec2.timers.at(
        due,
        f"lists see {instance.id} {state}",
        lambda _: _show_state(ec2, instance, state, reason, transition),
    )


def _announce(ec2: Store, instance: Instance, at: datetime) -> None:
    instance.changed = at
    ec2.bus.publish(
        "aws.ec2",
        "EC2 Instance State-change Notification",
        {"instance-id": instance.id, "state": instance.state},
        [ec2.account.arn(f"instance/{instance.id}")],
        at,
    )
    ec2.tell(Change(instance, "state", at))


def _show(ec2: Store, instance: Instance) -> None:
    if instance.seen is None and instance.id in ec2.instances:
        instance.seen = Seen(instance.state, instance.reason, instance.transition, dict(instance.tags))
        ec2.seen_by_state[instance.state][instance.id] = instance
        _index_tags(ec2, instance, instance.tags)


def _show_state(
    ec2: Store, instance: Instance, state: str, reason: StateReason | None, transition: str
) -> None:
    seen = instance.seen
    if seen is None:
        return
    ec2.seen_by_state[seen.state].pop(instance.id, None)
    ec2.seen_by_state[state][instance.id] = instance
    seen.state, seen.reason, seen.transition, seen.item = state, reason, transition, None


def _show_tags(ec2: Store, instance: Instance, tags: Mapping[str, str]) -> None:
    seen = instance.seen
    if seen is None:
        return
    _unindex_tags(ec2, instance, seen.tags)
    _index_tags(ec2, instance, tags)
    seen.tags, seen.item = tags, None


def _hide(ec2: Store, instance: Instance) -> None:
    if instance.seen:
        ec2.seen_by_state[instance.seen.state].pop(instance.id, None)
        _unindex_tags(ec2, instance, instance.seen.tags)


def _index_tags(ec2: Store, instance: Instance, tags: Mapping[str, Any]) -> None:
    for key, value in tags.items():
        ec2.seen_by_tag[key][value][instance.id] = instance


def _unindex_tags(ec2: Store, instance: Instance, tags: Mapping[str, Any]) -> None:
    for key, value in tags.items():
        values = ec2.seen_by_tag[key]
        values[value].pop(instance.id, None)
        if not values[value]:
            del values[value]
