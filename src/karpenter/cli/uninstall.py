# SPDX-License-Identifier: Apache-2.0
"""``karpenter uninstall aws``: the way back from ``karpenter install aws``; see ``cli.install``."""

from __future__ import annotations

from karpenter.cli.install import uninstall_command as command

__all__ = ["command"]
