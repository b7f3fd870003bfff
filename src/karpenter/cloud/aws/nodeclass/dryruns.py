# SPDX-License-Identifier: Apache-2.0
"""Asks EC2 whether it would launch from a node class, before anybody needs it to.

Three questions, for the cheapest type that can boot one of the class's images: a launch template is made (there is no
dry run of use for it; it is removed when unused like any other), then a fleet and a plain launch are asked for as dry
runs, the latter in one subnet after the other until one passes. A permission that is missing is thereby named before
a pod waits for it. What passed is believed for half an hour as long as nothing that was found changes; what failed is
asked again after a minute, so that whoever grants a permission soon sees it (Karpenter: half an hour as well).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClassRef
from karpenter.cloud.aws.amis.finding import NOT_FOUND
from karpenter.cloud.aws.amis.images import ami_for
from karpenter.cloud.aws.api import Aws, AwsError
from karpenter.cloud.aws.blueprints import blueprints, owner_tags, wish_of
from karpenter.cloud.aws.choice import Candidate, Choice
from karpenter.cloud.aws.codes import Kind
from karpenter.cloud.aws.fleet import Override, fleet_request
from karpenter.cloud.aws.instancetypes.compatibility import PlacementGroup
from karpenter.cloud.aws.instancetypes.provider import NoInstanceTypesError
from karpenter.cloud.aws.launchtemplates import LaunchTemplates
from karpenter.cloud.aws.nodeclass.problems import UNREACHABLE, Problem, problem_of
from karpenter.cloud.aws.userdata import Cluster
from karpenter.errors import KarpenterError
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock
from karpenter.model.instancetypes import InstanceType, Offering

__all__ = ["CREATE_FLEET_FAILED", "CREATE_TEMPLATE_FAILED", "RUN_INSTANCES_FAILED", "DryRuns", "TypesOf"]

CREATE_TEMPLATE_FAILED: Final = "CreateLaunchTemplateAuthCheckFailed"
CREATE_FLEET_FAILED: Final = "CreateFleetAuthCheckFailed"
RUN_INSTANCES_FAILED: Final = "RunInstancesAuthCheckFailed"

TypesOf: TypeAlias = Callable[[EC2NodeClass], Sequence[InstanceType]]

_PASSED_S: Final = 1800.0
_FAILED_S: Final = 60.0
_MOST_CLASSES: Final = 1000
# Stands where a launch names its NodePool; policies ask only that there is one.
_NODEPOOL: Final = "validation"


@dataclass(frozen=True, slots=True)
class _Probe:
    """A launch that is only asked about."""

    node_class: EC2NodeClass
    kind: InstanceType
    image_id: str
    template: str
    choice: Choice
    tags: dict[str, str]

    def subnets(self) -> list[tuple[str, str]]:
        """Zone and id of each subnet in a zone where the type is sold, the best first."""
        zones = {offering.zone for offering in self.kind.offerings}
        return [(each.zone, each.id) for each in self.node_class.status.subnets if each.zone in zones]


class DryRuns:
    """Asks EC2 by dry runs, and remembers the answers."""

    def __init__(
        self,
        aws: Aws,
        clock: Clock,
        *,
        templates: LaunchTemplates,
        types_of: TypesOf,
        cluster: Callable[[], Cluster],
        group_of: Callable[[EC2NodeClass], PlacementGroup | None] = lambda _: None,
    ) -> None:
        """Makes no call yet.

        Args:
            aws: EC2.
            clock: Counts how old answers are.
            templates: Makes launch templates.
            types_of: Lists the instance types of a node class.
            cluster: Gives the cluster that nodes join.
            group_of: Gives the placement group of a node class.
        """
        self._aws = aws
        self._templates = templates
        self._types_of = types_of
        self._cluster = cluster
        self._group_of = group_of
        self._answers: TTLCache[tuple[Any, ...], Problem | None] = TTLCache(
            clock, ttl_s=_PASSED_S, max_size=_MOST_CLASSES
        )

    async def check(self, node_class: EC2NodeClass) -> Problem | None:
        """Return what keeps a class from being launched from, or None.

        Args:
            node_class: The class, with everything found in its status.
        """
        key = self._key(node_class)
        if key in self._answers:
            return self._answers.get(key)
        problem = await self._ask(node_class)
        if problem is None or problem.is_verdict:
            self._answers.set(key, problem, ttl_s=_PASSED_S if problem is None else _FAILED_S)
        return problem

    def _key(self, node_class: EC2NodeClass) -> tuple[Any, ...]:
        meta, status = node_class.metadata, node_class.status
        group = self._group_of(node_class)
        return (
            meta.uid,
            meta.name,
            meta.generation,
            frozenset(each.id for each in status.subnets),
            tuple(each.id for each in status.security_groups),
            tuple(each.id for each in status.amis),
            status.instance_profile,
            group.id if group else "",
        )

    async def _ask(self, node_class: EC2NodeClass) -> Problem | None:
        try:
            found = self._cheapest(node_class)
        except NoInstanceTypesError as error:
            return Problem(UNREACHABLE, error.message, error.hint, is_verdict=False)
        if isinstance(found, Problem):
            return found
        kind, offering = found
        choice = Choice(labels.ON_DEMAND, (Candidate(kind, (offering,)),))
        cluster = self._cluster()
        try:
            plan = blueprints(
                choice, wish_of(_claim(node_class), node_class), cluster, group=self._group_of(node_class)
            )[0]
            template = await self._templates.ensure(plan.spec)
        except KarpenterError as error:
            return problem_of(error, field="spec", reason=CREATE_TEMPLATE_FAILED)
        probe = _Probe(
            node_class,
            kind,
            plan.spec.image_id,
            template,
            choice,
            owner_tags(node_class, cluster.name, _NODEPOOL),
        )
        async with self._templates.holding((template,)):
            return await self._ask_fleet(probe, offering) or await self._ask_instances(probe)

    def _cheapest(self, node_class: EC2NodeClass) -> tuple[InstanceType, Offering] | Problem:
        offers = [
            (not offering.available, offering.price_per_hour, kind.name, offering.zone, kind, offering)
            for kind in self._types_of(node_class)
            for offering in kind.offerings
            if offering.capacity_type == labels.ON_DEMAND
        ]
        bootable = [each for each in offers if ami_for(node_class.status.amis, each[4].labels) is not None]
        if not bootable:
            images = ", ".join(each.id for each in node_class.status.amis)
            zones = ", ".join(sorted({each.zone for each in node_class.status.subnets}))
            sold = len({each[2] for each in offers})
            return Problem(
                NOT_FOUND,
                f"spec.amiSelectorTerms: none of the {sold} instance types sold in {zones} boots {images}",
                "choose images for another architecture, or subnets in other zones",
            )
        best = min(bootable, key=lambda each: each[:4])
        return best[4], best[5]

    async def _ask_fleet(self, probe: _Probe, offering: Offering) -> Problem | None:
        zone, subnet_id = next(
            (each for each in probe.subnets() if each[0] == offering.zone), probe.subnets()[0]
        )
        override = Override(
            probe.template, probe.kind.name, zone, subnet_id, probe.image_id, offering.price_per_hour
        )
        request = fleet_request([override], probe.choice, count=1, token="", tags=probe.tags)
        del request["ClientToken"]
        return await self._dry_run(probe, "CreateFleet", CREATE_FLEET_FAILED, request)

    async def _ask_instances(self, probe: _Probe) -> Problem | None:
        first: Problem | None = None
        for _, subnet_id in probe.subnets():
            request = _instances(probe, subnet_id)
            problem = await self._dry_run(probe, "RunInstances", RUN_INSTANCES_FAILED, request)
            if problem is None:
                return None
            first = first or problem
            if not problem.is_verdict:
                break
        return first

    async def _dry_run(
        self, probe: _Probe, operation: str, reason: str, request: dict[str, Any]
    ) -> Problem | None:
        try:
            await self._aws.call("ec2", operation, **request, DryRun=True)
        except KarpenterError as error:
            if isinstance(error, AwsError) and error.cause.kind is Kind.PASSED:
                return None
            problem = problem_of(error, field="spec", reason=reason)
            if problem.reason != "InstanceProfileNameInvalid":
                return problem
            if probe.node_class.spec.role:
                # We have made it ourselves; EC2 needs some seconds to learn of it.
                return replace(problem, is_verdict=False)
            return problem_of(error, field="spec.instanceProfile", reason=reason)
        return None


def _instances(probe: _Probe, subnet_id: str) -> dict[str, Any]:
    groups = [each.id for each in probe.node_class.status.security_groups]
    return {
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": probe.kind.name,
        "LaunchTemplate": {"LaunchTemplateName": probe.template, "Version": "$Latest"},
        # A subnet beside the interfaces of a template is refused; it has to be named within one.
        "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": subnet_id, "Groups": groups}],
        "TagSpecifications": [
            {
                "ResourceType": kind,
                "Tags": [{"Key": key, "Value": value} for key, value in sorted(probe.tags.items())],
            }
            for kind in ("instance", "volume", "network-interface")
        ],
    }


def _claim(node_class: EC2NodeClass) -> NodeClaim:
    reference = NodeClassRef(group=labels.AWS_GROUP, kind="EC2NodeClass", name=node_class.metadata.name)
    return NodeClaim(
        metadata=ObjectMeta(name=_NODEPOOL, labels={labels.NODEPOOL: _NODEPOOL}),
        spec=NodeClaimSpec(requirements=(), node_class_ref=reference),
    )
