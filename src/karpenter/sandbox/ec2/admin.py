# SPDX-License-Identifier: Apache-2.0
"""``/_model/...``: look at the world and change it while it runs, with plain JSON over HTTP.

``GET /_model`` lists what there is. ``POST /_model/ACTION`` does one of ``behaviour.actions``; ``POST /_model/actions``
does several in order, as one list, and stops at the first that is refused. Bad input is answered with 400 and names
the field. There is no authentication: the server listens on loopback.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from karpenter.errors import KarpenterError
from karpenter.sandbox.ec2.behaviour.actions import ACTIONS, ActionError, perform, read
from karpenter.sandbox.ec2.front.routing import Arrived
from karpenter.sandbox.ec2.machines import machines_of
from karpenter.sandbox.ec2.state import state_of

if TYPE_CHECKING:
    from karpenter.sandbox.ec2.server import Server

__all__ = ["Admin"]

_FLAGS: Mapping[str, bool] = {"1": True, "true": True, "0": False, "false": False}


class Admin:
    """The admin calls of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._views: Mapping[str, Callable[[Mapping[str, Sequence[str]]], Any]] = {
            "": self._help,
            "state": lambda _: state_of(self._server.world),
            "calls": self._calls,
            "clock": lambda _: self._clock(),
            "faults": lambda _: self._server.world.faults.active,
            "rights": lambda _: self._server.world.guard.as_dict(),
            "machines": lambda arguments: machines_of(self._server.world, arguments.get("id", ())),
        }

    def answer(self, arrived: Arrived) -> web.Response:
        """Answers one admin call."""
        name = arrived.path.removeprefix("/_model").strip("/")
        try:
            if arrived.method == "GET":
                view = self._views.get(name)
                if view is None:
                    raise ActionError(
                        f"there is nothing to see at {name!r}", hint="GET /_model lists what there is"
                    )
                return _json(200, view(arrived.arguments()))
            if arrived.method == "POST":
                return _json(200, self._post(name, arrived.body))
            return _json(405, {"error": f"{arrived.method} is not one of GET, POST"})
        except KarpenterError as refused:
            status = 404 if name not in ACTIONS and name not in self._views and name not in _OTHERS else 400
            return _json(status, {"error": refused.message, "hint": refused.hint})

    def _post(self, name: str, body: bytes) -> Any:
        document = _document(body)
        if name == "reset":
            read("clearFaults", document)
            self._server.reset()
            return self._clock()
        if name == "calls/clear":
            self._server.world.calls.clear()
            return {}
        if name == "actions":
            return self._several(document)
        return self._do(name, document)

    def _do(self, name: str, document: Any) -> Any:
        journal = self._server.journal
        at = journal.now() if journal else 0.0
        done = perform(self._server.world, name, document)
        if journal:
            journal.action(name, document, at)
        return done

    def _several(self, document: Any) -> list[Any]:
        if not isinstance(document, list) or not all(
            isinstance(each, dict) and len(each) == 1 for each in document
        ):
            raise ActionError(
                "actions: expected a list of objects with one action each", hint='[{"fault": {...}}]'
            )
        pairs = [next(iter(each.items())) for each in document]
        for number, (name, inner) in enumerate(pairs):
            try:
                read(name, inner)
            except ActionError as refused:
                raise ActionError(f"actions[{number}]: {refused.message}", hint=refused.hint) from refused
        return [self._do(name, inner) for name, inner in pairs]

    def _help(self, _: Mapping[str, Sequence[str]]) -> Any:
        return {
            "GET": {
                "/_model/state": "what exists",
                "/_model/calls": "the call log; ?mutating=1&service=ec2&operation=Create*&after=NUMBER",
                "/_model/clock": "the model's time",
                "/_model/faults": "the faults that are set",
                "/_model/rights": "whose calls are weighed, and which statements of policies allowed them",
                "/_model/machines": "the machines for who plays their kubelets; ?id=ID gives all of one",
            },
            "POST": {
                f"/_model/{name}": {"about": verb.about, "fields": list(verb.fields)}
                for name, verb in ACTIONS.items()
            }
            | {f"/_model/{name}": {"about": about, "fields": []} for name, about in _OTHERS.items()},
        }

    def _clock(self) -> dict[str, Any]:
        clock = self._server.world.clock
        return {"now": clock.now(), "start": clock.start, "speed": clock.speed}

    def _calls(self, arguments: Mapping[str, Sequence[str]]) -> Any:
        wanted = {name: values[-1] for name, values in arguments.items()}
        unknown = set(wanted) - {"mutating", "service", "operation", "after"}
        if unknown:
            raise ActionError(
                f"calls: unknown parameter {min(unknown)!r}",
                hint="one of mutating, service, operation, after",
            )
        flag, after = wanted.get("mutating"), wanted.get("after", "0")
        if flag is not None and flag not in _FLAGS:
            raise ActionError(f"calls: mutating: {flag!r} is not 0 or 1")
        if not after.isdecimal():
            raise ActionError(f"calls: after: {after!r} is not the number of a call")
        log = self._server.world.calls
        found = log.select(
            mutating=None if flag is None else _FLAGS[flag],
            service=wanted.get("service", "*"),
            operation=wanted.get("operation", "*"),
            after=int(after),
        )
        return {"count": log.count, "forgotten": log.forgotten, "calls": [call.as_dict() for call in found]}


_OTHERS = {
    "reset": "begin again with a fresh world and the same options",
    "actions": "several actions, as a list",
    "calls/clear": "empty the call log",
}


def _document(body: bytes) -> Any:
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except ValueError as broken:
        raise ActionError(f"the body is not JSON: {broken}") from broken


def _json(status: int, document: Any) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(document) + b"\n", content_type="application/json"
    )
