# SPDX-License-Identifier: Apache-2.0
"""The old kinds kept alive: Provisioner and AWSNodeTemplate become v1 objects, and their nodes look as they did.

================  ==========================================================================================
``following``     the old objects, if the server serves their kinds
``marks``         how one sees that a v1 object was made from an old one
``translating``   all old objects together as v1: pure
``naming``        which of several node classes of one template has which name: pure
``reporting``     what the old objects say about themselves afterwards: pure
``conversion``    makes the v1 objects so, and writes the status back
``nodelabels``    the labels that nodes of a Provisioner used to have
``hydration``     the node class's label on claims and nodes that were made without it
================  ==========================================================================================
"""

from karpenter.controllers.legacy.conversion import LegacyConversion
from karpenter.controllers.legacy.following import STORED_PROVISIONERS, STORED_TEMPLATES, OldKinds
from karpenter.controllers.legacy.hydration import Hydration
from karpenter.controllers.legacy.marks import CONVERSION_HASH, CONVERTED_FROM, is_from_provisioner
from karpenter.controllers.legacy.nodelabels import OldNodeLabels

__all__ = [
    "CONVERSION_HASH",
    "CONVERTED_FROM",
    "STORED_PROVISIONERS",
    "STORED_TEMPLATES",
    "Hydration",
    "LegacyConversion",
    "OldKinds",
    "OldNodeLabels",
    "is_from_provisioner",
]
