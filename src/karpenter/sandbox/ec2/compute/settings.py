# SPDX-License-Identifier: Apache-2.0
"""The dials of the EC2 model: how long things take, how far lists trail, what tokens and roles do.

Each dial can be turned while the model runs; a change holds for what happens after it. The defaults are a quiet
account: short boots, no lag, no limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["REPLAYS", "Lag", "Settings"]

Lag = tuple[float, float]
"""The least and the most seconds by which something trails; between them each object draws its own."""

REPLAYS: Final = ("same", "refuse-dead", "launch-anew")


@dataclass(slots=True)
class Settings:
    """All dials with their defaults; seconds are of the model's clock."""

    pending_s: Lag = (5.0, 5.0)
    shutting_down_s: Lag = (5.0, 5.0)
    image_copy_s: Lag = (30.0, 30.0)
    """How long a copied image is pending."""

    terminated_kept_s: float = 3600.0
    """How long a terminated instance is still listed."""

    launch_lag_s: Lag = (0.0, 0.0)
    """How long a new instance is unknown to Describe, Terminate and CreateTags."""

    state_lag_s: Lag = (0.0, 0.0)
    """How long lists show the state before a change, a termination above all."""

    tag_lag_s: Lag = (0.0, 0.0)
    """How long lists show the tags before CreateTags or DeleteTags."""

    status_initializing_s: float = 0.0
    """How long status checks say ``initializing`` after an instance runs."""

    token_lifetime_s: float = 48 * 3600.0
    replay: str = "same"
    """What an old ClientToken gives when all its instances are dead: the same answer, an error, a new launch."""

    token_remembers_failures: bool = True
    """Whether a fleet that got no instance at all is also answered again from its token."""

    spot_service_linked_role: bool = True
    spread_limit: int = 7
    price_capacity_shallow: float = 10.0
    """Free places at which price-capacity-optimized reckons a pool twice as dear as its price."""
