# SPDX-License-Identifier: Apache-2.0
"""Changes of the EC2 model as data: what a scenario file or an administrator may set while it runs.

One change is a mapping of sections; every section is optional, and nothing is changed if any part of it cannot be
read. Pools are named by ``instanceType``, ``zone`` and ``capacityType`` (on-demand, spot, reserved, capacity-block),
each a pattern such as ``m5.*`` or ``*``; of several rules that cover a pool the last one set wins.

.. code-block:: yaml

    clear: [errors, capacity]            # forget rules of these sections first
    settings:                            # dials; seconds of model time, lags as number or [least, most]
      pendingSeconds: 5
      launchLagSeconds: [0, 60]          # a new instance is NotFound for that long
      stateLagSeconds: 10                # lists show the state before a change for that long
      tagLagSeconds: 3
      tokenReplay: same                  # same | refuse-dead | launch-anew
    capacity:                            # room of pools; count null means endless
      - {instanceType: "m5.*", zone: us-west-2a, capacityType: spot, count: 3}
    errors:                              # launches from these pools fail
      - {code: InsufficientInstanceCapacity, instanceType: m5.large, zone: us-west-2a, forSeconds: 180}
      - {code: UnauthorizedOperation, capacityType: spot, times: 2}
    quotas:                              # vCPUs the account may run; family standard, g, p, ..., or *
      - {capacityType: on-demand, family: standard, vcpus: 64}
    subnets:                             # addresses left in a subnet, by id or by zone
      - {zone: us-west-2b, freeAddresses: 0}
    kmsKeys:                             # keys that do not work: disabled, denied, missing (usable again)
      - {key: "arn:aws:kms:*:key/dead", state: disabled}
    failures:                            # what goes wrong after the launch
      - {kind: dies, nodeClass: default, code: Client.InvalidKMSKey.InvalidState, afterSeconds: 2, times: 1}
      - {kind: never-joins, instanceType: "c5.*"}      # also joins-not-ready, impaired, system-impaired
    prices:                              # set or multiply; on-demand rules take effect in every zone
      - {instanceType: m5.large, zone: us-west-2a, capacityType: spot, price: 0.5, forSeconds: 3600}
      - {instanceType: "*", capacityType: spot, factor: 3}
    images:                              # register an image, or deprecate one
      - {name: my-ami, architecture: arm64, owner: amazon, tags: {team: a}}
      - {id: ami-0123, deprecatedAt: "2026-01-01T00:00:00Z"}
    reservations:                        # make reservations that no public call makes
      - {instanceType: p5.48xlarge, zone: us-west-2a, count: 2, type: capacity-block, endsInSeconds: 7200}
    interrupt: {capacityType: spot, count: 10}         # spot warning, end after warningSeconds (120)
    rebalance: {instanceIds: [i-0abc]}
    interruptReserved: {tags: {team: a}}
    scheduleEvent: {instanceIds: [i-0abc], code: instance-retirement, startsInSeconds: 3600}
    impair: {zone: us-west-2a, count: 1, system: true}
    terminate: {instanceIds: [i-0abc], code: Server.InternalError}

``interrupt`` and those after it choose instances by ``instanceIds``, ``instanceType``, ``zone``, ``capacityType``,
``tags`` and at most ``count``, oldest first; an empty mapping chooses all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.sandbox.ec2.compute.capacity import (
    QUOTA_FAMILIES,
    Failure,
    KeyRule,
    Pool,
    PoolRule,
    Quota,
    ScriptedError,
)
from karpenter.sandbox.ec2.compute.fields import ChangeError, Fields, camel
from karpenter.sandbox.ec2.compute.images import add_image
from karpenter.sandbox.ec2.compute.interruptions import (
    EVENT_CODES,
    impair_instances,
    interrupt_reserved,
    interrupt_spot,
    kill,
    recommend_rebalance,
    schedule_event,
)
from karpenter.sandbox.ec2.compute.prices import PriceRule
from karpenter.sandbox.ec2.compute.records import CapacityReservation, Instance
from karpenter.sandbox.ec2.compute.reservations import plan_expiry
from karpenter.sandbox.ec2.compute.settings import REPLAYS, Settings
from karpenter.sandbox.ec2.compute.store import Store

__all__ = ["apply_change"]

Deed = Callable[[], None]
_FAILURES: Final = ("dies", "never-joins", "joins-not-ready", "impaired", "system-impaired")


def apply_change(ec2: Store, change: Mapping[str, Any]) -> None:
    """Makes a change, all of it or nothing.

    Raises:
        ChangeError: A field is unknown, missing or of the wrong kind; it names the field.
    """
    fields = Fields(change, "")
    deeds: list[Deed] = [_clear(ec2, fields)]
    for section, read in _SECTIONS.items():
        deeds += [read(ec2, row) for row in fields.rows(section)]
    fields.close()
    for deed in deeds:
        deed()


def _clear(ec2: Store, fields: Fields) -> Deed:
    lists: dict[str, list[Any]] = {
        "capacity": ec2.capacity.pools,
        "errors": ec2.capacity.errors,
        "quotas": ec2.capacity.quotas,
        "kmsKeys": ec2.capacity.keys,
        "failures": ec2.capacity.failures,
        "prices": ec2.prices.rules,
    }
    names = [camel(name) for name in fields.texts("clear")]
    for name in names:
        if name not in {*lists, "settings"}:
            raise ChangeError("clear", f"{name!r} is not one of {', '.join([*lists, 'settings'])}")

    def clear() -> None:
        for name in names:
            if name == "settings":
                ec2.settings = Settings()
            else:
                lists[name].clear()

    return clear


def _settings(ec2: Store, row: Fields) -> Deed:
    now = ec2.settings
    new = Settings(
        pending_s=row.lag("pendingSeconds", now.pending_s),
        shutting_down_s=row.lag("shuttingDownSeconds", now.shutting_down_s),
        image_copy_s=row.lag("imageCopySeconds", now.image_copy_s),
        terminated_kept_s=row.number("terminatedKeptSeconds", now.terminated_kept_s),
        launch_lag_s=row.lag("launchLagSeconds", now.launch_lag_s),
        state_lag_s=row.lag("stateLagSeconds", now.state_lag_s),
        tag_lag_s=row.lag("tagLagSeconds", now.tag_lag_s),
        status_initializing_s=row.number("statusInitializingSeconds", now.status_initializing_s),
        token_lifetime_s=row.number("tokenLifetimeSeconds", now.token_lifetime_s),
        replay=row.text("tokenReplay", now.replay, REPLAYS),
        token_remembers_failures=row.truth("tokenRemembersFailures", now.token_remembers_failures),
        spot_service_linked_role=row.truth("spotServiceLinkedRole", now.spot_service_linked_role),
        spread_limit=row.whole("spreadLimit", now.spread_limit),
        price_capacity_shallow=row.number("priceCapacityShallow", now.price_capacity_shallow),
    )
    step_s = row.whole("priceStepSeconds", ec2.prices.step_s, 1)
    row.close()

    def set_them() -> None:
        ec2.settings = new
        ec2.prices.step_s = step_s

    return set_them


def _capacity(ec2: Store, row: Fields) -> Deed:
    rule = PoolRule(row.pools(), row.count("count"))
    row.close()
    return lambda: ec2.capacity.pools.append(rule)


def _error(ec2: Store, row: Fields) -> Deed:
    since, until = _span(ec2, row)
    error = ScriptedError(
        row.pools(), row.text("code"), row.text("message", ""), since, until, row.count("times")
    )
    row.close()
    return lambda: ec2.capacity.errors.append(error)


def _quota(ec2: Store, row: Fields) -> Deed:
    quota = Quota(
        row.text("capacityType", "on-demand", ("on-demand", "spot")),
        row.text("family", "standard", ("*", *QUOTA_FAMILIES)),
        row.whole("vcpus"),
    )
    row.close()

    def set_it() -> None:
        same = (quota.capacity_type, quota.family)
        kept = [each for each in ec2.capacity.quotas if (each.capacity_type, each.family) != same]
        ec2.capacity.quotas[:] = [*kept, quota]

    return set_it


def _subnet(ec2: Store, row: Fields) -> Deed:
    free = row.whole("freeAddresses")
    subnet_id, zone = row.text("id", ""), row.text("zone", "")
    row.close()
    chosen = [each for each in ec2.subnets.values() if each.id == subnet_id or (zone and each.zone == zone)]
    if not chosen:
        raise ChangeError(row.of("id" if subnet_id else "zone"), f"no subnet is {subnet_id or zone!r}")

    def set_it() -> None:
        for subnet in chosen:
            usable = subnet.network.num_addresses - 5 - len(subnet.taken)
            subnet.extra_taken = max(usable - free, 0)

    return set_it


def _key(ec2: Store, row: Fields) -> Deed:
    rule = KeyRule(
        row.text("key"), row.text("state", "disabled", ("usable", "disabled", "denied", "missing"))
    )
    row.close()
    return lambda: ec2.capacity.keys.append(rule)


def _failure(ec2: Store, row: Fields) -> Deed:
    failure = Failure(
        row.pools(),
        row.text("kind", among=_FAILURES),
        row.number("afterSeconds", 0.0),
        row.text("code", ""),
        row.text("message", ""),
        row.text("nodeClass", "*"),
        row.count("times"),
    )
    row.close()
    return lambda: ec2.capacity.failures.append(failure)


def _price(ec2: Store, row: Fields) -> Deed:
    pools = row.pools()
    since, until = _span(ec2, row)
    price = row.number("price") if "price" in row else None
    row.number("price", 0.0)
    factor = row.number("factor", 1.0)
    if price is None and "factor" not in row:
        raise ChangeError(row.of("price"), "is missing", hint="give price or factor")
    row.close()
    rule = PriceRule(pools.instance_type, pools.zone, pools.capacity_type, price, factor, since, until)
    return lambda: ec2.prices.rules.append(rule)


def _image(ec2: Store, row: Fields) -> Deed:
    deprecated, tags = row.moment("deprecatedAt"), row.tags("tags")
    if "id" in row and row.text("id") in ec2.images:
        image = ec2.images[row.text("id")]
        row.close()

        def change() -> None:
            image.deprecated_at = deprecated
            image.tags = {**image.tags, **tags}

        return change
    wanted = row.text("id", "")
    name, description = row.text("name"), row.text("description", "")
    architecture = row.text("architecture", "x86_64", ("x86_64", "arm64"))
    alias = row.text("owner", ec2.account.id)
    created = row.moment("createdAt") or ec2.now()
    platform = row.text("platform", "", ("", "windows"))
    row.close()
    named = alias in {"amazon", "aws-marketplace"}

    def register() -> None:
        add_image(
            ec2,
            image_id=wanted,
            name=name,
            owner="137112412989" if named else alias,
            owner_alias=alias if named else "",
            architecture=architecture,
            created=created,
            deprecated_at=deprecated,
            description=description,
            platform=platform,
            tags=tags,
        )

    return register


def _reservation(ec2: Store, row: Fields) -> Deed:
    kind, zone = row.text("instanceType"), row.text("zone")
    if zone not in ec2.prices.offered.get(kind, ()):
        raise ChangeError(row.of("zone"), f"{kind} is not offered in {zone}")
    now = ec2.now()
    ends_s = row.count("endsInSeconds")
    reservation = CapacityReservation(
        row.text("id", "") or ec2.ids.next("cr"),
        ec2.next_seq(),
        row.tags("tags"),
        kind,
        zone,
        row.whole("count", 1),
        now,
        now,
        None if ends_s is None else now + timedelta(seconds=ends_s),
        row.text("match", "targeted", ("open", "targeted")),
        row.text("type", "default", ("default", "capacity-block")),
        row.truth("interruptible", False),
        owner=row.text("owner", ec2.account.id),
    )
    row.close()

    def make() -> None:
        plan_expiry(ec2, ec2.add(reservation))

    return make


def _interrupt(ec2: Store, row: Fields) -> Deed:
    chosen, warning_s = _chosen(ec2, row), row.number("warningSeconds", 120.0)
    row.close()
    return lambda: interrupt_spot(ec2, chosen(), warning_s)


def _interrupt_reserved(ec2: Store, row: Fields) -> Deed:
    chosen, warning_s = _chosen(ec2, row), row.number("warningSeconds", 120.0)
    row.close()
    return lambda: interrupt_reserved(ec2, chosen(), warning_s)


def _rebalance(ec2: Store, row: Fields) -> Deed:
    chosen = _chosen(ec2, row)
    row.close()
    return lambda: recommend_rebalance(ec2, chosen())


def _schedule(ec2: Store, row: Fields) -> Deed:
    chosen = _chosen(ec2, row)
    code = row.text("code", "instance-retirement", EVENT_CODES)
    text, starts_s = row.text("description", ""), row.number("startsInSeconds", 14 * 86400)
    row.close()
    return lambda: schedule_event(ec2, chosen(), code, text, ec2.now() + timedelta(seconds=starts_s))


def _impair(ec2: Store, row: Fields) -> Deed:
    chosen, system = _chosen(ec2, row), row.truth("system", False)
    row.close()
    return lambda: impair_instances(ec2, chosen(), system=system)


def _terminate(ec2: Store, row: Fields) -> Deed:
    chosen, code, text = _chosen(ec2, row), row.text("code", ""), row.text("message", "")
    row.close()
    return lambda: kill(ec2, chosen(), code, text)


def _chosen(ec2: Store, row: Fields) -> Callable[[], list[Instance]]:
    ids, pools, tags, count = row.texts("instanceIds"), row.pools(), row.tags("tags"), row.count("count")
    for each in ids:
        if each not in ec2.instances:
            raise ChangeError(row.of("instanceIds"), f"there is no instance {each}")

    def choose() -> list[Instance]:
        found = [
            instance
            for instance in ec2.instances.values()
            if instance.alive
            and (not ids or instance.id in ids)
            and pools.covers(Pool(instance.instance_type, instance.zone, instance.capacity_type))
            and all(instance.tags.get(key) == value for key, value in tags.items())
        ]
        return found if count is None else found[:count]

    return choose


def _span(ec2: Store, row: Fields) -> tuple[datetime | None, datetime | None]:
    since, until = row.moment("from"), row.moment("until")
    seconds = row.number("forSeconds", -1.0, -1.0)
    if seconds >= 0:
        until = (since or ec2.now()) + timedelta(seconds=seconds)
    return since, until


_SECTIONS: Final[Mapping[str, Callable[[Store, Fields], Deed]]] = {
    "settings": _settings,
    "capacity": _capacity,
    "errors": _error,
    "quotas": _quota,
    "subnets": _subnet,
    "kmsKeys": _key,
    "failures": _failure,
    "prices": _price,
    "images": _image,
    "reservations": _reservation,
    "interrupt": _interrupt,
    "interruptReserved": _interrupt_reserved,
    "rebalance": _rebalance,
    "scheduleEvent": _schedule,
    "impair": _impair,
    "terminate": _terminate,
}
