# SPDX-License-Identifier: Apache-2.0
"""HTTP to a sandbox's API and to its EC2 model, one call at a time, for commands that look and poke.

The product's own client is not used here: the sandbox knows nothing of the product.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from karpenter.sandbox.stack.errors import CallError

__all__ = ["KubeApi", "Model", "answers", "text_at"]

_TIMEOUT_S: Final = 10.0
_MANAGER: Final = "karpenter-sandbox"
_MERGE: Final = "application/merge-patch+json"


def answers(url: str, timeout_s: float = 1.0, *, authority: Path | None = None) -> bool:
    """Return whether an address answers 200; over TLS the authority's certificate must be there already."""
    try:
        caller = _Http(url, timeout_s=timeout_s, authority=authority)
    except FileNotFoundError:
        return False
    try:
        return caller.send("GET", urlsplit(url).path or "/")[0] == 200
    except CallError:
        return False
    finally:
        caller.close()


def text_at(url: str) -> str:
    """Gives the text at an address.

    Raises:
        CallError: It refuses or does not answer.
    """
    caller = _Http(url)
    try:
        status, content = caller.send("GET", urlsplit(url).path or "/")
    finally:
        caller.close()
    if status != 200:
        raise CallError(f"{url} answers {status}", status=status)
    return content.decode("utf-8", "replace")


class _Http:
    def __init__(
        self, url: str, token: str = "", *, timeout_s: float = _TIMEOUT_S, authority: Path | None = None
    ) -> None:
        self.url = url
        parts = urlsplit(url)
        assert parts.hostname is not None  # noqa: S101 - addresses are made here
        self._connection = (
            http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
            if parts.scheme == "http"
            else http.client.HTTPSConnection(
                parts.hostname,
                parts.port,
                timeout=timeout_s,
                context=ssl.create_default_context(cafile=authority),
            )
        )
        self._token = token

    def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": _MANAGER}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body)
        try:
            if method != "GET":
                # On a connection of its own: on one that was kept, a failure would not tell whether it was done.
                self._connection.close()
            try:
                return self._try(method, path, data, headers)
            except ConnectionError:
                if method != "GET":
                    raise
                # The other side may have closed a connection that was kept since the last call.
                self._connection.close()
                return self._try(method, path, data, headers)
        except (OSError, http.client.HTTPException) as trouble:
            self._connection.close()
            reason = getattr(trouble, "strerror", None) or str(trouble) or type(trouble).__name__
            raise CallError(
                f"{self.url} does not answer: {reason}", hint="see 'karpenter sandbox status'"
            ) from trouble

    def close(self) -> None:
        """Lets go of the connection."""
        self._connection.close()

    def _try(self, method: str, path: str, data: str | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        self._connection.request(method, path, data, dict(headers))
        # Closed even if it breaks off: it holds on to the connection.
        with contextlib.closing(self._connection.getresponse()) as answer:
            return answer.status, answer.read()


class KubeApi:
    """The Kubernetes API of a sandbox.

    Args:
        url: Its address.
        token: Who calls.
        authority: The file with the certificate that the server is known by.
    """

    def __init__(self, url: str, token: str, authority: Path | None = None) -> None:
        self._http = _Http(url, token, authority=authority)
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    def close(self) -> None:
        """Lets go of the connection; the next call makes another."""
        self._http.close()

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Gives an object or a list.

        Raises:
            CallError: The API refuses or does not answer.
        """
        return self._call("GET", path + (f"?{urlencode(query)}" if query else ""))

    def items(self, path: str, query: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Gives the objects of a list; raises as ``get``."""
        found: list[dict[str, Any]] = self.get(path, query)["items"]
        return found

    def apply(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Applies a manifest on the server, taking over fields of others; raises as ``get``."""
        query = urlencode({"fieldManager": _MANAGER, "force": "true"})
        # JSON is YAML, and the server asks for YAML.
        return self._call("PATCH", f"{self.path(manifest)}?{query}", manifest, "application/apply-patch+yaml")

    def apply_all(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Applies manifests in order; raises as ``get``."""
        for each in manifests:
            self.apply(each)

    def merge(self, path: str, change: Mapping[str, Any]) -> dict[str, Any]:
        """Changes some fields of an object; raises as ``get``."""
        return self._call("PATCH", path, change, _MERGE)

    def delete(self, path: str) -> dict[str, Any]:
        """Deletes an object or all of a list; raises as ``get``."""
        return self._call("DELETE", path)

    def path(self, manifest: Mapping[str, Any]) -> str:
        """Gives the path of the object that a manifest describes; raises as ``get``."""
        version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._plurals:
            for each in self.get(root)["resources"]:
                if "/" not in each["name"]:
                    self._plurals[version, each["kind"]] = each["name"], each["namespaced"]
        if (version, kind) not in self._plurals:
            raise CallError(f"the API does not serve {kind} of {version}", status=404)
        plural, namespaced = self._plurals[version, kind]
        metadata = manifest["metadata"]
        where = f"/namespaces/{quote(metadata.get('namespace') or 'default')}" if namespaced else ""
        return f"{root}{where}/{plural}/{quote(metadata['name'])}"

    def _call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        status, content = self._http.send(method, path, body, content_type)
        told = _decoded(content)
        if status >= 300:
            raise CallError(
                f"{method} {path.partition('?')[0]}: {told.get('message') or status}", status=status
            )
        return told


class Model:
    """The EC2 model of a sandbox, by its admin calls."""

    def __init__(self, url: str) -> None:
        self._http = _Http(url)

    def close(self) -> None:
        """Lets go of the connection; the next call makes another."""
        self._http.close()

    def state(self) -> dict[str, Any]:
        """Gives the account as one document.

        Raises:
            CallError: The model refuses or does not answer.
        """
        return self._call("GET", "state")

    def do(self, action: str, document: Any) -> dict[str, Any]:
        """Does an action of the model's; raises as ``state``."""
        return self._call("POST", action, document)

    def _call(self, method: str, name: str, document: Any = None) -> dict[str, Any]:
        status, content = self._http.send(method, f"/_model/{name}", document)
        told = _decoded(content)
        if status >= 300:
            raise CallError(
                str(told.get("error") or f"the EC2 model answers {status}"),
                hint=str(told.get("hint") or ""),
                status=status,
            )
        return told


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        told = json.loads(content)
    except ValueError:
        return {"message": content[:200].decode("utf-8", "replace")}
    return told if isinstance(told, dict) else {"items": told}
