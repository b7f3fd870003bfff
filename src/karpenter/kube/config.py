# SPDX-License-Identifier: Apache-2.0
"""Where the API server is and who we are: from a kubeconfig, or from the pod that we run in.

The order is kubectl's: a path that was asked for, else the files of ``KUBECONFIG`` (merged, the first to name
a thing wins), else ``~/.kube/config`` if it is there, else the service account of the pod. Relative paths in
a kubeconfig are relative to its file. What kubectl knows and we cannot do (SOCKS proxies, auth-provider
plugins of old) is refused by name rather than ignored.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import yaml

from karpenter.kube.errors import ConfigError

__all__ = ["ClusterConfig", "ExecPlugin", "Identity", "in_cluster", "load_config", "read_kubeconfig"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials, such as ``aws eks get-token``."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    api_version: str = _EXEC_VERSIONS[0]
    install_hint: str = ""
    gives_cluster: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """How we prove who we are; the first of exec plugin, token file, token and password that is set is used."""

    token: str = ""
    token_file: Path | None = None
    exec_plugin: ExecPlugin | None = None
    username: str = ""
    password: str = ""
    certificate: bytes = b""
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One server, how to trust it, and our identity there."""

    server: str
    ca: bytes = b""
    verify_tls: bool = True
    tls_server_name: str = ""
    proxy: str = ""
    identity: Identity = Identity()
    namespace: str = "default"
    source: str = ""


def load_config(
    path: Path | None = None, context: str = "", environ: Mapping[str, str] | None = None
) -> ClusterConfig:
    """Finds the configuration as kubectl does.

    Raises:
        ConfigError: There is none, or it cannot be used.
    """
    environ = os.environ if environ is None else environ
    if path is not None:
        return read_kubeconfig([path], context)
    named = [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    if named:
        return read_kubeconfig(named, context)
    home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if home.exists():
        return read_kubeconfig([home], context)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ)
    raise ConfigError(
        "no kubeconfig was found and this is no pod",
        hint="set KUBECONFIG, or pass --kubeconfig FILE",
    )


