# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane on loopback, for the length of a ``with`` block.

`ControlPlane` starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler with certificates of
their own, waits until each of them says that it is ready and the controllers have begun their work, and
stops them in the reverse order. Several may run side by side. There are no nodes: tests make Node objects,
or run kubelets of their own.

A port is free when we choose it and may be taken when the component binds it; such a component is started
again with another port. Any other end of a component is an error with the end of its log. Nothing outlives
the process that started it (see `processes`), and what etcd stored is always deleted; the rest stays in a
run directory that the caller names, and wherever it is if the start fails.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.e2e.controlplane import components
from tests.e2e.controlplane.binaries import Binaries, find_binaries
from tests.e2e.controlplane.certificates import Authority, KeyPair, make_signing_key, write_private
from tests.e2e.controlplane.components import Layout
from tests.e2e.controlplane.connection import Connection, Reply
from tests.e2e.controlplane.errors import ControlPlaneError
from tests.e2e.controlplane.kubeconfig import make_kubeconfig
from tests.e2e.controlplane.kubectl import Kubectl
from tests.e2e.controlplane.processes import ChildProcess, ProcessGroup
from tests.e2e.controlplane.startup import Part, Startup, succeeds

__all__ = ["ControlPlane"]

_NAME = "control-plane"
_AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


