# SPDX-License-Identifier: Apache-2.0
"""Whether a saving is worth the moving: it must pay for the evictions within the time that it is expected to last.

Moving costs once: the eviction price for each pod by its weight (priority and deletion cost as Karpenter, more for
pods that were moved within the last hour), and what is paid twice while replacements start and old nodes drain. Of
reserved capacity, which is paid for already, saving and price of moving are both taken at the same small share. The
saving counts for the pool's horizon, which is learnt (``memory``). On top of that it must be a minimum share of the
price of what goes, so that nothing is ever swapped for its like. Both demands make the sequence of moves finite: each
one lowers the price by at least so much.

Pools with the policy Balanced ask for more, as Karpenter: their share of the saving, of what the pool costs, must be
at least half of their share of the disruption, of what the pool has. Karpenter asks that of a move as a whole; the
search asks half of that of every node too, or a few nodes that save much would carry many along that save little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from karpenter.consolidation.ground import Ground, Site
from karpenter.consolidation.types import Policy

__all__ = ["Scales", "Terms", "least_saving", "minimum_saving", "terms_of"]

# Spot prices go up and down by so much, and what is cheaper by less today may be dearer tomorrow.
_SPOT_SAVING: Final = 0.1
_HOUR_S = 3600.0
# By the policy Balanced: of a move as a whole, and of each of its nodes.
_LEAST_SCORE = 0.5
_LEAST_NODE_SCORE = 0.25


@dataclass(frozen=True, slots=True)
class Terms:
    """What taking some nodes must save to be worth it.

    Attributes:
        price: What they cost per hour together.
        moving: What moving their pods must save per hour.
        minimum: The least saving per hour, whatever the moving costs.
        overlap: The share of a launch's price that must be saved beside it, since it is paid for twice at first.
    """

    price: float
    moving: float
    minimum: float
    overlap: float

    @property
    def most_for_launches(self) -> float:
        """What may be bought for them per hour at most."""
        return min(self.price - self.minimum, (self.price - self.moving) / (1 + self.overlap))

    def wanted(self, launches_per_hour: float) -> float:
        """Return what must be saved per hour when so much is bought."""
        return max(self.minimum, self.moving + self.overlap * launches_per_hour)


def terms_of(sites: Iterable[Site], ground: Ground) -> Terms:
    """Return what taking some nodes must save; each of them has a price."""
    settings, memory = ground.settings, ground.situation.memory
    price = moving = minimum = 0.0
    horizon_h = settings.horizon_ceiling_h
    for site in sites:
        cost = site.price or 0.0
        horizon_h = min(horizon_h, memory.horizon_h(site.pool, settings))
        price += cost
        moving += _moving_cost(site, ground)
        minimum += cost * minimum_saving(site, ground)
    overlap_h = (settings.boot_s + settings.drain_s) / _HOUR_S
    return Terms(price, moving, minimum, overlap_h / horizon_h)


def _moving_cost(site: Site, ground: Ground) -> float:
    """Return what moving the pods of a node must save per hour to pay within its pool's horizon."""
    settings = ground.settings
    horizon_h = ground.situation.memory.horizon_h(site.pool, settings)
    return settings.eviction_price * site.weight / horizon_h * ground.prices.share_paid(site.view)


def minimum_saving(site: Site, ground: Ground) -> float:
    """Return the least saving worth taking a node for, as a share of its price; what a pool says itself counts."""
    own = site.policy.minimum_saving
    return least_saving(ground.settings.minimum_saving, is_spot=site.is_spot) if own is None else own


def least_saving(general: float, *, is_spot: bool) -> float:
    """Return the least saving worth taking a node for, as a share of its price, where its pool says nothing."""
    return max(general, _SPOT_SAVING) if is_spot else general


class Scales:
    """Weighs what taking nodes disturbs, which pools with the policy Balanced ask more for."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._cost: dict[str, float] = {}
        self._disruption: dict[str, float] = {}
        for site in ground.sites.values():
            self._cost[site.pool] = self._cost.get(site.pool, 0.0) + (site.price or 0.0)
            self._disruption[site.pool] = self._disruption.get(site.pool, 0.0) + site.disruption

    def cost(self, site: Site) -> float:
        """Return what taking a node must save per hour: for moving its pods, or by the policy if that is more."""
        moving = _moving_cost(site, self._ground)
        if site.policy.policy is not Policy.BALANCED:
            return moving
        share = site.disruption / self._disruption[site.pool]
        return max(moving, _LEAST_NODE_SCORE * self._cost[site.pool] * share)

    def refused(self, sites: Sequence[Site], saving_per_hour: float) -> tuple[str, float] | None:
        """Return the Balanced pool for which a move is not worth it, and its score; None if there is none."""
        scores = self.scores(sites, saving_per_hour)
        return next(((pool, score) for pool, score in scores.items() if score < _LEAST_SCORE), None)

    def scores(self, sites: Sequence[Site], saving_per_hour: float) -> dict[str, float]:
        """Return what a move saves for what it disturbs, for each Balanced pool that it takes nodes of."""
        found = {}
        total = sum(site.price or 0.0 for site in sites)
        for pool in sorted({site.pool for site in sites if site.policy.policy is Policy.BALANCED}):
            own = [site for site in sites if site.pool == pool]
            share = sum(site.price or 0.0 for site in own) / total
            saved = saving_per_hour * share / self._cost[pool]
            disturbed = sum(site.disruption for site in own) / self._disruption[pool]
            found[pool] = saved / disturbed
        return found
