# SPDX-License-Identifier: Apache-2.0
"""How long tests wait for what other processes do.

A bound costs time only where something is broken, and a machine that does other things at the same time takes several
times as long as a quiet one. So every wait of the end-to-end and component tests, and every guard against a test that
hangs, is a multiple of what a quiet machine needs.
"""

from __future__ import annotations

from typing import Final

__all__ = ["patient"]

_BUSY_MACHINE: Final = 3.0


def patient(seconds: float) -> float:
    """Return the bound of a wait that takes up to ``seconds`` on a quiet machine."""
    return _BUSY_MACHINE * seconds
