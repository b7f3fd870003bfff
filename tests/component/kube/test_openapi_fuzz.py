# SPDX-License-Identifier: Apache-2.0
"""Requests from the OpenAPI that is served, wrong in every way, over HTTP: no failure, no hang, no lost object.

A run takes a few seconds; ``KARPENTER_FUZZ_S=600`` goes on for ten minutes, ``KARPENTER_FUZZ_SEED`` begins elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from importlib import resources
from typing import Any

import aiohttp
import pytest
import yaml
import yarl

from karpenter.sandbox.kube.serving.server import Server, serving
from karpenter.sandbox.kube.storage.store import Change
from tests.component.kube.fuzzing import Fuzzer, Shot
from tests.e2e.conformance.cases import all_requests

_TOKEN = secrets.token_hex(8)
_SECONDS = float(os.environ.get("KARPENTER_FUZZ_S", "6"))
_SEED = int(os.environ.get("KARPENTER_FUZZ_SEED", "1"))
_SLOWEST_S = 5.0
_MAPS = "/api/v1/namespaces/default/configmaps"
# What a real API server answers with 500 or 504 too, and we with it: revisions that are no numbers or have not been
# reached, bindings without a target, applied values of a wrong type, patches with directives that there are not; and
# options of a deletion that cannot be read. None of them has the reason that a failure of ours has.
_KNOWN = re.compile(
    r"resourceVersion should not be set on objects to be created|target.name: Required value"
    r"|.*strconv.ParseUint: parsing|Too large resource version|failed to create typed patch object"
    r"|unknown patch type|map: .* does not contain declared merge key|list element type"
)


class Ledger:
    """Every change that the store made, in order, held against what is there in the end."""

    def __init__(self, server: Server) -> None:
        self._store = server.engine.store
        self.changes: list[tuple[str, tuple[str, str], str, bool, int]] = []
        self._store.listeners.append(self._note)

    def _note(self, change: Change) -> None:
        uid = change.new.obj["metadata"].get("uid", "")
        self.changes.append((change.kind, change.key, uid, change.deleted, change.revision))

    def check(self, begun: set[tuple[str, tuple[str, str]]]) -> None:
        """Check that what is there is what was there, and came, and did not go."""
        revisions = [revision for *_, revision in self.changes]
        assert revisions == sorted(set(revisions))
        standing = set(begun)
        for kind, key, _uid, deleted, _revision in self.changes:
            (standing.discard if deleted else standing.add)((kind, key))
        assert standing == self.all()

    def all(self) -> set[tuple[str, tuple[str, str]]]:
        """Everything that is stored."""
        return {(kind, key) for kind in self._store.kinds() for key in self._store.keys(kind)}


class Range:
    """A server to shoot at."""

    def __init__(self, server: Server, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session
        self.slowest: tuple[float, Shot | None] = (0.0, None)
        self.statuses: dict[int, int] = {}

    async def documents(self) -> dict[str, Any]:
        """The OpenAPI documents that the server serves."""
        index = await (await self.session.get(f"{self.server.url}/openapi/v3")).json()
        return {
            name: await (await self.session.get(self.server.url + entry["serverRelativeURL"])).json()
            for name, entry in index["paths"].items()
        }

    async def fire(self, shot: Shot) -> tuple[int, bytes]:
        """Send one request; whatever comes back is not a failure of the server."""
        begun = time.monotonic()
        url = yarl.URL(self.server.url + shot.path, encoded=True)
        async with (
            asyncio.timeout(15),
            self.session.request(
                shot.method, url, data=shot.body, headers=shot.headers, allow_redirects=False
            ) as answer,
        ):
            body = await answer.read()
        took_s = time.monotonic() - begun
        if "watch=" not in shot.path:
            self.slowest = max(self.slowest, (took_s, shot), key=lambda each: each[0])
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        if answer.status >= 500:
            told = json.loads(body)
            unreadable = shot.method == "DELETE" and shot.body and not told.get("reason")
            known = told.get("reason") != "InternalError" and _KNOWN.match(told["message"])
            assert unreadable or known, f"{shot}: {told}"
        if answer.content_type == "application/json" and "watch=" not in shot.path and shot.method != "HEAD":
            json.loads(body)
        return answer.status, body


@pytest.fixture
async def target() -> AsyncIterator[Range]:
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    async with (
        serving(token=_TOKEN) as server,
        aiohttp.ClientSession(headers=headers, skip_auto_headers=["Content-Type"]) as session,
    ):
        found = Range(server, session)
        for file in resources.files("karpenter.api.crds").iterdir():
            if file.name.endswith(".yaml"):
                for each in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                    body = json.dumps(each).encode()
                    status, _ = await found.fire(
                        Shot("POST", path, body, {"Content-Type": "application/json"})
                    )
                    assert status == 201
        yield found


@pytest.mark.timeout(_SECONDS + 60)
async def test_whatever_the_documents_allow_and_forbid_is_answered_and_nothing_is_lost(target: Range) -> None:
    examples = [each.body for each in all_requests() if isinstance(each.body, dict)]
    fuzzer = Fuzzer(await target.documents(), _SEED, examples)
    ledger = Ledger(target.server)
    begun = ledger.all()
    await target.fire(
        Shot(
            "POST",
            "/api/v1/namespaces",
            b'{"metadata":{"name":"kept"}}',
            {"Content-Type": "application/json"},
        )
    )
    kept = [await _made(target, f"k{number}") for number in range(20)]
    ends = time.monotonic() + _SECONDS
    shots = fuzzer.shots()
    created: list[str] = []

    await asyncio.gather(*(_shooter(target, shots, ends, created) for _ in range(4)))

    assert sum(target.statuses.values()) > 100 * _SECONDS / 6
    assert target.slowest[0] < _SLOWEST_S, target.slowest
    ledger.check(begun)
    uids = {uid for _, _, uid, _, _ in ledger.changes}
    assert [uid for uid in created if uid not in uids] == []
    for name, body in kept:
        status, found = await target.fire(Shot("GET", f"/api/v1/namespaces/kept/configmaps/{name}"))
        assert (status, json.loads(found)) == (200, body)
    for kind in target.server.engine.store.kinds():
        for stored in target.server.engine.store.items(kind):
            assert json.loads(b"{" + stored.tail)["metadata"]["resourceVersion"] == str(stored.revision)


async def _made(target: Range, name: str) -> tuple[str, Any]:
    body = json.dumps({"metadata": {"name": name}, "data": {"of": name}}).encode()
    status, answer = await target.fire(
        Shot("POST", "/api/v1/namespaces/kept/configmaps", body, {"Content-Type": "application/json"})
    )
    assert status == 201
    return name, json.loads(answer)


async def _shooter(target: Range, shots: Iterator[Shot], ends: float, created: list[str]) -> None:
    while time.monotonic() < ends:
        shot = next(shots)
        status, body = await target.fire(shot)
        if status == 201 and shot.method == "POST" and "dryRun" not in shot.path:
            uid = json.loads(body).get("metadata", {}).get("uid")
            created += [uid] if uid and shot.path.count("/") < 8 else []


async def test_many_who_delete_the_same_at_once_are_all_answered_and_one_of_them_did_it(
    target: Range,
) -> None:
    names = [f"m{number}" for number in range(30)]
    json_type = {"Content-Type": "application/json"}
    for name in names:
        await target.fire(Shot("POST", _MAPS, json.dumps({"metadata": {"name": name}}).encode(), json_type))
    ledger = Ledger(target.server)

    answers = await asyncio.gather(
        *(target.fire(Shot("DELETE", f"{_MAPS}/{name}")) for name in names for _ in range(5)),
        *(target.fire(Shot("DELETE", f"{_MAPS}?labelSelector=a%3Db")) for _ in range(5)),
    )

    by_name = [{status for status, _ in answers[5 * place : 5 * place + 5]} for place in range(len(names))]
    assert all(each <= {200, 404} for each in by_name)
    assert [
        sum(status == 200 for status, _ in answers[5 * place : 5 * place + 5]) for place in range(30)
    ] == [1] * 30
    assert len([each for each in ledger.changes if each[3]]) == len(names)


async def test_bytes_that_are_not_http_are_answered_or_hung_up_on_and_others_go_on(target: Range) -> None:
    pieces = (
        *(
            b"\x00\x01\x02\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        ),
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET /api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    )
    for piece in pieces:
        reader, writer = await asyncio.open_connection("127.0.0.1", target.server.port)
        writer.write(piece)
        await writer.drain()
        writer.write_eof()

        answer = await asyncio.wait_for(reader.read(), 5)

        assert not answer or answer.split()[1][:1] in {b"4", b"2"}, piece[:60]
        writer.close()
        await writer.wait_closed()
    assert (await target.fire(Shot("GET", "/readyz")))[0] == 200
