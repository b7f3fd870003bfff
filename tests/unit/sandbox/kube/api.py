# SPDX-License-Identifier: Apache-2.0
"""The API without HTTP: requests go straight to the dispatcher, in faked time."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

from karpenter.kit.clock import FakeClock
from karpenter.sandbox.kube.engine.calls import Call
from karpenter.sandbox.kube.engine.engine import Engine
from karpenter.sandbox.kube.serving.dispatch import Answer
from karpenter.sandbox.kube.serving.server import ADMIN, Server

__all__ = ["PODS", "Api", "container", "deployment", "pod"]

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


class Api:
    """A new cluster and its API."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.engine = Engine(clock=self.clock)
        self.server = Server(self.engine, users={"token": ADMIN})

    def raw(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        told, _, query = path.partition("?")
        sent = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        names = {name.replace("_", "-").title(): value for name, value in headers.items()}
        call = Call(method, told, dict(parse_qsl(query, keep_blank_values=True)), names, sent, ADMIN)
        return self.server._dispatcher.answer(call)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        answer = self.raw(method, path, body, **{"user_agent": "test/1", **headers})
        return answer.status, json.loads(answer.body)

    def get(self, path: str, accept: str = "application/json") -> Any:
        return self.send("GET", path, accept=accept)[1]

    def post(self, path: str, body: Any) -> Any:
        status, made = self.send("POST", path, body, content_type="application/json")
        assert status == 201, made
        return made

    def patch(self, path: str, body: Any, kind: str = MERGE) -> tuple[int, Any]:
        return self.send("PATCH", path, body, content_type=kind)

    def delete(self, path: str, body: Any = None) -> tuple[int, Any]:
        return self.send("DELETE", path, body)


def container(**more: Any) -> dict[str, Any]:
    return {"name": "main", "image": "app:1", **more}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    told = {"containers": [container()], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": told}


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container()]}}
    told = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": told}
