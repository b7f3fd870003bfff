# SPDX-License-Identifier: Apache-2.0
"""CreateFleet of type instant: which pools give how many instances, and why the others did not.

Every launch template configuration and override is a candidate. The allocation strategy orders the candidates; each
is tried until the target is met, and one that fails leaves an error with its code and its override. So a fleet may
come out whole, in part, or with errors alone; only a request that makes no sense is refused as a whole, such as one
that names a pool twice. An instant fleet may have any number of overrides; EC2's limit of 300 is for the other types.

The strategies: ``lowest-price`` and ``prioritized`` fill the first pool that has room. ``price-capacity-optimized``
reckons a pool the dearer the fewer places it has left, and a little dearer for each instance that this fleet already
took from it. ``capacity-optimized`` takes the deepest pool; ``-prioritized`` takes among deep pools by priority.
``diversified`` goes round. An endless pool is the deepest of all.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.sandbox.ec2.compute.capacity import Pool
from karpenter.sandbox.ec2.compute.describing import warm
from karpenter.sandbox.ec2.compute.instances import Order, begin, create, undo
from karpenter.sandbox.ec2.compute.launching import Plan, make_plan, overlaid, template_data, zone_and_subnet
from karpenter.sandbox.ec2.compute.listing import describe, spec_tags, tag_list
from karpenter.sandbox.ec2.compute.records import Fleet, Instance
from karpenter.sandbox.ec2.compute.refusals import check_pools
from karpenter.sandbox.ec2.compute.seam import Params, invalid, missing, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["create_fleet", "describe_fleets"]

_MARKETS: Final = ("on-demand", "spot", "capacity-block", "reserved-capacity")
_POOL_TYPES: Final = {"reserved-capacity": "reserved"}
_LIFECYCLES: Final = {
    "reserved": "on-demand",
    "capacity-block": "capacity-block",
    "spot": "spot",
    "on-demand": "on-demand",
}
_STRATEGIES: Final = (
    "lowest-price",
    "prioritized",
    "price-capacity-optimized",
    "capacity-optimized",
    "capacity-optimized-prioritized",
    "diversified",
)
_DEEP: Final = 20
_TOLD: Final = (
    "InstanceType",
    "MaxPrice",
    "SubnetId",
    "AvailabilityZone",
    "AvailabilityZoneId",
    "WeightedCapacity",
    "Priority",
    "Placement",
    "ImageId",
    "BlockDeviceMappings",
)


@dataclass(slots=True, eq=False)
class _Candidate:
    """One override of one template, where it would launch, and at what price."""

    place: int
    base: Mapping[str, Any]
    template: Mapping[str, str]
    override: Params
    pool: Pool
    price: float
    made: int = 0
    plan: Plan | None = None
    error: ModelError | None = None

    @property
    def weight(self) -> float:
        return float(self.override.get("WeightedCapacity") or 1)

    @property
    def told(self) -> dict[str, Any]:
        overrides = {key: self.override[key] for key in _TOLD if self.override.get(key) is not None}
        return {"LaunchTemplateSpecification": dict(self.template), "Overrides": overrides}


@dataclass(slots=True)
class _Launch:
    """One CreateFleet call under way."""

    ec2: Store
    params: Params
    order: Callable[[_Candidate], Order]
    now: datetime
    made: list[tuple[_Candidate, Instance]] = field(default_factory=list)
    failed: list[_Candidate] = field(default_factory=list)


def create_fleet(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers CreateFleet; other types than instant are refused."""
    shares = _shares(params)
    configs = params.get("LaunchTemplateConfigs")
    if not configs:
        raise missing("LaunchTemplateConfigs")
    loaded = [
        (config, *template_data(ec2, config.get("LaunchTemplateSpecification") or {})) for config in configs
    ]
    for options in ("SpotOptions", "OnDemandOptions"):
        strategy = (params.get(options) or {}).get("AllocationStrategy")
        if strategy and strategy not in _STRATEGIES:
            raise invalid(strategy, "allocationStrategy")
    tags = spec_tags(params.get("TagSpecifications"), "fleet")
    spec_tags(params.get("TagSpecifications"), "instance", "volume")
    now = ec2.now()
    candidates = {market: _candidates(ec2, loaded, market, now) for market in shares}
    for each in candidates.values():
        check_pools(one.pool for one in each)
    stop_if_dry_run(params)
    fleet_id = f"fleet-{ec2.ids.next_uuid()}"
    seq = ec2.next_seq()
    launch = _Launch(ec2, params, _orders(ec2, params, fleet_id), now)
    for market, wanted in shares.items():
        _allocate(launch, market, wanted, candidates[market])
    for _, instance in launch.made:
        begin(ec2, instance, now)
        warm(ec2, instance)
    ids = tuple(instance.id for _, instance in launch.made)
    fleet = ec2.add(Fleet(fleet_id, seq, tags, now, params.get("ClientToken") or "", ids, params))
    forgotten = now + timedelta(seconds=ec2.settings.token_lifetime_s)
    ec2.timers.at(forgotten, f"{fleet_id} is forgotten", lambda _: ec2.drop(fleet))
    return {"FleetId": fleet_id, "Errors": _errors(launch), "Instances": _instances(ec2, launch)}


