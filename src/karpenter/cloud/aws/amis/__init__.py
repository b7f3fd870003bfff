# SPDX-License-Identifier: Apache-2.0
"""Machine images: which families there are, which images a node class means, which type takes which.

============  ==============================================================================================
``families``  one value for each image family, with all that differs between them
``images``    images that were found, the best of each kind, and the one that an instance type takes
``finding``   ``Amis``: aliases, SSM parameters and selectors into images
============  ==============================================================================================
"""

from karpenter.cloud.aws.amis.families import (
    AL2,
    AL2023,
    BOTTLEROCKET,
    CUSTOM,
    FAMILIES,
    WINDOWS2019,
    WINDOWS2022,
    WINDOWS2025,
    Alias,
    Family,
    FamilyError,
    Variant,
    alias_of,
    family_named,
    family_of,
)
from karpenter.cloud.aws.amis.finding import NOT_FOUND, UNSUPPORTED_ALIAS, Amis, AmiSelectionError
from karpenter.cloud.aws.amis.images import (
    Image,
    Images,
    NoImage,
    Note,
    NoteKind,
    ami_for,
    map_amis,
    why_no_ami,
)

__all__ = [
    "AL2",
    "AL2023",
    "BOTTLEROCKET",
    "CUSTOM",
    "FAMILIES",
    "NOT_FOUND",
    "UNSUPPORTED_ALIAS",
    "WINDOWS2019",
    "WINDOWS2022",
    "WINDOWS2025",
    "Alias",
    "AmiSelectionError",
    "Amis",
    "Family",
    "FamilyError",
    "Image",
    "Images",
    "NoImage",
    "Note",
    "NoteKind",
    "Variant",
    "alias_of",
    "ami_for",
    "family_named",
    "family_of",
    "map_amis",
    "why_no_ami",
]
