# SPDX-License-Identifier: Apache-2.0
"""Whether a cluster can be handed over from the Go Karpenter is told, with what has to be done before."""

from __future__ import annotations

import json
from typing import Any, Self

import pytest

from karpenter import kube
from karpenter.cli.main import run
from karpenter.kube import NotFoundError

_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
_KINDS = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")
_DEPLOYMENT = "/apis/apps/v1/namespaces/karpenter/deployments/karpenter"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/karpenter/leases/karpenter-leader-election"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_POOLS = "/apis/karpenter.sh/v1/nodepools"
# What the Go Karpenter reckons for a pool that says nothing but its node class.
_BARE = "6821555240594823858"


def _definition(*served: str, stored: tuple[str, ...] = ("v1",)) -> dict[str, Any]:
    versions = [{"name": each, "served": True} for each in served]
    return {"spec": {"versions": versions}, "status": {"storedVersions": list(stored)}}


def _claim(name: str, kind: str = "EC2NodeClass", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, **more.pop("metadata", {})},
        "spec": {"nodeClassRef": {"kind": kind}},
        "status": {"providerID": f"aws:///a/{name}"},
        **more,
    }


def _pool(name: str, fingerprint: str, version: str = "v3") -> dict[str, Any]:
    stamps = {"karpenter.sh/nodepool-hash": fingerprint, "karpenter.sh/nodepool-hash-version": version}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"requirements": [], "nodeClassRef": reference}}
    return {"metadata": {"name": name, "annotations": stamps}, "spec": {"template": template}}


def _running() -> dict[str, Any]:
    """Give what the API server says of a Go Karpenter at work."""
    container = {"image": "public.ecr.aws/karpenter/controller:1.14.1"}
    return {
        **{f"{_CRD}{name}": _definition("v1") for name in _KINDS},
        _DEPLOYMENT: {
            "spec": {"template": {"spec": {"containers": [container]}}},
            "status": {"readyReplicas": 2},
        },
        _LEASE: {"spec": {"holderIdentity": "karpenter-abc"}},
        _CLAIMS: {"items": [_claim("a"), _claim("b")]},
        _POOLS: {"items": [_pool("default", _BARE)]},
    }


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the API server says, by path; a test may change it."""
    found = _running()

    class Paper:
        def __init__(self, config: object) -> None:
            del config

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            return None

        async def raw(self, method: str, path: str) -> bytes:
            assert method == "GET"
            if path not in found:
                raise NotFoundError("not found", status=404)
            return json.dumps(found[path]).encode()

    monkeypatch.setattr(kube, "Client", Paper)
    monkeypatch.setattr(kube, "load_config", lambda *_: None)
    return found


def test_a_cluster_at_rest_can_be_handed_over_and_the_steps_are_told(
    answers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    answers[f"{_CRD}{_KINDS[0]}"] = _definition("v1beta1", "v1", stored=("v1beta1", "v1"))

    code = run(["migrate", "karpenter"])

    said = capsys.readouterr()
    assert code == 0
    assert "2 NodeClaims of 1 NodePools" in said.out
    assert "1 of 1 NodePools carry ours already" in said.out
    assert "held by karpenter-abc" in said.out
    assert "still be stored as v1beta1, which is understood" in said.out
    assert "scale deployment karpenter --replicas=0" in said.err


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        (f"{_CRD}{_KINDS[0]}", None, "is not installed"),
        (f"{_CRD}{_KINDS[1]}", _definition("v1beta1"), "is served as v1beta1, not as v1"),
        (_CLAIMS, {"items": [_claim("a", "KWOKNodeClass")]}, "name KWOKNodeClass"),
        (
            _CLAIMS,
            {"items": [_claim("a", metadata={"deletionTimestamp": "2026-11-15T00:00:00Z"})]},
            "1 NodeClaims are being removed: a",
        ),
        (_CLAIMS, {"items": [_claim("a", status={})]}, "1 NodeClaims have no instance yet: a"),
        (_POOLS, {"items": [_pool("a", "1"), _pool("b", _BARE)]}, "differ for a: nodes of 1 NodePools"),
    ],
)
def test_what_stands_in_the_way_is_named_and_refused(
    answers: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    path: str,
    answer: dict[str, Any] | None,
    words: str,
) -> None:
    if answer is None:
        del answers[path]
    else:
        answers[path] = answer

    code = run(["migrate", "karpenter"])

    said = capsys.readouterr()
    assert code == 1
    assert words in said.out
    assert "hint:" in said.err
    assert "replicas=0" not in said.err


def test_without_a_controller_or_a_lease_nothing_has_to_be_stopped(
    answers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    del answers[_DEPLOYMENT], answers[_LEASE]

    code = run(["migrate", "karpenter", "-o", "json"])

    found = {each["what"]: each["words"] for each in json.loads(capsys.readouterr().out)}
    assert code == 0
    assert "nothing has to be stopped" in found["controller"]
    assert "nobody leads there" in found["lease"]


def test_pools_of_older_reckonings_are_no_obstacle(
    answers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    answers[_POOLS] = {"items": [_pool("old", "1", "v2"), {"metadata": {"name": "unreadable"}}]}

    code = run(["migrate", "karpenter"])

    assert code == 0
    assert "0 of 2 NodePools carry ours already" in capsys.readouterr().out
