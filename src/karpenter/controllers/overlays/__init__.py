# SPDX-License-Identifier: Apache-2.0
"""NodeOverlays: what people know better than the cloud about prices and extended resources of instance types.

================  ==========================================================================================
``applying``      what a type looks like under some overlays, and which overlays contradict each other: pure
``store``         the overlays that apply now, and instance types as they correct them
``overlays``      follows the overlays and validates them
================  ==========================================================================================
"""

from karpenter.controllers.overlays.applying import Overlay, applied, conflicts, read_overlay
from karpenter.controllers.overlays.overlays import Overlays
from karpenter.controllers.overlays.store import OverlayStore

__all__ = ["Overlay", "OverlayStore", "Overlays", "applied", "conflicts", "read_overlay"]
