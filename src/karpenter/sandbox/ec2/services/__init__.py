# SPDX-License-Identifier: Apache-2.0
"""The services around EC2, as far as a node autoscaler and its installer call them.

================  ==========================================================================================
``sts``           who am I, temporary keys
``iam``           roles, policies, instance profiles, OIDC providers
``sqs``           queues
``ssm``           parameters, the public ones of machine images above all
``eks``           clusters, access entries, node groups
``pricing``       the public price list
``events``        EventBridge rules on the default bus
``zonalshift``    ARC zonal shifts of clusters
``fis``           experiments of the Fault Injection Service
================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping

from karpenter.sandbox.ec2 import compute
from karpenter.sandbox.ec2.contract import Handler
from karpenter.sandbox.ec2.services import eks, events, fis, iam, pricing, sqs, ssm, sts, zonalshift

__all__ = ["handlers"]


def handlers() -> Mapping[str, Mapping[str, Handler]]:
    """Gives the handlers of all services, by service and operation."""
    return {
        "ec2": compute.handlers(),
        "sts": sts.handlers(),
        "iam": iam.handlers(),
        "sqs": sqs.handlers(),
        "ssm": ssm.handlers(),
        "eks": eks.handlers(),
        "pricing": pricing.handlers(),
        "events": events.handlers(),
        "arc-zonal-shift": zonalshift.handlers(),
        "fis": fis.handlers(),
    }
