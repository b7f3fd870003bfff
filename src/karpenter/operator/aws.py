# SPDX-License-Identifier: Apache-2.0
"""Puts AWS together for a replica: the provider, and what AWS itself needs to have running on the leader.

Everything that knows AWS is in ``cloud.aws``; this joins its parts with the cluster: where the DNS service is, which
version the server has, which claims name which instance profile, whom an interruption concerns.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.amis import Amis
from karpenter.cloud.aws.api import BotoAws, CallRecord
from karpenter.cloud.aws.discovery import Account
from karpenter.cloud.aws.instancetypes.provider import InstanceTypes
from karpenter.cloud.aws.interruption import (
    Actor,
    InstanceHealth,
    Interruption,
    InterruptionQueue,
    PollReport,
    Verifier,
)
from karpenter.cloud.aws.launchtemplates import LaunchSpec
from karpenter.cloud.aws.nodeclass import DryRuns, NodeClassStatus, StatusParts
from karpenter.cloud.aws.placementgroups import PlacementGroups
from karpenter.cloud.aws.pricing import USUAL_EVERY_S, Prices
from karpenter.cloud.aws.profiles import InstanceProfiles, profiles_in_use
from karpenter.cloud.aws.provider import AwsProvider, AwsSettings, Hooks, connect, name_tags
from karpenter.cloud.aws.region import find_region
from karpenter.cloud.aws.reservations import (
    RELEASED_LABELS,
    Reservations,
    expiring_claims,
    released_claims,
)
from karpenter.cloud.aws.securitygroups import SecurityGroups
from karpenter.cloud.aws.subnets import Subnets
from karpenter.cloud.aws.unavailable import PoolOut
from karpenter.cloud.aws.zonalshift import REFRESH_EVERY_S as SHIFTS_EVERY_S
from karpenter.cloud.aws.zonalshift import ZonalShifts, cluster_arn
from karpenter.controllers.interruption import Interruptions
from karpenter.controllers.nodeclass import NodeClasses
from karpenter.controllers.reservations import ReservationEnds
from karpenter.controllers.tagging import Tagging
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock, within
from karpenter.kit.rounds import one_round
from karpenter.kube import Client, KubeError
from karpenter.model.resources import MEMORY, Resources
from karpenter.observe import Detail, Log, Metrics, get_log
from karpenter.operator.awshealth import AwsHealth
from karpenter.operator.journal import KubeJournal, SetAside
from karpenter.operator.launchlog import LaunchLog
from karpenter.operator.measuring import AwsMetrics
from karpenter.operator.prices import refresh_prices
from karpenter.operator.runtime import CloudParts, Surroundings
from karpenter.operator.settings import Settings, state_namespace
from karpenter.operator.tenancy import TenancyDemand

__all__ = ["make_aws"]

_DNS: Final = "/api/v1/namespaces/kube-system/services/kube-dns"
_REFRESH_S: Final = 12 * 3600.0
_SWEEP_S: Final = 60.0
_PROFILES_S: Final = 1800.0
# How long the start waits for EKS to name the version, which the API server can tell, too.
_EKS_WAIT_S: Final = 5.0
_OFFERINGS_S: Final = 5.0
_RESERVATIONS_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Aws:
    """The parts of AWS that several others share."""

    provider: AwsProvider
    account: Account
    kubernetes: str
    groups: PlacementGroups
    reservations: Reservations
    profiles: InstanceProfiles
    amis: Amis
    measures: AwsMetrics
    shifts: ZonalShifts | None = None


async def make_aws(parts: Surroundings, fence: Callable[[], None]) -> CloudParts:
    """Makes AWS for a replica.

    Raises:
        AwsError: AWS refuses something that cannot be done without.
        AwsUnreachableError: AWS cannot be reached, or there are no credentials.
    """
    log = get_log("aws")
    shared = await _shared(parts, fence, log)
    provider = shared.provider
    classes = NodeClasses(
        client=parts.client,
        cluster=parts.cluster,
        resolver=_status(parts, shared),
        recorder=parts.recorder,
        metrics=parts.metrics,
        clock=parts.clock,
    )

    async def tag(claim: NodeClaim) -> bool:
        return await provider.tag(claim.status.provider_id, name_tags(claim, parts.settings.cluster_name))

    tagging = Tagging(
        client=parts.client, cluster=parts.cluster, tag=tag, metrics=parts.metrics, clock=parts.clock
    )
    _show_price_age(parts.metrics, provider.prices)
    parts.cluster.informers.nodes.on_change(lambda change: _learn(parts, provider.types, change.new))
    tasks: dict[str, Callable[[], Awaitable[None]]] = {
        "nodeclass": classes.run,
        "nodeclaim.tagging": tagging.run,
        "pricing": lambda: refresh_prices(provider.prices, parts.clock, log),
        "usualprices": lambda: _again(parts, USUAL_EVERY_S, log, provider.prices.refresh_usual),
        "instancetypes": lambda: _again(parts, _REFRESH_S, log, provider.types.refresh),
        "launchtemplates": lambda: _again(parts, _SWEEP_S, log, provider.parts.templates.sweep),
        "amis": lambda: _again(parts, _PROFILES_S, log, shared.amis.drop_deprecated),
        **_interruption_tasks(parts, shared, log),
    }
    if not parts.settings.isolated_vpc:
        tasks["instanceprofiles"] = lambda: _again(
            parts, _PROFILES_S, log, lambda: _sweep_profiles(parts, shared)
        )
    if parts.settings.feature_gates.reserved_capacity:
        ends = _reservation_ends(parts, provider)
        tasks["capacityreservation"] = lambda: _again(parts, _RESERVATIONS_S, log, ends.reconcile)
    if Detail.INSTANCE_TYPES in parts.metrics.details:
        tasks["cloudprovider.metrics"] = lambda: _again(
            parts,
            _OFFERINGS_S,
            log,
            lambda: shared.measures.follow_offerings(provider, parts.clock.monotonic()),
            at_once=True,
        )
    if shared.shifts is not None:
        refresh = shared.shifts.refresh
        tasks["zonalshift"] = lambda: _again(parts, SHIFTS_EVERY_S, log, refresh)
    return CloudParts(provider, tasks, owners=provider.possible_claims, taken_over=provider.launcher.forget)


async def _shared(parts: Surroundings, fence: Callable[[], None], log: Log) -> _Aws:
    settings, clock = parts.settings, parts.clock
    health = AwsHealth(parts.cluster, parts.recorder, clock, log)

    measures = AwsMetrics(parts.metrics, parts.cluster)

    def called(record: CallRecord) -> None:
        measures.called(record)
        health(record)

    aws = BotoAws(await find_region(), clock=clock, before_mutation=fence, on_call=called)
    kubernetes = await _version(parts.client, aws, settings, clock)
    groups, reservations = PlacementGroups(aws, clock), Reservations(aws, clock)
    amis = Amis(aws, clock, refresh_s=settings.ami_refresh_interval)
    launch_log = LaunchLog(log, kubernetes, amis.parameter_of)

    def template_created(name: str, spec: LaunchSpec) -> None:
        launch_log(name, spec)
        measures.template_created(name, spec)

    hooks: Hooks = {
        "group_of": groups.group_of,
        "reservation_count": reservations.counts.room,
        "reservation_used": reservations.counts.used,
        "pods_name_tenancy": TenancyDemand(parts.cluster.informers.pods),
        "warn": log.warning,
        "template_created": template_created,
        "offerings_failed": measures.offerings_failed,
        "on_batch": measures.batched,
        "adjust": lambda pool, types: parts.overlays.adjust(parts.cluster.pool(pool), types),
    }
    shifts = None
    if settings.enable_zonal_shift:
        shifts = ZonalShifts(aws, clock, arn=await cluster_arn(aws, settings.cluster_name))
        await shifts.refresh()
        hooks["shifted_zone_ids"] = shifts.shifted_zone_ids
    wanted = AwsSettings(
        cluster_name=settings.cluster_name,
        cluster_endpoint=settings.cluster_endpoint,
        cluster_ca_bundle=settings.cluster_ca_bundle,
        cluster_dns_ip=await _dns_address(parts.client),
        isolated_vpc=settings.isolated_vpc,
        vm_memory_overhead_percent=settings.vm_memory_overhead_percent,
        reserved_enis=settings.reserved_enis,
        uses_reservations=settings.feature_gates.reserved_capacity,
    )
    namespace = state_namespace(settings, parts.client.config.namespace)
    journal = KubeJournal(parts.client, namespace, SetAside(parts.recorder, parts.metrics, log))
    return _Aws(
        provider=await connect(wanted, aws=aws, clock=clock, journal=journal, **hooks),
        account=Account(aws, clock, cluster_name=settings.cluster_name),
        kubernetes=kubernetes,
        groups=groups,
        reservations=reservations,
        profiles=InstanceProfiles(aws, clock, cluster_name=settings.cluster_name),
        amis=amis,
        measures=measures,
        shifts=shifts,
    )


def _status(parts: Surroundings, shared: _Aws) -> NodeClassStatus:
    """Puts together what finds out for a node class what may be launched from it."""
    settings, clock, launching = parts.settings, parts.clock, shared.provider.parts
    dry_runs = DryRuns(
        launching.aws,
        clock,
        templates=launching.templates,
        types_of=lambda of: shared.provider.types.list(of, group=shared.groups.group_of(of)),
        cluster=launching.cluster,
        group_of=shared.groups.group_of,
    )
    return NodeClassStatus(
        StatusParts(
            clock=clock,
            cluster_name=settings.cluster_name,
            kubernetes=lambda: shared.kubernetes,
            cluster=launching.cluster,
            account=shared.account,
            amis=shared.amis,
            reservations=shared.reservations,
            placement_groups=shared.groups,
            subnets=Subnets(launching.aws, clock, refresh_s=settings.subnet_refresh_interval),
            security_groups=SecurityGroups(launching.aws, clock),
            profiles=shared.profiles,
            templates=launching.templates,
            dry_runs=None if settings.disable_dry_run else dry_runs,
            uses_reservations=settings.feature_gates.reserved_capacity,
            isolated_vpc=settings.isolated_vpc,
        )
    )


def _interruption_tasks(
    parts: Surroundings, shared: _Aws, log: Log
) -> dict[str, Callable[[], Awaitable[None]]]:
    def spot_lost(claim: NodeClaim) -> None:
        labels = claim.metadata.labels
        shared.provider.parts.unavailable.mark(
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

    actor = Actor(handle, parts.clock)
    aws = shared.provider.parts.aws
    health = InstanceHealth(
        aws,
        parts.clock,
        actor,
        on_problem=lambda error: log.error("instance status", error=error),
        on_unhealthy=shared.measures.unhealthy,
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
    verifier = Verifier(
        aws,
        parts.clock,
        instances=shared.provider.parts.instances,
        claims_of=lambda instance_id: parts.cluster.informers.claims.by("instance", instance_id),
    )
    queue = InterruptionQueue(
        aws,
        parts.clock,
        actor,
        queue_name=parts.settings.interruption_queue,
        verify=verifier.verify,
        on_poll=lambda report: _note_poll(parts, log, report),
        on_problem=lambda error: log.error("interruption queue", error=error),
    )
    return {**tasks, "interruption": queue.run}


def _show_price_age(metrics: Metrics, prices: Prices) -> None:
    def age_s(capacity_type: str) -> float:
        known = prices.age_s(capacity_type)
        return math.nan if known is None else known

    for capacity_type in (names.ON_DEMAND, names.SPOT):
        gauge = metrics.price_age_seconds.labels(capacity_type)
        gauge.set_function(functools.partial(age_s, capacity_type))


def _note_poll(parts: Surroundings, log: Log, report: PollReport) -> None:
    """Count what one receiving brought, and log what was refused: one line for each reason."""
    metrics, cluster = parts.metrics, parts.settings.cluster_name
    for kind, count in report.received.items():
        metrics.interruption_received.labels(kind).inc(count)
    metrics.interruption_deleted.inc(report.deleted)
    for age_s in report.ages_s:
        metrics.interruption_queue_seconds.observe(age_s)
    for reason in sorted({each.reason for each in report.refused}):
        refused = [each for each in report.refused if each.reason == reason]
        metrics.interruption_refused.labels(reason).inc(len(refused))
        log.warning(
            "refused interruption message",
            reason=reason,
            count=len(refused),
            details=[each.detail for each in refused],
            hint="it was not obeyed; if you did not send it, see who else may send to the queue: "
            f"karpenter install aws --cluster-name {cluster} --check",
        )


async def _again(
    parts: Surroundings,
    every_s: float,
    log: Log,
    work: Callable[[], Awaitable[Any]],
    *,
    at_once: bool = False,
) -> None:
    """Does something now and then; a failure is told and the next time is waited for."""
    pause_s = 0.0 if at_once else every_s
    while True:
        await parts.clock.sleep(pause_s)
        pause_s = every_s
        try:
            with one_round(parts.clock):
                await work()
        except KarpenterError as error:
            log.error("refreshing from AWS failed and is tried again", error=error)  # noqa: TRY400 - it has a hint


def _reservation_ends(parts: Surroundings, provider: AwsProvider) -> ReservationEnds:
    return ReservationEnds(
        client=parts.client,
        cluster=parts.cluster,
        machines=provider.list,
        released=released_claims,
        expiring=lambda claims: expiring_claims(claims, parts.cluster.effective.classes.values()),
        labels=RELEASED_LABELS,
        metrics=parts.metrics,
    )


async def _sweep_profiles(parts: Surroundings, shared: _Aws) -> None:
    cluster = parts.cluster
    # What cannot be read may name a profile: the next sweep comes soon enough.
    if cluster.informers.claims.unreadable or cluster.informers.classes.unreadable:
        return
    await shared.profiles.sweep(profiles_in_use(cluster.effective.classes.values(), cluster.informers.claims))


def _learn(parts: Surroundings, types: InstanceTypes, node: Node | None) -> None:
    """Remembers how much memory a real node of a type has, so that the next plan knows instead of guessing."""
    if node is None or node.metadata.labels.get(names.INITIALIZED) != "true":
        return
    for claim in parts.cluster.informers.claims.by("provider_id", node.spec.provider_id):
        node_class = parts.cluster.node_class(claim.spec.node_class_ref.name)
        memory = Resources.parse(node.status.capacity).get(MEMORY, 0)
        if node_class is not None and memory:
            types.learn(node_class, node.metadata.labels, claim.status.image_id, memory)


async def _dns_address(client: Client) -> str:
    try:
        service = msgspec.json.decode(await client.raw("GET", _DNS), type=dict[str, Any])
    except KubeError:
        # Without it the bootstrap script of the image finds the address itself.
        return ""
    address = service.get("spec", {}).get("clusterIP", "")
    return "" if address == "None" else str(address)


async def _version(client: Client, aws: BotoAws, settings: Settings, clock: Clock) -> str:
    """Gives the version that nodes join: EKS' word for it, or that of the API server outside EKS."""
    if settings.eks_control_plane:
        found: dict[str, Any] = {}
        with contextlib.suppress(KarpenterError, TimeoutError):
            asked = aws.call("eks", "DescribeCluster", name=settings.cluster_name)
            found = await within(clock, _EKS_WAIT_S, asked)
        if version := str(found.get("cluster", {}).get("version", "")):
            return version
    answer = msgspec.json.decode(await client.raw("GET", "/version"), type=dict[str, Any])
    return f"{answer.get('major', '1')}.{str(answer.get('minor', '')).rstrip('+')}"
