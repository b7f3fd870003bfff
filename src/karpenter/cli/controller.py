# SPDX-License-Identifier: Apache-2.0
"""``karpenter controller``: one replica of the controller, against any API server and AWS.

Flags and environment variables are Karpenter's, made from the one table of settings. It runs until it is told to stop,
and stops within seconds: SIGTERM and SIGINT give the lease up first.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from karpenter.cli.main import InputError
from karpenter.cli.running import told_to_stop
from karpenter.errors import KarpenterError
from karpenter.kit.clock import SystemClock
from karpenter.kube import load_config
from karpenter.observe import configure, get_log
from karpenter.operator.process import prepare_process
from karpenter.operator.settings import Settings, SettingsError, read_settings, table

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  # Against the cluster of your kubeconfig, with the credentials of your shell.
  karpenter controller --cluster-name prod --interruption-queue prod
\b
  # Against the EC2 model instead of AWS.
  karpenter sandbox ec2 --port 4566 &
  export AWS_ENDPOINT_URL=http://127.0.0.1:4566 AWS_REGION=us-west-2 AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x
  karpenter controller --cluster-name sandbox --disable-leader-election=true

Exit codes: 0 stopped as asked, 1 it could not start, 2 a setting makes no sense."""


class _Grouped(click.Command):
    """Shows the options by group, each with its variable and default."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {}
        for setting in table():
            default = setting.shown_default.replace(",", ", ")  # so that it can be wrapped
            text = f"{setting.text} [{setting.env}{f'; default {default}' if default else ''}]"
            rows.setdefault(setting.group, []).append((f"{setting.flag} VALUE", text))
        for group, entries in rows.items():
            with formatter.section(group):
                formatter.write_dl(entries)
        own = [
            each.get_help_record(ctx)
            for each in self.get_params(ctx)
            if each.name in {"kubeconfig", "context", "help"}
        ]
        with formatter.section("Options"):
            formatter.write_dl([record for record in own if record is not None])


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for setting in reversed(table()):
        function = click.option(setting.flag, setting.name, default=None, metavar="VALUE")(function)
    return function


@click.command("controller", cls=_Grouped, epilog=_EXAMPLES)
@click.option("--kubeconfig", type=click.Path(path_type=Path), default=None, help="Instead of KUBECONFIG.")
@click.option("--context", default="", help="Context of the kubeconfig; the current one if not given.")
@_options
def command(kubeconfig: Path | None, context: str, **flags: str | None) -> int:
    """Run the controller: nodes for pods that have none, and an end to nodes that nobody needs."""
    try:
        settings = read_settings(flags, os.environ)
    except SettingsError as error:
        raise InputError(error.message, hint=error.hint) from error
    with _log_output(settings.log_output_paths) as out:
        configure(level=settings.log_level, human=out.isatty(), stream=out)
        config = load_config(kubeconfig, context)
        prepare_process()
        try:
            asyncio.run(_run(settings, config))
        except* KarpenterError as group:
            raise _first(group) from group
    return 0


@contextmanager
def _log_output(where: str) -> Iterator[TextIO]:
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    if where in streams:
        yield streams[where]
        return
    try:
        file = Path(where).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(
            f"--log-output-paths={where}: {error.strerror}",
            hint="stdout, stderr or a file that can be written",
        ) from error
    with file:
        yield file


async def _run(settings: Settings, config: Any) -> None:
    # Importing the cloud takes a while; --help and mistakes need not wait for it.
    from karpenter.operator.aws import make_aws  # noqa: PLC0415
    from karpenter.operator.runtime import Operator  # noqa: PLC0415

    stop = told_to_stop()
    # The lease tells which pod leads; a pod in its host's network has the name of the host.
    identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}"
    operator = Operator(settings, config, make_aws, identity=identity, clock=SystemClock())
    get_log("operator").info(
        "starting", server=config.server, cluster=settings.cluster_name, identity=identity
    )
    await operator.run(stop)


def _first(group: BaseExceptionGroup[KarpenterError]) -> KarpenterError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, KarpenterError)  # noqa: S101 - what the group was caught for
    return error
