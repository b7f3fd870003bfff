# SPDX-License-Identifier: Apache-2.0
"""The v1beta1 kinds, which share their CRDs with v1: a module a kind, because the names are those of v1."""

from karpenter.api.legacy.v1beta1 import ec2nodeclass, nodeclaim, nodepool

__all__ = ["ec2nodeclass", "nodeclaim", "nodepool"]
