# SPDX-License-Identifier: Apache-2.0
"""IAM: what an installer and a node autoscaler call, with IAM's own codes and sentences.

=============  =============================================================================================
``store``      roles, policies, instance profiles, identity providers
``roles``      operations on roles and their policies
``policies``   operations on managed policies and identity providers
``profiles``   operations on instance profiles
=============  =============================================================================================

Policies are kept and never evaluated: denials are set through ``behaviour.access``.
"""

from __future__ import annotations

from collections.abc import Mapping

from karpenter.sandbox.ec2.contract import Handler
from karpenter.sandbox.ec2.services.iam import policies, profiles, roles

__all__ = ["handlers"]


def handlers() -> Mapping[str, Handler]:
    """Gives the handler of each operation."""
    return {**roles.HANDLERS, **policies.HANDLERS, **profiles.HANDLERS}
