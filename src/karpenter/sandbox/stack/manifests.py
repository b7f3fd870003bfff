# SPDX-License-Identifier: Apache-2.0
"""What a new sandbox is given: our definitions, and on request a NodePool with its node class."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

__all__ = ["default_pool", "definitions"]


@cache
def definitions() -> tuple[dict[str, Any], ...]:
    """Gives the CustomResourceDefinitions of all our kinds."""
    folder = files("karpenter.api.crds")
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".yaml"))
    texts = (folder.joinpath(name).read_text("utf-8") for name in names)
    return tuple(document for text in texts for document in _documents(text))


def default_pool() -> list[dict[str, Any]]:
    """Gives a NodePool and its EC2NodeClass, both ``default``, that work in a sandbox as it is."""
    return _documents(files("karpenter.sandbox.stack").joinpath("default-pool.yaml").read_text("utf-8"))


def _documents(text: str) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(text, Loader=loader) if each]