def describe_fleets(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeFleets; instant fleets are told by id alone, as EC2 does."""
    if not params.get("FleetIds"):
        return {"Fleets": []}
    page, token = describe(ec2.fleets, params, ids="FleetIds", fields={"type": lambda _: "instant"})
    return {
        "Fleets": [
            {
                "FleetId": fleet.id,
                "CreateTime": fleet.created,
                "FleetState": "active",
                "ActivityStatus": "fulfilled" if fleet.instance_ids else "error",
                "ClientToken": fleet.client_token,
                "Type": "instant",
                "FulfilledCapacity": float(len(fleet.instance_ids)),
                "TargetCapacitySpecification": dict(fleet.request["TargetCapacitySpecification"]),
                "Tags": tag_list(fleet.tags),
                "Instances": [{"InstanceIds": list(fleet.instance_ids)}],
            }
            for fleet in page
        ],
        **token,
    }


def _shares(params: Params) -> dict[str, float]:
    """Splits the target over the markets: what is asked of each, and the rest for the default one."""
    if params.get("Type") != "instant":
        raise ModelError(
            "InvalidParameterValue",
            f"This model knows fleets of type instant alone, not {params.get('Type')}.",
        )
    target = params.get("TargetCapacitySpecification") or {}
    total = target.get("TotalTargetCapacity")
    if total is None:
        raise missing("TargetCapacitySpecification.TotalTargetCapacity")
    if total < 1:
        raise invalid(total, "totalTargetCapacity")
    default = target.get("DefaultTargetCapacityType") or "on-demand"
    if default not in _MARKETS:
        raise invalid(default, "defaultTargetCapacityType")
    shares: dict[str, float] = {
        "on-demand": target.get("OnDemandTargetCapacity") or 0,
        "spot": target.get("SpotTargetCapacity") or 0,
    }
    rest = total - sum(shares.values())
    if rest < 0:
        raise ModelError("InvalidTargetCapacitySpecification", "The shares exceed the total target capacity.")
    shares[default] = shares.get(default, 0) + rest
    return {market: share for market, share in shares.items() if share}


def _orders(ec2: Store, params: Params, fleet_id: str) -> Callable[[_Candidate], Order]:
    specifications = tuple(params.get("TagSpecifications") or ())
    token = params.get("ClientToken") or ""
    reservations: dict[int, str] = {}

    def order(candidate: _Candidate) -> Order:
        # One reservation per override that launched, as a fleet makes one RunInstances call for each.
        if candidate.place not in reservations:
            reservations[candidate.place] = ec2.ids.next("r")
        return Order(reservations[candidate.place], specifications, token, fleet_id, candidate.template)

    return order


def _candidates(
    ec2: Store,
    loaded: Sequence[tuple[Params, Mapping[str, Any], Mapping[str, str]]],
    market: str,
    now: datetime,
) -> list[_Candidate]:
    found: list[_Candidate] = []
    for config, base, told in loaded:
        pool_type = _pool_type(market, base)
        for override in config.get("Overrides") or [{}]:
            kind = override.get("InstanceType") or base.get("InstanceType") or ""
            zone, trouble = _zone(ec2, base, override)
            pool = Pool(kind, zone, pool_type)
            price = ec2.prices.of(pool_type, kind, zone, now)
            found.append(_Candidate(len(found), base, told, override, pool, price, error=trouble))
    return found


def _zone(ec2: Store, base: Params, override: Params) -> tuple[str, ModelError | None]:
    """Tells where an override would launch, or what is wrong with the place that it names."""
    subnet = ec2.subnets.get(override.get("SubnetId") or "")
    zone: str = override.get("AvailabilityZone") or ""
    if subnet and zone == subnet.zone:
        return zone, None
    try:
        return zone_and_subnet(ec2, overlaid(base, override))[0], None
    except ModelError as wrong:
        return zone, wrong


def _pool_type(market: str, data: Params) -> str:
    """Tells whose pool a launch draws on; an on-demand launch into a reservation only is a reserved one."""
    specification = data.get("CapacityReservationSpecification") or {}
    if (
        market == "on-demand"
        and specification.get("CapacityReservationPreference") == "capacity-reservations-only"
    ):
        return "reserved"
    return _POOL_TYPES.get(market, market)


def _allocate(launch: _Launch, market: str, wanted: float, candidates: list[_Candidate]) -> None:
    ec2, params = launch.ec2, launch.params
    options = params.get("SpotOptions" if market == "spot" else "OnDemandOptions") or {}
    rank = _ranking(ec2, market, options, candidates)
    least = options.get("MinTargetCapacity") or 0
    for group in _groups(options, candidates, rank):
        made = _fill(launch, group, wanted, rank)
        if sum(candidate.weight for candidate, _ in made) >= max(
            least, 1 if len(group) < len(candidates) else 0
        ):
            launch.made += made
            break
        # A fleet below its minimum launches nothing; a single type or zone without room gives way to the next.
        for candidate, instance in made:
            undo(ec2, instance)
            candidate.error = ModelError(
                "UnfulfillableCapacity",
                "Unable to fulfill capacity due to your request configuration. Please adjust your request and "
                "try again.",
            )
    launch.failed += [candidate for candidate in candidates if candidate.error]


def _groups(
    options: Params, candidates: list[_Candidate], rank: Callable[[_Candidate], tuple[float, ...]]
) -> list[list[_Candidate]]:
    """Gives the sets of candidates out of which the whole fleet may come, best first."""
    if not (options.get("SingleInstanceType") or options.get("SingleAvailabilityZone")):
        return [candidates]
    groups: dict[tuple[str, str], list[_Candidate]] = {}
    for candidate in sorted(candidates, key=rank):
        kind = candidate.pool.instance_type if options.get("SingleInstanceType") else ""
        zone = candidate.pool.zone if options.get("SingleAvailabilityZone") else ""
        groups.setdefault((kind, zone), []).append(candidate)
    return list(groups.values())


def _fill(
    launch: _Launch,
    candidates: Sequence[_Candidate],
    wanted: float,
    rank: Callable[[_Candidate], tuple[float, ...]],
) -> list[tuple[_Candidate, Instance]]:
    ec2 = launch.ec2
    made: list[tuple[_Candidate, Instance]] = []
    # Launching only ever makes a pool less attractive, so a rank that was computed earlier is at worst too good:
    # it is enough to look again at the one that seems best.
    waiting = [
        (rank(candidate), candidate.place, candidate) for candidate in candidates if not candidate.error
    ]
    heapq.heapify(waiting)
    while wanted > 0 and waiting:
        _, _, best = heapq.heappop(waiting)
        fresh = rank(best)
        if waiting and fresh > waiting[0][0]:
            heapq.heappush(waiting, (fresh, best.place, best))
            continue
        try:
            _check_price(best)
            best.plan = best.plan or _plan(ec2, best)
            made.append((best, create(ec2, best.plan, launch.order(best), launch.now, best.made)))
        except ModelError as refused:
            best.error = refused
            continue
        best.made += 1
        wanted -= best.weight
        heapq.heappush(waiting, (rank(best), best.place, best))
    return made


def _plan(ec2: Store, candidate: _Candidate) -> Plan:
    data = overlaid(candidate.base, candidate.override)
    return make_plan(ec2, data, candidate.pool.capacity_type, fleet=True)


def _check_price(candidate: _Candidate) -> None:
    limit = candidate.override.get("MaxPrice")
    if not limit or candidate.pool.capacity_type != "spot":
        return
    try:
        most = float(limit)
    except ValueError:
        raise invalid(limit, "maxPrice") from None
    if not most >= candidate.price:
        raise ModelError(
            "SpotMaxPriceTooLow",
            f"Your Spot request price of {limit} is lower than the minimum required Spot request fulfillment price "
            f"of {candidate.price}.",
        )


def _ranking(
    ec2: Store, market: str, options: Params, candidates: Sequence[_Candidate]
) -> Callable[[_Candidate], tuple[float, ...]]:
    """Gives the order in which the allocation strategy tries candidates: the least first, then as written."""
    strategy = options.get("AllocationStrategy") or "lowest-price"
    capacity, shallow = ec2.capacity, ec2.settings.price_capacity_shallow
    pools_to_use = options.get("InstancePoolsToUseCount") or 1
    cheapest = {
        each.place for each in sorted(candidates, key=lambda each: (each.price, each.place))[:pools_to_use]
    }

    def priority(each: _Candidate) -> float:
        asked = each.override.get("Priority")
        return math.inf if asked is None else float(asked)

    def price_and_depth(each: _Candidate) -> tuple[float, ...]:
        free = capacity.free(each.pool)
        if not free:
            return (math.inf, each.price, each.place)
        return (each.price * (1 + shallow / free) * (1 + 0.02 * each.made), each.price, each.place)

    def lowest_price(each: _Candidate) -> tuple[float, ...]:
        spread = each.made if market == "spot" and each.place in cheapest else 0
        return (each.place not in cheapest, spread, each.price, each.place)

    rankings: dict[str, Callable[[_Candidate], tuple[float, ...]]] = {
        "lowest-price": lowest_price,
        "prioritized": lambda each: (priority(each), each.place),
        "price-capacity-optimized": price_and_depth,
        "capacity-optimized": lambda each: (-capacity.free(each.pool), each.made, each.place),
        "capacity-optimized-prioritized": lambda each: (
            -min(capacity.free(each.pool), _DEEP),
            priority(each),
            each.place,
        ),
        "diversified": lambda each: (each.made, each.price, each.place),
    }
    return rankings[strategy]


def _errors(launch: _Launch) -> list[dict[str, Any]]:
    return [
        {
            "LaunchTemplateAndOverrides": candidate.told,
            "Lifecycle": _LIFECYCLES[candidate.pool.capacity_type],
            "ErrorCode": candidate.error.code,
            "ErrorMessage": candidate.error.message,
        }
        for candidate in launch.failed
        if candidate.error
    ]


def _instances(ec2: Store, launch: _Launch) -> list[dict[str, Any]]:
    by_candidate: dict[int, tuple[_Candidate, list[str]]] = {}
    for candidate, instance in launch.made:
        by_candidate.setdefault(id(candidate), (candidate, []))[1].append(instance.id)
    return [
        {
            "LaunchTemplateAndOverrides": candidate.told,
            "Lifecycle": _LIFECYCLES[candidate.pool.capacity_type],
            "InstanceIds": ids,
            "InstanceType": candidate.pool.instance_type,
            "AvailabilityZone": candidate.pool.zone,
            "AvailabilityZoneId": ec2.zones()[candidate.pool.zone],
            "SubnetId": ec2.instances[ids[0]].subnet_id,
        }
        for candidate, ids in by_candidate.values()
    ]
