# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

from typing import Literal

import click

__all__ = ["IP_FAMILY", "OUTPUT_FORMAT", "OutputFormat"]

OutputFormat = Literal["text", "json"]

OUTPUT_FORMAT = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the output.",
)
IP_FAMILY = click.option(
    "--ip-family",
    type=click.Choice(["ipv4", "ipv6"]),
    default="ipv4",
    show_default=True,
    help="Addresses of pods and services.",
)
