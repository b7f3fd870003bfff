# SPDX-License-Identifier: Apache-2.0
"""Puts AWS together for a replica: the provider, and what AWS itself needs to have running on the leader.

Everything that knows AWS is in ``cloud.aws``; this joins its parts with the cluster: where the DNS service is, which
version the server has, which claims name which instance profile, whom an interruption concerns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.addresses import Addresses
from karpenter.cloud.aws.amis import Amis
from karpenter.cloud.aws.api import AwsError, BotoAws, CallRecord
from karpenter.cloud.aws.discovery import Account
from karpenter.cloud.aws.drift import Drift
from karpenter.cloud.aws.garbage import profiles_in_use
from karpenter.cloud.aws.instances import Instances
from karpenter.cloud.aws.instancetypes.provider import InstanceTypes
from karpenter.cloud.aws.instancetypes.sizes import SizeSettings
from karpenter.cloud.aws.interruption import (
    Actor,
    InstanceHealth,
    Interruption,
    InterruptionQueue,
    PollReport,
)
from karpenter.cloud.aws.launching import Launcher, LauncherParts
from karpenter.cloud.aws.launchtemplates import LaunchTemplates
from karpenter.cloud.aws.nodeclass import DryRuns, NodeClassStatus, StatusParts
from karpenter.cloud.aws.placementgroups import PlacementGroups
from karpenter.cloud.aws.pricing import USUAL_EVERY_S, Prices
from karpenter.cloud.aws.profiles import InstanceProfiles
from karpenter.cloud.aws.provider import AwsProvider, AwsSettings, describe_cluster, name_tags
from karpenter.cloud.aws.reservations import Reservations
from karpenter.cloud.aws.securitygroups import SecurityGroups
from karpenter.cloud.aws.subnets import Subnets
from karpenter.cloud.aws.unavailable import PoolOut, Unavailable
from karpenter.cloud.aws.zonalshift import REFRESH_EVERY_S as SHIFTS_EVERY_S
from karpenter.cloud.aws.zonalshift import ZonalShifts, cluster_arn
from karpenter.controllers.interruption import Interruptions
from karpenter.controllers.nodeclass import NodeClasses
from karpenter.controllers.tagging import Tagging
from karpenter.errors import KarpenterError
from karpenter.kube import Client, KubeError
from karpenter.model.resources import MEMORY, Resources
from karpenter.observe import Log, get_log
from karpenter.operator.journal import KubeJournal
from karpenter.operator.launchlog import LaunchLog
from karpenter.operator.runtime import CloudParts, Surroundings
from karpenter.operator.settings import Settings

__all__ = ["make_aws"]

_DNS: Final = "/api/v1/namespaces/kube-system/services/kube-dns"
_REFRESH_S: Final = 12 * 3600.0
_SWEEP_S: Final = 60.0
_PROFILES_S: Final = 1800.0


@dataclass(frozen=True, slots=True)
class _Aws:
    """The parts of AWS that several others share."""

    aws: BotoAws
    prices: Prices
    unavailable: Unavailable
    types: InstanceTypes
    instances: Instances
    templates: LaunchTemplates
    groups: PlacementGroups
    reservations: Reservations
    profiles: InstanceProfiles
    amis: Amis
    shifts: ZonalShifts | None = None


async def make_aws(parts: Surroundings, fence: Callable[[], None]) -> CloudParts:
    """Makes AWS for a replica.

    Raises:
        AwsError: AWS refuses something that cannot be done without.
        AwsUnreachableError: AWS cannot be reached, or there are no credentials.
    """
    settings, clock = parts.settings, parts.clock
    log = get_log("aws")
    aws = BotoAws(clock=clock, before_mutation=fence, on_call=lambda record: _count(parts, record))
    wanted = AwsSettings(
        cluster_name=settings.cluster_name,
        cluster_endpoint=settings.cluster_endpoint,
        cluster_ca_bundle=settings.cluster_ca_bundle,
        cluster_dns_ip=await _dns_address(parts.client),
        isolated_vpc=settings.isolated_vpc,
    )
    cluster = await describe_cluster(aws, wanted)
    version = await _version(parts.client, aws, settings)
    account = Account(aws)
    shared = await _shared(parts, aws)
    launcher = Launcher(
        LauncherParts(
            aws=aws,
            clock=clock,
            cluster=lambda: cluster,
            templates=shared.templates,
            addresses=Addresses(aws, clock, shared.unavailable),
            unavailable=shared.unavailable,
            instances=shared.instances,
            types_of=lambda node_class, tenancies: shared.types.list(
                node_class, group=shared.groups.group_of(node_class), tenancies=tenancies
            ),
            group_of=shared.groups.group_of,
            journal=KubeJournal(
                parts.client, settings.leader_election_namespace or parts.client.config.namespace
            ),
            uses_reservations=settings.feature_gates.reserved_capacity,
            reservation_used=shared.reservations.counts.used,
            warn=log.warning,
            template_created=LaunchLog(log, version, shared.amis.parameter_of),
        )
    )

    async def reread(instance_id: str) -> Any:
        return await shared.instances.get(instance_id, cached=False)

    def labels_of(name: str, node_class: EC2NodeClass) -> Mapping[str, str] | None:
        found = shared.types.get(name, node_class, group=shared.groups.group_of(node_class))
        return found.labels if found is not None else None

    drift = Drift(type_labels=labels_of, group_of=shared.groups.group_of, reread=reread)
    provider = AwsProvider(
        instances=shared.instances,
        launcher=launcher,
        types=shared.types,
        group_of=shared.groups.group_of,
        drift=drift,
    )
    status = NodeClassStatus(
        StatusParts(
            clock=clock,
            cluster_name=settings.cluster_name,
            kubernetes=lambda: version,
            cluster=lambda: cluster,
            account=account,
            amis=shared.amis,
            reservations=shared.reservations,
            placement_groups=shared.groups,
            subnets=Subnets(aws, clock, refresh_s=settings.subnet_refresh_interval),
            security_groups=SecurityGroups(aws, clock),
            profiles=shared.profiles,
            templates=shared.templates,
            dry_runs=None
            if settings.disable_dry_run
            else DryRuns(
                aws,
                clock,
                templates=shared.templates,
                types_of=lambda node_class: shared.types.list(
                    node_class, group=shared.groups.group_of(node_class)
                ),
                cluster=lambda: cluster,
                group_of=shared.groups.group_of,
            ),
            uses_reservations=settings.feature_gates.reserved_capacity,
        )
    )
    classes = NodeClasses(
        client=parts.client,
        cluster=parts.cluster,
        resolver=status,
        recorder=parts.recorder,
        metrics=parts.metrics,
        clock=clock,
    )

    async def tag(claim: NodeClaim) -> None:
        await provider.tag(claim.status.provider_id, name_tags(claim, settings.cluster_name))

    tagging = Tagging(client=parts.client, cluster=parts.cluster, tag=tag, metrics=parts.metrics, clock=clock)
    parts.cluster.informers.nodes.on_change(lambda change: _learn(parts, shared, change.new))
    tasks: dict[str, Callable[[], Awaitable[None]]] = {
        "nodeclass": classes.run,
        "nodeclaim.tagging": tagging.run,
        "pricing": lambda: _again(parts, _REFRESH_S, log, shared.prices.refresh),
        "usualprices": lambda: _again(parts, USUAL_EVERY_S, log, shared.prices.refresh_usual),
        "instancetypes": lambda: _again(parts, _REFRESH_S, log, shared.types.refresh),
        "launchtemplates": lambda: _again(parts, _SWEEP_S, log, shared.templates.sweep),
        "instanceprofiles": lambda: _again(parts, _PROFILES_S, log, lambda: _sweep_profiles(parts, shared)),
        "amis": lambda: _again(parts, _PROFILES_S, log, shared.amis.drop_deprecated),
        **_interruption_tasks(parts, shared, await account.id(), log),
    }
    if shared.shifts is not None:
        refresh = shared.shifts.refresh
        tasks["zonalshift"] = lambda: _again(parts, SHIFTS_EVERY_S, log, refresh)
    return CloudParts(provider, tasks, owners=provider.possible_claims, taken_over=launcher.forget)


async def _shared(parts: Surroundings, aws: BotoAws) -> _Aws:
    settings, clock = parts.settings, parts.clock
    prices = Prices(aws, clock, isolated_vpc=settings.isolated_vpc)
    unavailable = Unavailable(clock)
    reservations = Reservations(aws, clock)
    shifts = None
    if settings.enable_zonal_shift:
        shifts = ZonalShifts(aws, clock, arn=await cluster_arn(aws, settings.cluster_name))
        await shifts.refresh()
    types = InstanceTypes(
        aws,
        clock,
        prices=prices,
        unavailable=unavailable,
        settings=SizeSettings(settings.vm_memory_overhead_percent, settings.reserved_enis),
        reservation_count=reservations.counts.room,
        **({"shifted_zone_ids": shifts.shifted_zone_ids} if shifts is not None else {}),
    )
    await asyncio.gather(prices.refresh(), types.refresh())
    templates = LaunchTemplates(aws, clock, cluster_name=settings.cluster_name)
    await templates.hydrate()
    return _Aws(
        aws=aws,
        prices=prices,
        unavailable=unavailable,
        types=types,
        instances=Instances(aws, clock, cluster_name=settings.cluster_name),
        templates=templates,
        groups=PlacementGroups(aws, clock),
        reservations=reservations,
        profiles=InstanceProfiles(aws, clock, cluster_name=settings.cluster_name),
        amis=Amis(aws, clock, refresh_s=settings.ami_refresh_interval),
        shifts=shifts,
    )


def _interruption_tasks(
    parts: Surroundings, shared: _Aws, account: str, log: Log
) -> dict[str, Callable[[], Awaitable[None]]]:
    def spot_lost(claim: NodeClaim) -> None:
        labels = claim.metadata.labels
        shared.unavailable.mark(
            PoolOut(names.SPOT, labels.get(names.INSTANCE_TYPE, ""), labels.get(names.ZONE, "")),
            "SpotInterrupted",
        )

    interruptions = Interruptions(
        client=parts.client,
        cluster=parts.cluster,
        recorder=parts.recorder,
        decisions=parts.decisions,
        metrics=parts.metrics,
        clock=parts.clock,
        on_spot=spot_lost,
    )

    async def handle(interruption: Interruption) -> None:
        kind = interruption.kind
        if interruption.reservation_id:
            shared.reservations.counts.used(interruption.reservation_id, is_full=True)
        await interruptions.handle(interruption, ends=kind.ends_the_node, forceful=kind.is_forceful)

    def polled(report: PollReport) -> None:
        for kind, count in report.received.items():
            parts.metrics.interruption_received.labels(kind).inc(count)
        parts.metrics.interruption_deleted.inc(report.deleted)
        for age_s in report.ages_s:
            parts.metrics.interruption_queue_seconds.observe(age_s)

    actor = Actor(handle, parts.clock)
    health = InstanceHealth(
        shared.aws, parts.clock, actor, on_problem=lambda error: log.error("instance status", error=error)
    )
    tasks: dict[str, Callable[[], Awaitable[None]]] = {
        "instancestatus": health.run,
        "interruption.nodes": interruptions.run,
    }
    if not parts.settings.interruption_queue:
        log.warning(
            "interruption handling is off: a spot node may be lost without notice",
            hint="create the queue and set --interruption-queue; instance status is still asked every minute",
        )
        return tasks
    queue = InterruptionQueue(
        shared.aws,
        parts.clock,
        actor,
        queue_name=parts.settings.interruption_queue,
        account=account,
        on_poll=polled,
        on_problem=lambda error: log.error("interruption queue", error=error),
    )
    return {**tasks, "interruption": queue.run}


async def _again(parts: Surroundings, every_s: float, log: Log, work: Callable[[], Awaitable[Any]]) -> None:
    """Does something now and then; a failure is told and the next time is waited for."""
    while True:
        await parts.clock.sleep(every_s)
        try:
            await work()
        except KarpenterError as error:
            log.error("refreshing from AWS failed and is tried again", error=error)  # noqa: TRY400 - it has a hint


async def _sweep_profiles(parts: Surroundings, shared: _Aws) -> None:
    cluster = parts.cluster
    await shared.profiles.sweep(profiles_in_use(cluster.effective.classes.values(), cluster.informers.claims))


def _learn(parts: Surroundings, shared: _Aws, node: Node | None) -> None:
    """Remembers how much memory a real node of a type has, so that the next plan knows instead of guessing."""
    if node is None or node.metadata.labels.get(names.INITIALIZED) != "true":
        return
    for claim in parts.cluster.informers.claims.by("provider_id", node.spec.provider_id):
        node_class = parts.cluster.node_class(claim.spec.node_class_ref.name)
        memory = Resources.parse(node.status.capacity).get(MEMORY, 0)
        if node_class is not None and memory:
            shared.types.learn(node_class, node.metadata.labels, claim.status.image_id, memory)


async def _dns_address(client: Client) -> str:
    try:
        service = msgspec.json.decode(await client.raw("GET", _DNS), type=dict[str, Any])
    except KubeError:
        # Without it the bootstrap script of the image finds the address itself.
        return ""
    address = service.get("spec", {}).get("clusterIP", "")
    return "" if address == "None" else str(address)


async def _version(client: Client, aws: BotoAws, settings: Settings) -> str:
    """Gives the version that nodes join: EKS' word for it, or that of the API server outside EKS."""
    if settings.eks_control_plane:
        try:
            found = await aws.call("eks", "DescribeCluster", name=settings.cluster_name)
        except AwsError:
            found = {}
        if version := str(found.get("cluster", {}).get("version", "")):
            return version
    answer = msgspec.json.decode(await client.raw("GET", "/version"), type=dict[str, Any])
    return f"{answer.get('major', '1')}.{str(answer.get('minor', '')).rstrip('+')}"


def _count(parts: Surroundings, record: CallRecord) -> None:
    method = f"{record.service}:{record.operation}"
    parts.metrics.cloud_seconds.labels(method, "aws").observe(record.seconds)
    if record.code:
        parts.metrics.cloud_errors.labels(method, "aws", record.code).inc()
