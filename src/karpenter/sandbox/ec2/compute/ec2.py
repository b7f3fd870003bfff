# SPDX-License-Identifier: Apache-2.0
"""EC2 as one object: the store, the ways to change it from outside, and the table of its actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from karpenter.sandbox.ec2.compute import (
    allocations,
    attachments,
    attributes,
    describing,
    ending,
    fleet,
    images,
    localzones,
    network,
    placement,
    reservations,
    running,
    status,
    tags,
    templates,
    types,
)
from karpenter.sandbox.ec2.compute.changes import apply_change
from karpenter.sandbox.ec2.compute.nodeside import Machine, machines
from karpenter.sandbox.ec2.compute.overview import overview
from karpenter.sandbox.ec2.compute.prices import Prices, spot_price_history
from karpenter.sandbox.ec2.compute.records import Image
from karpenter.sandbox.ec2.compute.seam import Bus, Clock, Params, ProfileFinder
from karpenter.sandbox.ec2.compute.store import Account, Store
from karpenter.sandbox.ec2.contract import Handler, ModelError, Request
from karpenter.sandbox.ec2.front.serialise import render_item

__all__ = ["ACTIONS", "Ec2", "handlers"]

Action = Callable[[Store, Params], Mapping[str, Any]]


class Ec2(Store):
    """The EC2 of one account and region.

    Args:
        clock: The model's time.
        bus: Where events go.
        profiles: Finds instance profiles.
        account: The account's number.
        region: The region; its zones and offers come from the catalogue.
        prices: The price table, one of its own if none is given.
        seed: What all chance here is drawn from.
        rendered: Whether big listings hand over XML that is ready for the wire, rather than plain values.
    """

    def __init__(  # noqa: PLR0913 - the parts of a world, all by name
        self,
        *,
        clock: Clock,
        bus: Bus,
        profiles: ProfileFinder,
        account: str = "123456789012",
        region: str = "us-west-2",
        prices: Prices | None = None,
        seed: int = 0,
        rendered: bool = True,
    ) -> None:
        super().__init__(
            clock=clock,
            bus=bus,
            profiles=profiles,
            account=Account(account, region),
            prices=prices or Prices(region, seed),
            seed=seed,
        )
        self.render = render_item if rendered else None

    def call(self, action: str, **params: Any) -> Mapping[str, Any]:
        """Does one action by its name, as a caller over HTTP would.

        Raises:
            ModelError: The action refuses.
        """
        return perform(self, action, params)

    def apply(self, change: Mapping[str, Any]) -> None:
        """Changes the model by data; see ``changes`` for what can be said.

        Raises:
            ChangeError: The change cannot be read; nothing is changed then.
        """
        self.settle()
        apply_change(self, change)

    def machines(self, *states: str) -> Iterator[Machine]:
        """Gives the machines in these states, running ones if none is named, for whoever plays the kubelets."""
        self.settle()
        return machines(self, *states)

    def add_image(self, **fields: Any) -> Image:
        """Publishes a machine image; see ``images.add_image`` for its fields."""
        return images.add_image(self, **fields)

    def state(self) -> dict[str, Any]:
        """Gives the account as one readable document of names and numbers."""
        self.settle()
        return overview(self)

    def next_due(self) -> datetime | None:
        """Gives the moment at which something happens next by itself."""
        return self.timers.next_due()


def _spot_price_history(ec2: Store, params: Params) -> Mapping[str, Any]:
    return spot_price_history(ec2.prices, params, ec2.now())


ACTIONS: Final[Mapping[str, Action]] = {
    "AssociateSubnetCidrBlock": network.associate_subnet_cidr_block,
    "CancelCapacityReservation": reservations.cancel_capacity_reservation,
    "CopyImage": images.copy_image,
    "CreateCapacityReservation": reservations.create_capacity_reservation,
    "CreateFleet": fleet.create_fleet,
    "CreateInterruptibleCapacityReservationAllocation": (
        allocations.create_interruptible_capacity_reservation_allocation
    ),
    "CreateLaunchTemplate": templates.create_launch_template,
    "CreateLaunchTemplateVersion": templates.create_launch_template_version,
    "CreatePlacementGroup": placement.create_placement_group,
    "CreateSecurityGroup": network.create_security_group,
    "CreateSubnet": network.create_subnet,
    "CreateTags": tags.create_tags,
    "CreateVpc": network.create_vpc,
    "DeleteLaunchTemplate": templates.delete_launch_template,
    "DeletePlacementGroup": placement.delete_placement_group,
    "DeleteSecurityGroup": network.delete_security_group,
    "DeleteSubnet": network.delete_subnet,
    "DeleteTags": tags.delete_tags,
    "DeleteVpc": network.delete_vpc,
    "DeregisterImage": images.deregister_image,
    "DescribeAvailabilityZones": network.describe_availability_zones,
    "DescribeCapacityReservations": reservations.describe_capacity_reservations,
    "DescribeFleets": fleet.describe_fleets,
    "DescribeImages": images.describe_images,
    "DescribeInstanceAttribute": attributes.describe_instance_attribute,
    "DescribeInstanceStatus": status.describe_instance_status,
    "DescribeInstanceTypeOfferings": types.describe_instance_type_offerings,
    "DescribeInstanceTypes": types.describe_instance_types,
    "DescribeInstances": describing.describe_instances,
    "DescribeLaunchTemplateVersions": templates.describe_launch_template_versions,
    "DescribeLaunchTemplates": templates.describe_launch_templates,
    "DescribeNetworkInterfaces": attachments.describe_network_interfaces,
    "DescribePlacementGroups": placement.describe_placement_groups,
    "DescribeRegions": network.describe_regions,
    "DescribeSecurityGroups": network.describe_security_groups,
    "DescribeSpotInstanceRequests": attachments.describe_spot_instance_requests,
    "DescribeSpotPriceHistory": _spot_price_history,
    "DescribeSubnets": network.describe_subnets,
    "DescribeTags": tags.describe_tags,
    "DescribeVolumes": attachments.describe_volumes,
    "DescribeVpcs": network.describe_vpcs,
    "DisableImageDeprecation": images.disable_image_deprecation,
    "EnableImageDeprecation": images.enable_image_deprecation,
    "GetConsoleOutput": describing.get_console_output,
    "ModifyAvailabilityZoneGroup": localzones.modify_availability_zone_group,
    "ModifyCapacityReservation": reservations.modify_capacity_reservation,
    "ModifySubnetAttribute": network.modify_subnet_attribute,
    "RegisterImage": images.register_image,
    "RunInstances": running.run_instances,
    "StopInstances": ending.stop_instances,
    "TerminateInstances": ending.terminate_instances,
    "UpdateInterruptibleCapacityReservationAllocation": (
        allocations.update_interruptible_capacity_reservation_allocation
    ),
}

_IDEMPOTENT: Final = frozenset(
    {
        "CopyImage",
        "CreateCapacityReservation",
        "CreateFleet",
        "CreateInterruptibleCapacityReservationAllocation",
        "CreateLaunchTemplate",
        "CreateLaunchTemplateVersion",
        "RunInstances",
    }
)


def handlers() -> Mapping[str, Handler]:
    """Gives the handler of every EC2 action that the model has, by its name."""
    return {name: partial(_handle, name) for name in ACTIONS}


def _handle(name: str, request: Request, params: Params) -> Mapping[str, Any]:
    return perform(request.world.ec2, name, params)


def perform(ec2: Store, name: str, params: Params) -> Mapping[str, Any]:
    """Settles what is due and does one action, once per ClientToken where EC2 promises that.

    Raises:
        ModelError: The action is not known here, or refuses.
    """
    ec2.settle()
    action = ACTIONS.get(name)
    if action is None:
        raise ModelError("InvalidAction", f"The action {name} is not valid for this web service.")
    if name not in _IDEMPOTENT or params.get("DryRun"):
        return action(ec2, params)
    return ec2.tokens.once(
        name,
        params,
        ec2.now(),
        ec2.settings.token_lifetime_s,
        lambda: action(ec2, params),
        partial(_usable, ec2),
    )


def _usable(ec2: Store, answer: Mapping[str, Any]) -> bool:
    """Says whether a remembered launch may be told again, by the dial for launches whose instances are dead."""
    if "Instances" not in answer:
        return True
    rows: Sequence[Mapping[str, Any]] = answer["Instances"]
    ids = [each for row in rows for each in row.get("InstanceIds") or [row["InstanceId"]]]
    if not ids:
        return ec2.settings.token_remembers_failures
    alive = any(each in ec2.instances and ec2.instances[each].alive for each in ids)
    if alive or ec2.settings.replay == "same":
        return True
    if ec2.settings.replay == "refuse-dead":
        raise ModelError(
            "InvalidInstanceID.NotFound", "The instances of this idempotent request do not exist any more"
        )
    return False
