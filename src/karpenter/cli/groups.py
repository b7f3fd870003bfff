# SPDX-License-Identifier: Apache-2.0
"""Groups of commands, and what a mistyped command or option was probably meant to be.

A name that no command has is compared with those beside it first, then with those of the groups above and below, so
that ``karpenter up`` leads to ``karpenter sandbox up``. Options are compared with those of their command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final

import click

__all__ = ["CommandGroup", "explained"]

# How alike two names must be, from 0 to 1; elsewhere in the tree only what is nearly the same is a suggestion.
_ALIKE: Final = 0.6
_NEARLY_THE_SAME: Final = 0.8


class UnknownCommandError(click.UsageError):
    """A command that a group does not have."""

    def __init__(self, name: str, ctx: click.Context, meant: Sequence[str]) -> None:
        super().__init__(f"{ctx.command_path} has no command '{name}'", ctx)
        self.meant = meant


class CommandGroup(click.Group):
    """A group whose commands are suggested where one is mistyped."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that arguments begin with.

        Raises:
            click.UsageError: There is no such command; it says which one was probably meant.
        """
        name = args[0]
        if name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        beside = _alike(name, self.list_commands(ctx), _ALIKE)
        meant = [f"{ctx.command_path} {each}" for each in beside] or _elsewhere(name, ctx.find_root())
        raise UnknownCommandError(name, ctx, meant)


def explained(mistake: click.UsageError, arguments: Sequence[str]) -> tuple[str, str]:
    """Return what is wrong with a command line, and a hint for it."""
    path = mistake.ctx.command_path if mistake.ctx else "karpenter"
    message, meant = " ".join(mistake.format_message().split()), list[str]()
    if isinstance(mistake, UnknownCommandError):
        meant = [f"'{each}'" for each in mistake.meant]
    elif isinstance(mistake, click.NoSuchOption):
        typed = _as_typed(mistake.option_name, arguments)
        message = f"{path} has no option {typed}"
        meant = _options_like(typed, mistake.ctx)
    see = f"see '{path} --help'"
    return message, f"did you mean {' or '.join(meant)}? {see}" if meant else see


def _elsewhere(name: str, root: click.Context) -> list[str]:
    paths = dict(_paths(root.command, root, root.command_path))
    found = _alike(name, [path.rpartition(" ")[2] for path in paths], _NEARLY_THE_SAME)
    return [path for path in paths if path.rpartition(" ")[2] in found]


def _paths(command: click.Command, ctx: click.Context, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(ctx):
        below = command.get_command(ctx, name)
        if below is not None and not below.hidden:
            yield f"{path} {name}", below
            yield from _paths(below, ctx, f"{path} {name}")


def _as_typed(option: str, arguments: Sequence[str]) -> str:
    """Return an option as it was typed: of ``-cluster-name`` click sees only ``-c``."""
    whole = (each.partition("=")[0] for each in arguments if each.startswith(option))
    return next(whole, option) if not option.startswith("--") else option


def _options_like(typed: str, ctx: click.Context | None) -> list[str]:
    known = (
        [each for option in ctx.command.params for each in (*option.opts, *option.secondary_opts)]
        if ctx
        else []
    )
    long = [each for each in known if each.startswith("--")]
    if f"-{typed}" in long:
        return [f"-{typed}"]
    return _alike(f"--{typed.lstrip('-')}", long, _ALIKE)[:1]


def _alike(name: str, known: Sequence[str], cutoff: float) -> list[str]:
    """Return the known names that are like one, the likest first; letters that changed places count as alike."""
    swapped = [each for each in known if sorted(each) == sorted(name)]
    close = get_close_matches(name, known, n=2, cutoff=cutoff)
    return list(dict.fromkeys([*swapped, *close]))
