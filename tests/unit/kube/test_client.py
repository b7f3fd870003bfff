# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from aiohttp import web

from karpenter.api.core import Pod
from karpenter.api.meta import ObjectMeta
from karpenter.kube import (
    AlreadyExistsError,
    Client,
    ClusterConfig,
    ConflictError,
    FencedError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    Undecodable,
    UnreachableError,
)
from karpenter.kube.errors import ApiError
from karpenter.kube.kinds import DEPLOYMENTS, NODE_POOLS, NODES, PODS
from tests.unit.kube.paper import (
    HastyClock,
    Seen,
    breaks_off,
    client_for,
    paper_server,
    refuses,
    says,
    streams,
)

POD = {"metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7"}}


async def test_an_object_is_read_by_its_path_and_decoded() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says(POD))

        pod = await client.get(PODS, "web", "shop")

    assert pod.metadata.uid == "u1"
    assert paper.seen[0].path == "/api/v1/namespaces/shop/pods/web"
    assert client.sent == {"GET pods": 1}


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_the_proxy_of_the_environment_is_used(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with paper_server() as paper:
        monkeypatch.setenv("http_proxy", scheme + paper.url.removeprefix("http://"))
        config = ClusterConfig(server="http://api.example:6443", source="the test")
        async with Client(config, clock=HastyClock()) as client:
            paper.next(says(POD))

            await client.get(PODS, "web", "shop")

    assert paper.seen[0].headers["Host"] == "api.example:6443"


async def test_a_server_that_needs_no_proxy_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says(POD))

        pod = await client.get(PODS, "web", "shop")

    assert pod.metadata.uid == "u1"


async def test_passwords_for_other_programs_are_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says(POD))

        await client.get(PODS, "web", "shop")

    assert "Authorization" not in paper.seen[0].headers


async def test_requests_do_not_wait_for_decisions_that_hold_every_thread() -> None:
    released = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    async with paper_server() as paper, client_for(paper) as client:
        deciding = loop.run_in_executor(None, released.wait, 10)
        paper.next(says(POD))

        pod = await client.get(PODS, "web", "shop")

        is_deciding = not deciding.done()
        released.set()
        await deciding
    assert pod.metadata.uid == "u1"
    assert is_deciding


async def test_a_list_comes_in_pages_and_has_the_version_of_the_last() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(
            says({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [POD]}),
            says({"metadata": {"resourceVersion": "9"}, "items": [POD]}),
        )

        listing = await client.list(PODS, labels="app=web", page=1)

    assert len(listing.items) == 2
    assert listing.resource_version == "9"
    assert paper.seen[0].query == {"labelSelector": "app=web", "limit": "1"}
    assert paper.seen[1].query["continue"] == "more"


async def test_a_list_that_went_stale_between_pages_is_begun_again() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(
            says({"metadata": {"continue": "more"}, "items": [POD]}),
            refuses(410, "Expired"),
            says({"metadata": {"resourceVersion": "12"}, "items": [POD]}),
        )

        listing = await client.list(PODS)

    assert len(listing.items) == 1
    assert listing.resource_version == "12"


async def test_a_list_that_is_always_stale_is_given_up() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        page = says({"metadata": {"continue": "more"}, "items": [POD]})
        for _ in range(4):
            paper.next(page, refuses(410, "Expired"))

        with pytest.raises(GoneError):
            await client.list(PODS)


async def test_one_object_of_another_shape_is_left_out_and_reported() -> None:
    odd = {"metadata": {"name": "odd", "namespace": "shop", "labels": ["not", "a", "map"]}}
    found: list[Undecodable] = []
    async with paper_server() as paper, client_for(paper, on_undecodable=found.append) as client:
        paper.next(says({"metadata": {"resourceVersion": "3"}, "items": [POD, odd]}))

        listing = await client.list(PODS)

    assert [pod.metadata.name for pod in listing.items] == ["web"]
    assert (found[0].kind, found[0].namespace, found[0].name) == ("Pod", "shop", "odd")
    assert "labels" in found[0].problem
    assert listing.unreadable == tuple(found)
    assert listing.unreadable[0].text("metadata", "name") == "odd"
    assert listing.unreadable[0].text("metadata", "labels") == ""
    assert listing.unreadable[0].text("spec", "nodeName") == ""
    assert str(found[0]).startswith("Pod shop/odd cannot be read: ")


async def test_a_create_fills_in_version_and_kind() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says({"metadata": {"name": "web"}}, 201))

        await client.create(DEPLOYMENTS, {"metadata": {"name": "web"}}, "shop")

    assert paper.seen[0].path == "/apis/apps/v1/namespaces/shop/deployments"
    assert paper.seen[0].body == {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}


