# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.nodepool import NodePool
from karpenter.controllers.poolproblems import PoolProblems, Topic, could_serve, sentence
from karpenter.errors import KarpenterError
from karpenter.kit.clock import FakeClock
from karpenter.kube import Recorder
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.state import STORED_NODE_POOLS
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, pod, stored_pool


def pool_of(**template: Any) -> NodePool:
    """A pool with a template."""
    client, cluster = paper_cluster()
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    labels = template.pop("labels", {})
    whole = {
        "metadata": {"labels": labels},
        "spec": {"nodeClassRef": reference, "requirements": [], **template},
    }
    client.store(STORED_NODE_POOLS, stored_pool(template=whole))
    found = cluster.pool("default")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("pool", "parts", "serves"),
    [
        ({}, {}, True),
        ({"labels": {"team": "a"}}, {"nodeSelector": {"team": "a"}}, True),
        ({"labels": {"team": "a"}}, {"nodeSelector": {"team": "b"}}, False),
        ({}, {"nodeSelector": {"team": "b"}}, False),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, {}, False),
        (
            {"requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["x86_64"]}]},
            {"nodeSelector": {"kubernetes.io/arch": "amd64"}},
            True,
        ),
        ({"requirements": [{"key": "team", "operator": "Sometimes"}]}, {}, True),
    ],
)
def test_a_pod_hears_of_the_pools_that_are_meant_for_it(pool: Any, parts: Any, *, serves: bool) -> None:
    assert could_serve(pool_of(**pool), pod("web", **parts)) is serves


def test_problems_are_told_to_some_pods_and_remembered_for_the_others() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    recorder = Recorder(client, clock=clock)
    problems = PoolProblems(cluster, recorder, clock)
    pods = [pod(f"p{n}") for n in range(30)] + [pod("bound", "n1")]

    problems.report("default", Topic.CREATE, "NodeClaimNotCreated", "refused", pods=pods)
    problems.report("default", Topic.LAUNCH, "LaunchFailed", "no answer")

    assert [each.subject.kind for each in recorder._queue] == ["Pod"] * 20
    assert problems.about("default") == ("refused", "no answer")
    problems.resolved("default", Topic.CREATE)
    assert problems.about("default") == ("no answer",)
    clock.tick(301)
    assert problems.about("default") == ()
    problems.resolved("default", Topic.LAUNCH)


async def test_terminations_that_are_refused_are_told_on_the_pool_until_the_claim_goes() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    recorder = Recorder(client, clock=clock)
    problems = PoolProblems(cluster, recorder, clock)
    client.store(STORED_NODE_POOLS, stored_pool())
    refused = {
        "type": "InstanceTerminating",
        "status": "False",
        "reason": "TerminationRefused",
        "message": "not allowed",
    }
    for name in ("c1", "c2"):
        for _ in range(2):
            client.store(NODE_CLAIMS, claim(name, provider_id=name, conditions=[refused]))

    told = [(each.subject.kind, each.reason, each.message) for each in recorder._queue]
    assert told == [
        ("NodePool", "TerminationRefused", "cannot end NodeClaim c1: not allowed"),
        ("NodePool", "TerminationRefused", "cannot end NodeClaim c2: not allowed"),
    ]
    clock.tick(3600)
    assert problems.about("default") == ("cannot end NodeClaim c1: not allowed (and 1 others)",)

    client.store(NODE_CLAIMS, claim("c1", provider_id="c1", conditions=[{**refused, "status": "True"}]))
    assert problems.about("default") == ("cannot end NodeClaim c2: not allowed",)
    await client.delete(NODE_CLAIMS, "c2")
    assert problems.about("default") == ()


def test_an_error_is_said_with_its_hint() -> None:
    assert sentence(KarpenterError("broken", hint="mend it")) == "broken; mend it"
    assert sentence(KarpenterError("broken")) == "broken"
    assert sentence(ValueError("odd")) == "ValueError: odd"
