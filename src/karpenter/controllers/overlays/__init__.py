# SPDX-License-Identifier: Apache-2.0
"""NodeOverlays: what people know better than the cloud about prices and extended resources of instance types.

================  ==========================================================================================
``applying``      what a type looks like under some overlays, and which overlays contradict each other: pure
``overlays``      follows the overlays, judges them, and corrects what the cloud says
================  ==========================================================================================
"""

from karpenter.controllers.overlays.applying import Overlay, applied, conflicts, read_overlay
from karpenter.controllers.overlays.overlays import Overlays

__all__ = ["Overlay", "Overlays", "applied", "conflicts", "read_overlay"]
