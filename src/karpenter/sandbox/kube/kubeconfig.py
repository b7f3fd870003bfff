# SPDX-License-Identifier: Apache-2.0
"""The kubeconfig with which kubectl and everything else finds the sandbox's API.

kubectl sends a token over TLS only, and there is none on loopback. So the token stands in the address, where kubectl
and our own client take it for a password; whoever writes requests by hand sends it as a bearer token.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, urlsplit

import yaml

__all__ = ["kubeconfig", "write_kubeconfig"]

_NAME = "karpenter-sandbox"


def kubeconfig(url: str, token: str) -> str:
    """Gives the text of a kubeconfig for an address and a token."""
    parts = urlsplit(url)
    server = f"{parts.scheme}://sandbox:{quote(token, safe='')}@{parts.netloc}"
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": _NAME, "cluster": {"server": server}}],
            "users": [{"name": _NAME, "user": {}}],
            "contexts": [
                {"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}
            ],
            "current-context": _NAME,
        },
        sort_keys=False,
    )


def write_kubeconfig(path: Path, url: str, token: str) -> None:
    """Writes a kubeconfig that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(kubeconfig(url, token))
