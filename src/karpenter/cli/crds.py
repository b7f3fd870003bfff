# SPDX-License-Identifier: Apache-2.0
"""``karpenter crds``: the definitions of our kinds, for kubectl."""

from __future__ import annotations

from importlib.resources import files

import click

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  # Install or upgrade them.
  karpenter crds | kubectl apply --server-side -f -"""


@click.command("crds", epilog=_EXAMPLES)
def command() -> None:
    """Print the CustomResourceDefinitions of all our kinds, old ones included."""
    folder = files("karpenter.api.crds")
    texts = [
        each.read_text(encoding="utf-8").strip()
        for each in sorted(folder.iterdir(), key=lambda each: each.name)
        if each.name.endswith(".yaml")
    ]
    click.echo("\n---\n".join(texts))
