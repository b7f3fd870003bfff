# SPDX-License-Identifier: Apache-2.0
"""Karpenter in Python: nodes for pods that have none, and an end to nodes that nobody needs.

Deciding is pure, doing is not: see docs/architecture.md for the rooms of this package and who may import whom.
"""

__version__ = "0.1.0"
