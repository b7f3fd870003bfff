# SPDX-License-Identifier: Apache-2.0
"""The objects, in memory: revisions, watches, selectors, and state across restarts."""

__all__ = ["keeping", "seeds", "selecting", "store"]
