# SPDX-License-Identifier: Apache-2.0
"""The kubeconfig with which kubectl and everything else finds the sandbox's API.

The token belongs to the kubeconfig's user, and the address holds no credentials: kubectl prints addresses, and its
streams (exec, attach, port-forward) refuse one with a password. kubectl sends a token over TLS only, so the certificate
of the server stands beside it.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml

__all__ = ["kubeconfig", "write_kubeconfig"]

_NAME = "karpenter-sandbox"


def kubeconfig(url: str, token: str, authority: bytes = b"") -> str:
    """Return the text of a kubeconfig for an address and a token.

    Args:
        url: The address.
        token: Of its user.
        authority: The certificate that the server is known by, as PEM; none where it serves plain HTTP.
    """
    cluster: dict[str, Any] = {"server": url}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode("ascii")
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": _NAME, "cluster": cluster}],
            "users": [{"name": _NAME, "user": {"token": token}}],
            "contexts": [
                {"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}
            ],
            "current-context": _NAME,
        },
        sort_keys=False,
    )


def write_kubeconfig(path: Path, url: str, token: str, authority: bytes = b"") -> None:
    """Write a kubeconfig that only its owner can read; the arguments are those of ``kubeconfig``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(kubeconfig(url, token, authority))