def in_cluster(environ: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """Gives the configuration of the pod's own service account; the token file is read again as it rotates."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError(
            "KUBERNETES_SERVICE_HOST is not set",
            hint="this is no pod; outside a cluster set KUBECONFIG or pass --kubeconfig FILE",
        )
    token_file, ca_file = directory / "token", directory / "ca.crt"
    if not token_file.exists():
        raise ConfigError(
            f"{token_file} is missing",
            hint="the pod needs automountServiceAccountToken: true and a ServiceAccount with the chart's ClusterRole",
        )
    namespace_file = directory / "namespace"
    bracketed = f"[{host}]" if ":" in host else host
    return ClusterConfig(
        server=f"https://{bracketed}:{port}",
        ca=ca_file.read_bytes() if ca_file.exists() else b"",
        identity=Identity(token_file=token_file),
        namespace=namespace_file.read_text().strip() if namespace_file.exists() else "default",
        source="the pod's service account",
    )


def read_kubeconfig(paths: Sequence[Path], context: str = "") -> ClusterConfig:
    """Reads one or several kubeconfig files, merged as kubectl merges them.

    Raises:
        ConfigError: None can be read, or the context does not lead to a server.
    """
    documents = [(path, _read(path)) for path in paths if path.exists()]
    if not documents:
        names = ", ".join(map(str, paths))
        raise ConfigError(f"no kubeconfig at {names}", hint="check KUBECONFIG or pass --kubeconfig FILE")
    source = ", ".join(str(path) for path, _ in documents)
    current = context or next((name for _, doc in documents if (name := doc.get("current-context"))), "")
    if not current:
        raise ConfigError(
            f"{source} names no current context",
            hint="kubectl config use-context NAME, or pass --context NAME",
        )
    _, chosen = _named(documents, "contexts", "context", str(current), source)
    cluster_file, cluster = _named(documents, "clusters", "cluster", str(chosen.get("cluster", "")), source)
    user_file, user = Path(), dict[str, Any]()
    if chosen.get("user"):
        user_file, user = _named(documents, "users", "user", str(chosen["user"]), source)
    server = str(cluster.get("server") or "")
    if not server.startswith(("http://", "https://")):
        raise ConfigError(
            f'{cluster_file}: cluster "{chosen.get("cluster")}" has server {server!r}, not an http(s) address'
        )
    server, known = _without_password(server)
    proxy = str(cluster.get("proxy-url") or "")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise ConfigError(f"{cluster_file}: proxy-url {proxy!r}: only http and https proxies are supported")
    return ClusterConfig(
        server=server.rstrip("/"),
        ca=_data_or_file(cluster_file, cluster, "certificate-authority"),
        verify_tls=not cluster.get("insecure-skip-tls-verify", False),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        proxy=proxy,
        identity=_identity(user_file, known | user, str(chosen.get("user") or "")),
        namespace=str(chosen.get("namespace") or "default"),
        source=f"{source}, context {current}",
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="kubectl config view checks it") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} is no kubeconfig", hint="kubectl config view checks it")
    return document


_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _named(
    documents: Sequence[tuple[Path, dict[str, Any]]], section: str, key: str, name: str, source: str
) -> tuple[Path, dict[str, Any]]:
    seen = []
    for path, document in documents:
        entries = document.get(section) or ()
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(key), dict):
                return path, entry[key]
            seen.append(str(entry.get("name")) if isinstance(entry, dict) else "?")
    known = ", ".join(sorted(set(seen))) or "none"
    raise ConfigError(f'{source} has no {key} "{name}"', hint=f"it has: {known}")


def _without_password(server: str) -> tuple[str, dict[str, Any]]:
    """Takes a name and a password out of an address, which is printed and logged, and gives them apart."""
    scheme, _, rest = server.partition("://")
    host, slash, path = rest.partition("/")
    pair, at, host = host.rpartition("@")
    if not at:
        return server, {}
    name, _, password = pair.partition(":")
    return f"{scheme}://{host}{slash}{path}", {"username": unquote(name), "password": unquote(password)}


def _identity(path: Path, user: Mapping[str, Any], name: str) -> Identity:
    if user.get("auth-provider"):
        raise ConfigError(
            f'{path}: user "{name}" uses auth-provider, which Kubernetes removed in 1.26',
            hint="use an exec plugin: aws eks update-kubeconfig writes one",
        )
    token_file = user.get("tokenFile")
    return Identity(
        token=str(user.get("token") or ""),
        token_file=_beside(path, token_file) if token_file else None,
        exec_plugin=_exec_plugin(path, user["exec"], name) if user.get("exec") else None,
        username=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        certificate=_data_or_file(path, user, "client-certificate"),
        key=_data_or_file(path, user, "client-key"),
    )


def _exec_plugin(path: Path, entry: Mapping[str, Any], name: str) -> ExecPlugin:
    version = str(entry.get("apiVersion") or "")
    if version not in _EXEC_VERSIONS:
        raise ConfigError(
            f'{path}: user "{name}": exec.apiVersion is {version!r}, known are {" and ".join(_EXEC_VERSIONS)}'
        )
    command = str(entry.get("command") or "")
    if not command:
        raise ConfigError(f'{path}: user "{name}": exec.command is empty')
    # A command with a slash is a path beside the kubeconfig; a bare one is looked up in PATH.
    located = str(_beside(path, command)) if os.sep in command else command
    return ExecPlugin(
        command=located,
        arguments=tuple(map(str, entry.get("args") or ())),
        environment={str(each["name"]): str(each.get("value", "")) for each in entry.get("env") or ()},
        api_version=version,
        install_hint=str(entry.get("installHint") or "").strip(),
        gives_cluster=bool(entry.get("provideClusterInfo")),
    )


def _data_or_file(path: Path, entry: Mapping[str, Any], key: str) -> bytes:
    data = entry.get(f"{key}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=True)
        except binascii.Error as error:
            raise ConfigError(f"{path}: {key}-data is not base64: {error}") from error
    if not entry.get(key):
        return b""
    file = _beside(path, entry[key])
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {key} {file}: {error.strerror}") from error


def _beside(path: Path, name: object) -> Path:
    return path.parent / Path(str(name)).expanduser()
