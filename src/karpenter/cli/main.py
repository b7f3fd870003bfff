# SPDX-License-Identifier: Apache-2.0
"""The group of commands, and the one place where errors become text and exit codes.

A command's module is imported when the command is run, so that ``karpenter --help`` and the others do not
wait for it. Without a command the help text is shown. Exit codes: 0 done, 1 something was refused, 2 the command line
or the input cannot be read, 70 a mistake of ours, 130 interrupted, 141 the reader of our output went away. No error
prints a traceback unless KARPENTER_DEBUG is set.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence

import click
from click.shell_completion import CompletionItem

from karpenter import __version__
from karpenter.cli import output
from karpenter.cli.groups import CommandGroup, explained
from karpenter.errors import KarpenterError

__all__ = ["INTERRUPTED", "OUR_MISTAKE", "REFUSED", "UNREADABLE", "InputError", "karpenter", "run"]

REFUSED = 1
UNREADABLE = 2
OUR_MISTAKE = 70
INTERRUPTED = 130

# Each command: the module that has it under the name ``command``, and its line in the help text.
_COMMANDS: Mapping[str, tuple[str, str]] = {
    "controller": ("karpenter.cli.controller", "Run the controller against a cluster and AWS."),
    "crds": ("karpenter.cli.crds", "Print the definitions of our kinds, for kubectl."),
    "install": ("karpenter.cli.install", "Prepare an EKS cluster and its AWS account."),
    "uninstall": ("karpenter.cli.uninstall", "Take back what an installation made."),
    "migrate": ("karpenter.cli.migrate", "Come from node groups, or from the Go Karpenter."),
    "convert": ("karpenter.cli.convert", "Rewrite manifests of old Karpenter versions as v1."),
    "solve": ("karpenter.cli.solve", "Decide which nodes the pods of a problem file get."),
    "sandbox": ("karpenter.cli.sandbox", "A cluster with its AWS account on this machine, to try things in."),
    "demo": ("karpenter.cli.demo", "Show the product at work, without a cluster or an AWS account."),
    "completion": ("karpenter.cli.completion", "Print a script for the completion of bash, zsh or fish."),
    "version": ("karpenter.cli.version", "Show the version of this program."),
}


class InputError(KarpenterError):
    """Something that was asked for cannot be read: a missing file, broken YAML."""


class _Commands(CommandGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)  # noqa: S101 - narrows the type of a module's attribute
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # Options by click; commands from the table, because importing them all takes longer than a TAB may.
        options = super().shell_complete(ctx, incomplete) if incomplete.startswith("-") else []
        known = [
            CompletionItem(name, help=text)
            for name, (_, text) in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*known, *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Run 'karpenter COMMAND --help' for what a command does and for examples.",
)
@click.version_option(__version__, "--version", message="karpenter %(version)s")
def karpenter() -> None:
    """Nodes for pods that have none, and an end to nodes that nobody needs: Karpenter in Python."""


def run(args: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; whatever goes wrong is said on stderr."""
    try:
        code = karpenter.main(list(args), prog_name="karpenter", standalone_mode=False)
    except click.UsageError as mistake:
        return _misused(mistake, args)
    except (click.Abort, KeyboardInterrupt):
        output.error("interrupted")
        return INTERRUPTED
    except InputError as problem:
        output.error(problem.message, problem.hint)
        return UNREADABLE
    except KarpenterError as problem:
        output.error(problem.message, problem.hint)
        return REFUSED
    except Exception as mistake:
        # The edge of the program: people get a sentence, not a traceback.
        if os.environ.get("KARPENTER_DEBUG"):
            raise
        output.error(
            f"this is a mistake in karpenter itself: {type(mistake).__name__}: {mistake}",
            "run it again with KARPENTER_DEBUG=1 and report what it prints",
        )
        return OUR_MISTAKE
    return code if isinstance(code, int) else 0


def _misused(mistake: click.UsageError, args: Sequence[str]) -> int:
    if isinstance(mistake, click.exceptions.NoArgsIsHelpError):
        # As kubectl: a group without a command shows what there is, which is no mistake.
        output.write_data(f"{mistake.format_message()}\n")
        return 0
    output.error(*explained(mistake, args))
    return UNREADABLE
