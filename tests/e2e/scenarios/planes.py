# SPDX-License-Identifier: Apache-2.0
"""Two control planes that a scenario can run on: Kubernetes' own programs, and the sandbox's.

Both are driven by the same real kubectl. A scenario asks for nothing that is not in `Plane`, so that it cannot tell
them apart.
"""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import yaml

from tests.e2e.controlplane import ComponentFailedError, Connection, ControlPlane, Reply, find_binaries
from tests.e2e.controlplane.kubectl import Kubectl
from tests.e2e.controlplane.processes import ChildProcess, ProcessGroup

__all__ = ["PLANES", "Plane", "SandboxPlane", "plane_named"]

PLANES: Final = ("real", "sandbox")
_START_S: Final = 60.0


class Plane(Protocol):
    """An API with controllers and a scheduler, and kubectl for it."""

    token: str

    @property
    def url(self) -> str:
        """The address of the API."""

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""

    @property
    def processes(self) -> dict[str, ChildProcess]:
        """The programs by name."""

    def kubectl(
        self,
        *arguments: str | Path,
        input: str | None = None,  # noqa: A002 - as subprocess.run names it
        check: bool = True,
        timeout_s: float = 60.0,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the admin."""

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        """Send one request to the API."""


class SandboxPlane:
    """The sandbox's API, controllers and scheduler as programs; up inside a ``with`` block.

    Args:
        directory: where kubeconfig and logs go.
        workloads: more options for ``karpenter sandbox workloads``.
        audit: whether the API writes a line a request to ``audit.log``.
    """

    def __init__(self, directory: Path, *, workloads: Sequence[str] = (), audit: bool = True) -> None:
        self._directory = directory.absolute()
        self._options = workloads
        self._audit = audit
        self._group: ProcessGroup | None = None
        self._connection: Connection | None = None
        self.token = secrets.token_urlsafe(24)

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._group = ProcessGroup(self._directory)
        try:
            self._start(self._group)
        except BaseException:
            self._group.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._group is not None
        self._group.stop()

    @property
    def url(self) -> str:
        """The address of the API."""
        return self._up().url

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self._directory / "kubeconfig"

    @property
    def ca_file(self) -> Path:
        """The certificate that the API is known by."""
        return self._directory / "ca.crt"

    @property
    def processes(self) -> dict[str, ChildProcess]:
        """The programs by name: ``kube`` and ``workloads``."""
        return {each.name: each for each in self._group.children} if self._group else {}

    def kubectl(
        self,
        *arguments: str | Path,
        input: str | None = None,  # noqa: A002 - as subprocess.run names it
        check: bool = True,
        timeout_s: float = 60.0,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the admin.

        Raises:
            KubectlFailedError: it took too long, or ``check`` is set and the exit code is not 0.
        """
        program = find_binaries(os.environ).path("kubectl")
        own = Kubectl(program, self.kubeconfig, self._directory / "kubectl-cache")
        return own.run(*arguments, input=input, check=check, timeout_s=timeout_s, environ=environ)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
    ) -> Reply:
        """Send one request to the API, with the admin's token or with ``token``."""
        return self._up().request(method, path, body, token=token, content_type=content_type)

    def _start(self, group: ProcessGroup) -> None:
        ours = [sys.executable, "-m", "karpenter", "sandbox"]
        files = ["--kubeconfig-out", str(self.kubeconfig)]
        files += ["--audit-log", str(self._directory / "audit.log")] if self._audit else []
        api = group.start("kube", [*ours, "kube", "--token", self.token, *files])
        # The kubeconfig is written whole once the address is open.
        self._wait(lambda: self.kubeconfig.exists() and api.log_says("serves on"), api, "serves")
        url = next(
            word
            for word in api.log_file.read_text(encoding="utf-8").replace(";", " ").split()
            if word.startswith("https://")
        )
        self._write_authority()
        self._connection = Connection(url, self.ca_file, token=self.token)
        command = [*ours, "workloads", "--kubeconfig", str(self.kubeconfig), *self._options]
        working = group.start("workloads", command)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait(lambda: self._up().request("GET", account).is_success, working, "works")

    def _write_authority(self) -> None:
        [cluster] = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))["clusters"]
        self.ca_file.write_bytes(base64.b64decode(cluster["cluster"]["certificate-authority-data"]))

    def _wait(self, condition: Any, child: ChildProcess, what: str) -> None:
        end = time.monotonic() + _START_S
        while not condition():
            if not child.is_running:
                raise child.failure(f"ended with exit code {child.exit_code} before it {what}")
            if time.monotonic() > end:
                raise child.failure(f"did not say within {_START_S:g} s that it {what}")
            time.sleep(0.05)

    def _up(self) -> Connection:
        if self._connection is None:
            raise ComponentFailedError(
                "the sandbox has not been started", hint="with SandboxPlane(directory) as plane: ..."
            )
        return self._connection


@contextmanager
def plane_named(name: str, directory: Path | None = None) -> Iterator[Plane]:
    """Start the plane of a name of `PLANES` for the length of a block; its files stay if a directory is given."""
    with tempfile.TemporaryDirectory(prefix="karpenter-plane-") as temporary:
        where = directory or Path(temporary) / "plane"
        if name == "sandbox":
            with SandboxPlane(where) as sandbox:
                yield sandbox
        else:
            with ControlPlane(directory=where) as real:
                yield real
