# SPDX-License-Identifier: Apache-2.0
"""The AWS cloud as controllers see it: the ``CloudProvider`` made of everything in this room.

``connect`` puts the parts together from settings and asks AWS for what must be known before the first decision: the
cluster, the instance types, prices. ``AwsProvider`` itself decides little: whether a node class may be launched from,
whether a claim has its machine already, and how what EC2 says becomes a machine with the labels of its node.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypedDict, Unpack

from karpenter.api import conditions, labels
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.addresses import Addresses
from karpenter.cloud.aws.api import Aws, AwsError, AwsUnreachableError, BotoAws, CallRecord
from karpenter.cloud.aws.batching import OnBatch
from karpenter.cloud.aws.codes import Kind
from karpenter.cloud.aws.drift import Drift
from karpenter.cloud.aws.fleet import CLAIM_UID_TAG, FleetError
from karpenter.cloud.aws.instances import Instance, Instances, launched_instance, parse_provider_id
from karpenter.cloud.aws.instancetypes.offerings import DEFAULT_TENANCY, TENANCIES
from karpenter.cloud.aws.instancetypes.provider import InstanceTypes
from karpenter.cloud.aws.instancetypes.sizes import SizeSettings
from karpenter.cloud.aws.journal import LaunchJournal
from karpenter.cloud.aws.launching import AdjustTypes, GroupOf, Launcher, LauncherParts
from karpenter.cloud.aws.launchtemplates import LaunchSpec, LaunchTemplates
from karpenter.cloud.aws.machines import machine_annotations, machine_labels, machine_resources
from karpenter.cloud.aws.nodeclass.checks import tag_problem
from karpenter.cloud.aws.nodeclass.problems import denied
from karpenter.cloud.aws.nodenames import is_known, node_mismatch
from karpenter.cloud.aws.pricing import Prices
from karpenter.cloud.aws.region import find_region
from karpenter.cloud.aws.unavailable import Unavailable
from karpenter.cloud.aws.userdata import Cluster
from karpenter.cloud.errors import (
    InsufficientCapacityError,
    LaunchError,
    LaunchPendingError,
    NodeClaimNotFoundError,
    NodeClassNotReadyError,
    TerminationRefusedError,
)
from karpenter.cloud.protocol import GroupKind, Machine, NodeClassReadiness, RepairPolicy
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock, SystemClock, within
from karpenter.kit.lookups import Lookups
from karpenter.model.instancetypes import InstanceType
from karpenter.model.requirements import Requirements

__all__ = ["AwsProvider", "AwsSettings", "DriftCheck", "Hooks", "connect", "describe_cluster", "name_tags"]

DriftCheck: TypeAlias = Callable[[NodeClaim, EC2NodeClass, Instance], Awaitable[str]]

_REPAIR_POLICIES: Final = (
    RepairPolicy("Ready", "False", 1800.0),
    RepairPolicy("Ready", "Unknown", 1800.0),
    RepairPolicy("AcceleratedHardwareReady", "False", 600.0),
    RepairPolicy("StorageReady", "False", 1800.0),
    RepairPolicy("NetworkingReady", "False", 1800.0),
    RepairPolicy("KernelReady", "False", 1800.0),
    RepairPolicy("ContainerRuntimeReady", "False", 1800.0),
)

_UNDECIDED: Final = "NodeClassReadinessUnknown"
# How long the start waits for what it can do without: the price list, and EKS where the endpoint is configured.
_START_WAIT_S: Final = 5.0
# How long an answer of EC2 is waited for that is good to have and not needed. It takes a tenth of a second when all is
# well, and a look-up is batched for up to a second.
_PATIENCE_S: Final = 5.0

# Longer than a node may take to join.
_NAMED_S: Final = 3600.0
# What EC2 may refuse a whole launch for that only a person can mend.
_FOR_PEOPLE: Final = frozenset(
    {
        Kind.PERMISSION,
        Kind.CREDENTIALS,
        Kind.KMS,
        Kind.INVALID,
        Kind.NOT_FOUND,
        Kind.TEMPLATE_MISSING,
        Kind.QUOTA,
        Kind.OTHER,
    }
)


@dataclass(frozen=True, kw_only=True)
class AwsSettings:
    """What the installation says about AWS.

    Attributes:
        cluster_name: Name of the cluster in EKS, and in every tag.
        region: The region; by default the configured one, else that of this EC2 instance.
        cluster_endpoint: Address of the API server; by default what EKS says.
        cluster_ca_bundle: Certificate authority in base64; by default what EKS says.
        cluster_dns_ip: Address of the cluster's DNS service.
        isolated_vpc: Whether services without VPC endpoints are out of reach.
        vm_memory_overhead_percent: The share of memory that nodes are thought to lack.
        reserved_enis: Network interfaces that are not for pods.
        uses_reservations: Whether reserved capacity is handled (gate ReservedCapacity).
    """

    cluster_name: str
    region: str = ""
    cluster_endpoint: str = ""
    cluster_ca_bundle: str = ""
    cluster_dns_ip: str = ""
    isolated_vpc: bool = False
    vm_memory_overhead_percent: float = 0.075
    reserved_enis: int = 0
    uses_reservations: bool = True


class AwsProvider:
    """EC2 as a ``CloudProvider``; the parts are there for the controllers of this cloud."""

    name = "aws"
    node_class_kind = GroupKind(labels.AWS_GROUP, "EC2NodeClass")

    def __init__(
        self,
        *,
        instances: Instances,
        launcher: Launcher,
        types: InstanceTypes,
        prices: Prices,
        group_of: GroupOf,
        drift: DriftCheck,
        pods_name_tenancy: Callable[[], bool] = lambda: False,
    ) -> None:
        """Takes its parts; ``connect`` makes them.

        Args:
            instances: Finds and ends instances.
            launcher: Launches them.
            types: Knows what can be bought.
            prices: Knows for how much.
            group_of: Gives the placement group of a node class.
            drift: Says why an instance no longer equals its node class.
            pods_name_tenancy: Tells whether any pod says which tenancy it wants.
        """
        self.instances = instances
        self.launcher = launcher
        self.types = types
        self.prices = prices
        self._group_of = group_of
        self._drift = drift
        self._pods_name_tenancy = pods_name_tenancy
        self._named: TTLCache[str, Instance] = TTLCache(launcher.parts.clock, ttl_s=_NAMED_S, max_size=20_000)
        clock = launcher.parts.clock
        self._looking: Lookups[str, Instance | None] = Lookups(clock, self._look)
        self._looking_before: Lookups[str, tuple[Instance, ...]] = Lookups(clock, instances.of_claim)

    @property
    def parts(self) -> LauncherParts:
        """What launches work with: AWS, cluster, launch templates, what is sold out; for controllers to share."""
        return self.launcher.parts

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Machine:
        """Launch the machine of a claim, or give the one that it has already.

        Raises:
            InsufficientCapacityError: Nothing that fits can be bought now.
            NodeClassNotReadyError: The node class cannot be launched from.
            LaunchError: EC2 refused, or the claim's attempt is spent.
            LaunchPendingError: An earlier launch may still come to light.
            AwsError: EC2 throttles, or is in trouble itself.
            AwsUnreachableError: EC2 did not answer.
        """
        ready = self.readiness(node_class)
        if not ready.ready:
            raise NodeClassNotReadyError(
                node_class.metadata.name,
                ready.reason,
                ready.message,
                is_undecided=ready.reason == _UNDECIDED,
            )
        # Its conditions may be from before the rule; tags of ours with the user's values would mislead us later.
        problem = tag_problem(node_class)
        if problem is not None:
            raise NodeClassNotReadyError(
                node_class.metadata.name, problem.reason, problem.message, hint=problem.hint
            )
        if not claim.metadata.uid:
            raise LaunchError(f"claim {claim.metadata.name} has no UID, which a launch is told apart by")
        # What the journal knows is settled there, or the journal would keep it open for ever.
        adopted = None if await self.launcher.knows(claim) else await self._adopt(claim)
        if adopted is None:
            try:
                launched = await self.launcher.launch(claim, node_class)
            except AwsError as error:
                raise _refused(error) from error
            owner = {
                CLAIM_UID_TAG: claim.metadata.uid,
                labels.NODEPOOL_TAG: claim.metadata.labels.get(labels.NODEPOOL, ""),
                labels.EC2NODECLASS_TAG: node_class.metadata.name,
            }
            adopted = launched_instance(launched, owner)
        return self.machine(adopted, node_class, claim)

    async def _adopt(self, claim: NodeClaim) -> Instance | None:
        """Return the instance that a claim has already, and end any others that it has."""
        found = await self._launched_before(claim)
        await self.launcher.end_surplus(each.id for each in found[1:])
        return found[0] if found else None

    async def _launched_before(self, claim: NodeClaim) -> Sequence[Instance]:
        """Return the living instances of a claim that the journal does not know.

        With a journal this only guards against one that lost something, so it is not asked for a claim that nobody can
        have launched, and not waited for long. Without one nothing else keeps a claim from having two.
        """
        if self.parts.journal is None:
            return await self.instances.of_claim(claim.metadata.uid)
        if self.launcher.is_first_to_launch(claim):
            return ()
        try:
            return await self._looking_before.within(claim.metadata.uid, _PATIENCE_S)
        except (AwsError, AwsUnreachableError, TimeoutError) as error:
            name = claim.metadata.name
            self.parts.warn(
                f"instances of NodeClaim {name} cannot be looked for, the journal decides: {error}"
            )
            return ()

    async def delete(self, provider_id: str) -> None:
        """Order a machine to be terminated; nothing is sent for one that is on its way out.

        Raises:
            NodeClaimNotFoundError: There is none.
            LaunchPendingError: It was launched a moment ago and EC2 does not know it yet.
            TerminationRefusedError: EC2 will not, until a person acts.
            AwsError: EC2 throttles, or is in trouble itself.
            AwsUnreachableError: EC2 did not answer.
        """
        instance_id = parse_provider_id(provider_id)
        try:
            instance = await self._looking.within(instance_id, _PATIENCE_S)
        except (AwsError, AwsUnreachableError, TimeoutError):
            instance = None  # the order does not depend on it
        if instance is not None and instance.state == "terminated":
            raise _gone(provider_id, instance)
        if instance is not None and instance.state == "shutting-down":
            return
        try:
            # Also for one that EC2 does not list: lists lag, and an order to terminate does no harm.
            is_known = await self.instances.terminate(instance_id)
        except AwsError as error:
            raise _not_terminated(provider_id, error) from error
        if not is_known:
            if self.instances.is_fresh(instance_id):
                raise LaunchPendingError(
                    f"{provider_id} was just launched and EC2 does not know it yet", retry_after_s=5
                )
            raise _gone(provider_id, None)

    async def _look(self, instance_id: str) -> Instance | None:
        return await self.instances.get(instance_id, cached=False)

    async def get(self, provider_id: str) -> Machine:
        """Return one machine that is not terminated.

        Raises:
            NodeClaimNotFoundError: There is none; the hint says what EC2 says of its death.
            AwsError: EC2 refuses.
            AwsUnreachableError: EC2 did not answer.
        """
        instance = await self.instances.get(parse_provider_id(provider_id))
        if instance is None or instance.state == "terminated":
            raise _gone(provider_id, instance)
        self._note_name(instance)
        return self.machine(instance)

    async def list(self) -> Sequence[Machine]:
        """Return every machine of this cluster that is not terminated, by instance id."""
        return [self.machine(instance) for instance in await self.instances.list()]

    async def instance_types(self, pool: NodePool, node_class: EC2NodeClass) -> Sequence[InstanceType]:
        """Return what a pool may buy through a node class, sold-out offerings included and marked.

        Raises:
            NoInstanceTypesError: EC2 was not asked yet, or the class has found no subnets.
        """
        wanted = Requirements.from_expressions(pool.spec.template.spec.requirements)
        tenancy = wanted.get(labels.INSTANCE_TENANCY)
        if tenancy is not None:
            tenancies = tuple(each for each in TENANCIES if tenancy.has(each)) or DEFAULT_TENANCY
        else:
            tenancies = TENANCIES if self._pods_name_tenancy() else DEFAULT_TENANCY
        return self.types.list(node_class, group=self._group_of(node_class), tenancies=tenancies)

    async def node_mismatch(self, provider_id: str, node: Node, node_class: EC2NodeClass | None) -> str:
        """Return why a Node that names an instance cannot be its node, by its name; empty if it can.

        Raises:
            NodeClaimNotFoundError: There is no such instance.
            LaunchPendingError: It was launched a moment ago and EC2 does not tell its name yet.
            AwsError: EC2 refuses.
            AwsUnreachableError: EC2 did not answer.
        """
        instance = self._named.get(provider_id)
        if instance is None:
            instance = await self.instances.get(parse_provider_id(provider_id))
            if instance is None or instance.state == "terminated":
                raise _gone(provider_id, instance)
            self._note_name(instance)
        if not is_known(instance):
            raise LaunchPendingError(f"EC2 does not tell the name of {provider_id} yet", retry_after_s=1)
        return node_mismatch(node, instance, node_class)

    def _note_name(self, instance: Instance) -> None:
        """Remember what an instance is called: that does not change, and EC2 may be out of reach when it joins."""
        if is_known(instance):
            self._named.set(instance.provider_id, instance)

    async def drift_reason(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        """Return why a claim's machine no longer equals its node class, or an empty text.

        Raises:
            NodeClaimNotFoundError: It has no machine.
        """
        instance = await self.instances.get(parse_provider_id(claim.status.provider_id))
        if instance is None or instance.state == "terminated":
            raise _gone(claim.status.provider_id, instance)
        return await self._drift(claim, node_class, instance)

    def readiness(self, node_class: EC2NodeClass) -> NodeClassReadiness:
        """Return whether a node class can be launched from, judged by its condition Ready."""
        if node_class.metadata.deletion_timestamp is not None:
            return NodeClassReadiness(
                ready=False, reason="NodeClassTerminating", message="it is being deleted"
            )
        found = [each for each in node_class.status.conditions if each.type == conditions.READY]
        if not found or found[0].observed_generation != node_class.metadata.generation:
            return NodeClassReadiness(
                ready=False,
                reason=_UNDECIDED,
                message="its conditions are older than its spec",
            )
        if found[0].status != "True":
            told = found[0].message or "its condition Ready is not True"
            return NodeClassReadiness(ready=False, reason=found[0].reason, message=told)
        return NodeClassReadiness(ready=True)

    def repair_policies(self) -> Sequence[RepairPolicy]:
        """Return which conditions of a node mean that its machine is to be replaced."""
        return _REPAIR_POLICIES

    def possible_claims(self, machine: Machine) -> frozenset[str]:
        """Return the UIDs of the claims that a machine may belong to; garbage collection asks before it acts."""
        return self.launcher.claims_of(parse_provider_id(machine.provider_id), machine.tags)

    async def tag(self, provider_id: str, tags: Mapping[str, str]) -> bool:
        """Write tags that a machine lacks, and return whether there were any; see ``name_tags``.

        A tag that is there stays as it is: a node class may set Name, and policies may go by it.

        Raises:
            NodeClaimNotFoundError: There is none.
            AwsError: EC2 refuses.
            AwsUnreachableError: EC2 did not answer.
        """
        instance_id = parse_provider_id(provider_id)
        instance = await self.instances.get(instance_id, cached=False)
        if instance is None or instance.state == "terminated":
            raise _gone(provider_id, instance)
        missing = {key: value for key, value in tags.items() if key not in instance.tags}
        if missing:
            await self.instances.tag(instance_id, missing)
        return bool(missing)

    def machine(
        self, instance: Instance, node_class: EC2NodeClass | None = None, claim: NodeClaim | None = None
    ) -> Machine:
        """Return an instance as a machine; with its node class also with all labels and resources of its node."""
        kind = None
        if node_class is not None:
            group = self._group_of(node_class)
            kind = self.types.get(instance.instance_type, node_class, group=group)
        if kind is not None and claim is not None:
            kind = self.parts.adjust(claim.metadata.labels.get(labels.NODEPOOL, ""), (kind,))[0]
        return Machine(
            provider_id=instance.provider_id,
            image_id=instance.image_id,
            labels=machine_labels(instance, kind),
            annotations={} if node_class is None else machine_annotations(node_class),
            capacity={} if kind is None else machine_resources(kind.capacity, node_class, claim),
            allocatable={} if kind is None else machine_resources(kind.allocatable, node_class, claim),
            state=instance.state,
            claim_uid=instance.tags.get(CLAIM_UID_TAG, ""),
            created_at=instance.launched_at,
            tags=instance.tags,
        )

    async def close(self) -> None:
        """Give up on what has not been answered."""
        await self._looking.close()
        await self._looking_before.close()
        await self.launcher.close()
        await self.instances.close()


def _gone(provider_id: str, instance: Instance | None) -> NodeClaimNotFoundError:
    reason = instance.state_reason if instance is not None else ""
    hint = f"EC2 says of its end: {reason}" if reason else ""
    return NodeClaimNotFoundError(provider_id, hint=hint, has_ended=instance is not None)


def _not_terminated(provider_id: str, error: AwsError) -> Exception:
    """Return what a failed termination means: a refusal with its action and resource, or the error itself."""
    if not error.is_refusal:
        return error
    missing = denied(error)
    resource = missing.resource or parse_provider_id(provider_id)
    return TerminationRefusedError(
        provider_id, action=missing.action, resource=resource, code=error.code, hint=error.hint
    )


def _refused(error: AwsError) -> Exception:
    if error.cause.is_unfulfillable and error.cause.kind is not Kind.QUOTA:
        return InsufficientCapacityError(error.message, hint=error.hint)
    if error.cause.kind in _FOR_PEOPLE:
        return LaunchError(error.message, reason=error.cause.reason, code=error.code, hint=error.hint)
    return error


def name_tags(claim: NodeClaim, cluster_name: str) -> dict[str, str]:
    """Return the tags that an instance gets once its node is known: names of node, claim and cluster.

    No others: policies written for Karpenter allow just these on an instance that exists.
    """
    return {
        labels.NAME_TAG: claim.status.node_name,
        labels.NODECLAIM_TAG: claim.metadata.name,
        labels.EKS_CLUSTER_NAME_TAG: cluster_name,
    }


async def describe_cluster(aws: Aws, settings: AwsSettings, clock: Clock) -> Cluster:
    """Return the cluster that nodes join: what the settings say, and for the rest what EKS says.

    Raises:
        AwsError: EKS refuses, and the settings do not name the endpoint either.
        AwsUnreachableError: EKS did not answer, and the settings do not name the endpoint either.
    """
    given = Cluster(
        name=settings.cluster_name,
        endpoint=settings.cluster_endpoint,
        ca_bundle=settings.cluster_ca_bundle,
        dns_ip=settings.cluster_dns_ip,
    )
    asked = aws.call("eks", "DescribeCluster", name=settings.cluster_name)
    try:
        answer = await (within(clock, _START_WAIT_S, asked) if settings.cluster_endpoint else asked)
    except (AwsError, AwsUnreachableError, TimeoutError):
        if not settings.cluster_endpoint:
            raise
        return given  # outside EKS, or out of its reach; AL2023 will say that it misses the service addresses
    found = answer["cluster"]
    network = found.get("kubernetesNetworkConfig", {})
    family = network.get("ipFamily", "ipv4")
    return replace(
        given,
        endpoint=given.endpoint or found.get("endpoint", ""),
        ca_bundle=given.ca_bundle or found.get("certificateAuthority", {}).get("data", ""),
        service_cidr=network.get("serviceIpv6Cidr" if family == "ipv6" else "serviceIpv4Cidr", ""),
        ip_family=family,
    )


class Hooks(TypedDict, total=False):
    """What ``connect`` may be given of what its caller knows; every name has a default.

    Attributes:
        group_of: Gives the placement group of a node class.
        drift: Says why an instance no longer equals its node class.
        reservation_count: Gives how many instances a reservation has room for.
        reservation_used: Is told of each instance launched into a reservation, and of one found full.
        shifted_zone_ids: Gives the zones that traffic is shifted away from.
        pods_name_tenancy: Tells whether any pod says which tenancy it wants.
        warn: Is told what a person may want to know.
        template_created: Is told of each launch template that a launch needed and did not find.
        offerings_failed: Is told of the offerings that a launch failed for, and their capacity type.
        on_batch: Is told name and size of each batch of requests, and for how long it was gathered.
        adjust: Corrects instance types for a NodePool, as NodeOverlays say.
        before_mutation: For boto3, where no ``aws`` is given: is asked before each change.
        on_call: For boto3, where no ``aws`` is given: is told of each call.
    """

    group_of: GroupOf
    drift: DriftCheck
    reservation_count: Callable[[str], int]
    reservation_used: Callable[[str, bool], None]
    shifted_zone_ids: Callable[[], frozenset[str]]
    pods_name_tenancy: Callable[[], bool]
    warn: Callable[[str], None]
    template_created: Callable[[str, LaunchSpec], None]
    offerings_failed: Callable[[Sequence[FleetError], str], None]
    on_batch: OnBatch
    adjust: AdjustTypes
    before_mutation: Callable[[], None]
    on_call: Callable[[CallRecord], None]


async def connect(
    settings: AwsSettings,
    *,
    aws: Aws | None = None,
    clock: Clock | None = None,
    journal: LaunchJournal | None = None,
    **hooks: Unpack[Hooks],
) -> AwsProvider:
    """Put the provider together and have it know cluster, instance types and prices.

    Args:
        settings: What the installation says.
        aws: AWS; by default by boto3.
        clock: Its time; by default the machine's.
        journal: Where launches are written down before they happen; without it, claims are launched one by one.
        hooks: What the controllers of this cloud know.

    Raises:
        AwsError: AWS refuses something that cannot be done without.
        AwsUnreachableError: AWS cannot be reached, or there are no credentials.
        TypeError: There is no hook of that name.
    """
    _refuse_unknown(hooks)
    clock = clock or SystemClock()
    if aws is None:
        region = await find_region(settings.region)
        aws = BotoAws(region, clock=clock, **_some(hooks, "before_mutation", "on_call"))
    cluster = await describe_cluster(aws, settings, clock)
    prices = Prices(aws, clock, isolated_vpc=settings.isolated_vpc)
    unavailable = Unavailable(clock)
    types = InstanceTypes(
        aws,
        clock,
        prices=prices,
        unavailable=unavailable,
        settings=SizeSettings(settings.vm_memory_overhead_percent, settings.reserved_enis),
        **_some(hooks, "reservation_count", "shifted_zone_ids"),
    )
    # A failure of prices is not lost: the refresh in the background finds them old, asks again and logs why.
    await asyncio.gather(_briefly(prices.refresh_on_demand(), clock), prices.refresh_spot(), types.refresh())
    group_of: GroupOf = hooks.get("group_of", lambda _: None)
    templates = LaunchTemplates(aws, clock, cluster_name=settings.cluster_name)
    await templates.hydrate()
    instances = Instances(aws, clock, cluster_name=settings.cluster_name, **_some(hooks, "on_batch"))
    parts = LauncherParts(
        aws=aws,
        clock=clock,
        cluster=lambda: cluster,
        templates=templates,
        addresses=Addresses(aws, clock, unavailable),
        unavailable=unavailable,
        instances=instances,
        types_of=lambda of, tenancies: types.list(of, group=group_of(of), tenancies=tenancies),
        journal=journal,
        uses_reservations=settings.uses_reservations,
        **_some(hooks, "group_of", "reservation_used", "warn", "template_created"),
        **_some(hooks, "offerings_failed", "on_batch", "adjust"),
    )
    return AwsProvider(
        instances=instances,
        launcher=Launcher(parts),
        types=types,
        prices=prices,
        group_of=group_of,
        drift=hooks.get("drift") or _drift_check(types, instances, group_of),
        **_some(hooks, "pods_name_tenancy"),
    )


async def _briefly(work: Coroutine[Any, Any, object], clock: Clock) -> None:
    with contextlib.suppress(TimeoutError):
        await within(clock, _START_WAIT_S, work)


def _drift_check(types: InstanceTypes, instances: Instances, group_of: GroupOf) -> Drift:
    async def reread(instance_id: str) -> Instance | None:
        return await instances.get(instance_id, cached=False)

    def labels_of(name: str, node_class: EC2NodeClass) -> Mapping[str, str] | None:
        found = types.get(name, node_class, group=group_of(node_class))
        return found.labels if found is not None else None

    return Drift(type_labels=labels_of, group_of=group_of, reread=reread)


def _refuse_unknown(hooks: Hooks) -> None:
    unknown = hooks.keys() - Hooks.__annotations__.keys()
    if unknown:
        raise TypeError(f"connect() knows no hook called {min(unknown)}")


def _some(hooks: Hooks, *names: str) -> dict[str, Any]:
    return {name: each for name, each in hooks.items() if name in names}
