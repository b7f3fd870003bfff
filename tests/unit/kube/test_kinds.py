# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.kit.clock import FakeClock
from karpenter.kube.kinds import NODE_POOLS, NODES, PODS
from karpenter.kube.limits import TokenBucket


def test_paths_follow_group_namespace_name_and_subresource() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("shop", "web", "eviction") == "/api/v1/namespaces/shop/pods/web/eviction"
    assert NODES.path("ignored", "n") == "/api/v1/nodes/n"
    assert NODE_POOLS.path(name="default", subresource="status") == (
        "/apis/karpenter.sh/v1/nodepools/default/status"
    )


def test_a_name_cannot_leave_its_place_in_the_path() -> None:
    assert PODS.path("a/../b", "../x") == "/api/v1/namespaces/a%2F..%2Fb/pods/..%2Fx"


def test_objects_are_named_as_kubectl_names_them() -> None:
    assert PODS.described("shop", "web") == "pods shop/web"
    assert NODE_POOLS.described(name="default") == "nodepools.karpenter.sh default"
    assert NODES.described() == "nodes"


def test_a_bucket_that_lets_nothing_through_is_refused() -> None:
    with pytest.raises(ValueError, match="lets nothing through"):
        TokenBucket(FakeClock(), rate_per_s=0, burst=1)
