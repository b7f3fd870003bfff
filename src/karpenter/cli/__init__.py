# SPDX-License-Identifier: Apache-2.0
"""The command ``karpenter``: data on stdout, talk on stderr, one place that prints errors.

======================  =============================================================================
``main``                the commands, loaded when asked for; how errors and exit codes are made
``groups``              groups of commands, and what a mistyped command or option was meant to be
``program``             how this program is called, for what people are told to type
``convert``, ``demo``   one module or package per command
``sandbox``             ``stack`` and ``scenarios`` for all of it; ``kubeapi``, ``kubelets``, ``workloads`` its parts
``inputs``              manifests from files, directories and standard input
``output``              errors, hints, warnings, colour, differences, progress
======================  =============================================================================
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from karpenter.cli.main import run

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Runs a command line, by default the process's own, and returns its exit code."""
    return run(sys.argv[1:] if args is None else args)
