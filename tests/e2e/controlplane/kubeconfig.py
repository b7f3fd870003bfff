# SPDX-License-Identifier: Apache-2.0
"""Kubeconfig files with everything embedded, so that one file is enough to reach a control plane.

The first context uses the client certificate; with a token there is a second one, named ``<name>-token``,
that uses the token alone. Relative paths and exec plugins never appear.
"""

from __future__ import annotations

import base64
from typing import Any

import yaml

from tests.e2e.controlplane.certificates import KeyPair

__all__ = ["make_kubeconfig"]


def make_kubeconfig(name: str, url: str, authority: bytes, client: KeyPair, token: str = "") -> str:
    """Return the kubeconfig (YAML) for one user of one cluster.

    Args:
        name: names the cluster, the user and the context.
        url: the API server, ``https://127.0.0.1:6443``.
        authority: the certificate (PEM) that the server is checked against.
        client: the user's certificate and key.
        token: the user's static bearer token; adds the second context.
    """
    certificate_user = {
        "client-certificate-data": _base64(client.certificate),
        "client-key-data": _base64(client.key),
    }
    users: dict[str, dict[str, str]] = {name: certificate_user}
    if token:
        users[f"{name}-token"] = {"token": token}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": url, "certificate-authority-data": _base64(authority)}}
        ],
        "users": [{"name": user, "user": credentials} for user, credentials in users.items()],
        "contexts": [{"name": user, "context": {"cluster": name, "user": user}} for user in users],
        "current-context": name,
    }
    return yaml.safe_dump(config, sort_keys=False)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
