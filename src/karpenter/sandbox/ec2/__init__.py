# SPDX-License-Identifier: Apache-2.0
"""The EC2 model: one HTTP endpoint that the AWS SDKs and the aws CLI take for AWS.

==============  ============================================================================================
``contract``    what a handler is given and may answer: Request, ModelError, Rendered, Waiting
``clock``       the model's time: real, standing still, set by hand, or faster
``world``       everything that exists in the modelled account, one store a service
``bus``         EventBridge: events go to the queues that rules name
``seeds``       what a fresh world has: network, cluster, roles, queue, machine images
``releases``    new machine images and the parameters that name them
``state``       the world as one document
``front``       the wire protocols, driven by the service descriptions that botocore ships
``compute``     EC2's own actions
``services``    STS, IAM, SQS, SSM, EKS, Pricing, EventBridge, ARC zonal shift, FIS
``behaviour``   throttling, injected errors, permissions, call log, scenarios: misbehaviour as data
``dispatch``    one call from its parsed form to its answer, with all of that around the handler
``admin``       ``/_model/...``: look at the world and change it while it runs
``server``      the HTTP server
==============  ============================================================================================

Any credentials are accepted and signatures are not checked: this is a stand-in on loopback, not a security
boundary.
"""

__all__ = [
    "admin",
    "behaviour",
    "bus",
    "clock",
    "compute",
    "contract",
    "dispatch",
    "front",
    "releases",
    "seeds",
    "server",
    "services",
    "state",
    "world",
]