class ControlPlane:
    """etcd, API server, controller manager and scheduler; up inside a ``with`` block.

    Args:
        binaries: the programs; those of KUBEBUILDER_ASSETS or of the cache if not given.
        directory: where certificates, kubeconfig and logs go, and stay; if not given, a temporary one that is
            deleted at the end.
        audit: whether the API server writes `audit_log`.
        start_timeout_s: how long all components together may take until they are ready.
        pick_port: chooses a port that is probably free.
    """

    def __init__(
        self,
        binaries: Binaries | None = None,
        *,
        directory: Path | None = None,
        audit: bool = False,
        start_timeout_s: float = 60.0,
        pick_port: Callable[[], int] | None = None,
    ) -> None:
        self._binaries = binaries or find_binaries(os.environ)
        self._directory = directory.absolute() if directory else None
        self._audit = audit
        self._start_timeout_s = start_timeout_s
        self._pick_port = pick_port
        self._layout: Layout | None = None
        self._group: ProcessGroup | None = None
        self._connection: Connection | None = None
        self._authority = Authority(_NAME)
        self._admin = self._authority.issue_client("admin", [components.ADMIN_GROUP])
        self.token = secrets.token_urlsafe(24)
        self.start_s = 0.0

    def start(self) -> None:
        """Start all components and return when the plane works; stops what it started if it cannot."""
        if self._group is not None:
            raise ControlPlaneError("this control plane was started before", hint="make a new ControlPlane")
        started = time.monotonic()
        layout = Layout(self._directory or Path(tempfile.mkdtemp(prefix="karpenter-controlplane-")))
        self._layout = layout
        try:
            self._write_files(layout)
            self._group = ProcessGroup(layout.logs)
            startup = Startup(
                self._group, self.ca_file, timeout_s=self._start_timeout_s, pick_port=self._pick_port
            )
            etcd_url = self._start_etcd(layout, startup)
            self._connection = self._start_apiserver(layout, startup, etcd_url)
            self._start_clients(layout, startup, self._connection)
        except BaseException:
            # The error points at a log, which must still be there when a person reads it.
            self._end(keep_logs=True)
            raise
        self.start_s = time.monotonic() - started

    def stop(self) -> None:
        """Stop all components and delete what they stored; a second call does nothing."""
        self._end(keep_logs=self._directory is not None)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address of the API server, ``https://127.0.0.1:port``."""
        return self._up().url

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self._files().root

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig, with a context for the certificate (current) and one for the token."""
        return self._files().kubeconfig("admin")

    @property
    def ca_file(self) -> Path:
        """The certificate that vouches for the API server."""
        return Path(self._files().certificate("ca"))

    @property
    def audit_log(self) -> Path:
        """The audit log; there is one if the plane was made with ``audit=True``."""
        return self._files().audit_log

    @property
    def processes(self) -> dict[str, ChildProcess]:
        """The components by name."""
        return {each.name: each for each in self._group.children} if self._group else {}

    def crash(self, *names: str) -> None:
        """End components as kill -9 does; what etcd stored stays, and so do their addresses."""
        for name in names:
            self.processes[name].kill()

    def revive(self, *names: str, timeout_s: float = 60.0) -> None:
        """Start components that ended, in the order given, and return when the API server is ready again.

        Raises:
            ComponentFailedError: one ended again, or the API server is not ready in time.
        """
        if self._group is None:
            raise _not_started()
        for name in names:
            self._group.start(name, self.processes[name].argv)
        startup = Startup(self._group, self.ca_file, timeout_s=timeout_s, pick_port=self._pick_port)
        startup.wait_until(
            lambda: succeeds(self._up(), "/readyz"), self.processes["kube-apiserver"], "it was ready again"
        )

    def kubectl(
        self,
        *arguments: str | Path,
        input: str | None = None,  # noqa: A002 - as subprocess.run names it
        check: bool = True,
        timeout_s: float = 60.0,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the admin, apart from the user's own kubectl settings and cache.

        Raises:
            KubectlFailedError: it took too long, or ``check`` is set and the exit code is not 0.
        """
        own = Kubectl(self._binaries.path("kubectl"), self.kubeconfig, self._files().kubectl_cache)
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
        """Send one request to the API server, with the admin's token or with ``token``."""
        return self._up().request(method, path, body, token=token, content_type=content_type)

    def _end(self, *, keep_logs: bool) -> None:
        if self._group is not None:
            self._group.stop()
        if self._layout is not None:
            shutil.rmtree(self._layout.etcd_data if keep_logs else self._layout.root, ignore_errors=True)

    def _up(self) -> Connection:
        if self._connection is None:
            raise _not_started()
        return self._connection

    def _files(self) -> Layout:
        if self._layout is None:
            raise _not_started()
        return self._layout

    def _write_files(self, layout: Layout) -> None:
        for directory in (layout.certificates, layout.logs):
            directory.mkdir(parents=True, exist_ok=True)
        authority = self._authority
        for name, pair in {
            "ca": authority.key_pair,
            "server": authority.issue_server("kube-apiserver", components.SERVER_HOSTS),
            "etcd-client": authority.issue_client("etcd-client"),
            components.FRONT_PROXY: authority.issue_client(components.FRONT_PROXY),
            "service-account": make_signing_key(),
        }.items():
            pair.write(layout.certificates, name)
        write_private(
            layout.token_file, f'{self.token},token-admin,token-admin,"{components.ADMIN_GROUP}"\n'.encode()
        )
        if self._audit:
            layout.audit_policy.write_text(_AUDIT_POLICY, encoding="utf-8")

    def _start_etcd(self, layout: Layout, startup: Startup) -> str:
        def flags(port: int) -> list[str]:
            # A member that could not bind may have stored its old addresses already.
            shutil.rmtree(layout.etcd_data, ignore_errors=True)
            return components.etcd_flags(layout, port, startup.new_port())

        client_files = (Path(layout.certificate("etcd-client")), Path(layout.key("etcd-client")))
        [url] = startup.bring_up(Part("etcd", self._program("etcd"), flags, "/readyz", client_files))
        return url

    def _start_apiserver(self, layout: Layout, startup: Startup, etcd_url: str) -> Connection:
        def flags(port: int) -> list[str]:
            return components.apiserver_flags(layout, port, etcd_url, audit=self._audit)

        [url] = startup.bring_up(Part("kube-apiserver", self._program("kube-apiserver"), flags, "/readyz"))
        self._write_kubeconfig(layout, "admin", url, self._admin, self.token)
        for user in ("kube-controller-manager", "kube-scheduler"):
            self._write_kubeconfig(layout, user, url, self._authority.issue_client(f"system:{user}"))
        return Connection(url, self.ca_file, token=self.token)

    def _start_clients(self, layout: Layout, startup: Startup, api: Connection) -> None:
        manager, scheduler = "kube-controller-manager", "kube-scheduler"
        startup.bring_up(
            Part(
                manager,
                self._program(manager),
                lambda port: components.controller_manager_flags(layout, port),
                "/healthz",
            ),
            Part(
                scheduler,
                self._program(scheduler),
                lambda port: components.scheduler_flags(layout, port),
                "/readyz",
            ),
        )
        # The controllers begin some time after the manager calls itself healthy; pods cannot be made before.
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        startup.wait_until(
            lambda: succeeds(api, path),
            self.processes[manager],
            "the default service account was made",
        )

    def _program(self, name: str) -> Path:
        return self._binaries.path(name)

    def _write_kubeconfig(
        self, layout: Layout, user: str, url: str, client: KeyPair, token: str = ""
    ) -> None:
        content = make_kubeconfig(_NAME, url, self._authority.key_pair.certificate, client, token)
        write_private(layout.kubeconfig(user), content.encode())


def _not_started() -> ControlPlaneError:
    return ControlPlaneError(
        "the control plane has not been started", hint="with ControlPlane() as plane: ..."
    )
