# SPDX-License-Identifier: Apache-2.0
"""Puts the controllers that take nodes away together: who decides, by which settings, and where memory is kept."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from karpenter.api.core import Pod
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.protocol import CloudProvider
from karpenter.consolidation import Settings as Choices
from karpenter.consolidation import pool_policy, propose, validate
from karpenter.controllers.departures import Departures
from karpenter.controllers.disruption import (
    DaemonPlans,
    Disruption,
    DisruptionSettings,
    ExecutionSettings,
    Marking,
    Rules,
)
from karpenter.controllers.provisioning import Market, Provisioner
from karpenter.controllers.repair import Repair
from karpenter.controllers.static import StaticPools
from karpenter.kube import AlreadyExistsError, Client, NotFoundError
from karpenter.operator.journal import CONFIG_MAPS, create_config_map
from karpenter.operator.parts import Surroundings
from karpenter.operator.settings import Settings, state_namespace
from karpenter.scheduling import SolveOptions, solve

__all__ = ["ConfigMapStore", "removing"]

_HOUR_S: Final = 3600.0
_MEMORY: Final = "karpenter-consolidation-memory"
_KEY: Final = "memory"


class ConfigMapStore:
    """Keeps a text in a ConfigMap of the namespace where state is kept."""

    def __init__(self, client: Client, namespace: str, name: str = _MEMORY) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    async def load(self) -> str:
        """Gives the text; empty if there is none."""
        try:
            found = await self._client.get(CONFIG_MAPS, self._name, self._namespace)
        except NotFoundError:
            return ""
        return found.data.get(_KEY, "")

    async def save(self, text: str) -> None:
        """Keeps a text in place of the last one."""
        data = {_KEY: text}
        try:
            await self._client.patch(CONFIG_MAPS, self._name, {"data": data}, self._namespace)
        except NotFoundError:
            manifest = {"metadata": {"name": self._name}, "data": data}
            try:
                await create_config_map(self._client, manifest, self._namespace)
            except AlreadyExistsError:
                return


def choices(settings: Settings) -> Choices:
    """Gives what the decision depends on, as an operator has chosen."""
    return Choices(
        eviction_price=settings.consolidation_eviction_price,
        horizon_h=settings.consolidation_horizon / _HOUR_S,
        horizon_floor_h=settings.consolidation_horizon_floor / _HOUR_S,
        horizon_ceiling_h=settings.consolidation_horizon_ceiling / _HOUR_S,
        minimum_saving=settings.consolidation_minimum_saving,
        spot_to_spot=settings.feature_gates.spot_to_spot_consolidation,
        validation_wait_s=settings.disruption_validation_delay,
        tries=settings.consolidation_tries,
        solve=SolveOptions(
            preferences=settings.preference_policy,  # type: ignore[arg-type]
            min_values=settings.min_values_policy,  # type: ignore[arg-type]
        ),
    )


def removing(
    parts: Surroundings,
    provider: CloudProvider[EC2NodeClass],
    provisioner: Provisioner,
    market: Market,
    is_backing_off: Callable[[str], bool],
    departures: Departures,
    virtual: Callable[[], tuple[Pod, ...]] = tuple,
) -> Mapping[str, Callable[[], Awaitable[None]]]:
    """Gives the controllers that take nodes away or keep their number, by name."""
    settings = parts.settings
    namespace = state_namespace(settings, parts.client.config.namespace)
    catalogues = functools.partial(market.catalogues, with_static=True)
    daemons = DaemonPlans(
        cluster=parts.cluster,
        catalogues=market.catalogues,
        solver=solve,
        options=choices(settings).solve,
        recorder=parts.recorder,
        decisions=parts.decisions,
        metrics=parts.metrics,
        clock=parts.clock,
    )
    marking = Marking(
        client=parts.client,
        cluster=parts.cluster,
        cloud=provider,
        metrics=parts.metrics,
        clock=parts.clock,
        daemons=daemons,
    )
    disruption = Disruption(
        client=parts.client,
        cluster=parts.cluster,
        catalogues=catalogues,
        orders=provisioner.orders,
        nominate=provisioner.nominator.renew,
        rules=Rules(propose, validate, pool_policy),
        store=ConfigMapStore(parts.client, namespace),
        recorder=parts.recorder,
        decisions=parts.decisions,
        metrics=parts.metrics,
        clock=parts.clock,
        departures=departures,
        virtual=virtual,
        settings=DisruptionSettings(
            choices=choices(settings),
            gather_s=settings.disruption_gather_duration,
            decide_s=settings.consolidation_deadline,
            execution=ExecutionSettings(
                validation_wait_s=settings.disruption_validation_delay,
                replacement_timeout_s=settings.disruption_replacement_timeout,
            ),
        ),
    )
    found: dict[str, Callable[[], Awaitable[None]]] = {
        "daemonset.plans": daemons.run,
        "nodeclaim.disruption": marking.run,
        "disruption": disruption.run,
    }
    common: dict[str, Any] = {
        "client": parts.client,
        "cluster": parts.cluster,
        "decisions": parts.decisions,
        "metrics": parts.metrics,
        "clock": parts.clock,
    }
    if settings.feature_gates.node_repair:
        found["node.health"] = Repair(**common, recorder=parts.recorder, cloud=provider).run
    if settings.feature_gates.static_capacity:
        static = StaticPools(**common, orders=provisioner.orders, is_backing_off=is_backing_off)
        found["static.provisioning"] = static.run
    return found
