# SPDX-License-Identifier: Apache-2.0
"""``karpenter version``: which release this is, and what it runs on."""

from __future__ import annotations

import json
import platform

import click

from karpenter import __version__
from karpenter.cli import output
from karpenter.cli.options import OUTPUT_FORMAT, OutputFormat

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  karpenter version
  karpenter version -o json"""


@click.command("version", epilog=_EXAMPLES)
@OUTPUT_FORMAT
def command(form: OutputFormat) -> None:
    """Show the version of this program and what it runs on."""
    found = {
        "version": __version__,
        "pythonVersion": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    if form == "json":
        output.write_data(json.dumps(found, indent=2) + "\n")
    else:
        about = f"Python {found['pythonVersion']}, {found['platform']}"
        output.write_data(f"karpenter {found['version']} ({about})\n")
