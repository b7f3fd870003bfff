# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from karpenter.sandbox import apiclient as module
from karpenter.sandbox.apiclient import Api, ApiError, KubeconfigError, read_kubeconfig
from karpenter.sandbox.kubelets.objects import PodView
from karpenter.sandbox.kubelets.reflecting import reflect
from tests.e2e.controlplane.certificates import Authority
from tests.e2e.controlplane.kubeconfig import make_kubeconfig
from tests.unit.sandbox.kubelets.cluster import Cluster, running_cluster

PODS = "/api/v1/namespaces/d/pods"
PLAIN = """
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "http://127.0.0.1:1/"}}]
users: [{name: u, user: USER}]
"""


class Seen:
    """What a watch told."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self.changes: list[tuple[str, str]] = []

    def replace(self, found: Sequence[PodView]) -> None:
        self.lists.append([each.metadata.name for each in found])

    def change(self, kind: str, found: PodView) -> None:
        self.changes.append((kind, found.metadata.name))


async def until(holds: Callable[[], object]) -> None:
    for _ in range(400):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


def test_a_kubeconfig_with_certificates_is_read(tmp_path: Path) -> None:
    authority = Authority("test")
    path = tmp_path / "kubeconfig"
    path.write_text(
        make_kubeconfig(
            "c",
            "https://127.0.0.1:1",
            authority.key_pair.certificate,
            authority.issue_client("a", ["g"]),
            "t",
        ),
        encoding="utf-8",
    )

    connection = read_kubeconfig(path)

    assert connection.url == "https://127.0.0.1:1"
    assert connection.tls is not None
    assert connection.tls.check_hostname
    assert connection.token == ""
    assert connection.authority.startswith("-----BEGIN CERTIFICATE-----")


def test_a_token_may_stand_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n", encoding="utf-8")
    path = tmp_path / "kubeconfig"
    path.write_text(PLAIN.replace("USER", "{tokenFile: token}"), encoding="utf-8")

    assert read_kubeconfig(path) == module.Connection("http://127.0.0.1:1", None, "abc")


def test_a_server_may_be_left_unchecked(tmp_path: Path) -> None:
    text = PLAIN.replace("USER", "{token: t}").replace("http://", "https://")
    path = tmp_path / "kubeconfig"
    path.write_text(text.replace('1/"', '1/", insecure-skip-tls-verify: true'), encoding="utf-8")

    tls = read_kubeconfig(path).tls

    assert tls is not None
    assert not tls.check_hostname


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "cannot read the kubeconfig"),
        ("[", "cannot read the kubeconfig"),
        ("a: b", "cannot read the kubeconfig"),
        (PLAIN.replace("current-context: c", "current-context: other"), "cannot read the kubeconfig"),
        (PLAIN.replace("USER", "{exec: {command: aws}}"), "from a plugin"),
    ],
)
def test_a_kubeconfig_that_leads_nowhere_is_refused(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text, encoding="utf-8")

    with pytest.raises(KubeconfigError, match=why):
        read_kubeconfig(path)


async def test_writes_wait_out_trouble_and_tell_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT_S", 0.001)
    async with running_cluster() as cluster, Api(cluster.connection) as api:
        cluster.troubles = {f"POST {PODS}": [429, 503], f"DELETE {PODS}/a": [403], f"PATCH {PODS}/a": [500]}

        await api.create(PODS, {"metadata": {"name": "a"}})
        await api.patch(f"{PODS}/a", {"x": 1})
        with pytest.raises(ApiError, match="on demand") as refused:
            await api.delete(f"{PODS}/a", {})
        cluster.troubles = {f"PATCH {PODS}/a": [500]}
        with pytest.raises(ApiError):
            await api.patch_once(f"{PODS}/a", {"x": 2})

        assert (refused.value.status, refused.value.reason) == (403, "Trouble")
        assert cluster.objects[f"{PODS}/a"]["x"] == 1
        assert api.calls == {"POST": 3, "PATCH": 3, "DELETE": 1}


async def test_a_write_outlives_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT_S", 0.001)
    async with running_cluster() as cluster:
        connection = cluster.connection

    async with Api(connection) as api:
        writing = asyncio.create_task(api.create(PODS, {"metadata": {"name": "a"}}))
        await until(lambda: api.calls.get("POST", 0) >= 3)

        assert not writing.done()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def test_a_list_comes_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE", 2)
    async with running_cluster() as cluster, Api(cluster.connection) as api:
        for name in "abcde":
            cluster.put(f"{PODS}/{name}", {"metadata": {"name": name, "namespace": "d"}})
        seen = Seen()

        await _until_listed(api, seen)

    assert seen.lists == [list("abcde")]
    assert sum(each == "GET /api/v1/pods" for each in cluster.calls) >= 3


async def test_a_watch_goes_on_where_it_ended_and_lists_anew_when_it_is_too_late() -> None:
    async with running_cluster() as cluster, Api(cluster.connection) as api:
        seen = Seen()
        task = asyncio.create_task(
            reflect(api, "/api/v1/pods", PodView, replace=seen.replace, change=seen.change)
        )
        await until(lambda: cluster._watchers)
        cluster.bookmark()
        _put(cluster, "a")
        await until(lambda: len(seen.changes) == 1)

        cluster.end_watches()
        await until(lambda: _watches(cluster) == 2)
        _put(cluster, "b")
        cluster.drop(f"{PODS}/a")
        await until(lambda: len(seen.changes) == 3)
        cluster.end_watches(error=410)
        await until(lambda: len(seen.lists) == 2)
        await until(lambda: cluster._watchers)
        cluster.end_watches(error=500)

        with pytest.raises(ApiError, match="too old"):
            await task
    assert seen.lists == [[], ["b"]]
    assert seen.changes == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_a_watch_that_is_refused_is_the_callers() -> None:
    async with running_cluster() as cluster, Api(cluster.connection) as api:
        cluster.put(f"{PODS}/a", {"metadata": {"name": "a"}})
        cluster.troubles = {"GET /api/v1/pods": [403]}
        seen = Seen()

        with pytest.raises(ApiError, match="on demand"):
            await reflect(api, "/api/v1/pods", PodView, replace=seen.replace, change=seen.change)


async def _until_listed(api: Api, seen: Seen) -> None:
    task = asyncio.create_task(
        reflect(api, "/api/v1/pods", PodView, replace=seen.replace, change=seen.change)
    )
    await until(lambda: seen.lists)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _put(cluster: Cluster, name: str) -> None:
    cluster.put(f"{PODS}/{name}", {"metadata": {"name": name, "namespace": "d"}})


def _watches(cluster: Cluster) -> int:
    # The first call is the list.
    return cluster.calls.count("GET /api/v1/pods") - 1
