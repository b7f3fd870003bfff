# SPDX-License-Identifier: Apache-2.0
"""The kinds of older Karpenter versions, and their conversion to v1.

``provisioner``, ``machine``, ``awsnodetemplate`` and ``v1beta1`` hold the types; ``conversion`` turns manifests
of them into v1 manifests. A converted object means what the old one meant; where it cannot, it is refused, and
where it can only nearly, a warning says what moves.

The names below come from ``conversion``, which is loaded when one of them is asked for: it needs the schema
engine, and who only reads the types should not wait for that.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karpenter.api.legacy.conversion import (
        Conversion,
        ConversionWarning,
        ObjectRef,
        RawObject,
        Refusal,
        Step,
        convert,
    )

__all__ = ["Conversion", "ConversionWarning", "ObjectRef", "RawObject", "Refusal", "Step", "convert"]


def __getattr__(name: str) -> Any:
    """Returns a name of ``conversion``."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("karpenter.api.legacy.conversion"), name)
