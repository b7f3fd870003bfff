# SPDX-License-Identifier: Apache-2.0
"""CapacityBuffers: room that is kept free for pods that do not exist yet, all the time or by timetable.

================  ==========================================================================================
``sizing``        how many pods a buffer stands for at a moment, and what they look like: pure
``buffers``       follows the buffers, resolves what they refer to, and gives the pods that stand for them
================  ==========================================================================================
"""

from __future__ import annotations

from karpenter.controllers.buffers.buffers import Buffers
from karpenter.controllers.buffers.sizing import (
    Size,
    UnreadableBufferError,
    costs_of_room,
    size_of,
    standing_pods,
)

__all__ = ["Buffers", "Size", "UnreadableBufferError", "costs_of_room", "size_of", "standing_pods"]
