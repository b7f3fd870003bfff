# SPDX-License-Identifier: Apache-2.0
"""The command line of the control plane for tests: ``build``, ``path`` and ``up``.

What a script would read goes to standard output, everything else to standard error. ``build`` is apart from
the tests so that no test's time limit cuts it short; where KARPENTER_E2E_OPTIONAL=1 it does not fail for
want of Go.
"""

from __future__ import annotations

import os
import signal
import sys

import click

from tests.commandline import run_command, say
from tests.e2e.controlplane.binaries import OPTIONAL_VARIABLE, build_binaries, find_binaries
from tests.e2e.controlplane.cluster import ControlPlane
from tests.e2e.controlplane.errors import BinariesMissingError, described

__all__ = ["main"]


@click.group(help=__doc__)
def _commands() -> None:
    pass


@_commands.command()
def build() -> None:
    """Build the programs if they are not there yet."""
    try:
        build_binaries(os.environ, say)
    except BinariesMissingError as error:
        if os.environ.get(OPTIONAL_VARIABLE) != "1":
            say(f"no test of tests/e2e was run ({OPTIONAL_VARIABLE}=1 leaves them out and goes on)")
            raise
        say(f"{described(error)}\nthe tests of tests/e2e are left out ({OPTIONAL_VARIABLE}=1)")


@_commands.command()
def path() -> None:
    """Print the directory that holds the programs."""
    click.echo(find_binaries(os.environ).directory)


@_commands.command()
def up() -> None:
    """Run a control plane until Ctrl-C."""
    binaries = build_binaries(os.environ, say)
    # Set for both: a program that a script started in the background is born deaf to SIGINT.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    with ControlPlane(binaries) as plane:
        say(f"the control plane is up after {plane.start_s:.1f} s: {plane.url}; stop it with Ctrl-C")
        say(f"kubectl: {binaries.path('kubectl')}\nlogs:    {plane.directory / 'logs'}")
        click.echo(f"export KUBECONFIG={plane.kubeconfig}")
        sys.stdout.flush()
        try:
            signal.pause()
        finally:
            say("stopping")


def main() -> int:
    """Run a command and return its exit code; an error is printed with its hint."""
    return run_command(_commands, "python -m tests.e2e.controlplane")


if __name__ == "__main__":
    sys.exit(main())
