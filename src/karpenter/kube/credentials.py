# SPDX-License-Identifier: Apache-2.0
"""What we send to prove who we are: a token that may expire, a password, a certificate.

A token file is read again once a minute, because kubelets rotate it in place. An exec plugin is run again when
what it gave is about to expire, or when the server said 401; many requests that wait for it share one run. Its
output is never shown: it holds a secret.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.kit.clock import Clock
from karpenter.kube.config import ClusterConfig, ExecPlugin
from karpenter.kube.errors import ConfigError

__all__ = ["Credentials"]

_TOKEN_FILE_AGE_S: Final = 60.0
_EXEC_TIMEOUT_S: Final = 60.0
# A token is renewed this long before it expires, so that no request carries one that dies on the way.
_EXPIRY_MARGIN: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class _Granted:
    """What an exec plugin gave."""

    token: str
    certificate: bytes
    key: bytes
    expires: datetime | None


class Credentials:
    """The present proof of identity for one cluster."""

    def __init__(self, config: ClusterConfig, clock: Clock) -> None:
        self._config = config
        self._identity = config.identity
        self._clock = clock
        self._token = ""
        self._read_at: float | None = None
        self._granted: _Granted | None = None
        self._running = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """Gives the header that carries our identity; none if a certificate does, or nothing.

        Raises:
            ConfigError: The token file or the plugin gives nothing usable.
        """
        identity = self._identity
        if identity.exec_plugin is not None:
            granted = await self._from_plugin(identity.exec_plugin)
            return {"Authorization": f"Bearer {granted.token}"} if granted.token else {}
        if identity.token_file is not None:
            return {"Authorization": f"Bearer {self._from_file()}"}
        if identity.token:
            return {"Authorization": f"Bearer {identity.token}"}
        if identity.username:
            pair = f"{identity.username}:{identity.password}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}

    async def certificate(self) -> tuple[bytes, bytes]:
        """Gives the client certificate and its key, both empty if we have none."""
        if self._identity.exec_plugin is not None:
            granted = await self._from_plugin(self._identity.exec_plugin)
            if granted.certificate:
                return granted.certificate, granted.key
        return self._identity.certificate, self._identity.key

    def expire(self) -> bool:
        """Forgets what can be fetched anew, after a 401, and tells whether a second try can help."""
        renewable = self._identity.exec_plugin is not None or self._identity.token_file is not None
        self._read_at = None
        self._granted = None
        return renewable

    def _from_file(self) -> str:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at > _TOKEN_FILE_AGE_S:
            path = self._identity.token_file
            try:
                self._token = path.read_text(encoding="utf-8").strip() if path else ""
            except OSError as error:
                if not self._token:
                    raise ConfigError(f"the token file {path} cannot be read: {error.strerror}") from error
            self._read_at = now
        return self._token

    async def _from_plugin(self, plugin: ExecPlugin) -> _Granted:
        async with self._running:
            granted = self._granted
            if granted is None or (granted.expires and granted.expires - _EXPIRY_MARGIN <= self._clock.now()):
                granted = _parse(plugin, await _run(plugin, self._config))
                self._granted = granted
            return granted


async def _run(plugin: ExecPlugin, config: ClusterConfig) -> bytes:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.gives_cluster:
        spec["cluster"] = {"server": config.server, "tls-server-name": config.tls_server_name}
        spec["cluster"]["certificate-authority-data"] = base64.b64encode(config.ca).decode()
    asked = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise ConfigError(
            f"the credential plugin {plugin.command} cannot be started: {error.strerror}",
            hint=plugin.install_hint or "install it, or correct exec.command in the kubeconfig",
        ) from error
    try:
        output, complaint = await asyncio.wait_for(process.communicate(), _EXEC_TIMEOUT_S)
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise ConfigError(
            f"the credential plugin {plugin.command} gave no answer within {_EXEC_TIMEOUT_S:g} s"
        ) from error
    if process.returncode:
        words = complaint.decode(errors="replace").strip().splitlines()[-1:] or [""]
        raise ConfigError(
            f"the credential plugin {plugin.command} ended with exit code {process.returncode}: {words[0]}",
            hint="run it by hand: it must print an ExecCredential",
        )
    return output


def _parse(plugin: ExecPlugin, output: bytes) -> _Granted:
    try:
        status = json.loads(output)["status"]
        stamp = status.get("expirationTimestamp")
        granted = _Granted(
            token=str(status.get("token") or ""),
            certificate=str(status.get("clientCertificateData") or "").encode(),
            key=str(status.get("clientKeyData") or "").encode(),
            expires=datetime.fromisoformat(stamp) if stamp else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # The text itself stays out of the message: it may hold a token.
        raise ConfigError(
            f"the credential plugin {plugin.command} printed no ExecCredential with a status"
        ) from error
    if not granted.token and not granted.certificate:
        raise ConfigError(f"the credential plugin {plugin.command} gave neither a token nor a certificate")
    return granted
