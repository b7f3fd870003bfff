# SPDX-License-Identifier: Apache-2.0
"""What an EKS cluster needs in AWS before the controller can run: found, compared, made, mended, removed, written down.

================  ==========================================================================================
``account``       calls AWS for an installation and words what it refuses
``site``          what there is: the cluster, its network, its node groups, who vouches for service accounts
``wanted``        what there has to be for a site: the pieces, in the order in which they are made
``roles``, ...    one kind of piece each: ``roles``, ``queues``, ``tagging``, ``entrance``
``steps``         compares all pieces with what there is, and carries out what is missing
``awsauth``       the entry of the node role in the aws-auth ConfigMap, as text
``nodegroups``    NodePools that cover managed node groups
``emitting``      the same pieces as CloudFormation, Terraform or plain commands
================  ==========================================================================================

Nothing is touched that this did not make: every piece carries a tag that says for which cluster it was installed, and
what has the same name without the tag is a conflict, told before anything is done.
"""

from __future__ import annotations

from karpenter.cloud.aws.install.account import Account, InstallError, MissingRightError
from karpenter.cloud.aws.install.pieces import Found, Piece, Standing
from karpenter.cloud.aws.install.site import Choices, Site, read_site
from karpenter.cloud.aws.install.steps import Step, carry_out, look, remove
from karpenter.cloud.aws.install.wanted import wanted_pieces

__all__ = [
    "Account",
    "Choices",
    "Found",
    "InstallError",
    "MissingRightError",
    "Piece",
    "Site",
    "Standing",
    "Step",
    "carry_out",
    "look",
    "read_site",
    "remove",
    "wanted_pieces",
]
