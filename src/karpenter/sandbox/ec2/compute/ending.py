# SPDX-License-Identifier: Apache-2.0
"""TerminateInstances and StopInstances: how instances are ended from outside.

One id that is not there, or that may not be ended, refuses the whole call; a second time changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from karpenter.sandbox.ec2.compute.describing import named_instances, state_view
from karpenter.sandbox.ec2.compute.instances import USER_SHUTDOWN, stop, terminate
from karpenter.sandbox.ec2.compute.records import Instance
from karpenter.sandbox.ec2.compute.seam import Params, missing, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["stop_instances", "terminate_instances"]


def terminate_instances(ec2: Store, params: Params) -> dict[str, Any]:
    """Answer TerminateInstances."""
    instances = _asked(ec2, params)
    for instance in instances:
        _refuse_if_protected(instance, "DisableApiTermination", "terminated")
    stop_if_dry_run(params)
    now = ec2.now()
    rows = _changed(instances, lambda instance: terminate(ec2, instance, now, USER_SHUTDOWN))
    return {"TerminatingInstances": rows}


def stop_instances(ec2: Store, params: Params) -> dict[str, Any]:
    """Answer StopInstances; ``Force`` changes nothing, because no machine of the model hangs while it stops."""
    instances = _asked(ec2, params)
    for instance in instances:
        _refuse_if_protected(instance, "DisableApiStop", "stopped")
        if instance.capacity_type == "spot":
            raise ModelError(
                "UnsupportedOperation",
                f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time Spot "
                "Instance request.",
            )
        if params.get("Hibernate"):
            raise ModelError(
                "UnsupportedHibernationConfiguration",
                f"The instance '{instance.id}' is not enabled for hibernation.",
            )
        if instance.state not in {"running", "stopping", "stopped"}:
            raise ModelError(
                "IncorrectInstanceState",
                f"The instance '{instance.id}' is {instance.state}, a state from which it cannot be stopped.",
            )
    stop_if_dry_run(params)
    now = ec2.now()
    return {
        "StoppingInstances": _changed(instances, lambda instance: stop(ec2, instance, now, USER_SHUTDOWN))
    }


def _asked(ec2: Store, params: Params) -> list[Instance]:
    if not params.get("InstanceIds"):
        raise missing("InstanceIds")
    return named_instances(ec2, params["InstanceIds"])


def _refuse_if_protected(instance: Instance, attribute: str, done: str) -> None:
    if instance.data.get(attribute):
        shown = attribute[0].lower() + attribute[1:]
        raise ModelError(
            "OperationNotPermitted",
            f"The instance '{instance.id}' may not be {done}. Modify its '{shown}' instance attribute and try again.",
        )


def _changed(instances: Sequence[Instance], change: Callable[[Instance], None]) -> list[dict[str, Any]]:
    """Change instances and return the state of each before and after."""
    rows = []
    for instance in instances:
        before = instance.state
        change(instance)
        rows.append(
            {
                "InstanceId": instance.id,
                "PreviousState": state_view(before),
                "CurrentState": state_view(instance.state),
            }
        )
    return rows
