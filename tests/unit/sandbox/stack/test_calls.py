# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest

from karpenter.sandbox.ec2.server import serving as serving_model
from karpenter.sandbox.ec2.world import World
from karpenter.sandbox.stack.calls import Model, answers, text_at
from karpenter.sandbox.stack.errors import CallError
from tests.unit.sandbox.stack.serving import api


def _map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}


def test_objects_are_applied_read_changed_and_deleted() -> None:
    with api() as (_, client):
        client.apply_all(
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, _map("one")]
        )
        path = client.path(_map("one"))
        client.merge(path, {"data": {"b": "2"}})

        assert client.get(path)["data"] == {"a": "1", "b": "2"}
        assert [each["metadata"]["name"] for each in client.items(path.rpartition("/")[0])] == ["one"]

        client.delete(path)

        with pytest.raises(CallError, match='configmaps "one" not found') as refused:
            client.get(path)
        assert refused.value.status == 404


def test_selectors_go_along() -> None:
    with api() as (_, client):
        query = {"fieldSelector": "metadata.name=kube-system"}

        assert len(client.items("/api/v1/namespaces", query)) == 1


def test_a_kind_that_is_not_served_is_named() -> None:
    with api() as (_, client), pytest.raises(CallError, match="does not serve Nonsense of v1"):
        client.apply({"apiVersion": "v1", "kind": "Nonsense", "metadata": {"name": "a"}})


def test_addresses_answer_or_do_not() -> None:
    with api() as (url, _):
        assert answers(f"{url}/readyz")
        assert text_at(f"{url}/readyz") == "ok"
        assert not answers(f"{url}/api/v1/nodes")
        with pytest.raises(CallError, match="answers 401"):
            text_at(f"{url}/api/v1/nodes")
    assert not answers(f"{url}/readyz")


def test_a_server_that_is_gone_is_told_with_a_way_to_look() -> None:
    with api() as (url, client):
        client.get("/version")

    with pytest.raises(CallError, match=url) as refused:
        client.get("/version")

    assert "status" in refused.value.hint
    with pytest.raises(CallError):
        client.delete("/api/v1/nodes/a")


async def test_the_model_is_looked_at_and_changed() -> None:
    async with serving_model(World()) as server:
        model = Model(server.url)
        try:
            state = await asyncio.to_thread(model.state)
            done = await asyncio.to_thread(model.do, "clock", {"advanceSeconds": 5})
            with pytest.raises(CallError, match="there is no action 'dance'"):
                await asyncio.to_thread(model.do, "dance", {})
        finally:
            model.close()

    assert state["ec2"]["instances"] == []
    assert done["speed"] == 1.0
