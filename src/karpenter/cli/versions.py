# SPDX-License-Identifier: Apache-2.0
"""The option that says which Kubernetes version the parts of a sandbox pretend to be of."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

__all__ = ["kubernetes_version"]


def kubernetes_version(
    flag: str, default: str, text: str, name: str | None = None
) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """Return the option of a flag; an empty default means that there need not be one."""
    names = (flag,) if name is None else (flag, name)
    return click.option(
        *names, default=default, show_default=bool(default), callback=_checked, metavar="1.N", help=text
    )


def _checked(_context: click.Context, _option: click.Parameter, value: str) -> str:
    if value and not re.fullmatch(r"1\.\d{1,2}", value):
        raise click.BadParameter(f"{value!r} is not a Kubernetes version such as 1.33")
    return value