async def test_a_patch_names_its_kind_of_patch_and_the_subresource() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says({"metadata": {"name": "n"}}))

        await client.patch(NODES, "n", {"spec": {"unschedulable": True}}, subresource="status")

    assert paper.seen[0].path == "/api/v1/nodes/n/status"
    assert paper.seen[0].headers["Content-Type"] == "application/merge-patch+json"


async def test_an_apply_takes_the_fields_by_force_under_a_manager() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says({"metadata": {"name": "web"}}))

        await client.apply(DEPLOYMENTS, "web", {"spec": {"replicas": 2}}, "shop", manager="karpenter")

    assert paper.seen[0].query == {"fieldManager": "karpenter", "force": "true"}
    assert paper.seen[0].headers["Content-Type"] == "application/apply-patch+yaml"
    assert paper.seen[0].body["apiVersion"] == "apps/v1"
    assert paper.seen[0].body["metadata"] == {"name": "web"}


async def test_a_delete_can_be_tied_to_one_incarnation() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says({}))

        await client.delete(PODS, "web", "shop", uid="u1", grace_period_s=0, propagation="Background")

    assert paper.seen[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


async def test_an_eviction_that_a_budget_forbids_is_not_tried_again() -> None:
    pod = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u1"))
    refusal = {
        "code": 429,
        "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{"reason": "DisruptionBudget", "message": "needs 1 healthy pod"}]},
    }
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says(refusal, 429, Retry_After="10"))

        with pytest.raises(TooManyRequestsError) as caught:
            await client.evict(pod, grace_period_s=30)

    assert caught.value.is_budget
    assert caught.value.retry_after_s == 10
    assert len(paper.seen) == 1
    assert paper.seen[0].body["deleteOptions"] == {"preconditions": {"uid": "u1"}, "gracePeriodSeconds": 30}


async def test_a_binding_names_the_pod_that_was_meant_and_a_pod_that_has_a_node_is_a_conflict() -> None:
    pod = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u1"))
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says({"kind": "Status", "status": "Success"}, 201), refuses(409, "Conflict"))

        await client.bind(pod, "n1")
        with pytest.raises(ConflictError):
            await client.bind(pod, "n2")

    assert [each.path for each in paper.seen] == ["/api/v1/namespaces/shop/pods/web/binding"] * 2
    assert paper.seen[0].body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


async def test_a_server_that_asks_to_wait_is_obeyed_also_by_writes() -> None:
    clock = HastyClock()
    async with paper_server() as paper, client_for(paper, clock=clock) as client:
        paper.next(refuses(429, "TooManyRequests", Retry_After="3"), says({"metadata": {"name": "x"}}))

        await client.create(PODS, {}, "shop")

    assert len(paper.seen) == 2
    assert max(clock.slept) == 3


async def test_a_wait_of_minutes_is_left_to_the_caller() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(refuses(429, "TooManyRequests", Retry_After="300"))

        with pytest.raises(TooManyRequestsError):
            await client.get(PODS, "web", "shop")


@pytest.mark.parametrize("trouble", [refuses(503, "ServiceUnavailable"), breaks_off])
async def test_a_read_is_tried_again_after_trouble(trouble: object) -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(trouble, trouble, says(POD))  # type: ignore[arg-type]

        pod = await client.get(PODS, "web", "shop")

    assert pod.metadata.name == "web"
    assert len(paper.seen) == 3


async def test_a_read_that_always_fails_is_given_up_with_the_servers_words() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.always = refuses(500, "InternalError", "etcd is away")

        with pytest.raises(ServerError, match="etcd is away"):
            await client.get(PODS, "web", "shop")

    assert len(paper.seen) == 5


async def test_a_write_without_an_answer_is_not_sent_twice() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.always = breaks_off

        with pytest.raises(UnreachableError, match="gave no answer to POST"):
            await client.create(PODS, {}, "shop")

    assert len(paper.seen) == 1


async def test_a_write_that_failed_in_the_server_is_not_sent_twice() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.always = refuses(500)

        with pytest.raises(ServerError):
            await client.create(PODS, {}, "shop")

    assert len(paper.seen) == 1


async def test_a_server_that_is_not_there_is_named_with_the_source_of_its_address() -> None:
    config = ClusterConfig(server="http://127.0.0.1:9", source="kubeconfig of the test")
    async with Client(config, clock=HastyClock()) as client:
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9") as caught:
            await client.create(PODS, {}, "shop")

    assert "kubeconfig of the test" in caught.value.hint


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (410, "Expired", GoneError),
        (422, "Invalid", InvalidError),
        (400, "Expired", GoneError),
        (418, "", ApiError),
    ],
)
async def test_each_refusal_has_its_class(status: int, reason: str, kind: type[ApiError]) -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(refuses(status, reason, "no"))

        with pytest.raises(kind, match=r"POST /api/v1/namespaces/shop/pods: no") as caught:
            await client.create(PODS, {}, "shop")

    assert type(caught.value) is kind
    assert caught.value.status == status


