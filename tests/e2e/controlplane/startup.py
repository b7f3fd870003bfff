# SPDX-License-Identifier: Apache-2.0
"""From a command line to a component that says it is ready.

A port that `free_port` finds may be taken by the time the component binds it: a component that ends for
that reason is started again with another port, a few times. A component that ends for any other reason, or
is not ready when the common deadline comes, is an error with the end of its log. Whether it is *our*
component that answers is certain, because only ours has a certificate of our authority.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.controlplane.components import LOOPBACK
from tests.e2e.controlplane.connection import Connection
from tests.e2e.controlplane.processes import ChildProcess, ProcessGroup

__all__ = ["Part", "Startup", "free_port", "succeeds"]

_PORT_ATTEMPTS = 5
_POLL_S = 0.02
_TAKEN = "address already in use"


@dataclass(frozen=True)
class Part:
    """A component: its program, its flags for a given port, and the path that tells whether it is ready."""

    name: str
    program: Path
    flags: Callable[[int], Sequence[str]]
    ready_path: str
    client_files: tuple[Path, Path] | None = None


class Startup:
    """Starts parts in a process group, before a deadline that they share."""

    def __init__(
        self,
        group: ProcessGroup,
        ca_file: Path,
        *,
        timeout_s: float,
        pick_port: Callable[[], int] | None = None,
    ) -> None:
        self._group = group
        self._ca_file = ca_file
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._pick_port = pick_port or free_port
        self._given_ports: set[int] = set()

    def bring_up(self, *parts: Part) -> list[str]:
        """Start all parts at once, wait until each is ready, and return their addresses.

        Raises:
            ComponentFailedError: a part ended, or is not ready in time.
        """
        launched = [self._launch(part) for part in parts]
        return [self._settle(part, *each) for part, each in zip(parts, launched, strict=True)]

    def new_port(self) -> int:
        """Return a port that is probably free and was not given before.

        Of two parts on one port, the one that got it would answer for both, with a certificate we trust.
        """
        while (port := self._pick_port()) in self._given_ports:
            pass
        self._given_ports.add(port)
        return port

    def wait_until(self, holds: Callable[[], bool], child: ChildProcess, what: str) -> None:
        """Wait for something that ``child`` is to bring about.

        Raises:
            ComponentFailedError: ``child`` ended, or the deadline came first; ``what`` says what was missing.
        """
        while not holds():
            if not child.is_running:
                raise child.failure(f"ended with exit code {child.exit_code} before {what}")
            if time.monotonic() > self._deadline:
                raise child.failure(f"had {self._timeout_s:g} s, and they were over before {what}")
            time.sleep(_POLL_S)

    def _launch(self, part: Part) -> tuple[ChildProcess, str]:
        port = self.new_port()
        child = self._group.start(part.name, [part.program, *part.flags(port)])
        return child, f"https://{LOOPBACK}:{port}"

    def _settle(self, part: Part, child: ChildProcess, url: str) -> str:
        for _ in range(_PORT_ATTEMPTS):
            if self._answers(part, child, url):
                return url
            child, url = self._launch(part)
        raise child.failure(f"found its port taken {_PORT_ATTEMPTS} times")

    def _answers(self, part: Part, child: ChildProcess, url: str) -> bool:
        """Wait for the part; return False if its port was taken."""
        connection = Connection(url, self._ca_file, client_files=part.client_files)
        while True:
            # Asked in this order, so that a stranger on the port is never taken for a part that has ended.
            ended = not child.is_running
            if not ended and succeeds(connection, part.ready_path):
                return True
            if ended:
                if child.log_says(_TAKEN):
                    return False
                raise child.failure(f"ended with exit code {child.exit_code} while starting")
            if time.monotonic() > self._deadline:
                raise child.failure(f"was not ready within {self._timeout_s:g} s ({url}{part.ready_path})")
            time.sleep(_POLL_S)


def free_port() -> int:
    """Return a loopback port that nobody uses right now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def succeeds(connection: Connection, path: str) -> bool:
    """Tell whether the server answers, and with success."""
    try:
        return connection.request("GET", path, timeout_s=2.0).is_success
    except OSError:
        return False
