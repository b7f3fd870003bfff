# SPDX-License-Identifier: Apache-2.0
"""What a mistyped command line is answered with, at every level of commands."""

from __future__ import annotations

import click
import pytest

from karpenter.cli import main
from karpenter.cli.groups import CommandGroup
from karpenter.cli.main import karpenter


@pytest.mark.parametrize(
    ("args", "said", "meant"),
    [
        (["sandbx"], "karpenter has no command 'sandbx'", "did you mean 'karpenter sandbox'?"),
        (["convrt"], "karpenter has no command 'convrt'", "did you mean 'karpenter convert'?"),
        (["up"], "karpenter has no command 'up'", "did you mean 'karpenter sandbox up'?"),
        (
            ["sandbox", "pu"],
            "karpenter sandbox has no command 'pu'",
            "did you mean 'karpenter sandbox up'?",
        ),
        (
            ["sandbox", "kubelet"],
            "karpenter sandbox has no command 'kubelet'",
            "did you mean 'karpenter sandbox kubelets'",
        ),
        (["sandbox", "solve"], "karpenter sandbox has no command 'solve'", "did you mean 'karpenter solve'?"),
        (
            ["install", "asw"],
            "karpenter install has no command 'asw'",
            "did you mean 'karpenter install aws'?",
        ),
        (
            ["uninstall", "awss"],
            "karpenter uninstall has no command 'awss'",
            "did you mean 'karpenter uninstall aws'?",
        ),
        (
            ["migrate", "nodegroup"],
            "karpenter migrate has no command 'nodegroup'",
            "did you mean 'karpenter migrate nodegroups'?",
        ),
        (["solve", "--deadlin", "3s"], "karpenter solve has no option --deadlin", "did you mean --deadline?"),
        (["--verson"], "karpenter has no option --verson", "did you mean --version?"),
        (
            ["controller", "--cluster-nam=x"],
            "karpenter controller has no option --cluster-nam",
            "did you mean --cluster-name?",
        ),
        (
            ["controller", "-cluster-name=x"],
            "karpenter controller has no option -cluster-name",
            "did you mean --cluster-name?",
        ),
        (
            ["sandbox", "up", "--default-pol"],
            "karpenter sandbox up has no option --default-pol",
            "did you mean --default-pool?",
        ),
        (
            ["sandbox", "up", "-x"],
            "karpenter sandbox up has no option -x",
            "see 'karpenter sandbox up --help'",
        ),
        (["zzz"], "karpenter has no command 'zzz'", "hint:  see 'karpenter --help'"),
        (
            ["completion"],
            "Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish",
            "completion --help",
        ),
    ],
)
def test_a_mistyped_command_or_option_is_told_with_what_was_probably_meant(
    args: list[str], said: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2

    shown = capsys.readouterr()
    assert shown.out == ""
    error, hint = shown.err.splitlines()
    assert error == f"error: {said}"
    assert meant in hint
    assert "--help'" in hint


def test_every_group_suggests() -> None:
    groups: list[click.Group] = [karpenter]
    for group in groups:
        context = click.Context(group)
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            if isinstance(found, click.Group):
                groups.append(found)

    assert len(groups) >= 5
    assert all(isinstance(each, CommandGroup) for each in groups)


@pytest.mark.parametrize("args", [[], ["sandbox"], ["install"], ["uninstall"], ["migrate"]])
def test_a_group_without_a_command_shows_its_help_as_kubectl_does(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 0
    bare = capsys.readouterr()
    assert main([*args, "--help"]) == 0
    asked = capsys.readouterr()

    assert bare.err == ""
    assert bare.out == asked.out
    assert bare.out.startswith(f"Usage: {' '.join(['karpenter', *args])} ")
