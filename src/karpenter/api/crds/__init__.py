# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions: made from the types, kept as YAML files, read as data of the package.

``vocabulary`` and ``shapes`` are what the types say about themselves; ``kinds`` lists the kinds; ``generate``
makes the definitions and ``write`` keeps the files. Reading them needs none of that: the functions here only
open files. They hand out fresh objects, so a caller may change what it gets.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

import yaml

__all__ = ["file_names", "read", "read_all", "text"]

# libyaml reads the files ten times faster, where PyYAML was built with it.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def file_names() -> tuple[str, ...]:
    """Return the names of the definition files, in alphabetical order."""
    return tuple(
        sorted(entry.name for entry in resources.files(__name__).iterdir() if entry.name.endswith(".yaml"))
    )


def text(file_name: str) -> str:
    """Return a definition file as it stands."""
    return (resources.files(__name__) / file_name).read_text(encoding="utf-8")


def read(file_name: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition that a file holds."""
    crd: dict[str, Any] = yaml.load(text(file_name), _LOADER)  # noqa: S506  both loaders are the safe ones
    return crd


def read_all() -> dict[str, dict[str, Any]]:
    """Return every CustomResourceDefinition by the name of the object, such as ``nodepools.karpenter.sh``."""
    crds = (read(name) for name in file_names())
    return {crd["metadata"]["name"]: crd for crd in crds}
