# SPDX-License-Identifier: Apache-2.0
"""NodePools: whether each can be used and why not, what its nodes add up to, its fingerprint."""

from karpenter.controllers.nodepool.pools import NodePools

__all__ = ["NodePools"]
