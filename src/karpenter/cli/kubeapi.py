# SPDX-License-Identifier: Apache-2.0
"""``karpenter sandbox kube``: a Kubernetes API on this machine, without machines, for the real kubectl.

The first line on stdout is the setting that points kubectl at it; what to type next is said on stderr.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from karpenter.cli import output
from karpenter.cli.main import InputError
from karpenter.cli.running import told_to_stop
from karpenter.cli.versions import kubernetes_version
from karpenter.errors import KarpenterError

if TYPE_CHECKING:
    from karpenter.sandbox.kube.serving.server import Server
    from karpenter.sandbox.kube.storage.keeping import Keeper

__all__ = ["kube"]

_EXAMPLES = """\b
Examples:
  karpenter sandbox kube --kubeconfig-out sandbox.yaml &
  KUBECONFIG=sandbox.yaml kubectl create deployment web --image=nginx
  karpenter sandbox kube --state ~/.local/state/sandbox   # kept across restarts
"""


@click.command("kube", epilog=_EXAMPLES)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1; without it a free one."
)
@click.option(
    "--token",
    default="",
    envvar="KARPENTER_SANDBOX_TOKEN",
    show_envvar=True,
    help="The bearer token; without it a random one.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help='More tokens, a line each: token,user,uid,"groups".',
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory that keeps the cluster across restarts; without it everything is gone at the end.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the kubeconfig; without it into a temporary file.",
)
@kubernetes_version(
    "--kubernetes-version", "", "The version to announce. [default: the one that it behaves like]"
)
@click.option(
    "--audit-log", type=click.Path(dir_okay=False, path_type=Path), help="File that gets a line a request."
)
def kube(
    port: int,
    token: str,
    token_file: Path | None,
    state: Path | None,
    kubeconfig_out: Path | None,
    kubernetes_version: str,
    audit_log: Path | None,
) -> None:
    """Serve a Kubernetes API that the real kubectl works with.

    There are no nodes and no controllers in it: `karpenter sandbox workloads` and `karpenter sandbox kubelets` add
    them.
    """
    # Loaded here and not above: the other commands start faster.
    from karpenter.sandbox.kube.engine.engine import Engine  # noqa: PLC0415
    from karpenter.sandbox.kube.kubeconfig import write_kubeconfig  # noqa: PLC0415
    from karpenter.sandbox.kube.serving.certificates import CERTIFICATE, serving_context  # noqa: PLC0415
    from karpenter.sandbox.kube.serving.server import ADMIN, Server  # noqa: PLC0415
    from karpenter.sandbox.kube.serving.tokens import TokenFileError, read_tokens  # noqa: PLC0415
    from karpenter.sandbox.kube.storage.keeping import Keeper, StateError  # noqa: PLC0415
    from karpenter.sandbox.kube.storage.store import Store  # noqa: PLC0415

    store = Store()
    try:
        keeper = Keeper(state, store) if state else None
    except StateError as refused:
        raise InputError(refused.message, hint=refused.hint) from refused
    secret = token or secrets.token_urlsafe(24)
    try:
        users = {**(read_tokens(token_file) if token_file else {}), secret: ADMIN}
    except TokenFileError as refused:
        raise InputError(refused.message, hint=refused.hint) from refused
    with tempfile.TemporaryDirectory(prefix="karpenter-sandbox-") as temporary:
        certificates = state or Path(temporary)
        server = Server(
            Engine(store),
            users=users,
            port=port,
            tls=serving_context(certificates),
            version=kubernetes_version,
            audit_log=audit_log,
        )
        path = kubeconfig_out or Path(temporary) / "kubeconfig"

        def write(url: str) -> Path:
            write_kubeconfig(path, url, secret, (certificates / CERTIFICATE).read_bytes())
            return path

        try:
            asyncio.run(_serve(server, write, keeper))
        except KarpenterError as refused:
            raise InputError(refused.message, hint=refused.hint) from refused


async def _serve(server: Server, write: Callable[[str], Path], keeper: Keeper | None) -> None:
    """Serve until told to stop; ``write`` writes the kubeconfig for an address and returns its path."""
    stop = told_to_stop()
    await server.start()
    path = write(server.url)
    output.write_data(f"KUBECONFIG={path}\n")
    output.say(f"a Kubernetes API serves on {server.url}; Ctrl-C ends it")
    output.say("in another terminal:")
    output.say(f"  export KUBECONFIG={path}")
    output.say("  kubectl get namespaces")
    try:
        await stop.wait()
    finally:
        await server.stop()
        if keeper is not None:
            keeper.close()
    output.say("stopped")