async def test_an_answer_that_is_no_json_is_quoted() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(lambda _: web.Response(status=404, text="404 page not found"))

        with pytest.raises(NotFoundError, match="404 page not found"):
            await client.get(NODE_POOLS, "default")


async def test_a_replica_that_does_not_lead_writes_nothing() -> None:
    def fence() -> None:
        raise FencedError("not the leader")

    async with paper_server() as paper, client_for(paper, before_write=fence) as client:
        paper.next(says(POD))
        await client.get(PODS, "web", "shop")

        with pytest.raises(FencedError):
            await client.delete(PODS, "web", "shop")

    assert [seen.method for seen in paper.seen] == ["GET"]


async def test_a_replica_that_loses_the_lease_while_it_connects_writes_nothing() -> None:
    asked: list[str] = []

    def fence() -> None:
        asked.append("again" if asked else "first")
        if asked[-1] == "again":
            raise FencedError("not the leader any more")

    async with paper_server() as paper, client_for(paper, before_write=fence) as client:
        with pytest.raises(FencedError, match="any more"):
            await client.delete(PODS, "web", "shop")

    assert asked == ["first", "again"]
    assert paper.seen == []


async def test_a_watch_yields_events_and_bookmarks_and_ends_with_the_stream() -> None:
    events = [
        {"type": "ADDED", "object": POD},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "20"}}},
        {"type": "MODIFIED", "object": {"metadata": {"name": "odd", "labels": 5, "resourceVersion": "21"}}},
        {"type": "DELETED", "object": {**POD, "metadata": {**POD["metadata"], "resourceVersion": "22"}}},
    ]
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(streams(*events))

        seen = [event async for event in client.watch(PODS, "5", "shop", fields="spec.nodeName=")]

    assert [(event.type, event.resource_version) for event in seen] == [
        ("ADDED", "7"),
        ("BOOKMARK", "20"),
        ("MODIFIED", "21"),
        ("DELETED", "22"),
    ]
    assert paper.seen[0].query["allowWatchBookmarks"] == "true"
    assert paper.seen[0].query["resourceVersion"] == "5"


async def test_a_watch_takes_an_object_larger_than_any_buffer() -> None:
    big = {"metadata": {**POD["metadata"], "annotations": {"blob": "x" * 900_000}}}
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(streams({"type": "ADDED", "object": big}))

        [event] = [event async for event in client.watch(PODS, "5")]

    assert event.object is not None
    assert len(event.object.metadata.annotations["blob"]) == 900_000


async def test_a_watch_from_too_long_ago_says_so_inside_the_stream_or_at_once() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(streams({"type": "ERROR", "object": status}), refuses(410, "Expired"))

        with pytest.raises(GoneError, match="too old"):
            _ = [event async for event in client.watch(PODS, "1")]
        with pytest.raises(GoneError):
            _ = [event async for event in client.watch(PODS, "1")]


async def test_a_watch_whose_connection_breaks_says_so() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.always = breaks_off

        with pytest.raises(UnreachableError, match="watch pods"):
            _ = [event async for event in client.watch(PODS, "1")]


async def test_a_raw_request_gives_the_bytes() -> None:
    async with paper_server() as paper, client_for(paper) as client:
        paper.next(says({"major": "1"}), says({}))

        version = await client.raw("GET", "/version")
        await client.raw("POST", "/apis/x", {"a": 1})

    assert b"major" in version
    assert paper.seen[1].body == {"a": 1}


async def test_requests_beyond_the_burst_wait_their_turn() -> None:
    clock = HastyClock()
    async with paper_server() as paper, client_for(paper, clock=clock, qps=10, burst=2) as client:
        paper.always = says(POD)
        for _ in range(4):
            await client.get(PODS, "web", "shop")

    assert clock.slept == [pytest.approx(0.1), pytest.approx(0.1)]


async def test_no_more_requests_are_under_way_than_connections_are_worth_it() -> None:
    under_way: list[int] = [0, 0]

    async def slowly(_: Seen) -> web.StreamResponse:
        under_way[0] += 1
        under_way[1] = max(under_way)
        await asyncio.sleep(0.02)
        under_way[0] -= 1
        return web.json_response(POD)

    async with paper_server() as paper, client_for(paper, qps=1e6, burst=1000) as client:
        paper.always = slowly
        await asyncio.gather(*(client.get(PODS, "web", "shop") for _ in range(150)))

    assert len(paper.seen) == 150
    assert under_way == [0, 64]


async def test_a_client_that_was_not_opened_says_so() -> None:
    client = Client(ClusterConfig(server="http://127.0.0.1:9"), clock=HastyClock())

    with pytest.raises(RuntimeError, match="async with"):
        await client.get(PODS, "web", "shop")
