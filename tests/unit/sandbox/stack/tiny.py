# SPDX-License-Identifier: Apache-2.0
"""A program that stands for those of a sandbox: it serves, speaks, fails or ignores, as its first word says."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from karpenter.sandbox.kube.serving.certificates import serving_context

__all__ = ["main"]

_RESOURCES = [
    {"name": name, "kind": kind, "namespaced": False}
    for name, kind in (
        ("configmaps", "ConfigMap"),
        ("customresourcedefinitions", "CustomResourceDefinition"),
        ("daemonsets", "DaemonSet"),
        ("deployments", "Deployment"),
        ("namespaces", "Namespace"),
        ("serviceaccounts", "ServiceAccount"),
        ("services", "Service"),
        ("storageclasses", "StorageClass"),
    )
]
# Of the controller's Deployment: nothing is to be waited for.
_DEPLOYMENT = {"spec": {"replicas": 0}, "status": {}}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer({"resources": _RESOURCES, "items": [], "ec2": {"instances": []}, **_DEPLOYMENT})

    def do_PATCH(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer({})

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def _answer(self, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(words: list[str]) -> None:
    """Do as told."""
    what = words[0]
    if what == "serve":
        server = HTTPServer(("127.0.0.1", int(words[1])), _Handler)
        if len(words) > 2:
            server.socket = serving_context(Path(words[2])).wrap_socket(server.socket, server_side=True)
        server.serve_forever()
    elif what == "fail":
        sys.stderr.write("some words\nerror: it cannot be\nhint:  try another\n")
        raise SystemExit(1)
    elif what == "write-pid":
        Path(words[1]).write_text(str(os.getpid()), encoding="utf-8")
        time.sleep(60)
    else:
        if what == "ignore":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.stdout.write(f"{' '.join(words)} at work\n")
        sys.stdout.flush()
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1:])
