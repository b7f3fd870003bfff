# SPDX-License-Identifier: Apache-2.0
"""The command lines of the four components, as functions of a directory and ports.

Everything that a real cluster has is left on: TLS both ways, RBAC and the Node authorizer, admission, all
default controllers with their own service accounts. Left out is what a single short-lived plane cannot
need: leader election, fsync, and the registration of the API server as an endpoint of its own Service
(loopback addresses are refused there). Ports are chosen by the caller; nothing here touches the disk or the
network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ADMIN_GROUP",
    "FRONT_PROXY",
    "SERVER_HOSTS",
    "Layout",
    "apiserver_flags",
    "controller_manager_flags",
    "etcd_flags",
    "scheduler_flags",
]

LOOPBACK = "127.0.0.1"
ADMIN_GROUP = "system:masters"
FRONT_PROXY = "front-proxy-client"
SERVICE_RANGE = "10.96.0.0/16"
ISSUER = "https://kubernetes.default.svc.cluster.local"
SERVER_HOSTS = (
    LOOPBACK,
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
)


@dataclass(frozen=True)
class Layout:
    """Where the files of one control plane are, below its run directory."""

    root: Path

    @property
    def certificates(self) -> Path:
        """Certificates and keys."""
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        """One log file for each component."""
        return self.root / "logs"

    @property
    def etcd_data(self) -> Path:
        """What etcd stores; the only large part."""
        return self.root / "etcd-data"

    @property
    def kubectl_cache(self) -> Path:
        """The discovery cache of kubectl, apart from the user's own."""
        return self.root / "kubectl-cache"

    @property
    def token_file(self) -> Path:
        """Static bearer tokens."""
        return self.root / "tokens.csv"

    @property
    def audit_policy(self) -> Path:
        """What the audit log records."""
        return self.root / "audit-policy.yaml"

    @property
    def audit_log(self) -> Path:
        """The audit log, one JSON object a line."""
        return self.logs / "audit.log"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of a user; the admin's has the plain name."""
        return self.root / ("kubeconfig" if user == "admin" else f"{user}.kubeconfig")

    def certificate(self, name: str) -> str:
        """The path of a certificate or public key."""
        return str(self.certificates / f"{name}.crt")

    def key(self, name: str) -> str:
        """The path of a private key."""
        return str(self.certificates / f"{name}.key")


def etcd_flags(layout: Layout, client_port: int, peer_port: int) -> list[str]:
    """Return the flags of a single etcd member that forgets on power loss, as tests may."""
    client, peer = f"https://{LOOPBACK}:{client_port}", f"https://{LOOPBACK}:{peer_port}"
    certificate, key, authority = layout.certificate("server"), layout.key("server"), layout.certificate("ca")
    return [
        "--name=test",
        f"--data-dir={layout.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}",
        f"--cert-file={certificate}",
        f"--key-file={key}",
        f"--trusted-ca-file={authority}",
        "--client-cert-auth",
        f"--peer-cert-file={certificate}",
        f"--peer-key-file={key}",
        f"--peer-trusted-ca-file={authority}",
        "--peer-client-cert-auth",
        "--unsafe-no-fsync",
        "--log-level=warn",
        # A lone member has nobody to wait for; the default would delay its election.
        "--heartbeat-interval=10",
        "--election-timeout=100",
    ]


def apiserver_flags(layout: Layout, port: int, etcd_url: str, *, audit: bool = False) -> list[str]:
    """Return the flags of kube-apiserver; ``audit`` records the metadata of every request."""
    flags = [
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",
        f"--etcd-servers={etcd_url}",
        f"--etcd-cafile={layout.certificate('ca')}",
        f"--etcd-certfile={layout.certificate('etcd-client')}",
        f"--etcd-keyfile={layout.key('etcd-client')}",
        *_serving_flags(layout),
        f"--client-ca-file={layout.certificate('ca')}",
        f"--token-auth-file={layout.token_file}",
        f"--requestheader-client-ca-file={layout.certificate('ca')}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={layout.certificate(FRONT_PROXY)}",
        f"--proxy-client-key-file={layout.key(FRONT_PROXY)}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={layout.certificate('service-account')}",
        f"--service-account-signing-key-file={layout.key('service-account')}",
        "--profiling=false",
    ]
    if audit:
        flags += [
            f"--audit-policy-file={layout.audit_policy}",
            f"--audit-log-path={layout.audit_log}",
            "--audit-log-mode=blocking",
        ]
    return flags


def controller_manager_flags(layout: Layout, port: int) -> list[str]:
    """Return the flags of kube-controller-manager with all controllers that are on by default."""
    return [
        *_client_flags(layout, "kube-controller-manager", port),
        *_serving_flags(layout),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.key('service-account')}",
        f"--root-ca-file={layout.certificate('ca')}",
        f"--cluster-signing-cert-file={layout.certificate('ca')}",
        f"--cluster-signing-key-file={layout.key('ca')}",
    ]


def scheduler_flags(layout: Layout, port: int) -> list[str]:
    """Return the flags of kube-scheduler in its default configuration."""
    return [*_client_flags(layout, "kube-scheduler", port), *_serving_flags(layout)]


def _serving_flags(layout: Layout) -> list[str]:
    return [
        f"--tls-cert-file={layout.certificate('server')}",
        f"--tls-private-key-file={layout.key('server')}",
    ]


def _client_flags(layout: Layout, user: str, port: int) -> list[str]:
    kubeconfig = layout.kubeconfig(user)
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        "--leader-elect=false",
        "--profiling=false",
        # The defaults (20 and 50 requests a second) spare a shared server; here they would only cost time.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]
