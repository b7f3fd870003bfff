# SPDX-License-Identifier: Apache-2.0
"""Rights as IAM weighs them: ``policies`` reads and weighs documents, ``touching`` says what a call touches.

The model allows everything until a key is put under the policies of a role (the ``enforce`` action); from then on its
calls are weighed as in AWS, and ``guard`` counts which statement allowed how many.
"""

from __future__ import annotations

from karpenter.sandbox.ec2.rights.guard import Guard
from karpenter.sandbox.ec2.rights.policies import Asked, PolicyError, Statement, read_policy, weigh

__all__ = ["Asked", "Guard", "PolicyError", "Statement", "read_policy", "weigh"]
