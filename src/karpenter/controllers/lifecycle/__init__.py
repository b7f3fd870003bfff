# SPDX-License-Identifier: Apache-2.0
"""From a NodeClaim to a node that works: launch, registration, initialisation, and giving up in time."""

from karpenter.controllers.lifecycle.lifecycle import Lifecycle, LifecycleSettings

__all__ = ["Lifecycle", "LifecycleSettings"]
