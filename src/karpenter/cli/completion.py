# SPDX-License-Identifier: Apache-2.0
"""``karpenter completion``: a script by which a shell completes commands, options and their values.

The script asks this program at each TAB, which answers from the same definitions as it parses by: nothing that is
completed can differ from what is taken.
"""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from karpenter.cli import output

__all__ = ["VARIABLE", "command"]

# What the shell's script sets when it asks; click reads it under this name.
VARIABLE: Final = "_KARPENTER_COMPLETE"

_EXAMPLES = """\b
Examples:
  # In this shell; put the line into ~/.bashrc for every shell.
  source <(karpenter completion bash)
\b
  # zsh: into a directory of $fpath, before compinit is called.
  karpenter completion zsh > ~/.zsh/completions/_karpenter
\b
  # fish.
  karpenter completion fish > ~/.config/fish/completions/karpenter.fish

bash must be 4.4 or newer; 'karpenter' must be on the PATH of the shell."""


@click.command("completion", epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script by which a SHELL (bash, zsh or fish) completes commands and options."""
    completion = get_completion_class(shell)
    assert completion is not None  # noqa: S101 - click has a class for each of the three
    root = ctx.find_root()
    output.write_data(completion(root.command, {}, "karpenter", VARIABLE).source().strip() + "\n")
