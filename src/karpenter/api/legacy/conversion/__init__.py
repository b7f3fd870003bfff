# SPDX-License-Identifier: Apache-2.0
"""Conversion of old objects to v1, and of v1 back to v1beta1: pure, on plain manifests, all problems at once.

====================  ====================================================================================
``forward``           a whole input to v1
``backward``          a whole input to v1beta1
``documents``         which object of an input is what
``pools``             Provisioner, v1beta1 NodePool
``claims``            Machine, v1beta1 NodeClaim
``classes``           AWSNodeTemplate, v1beta1 EC2NodeClass
``selectors``         the old selector maps as terms
``images``            families, aliases, Ubuntu
``kubelets``          which class carries which kubelet settings
``names``             labels, annotations and metadata
``settings``          the ConfigMap karpenter-global-settings
``findings``          warnings, refusals, the outcome
``progress``          how far a conversion is
====================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from karpenter.api.legacy.conversion.backward import convert_to_v1beta1
from karpenter.api.legacy.conversion.findings import (
    Conversion,
    ConversionWarning,
    ObjectRef,
    RawObject,
    Refusal,
    Step,
)
from karpenter.api.legacy.conversion.forward import convert_to_v1
from karpenter.api.legacy.conversion.progress import Progress, silent

__all__ = ["Conversion", "ConversionWarning", "ObjectRef", "RawObject", "Refusal", "Step", "convert"]


def convert(
    objects: Sequence[RawObject],
    *,
    to: Literal["v1", "v1beta1"] = "v1",
    default_instance_profile: str = "",
    tell: Progress = silent,
) -> Conversion:
    """Converts the Karpenter objects of an input and passes every other object through, in the order given.

    The objects belong together: pools are matched with the node classes beside them. The input is not changed. The same
    input always gives the same outcome, and converting the outcome again gives it back.

    Args:
        objects: Manifests as YAML or JSON has them; a List counts as its items.
        to: The version to convert to; v1beta1 takes v1 objects only.
        default_instance_profile: For node templates that name none; the old controller had it in its settings, and
            if the input holds the ConfigMap karpenter-global-settings it is read there.
        tell: Is told how far it is: what is being done, for how many objects it is done, and of how many.
    """
    if to == "v1beta1":
        return convert_to_v1beta1(objects, tell)
    return convert_to_v1(objects, default_instance_profile=default_instance_profile, tell=tell)
