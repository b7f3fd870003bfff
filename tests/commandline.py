# SPDX-License-Identifier: Apache-2.0
"""Commands of the test tools: run one, and turn its errors into a message with a hint and an exit code."""

from __future__ import annotations

import click

from karpenter.errors import KarpenterError
from tests.e2e.controlplane.errors import described

__all__ = ["run_command", "say"]


def say(text: str) -> None:
    """Print a line that is not data, to standard error."""
    click.echo(text, err=True)


def run_command(command: click.Command, name: str) -> int:
    """Run a command and return its exit code; an error is printed with its hint."""
    try:
        command.main(prog_name=name, standalone_mode=False)
    except KarpenterError as error:
        say(described(error))
        return 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    return 0
