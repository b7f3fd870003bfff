# SPDX-License-Identifier: Apache-2.0
"""A watch that is left hangs up by itself: it does not wait for a server that may be slow to let go."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from karpenter.kube import Client, ClusterConfig
from karpenter.kube.kinds import PODS
from tests.e2e.controlplane.certificates import Authority

_EVENT = b'{"type":"ADDED","object":{"metadata":{"name":"web","resourceVersion":"8"}}}\n'
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def mute_server(directory: Path) -> Iterator[ClusterConfig]:
    """One watch over TLS: an event, then silence, and no answer to a goodbye."""
    authority = Authority("ca")
    certificate, key = authority.issue_server("api", ["127.0.0.1"]).write(directory, "api")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        taken, _ = listener.accept()
        with context.wrap_socket(taken, server_side=True) as connection:
            connection.recv(65536)
            connection.sendall(_HEAD + b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT))
            over.wait(10)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            url = f"https://127.0.0.1:{listener.getsockname()[1]}"
            yield ClusterConfig(url, ca=authority.key_pair.certificate)
        finally:
            over.set()
            thread.join()


async def _watch_one(config: ClusterConfig) -> set[int]:
    """Leave a watch after its first event, and give the sockets that were opened and are still open."""
    before = _open_files()
    async with Client(config) as client:
        watch = client.watch(PODS, "7")
        assert (await anext(watch)).object is not None
        await watch.aclose()  # type: ignore[attr-defined]
    # The loop closes a socket in the turn after it was told to.
    await asyncio.sleep(0)
    return _open_files() - before


def _open_files() -> set[int]:
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    return set(selector.get_map())


async def test_a_watch_that_is_left_leaves_no_connection_behind(tmp_path: Path) -> None:
    with mute_server(tmp_path) as config:
        assert await _watch_one(config) == set()
