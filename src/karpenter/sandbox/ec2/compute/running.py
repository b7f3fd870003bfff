# SPDX-License-Identifier: Apache-2.0
"""RunInstances: a launch of one kind of instance, all or (from ``MinCount`` on) as many as there is room for.

A dry run makes the same checks as a launch (template, image, type, subnet, groups, profile) and takes nothing.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.sandbox.ec2.compute.describing import instance_view, warm
from karpenter.sandbox.ec2.compute.instances import Order, begin, create, undo
from karpenter.sandbox.ec2.compute.launching import make_plan, template_data
from karpenter.sandbox.ec2.compute.records import Instance
from karpenter.sandbox.ec2.compute.seam import Params, invalid, missing, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["run_instances"]

_NOT_DATA: Final = frozenset(
    {"LaunchTemplate", "MinCount", "MaxCount", "ClientToken", "DryRun", "TagSpecifications"}
)


def run_instances(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers RunInstances."""
    least, most = params.get("MinCount"), params.get("MaxCount")
    if least is None or most is None:
        raise missing("MinCount" if least is None else "MaxCount")
    if not 1 <= least <= most:
        raise invalid(least, "minCount")
    base, template = (
        template_data(ec2, params["LaunchTemplate"]) if params.get("LaunchTemplate") else ({}, None)
    )
    data = {**base, **{key: value for key, value in params.items() if key not in _NOT_DATA}}
    plan = make_plan(ec2, data, _market(data))
    stop_if_dry_run(params)
    now = ec2.now()
    order = Order(
        ec2.ids.next("r"),
        tuple(params.get("TagSpecifications") or ()),
        params.get("ClientToken") or "",
        template=template,
    )
    made: list[Instance] = []
    try:
        for index in range(most):
            made.append(create(ec2, plan, order, now, index))  # noqa: PERF401 - what is made is undone on refusal
    except ModelError:
        if len(made) < least:
            for instance in made:
                undo(ec2, instance)
            raise
    for instance in made:
        begin(ec2, instance, now)
        warm(ec2, instance)
    return {
        "ReservationId": order.reservation_id,
        "OwnerId": ec2.account.id,
        "Groups": [],
        "Instances": [instance_view(ec2, instance) for instance in made],
    }


def _market(data: Params) -> str:
    kind: str = (data.get("InstanceMarketOptions") or {}).get("MarketType") or "on-demand"
    return kind
