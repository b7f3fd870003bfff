# SPDX-License-Identifier: Apache-2.0
import msgspec

from karpenter.api.labels import EC2NODECLASS, NODEPOOL
from karpenter.api.nodepool import NodePool
from karpenter.model.catalogue import Catalogue
from karpenter.model.pools import Pool, in_order, pool_view
from karpenter.model.requirements import Requirements

EMPTY_CATALOGUE = Catalogue(())


def nodepool(**spec: object) -> NodePool:
    template = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}],
            "taints": [{"key": "dedicated", "effect": "NoSchedule"}],
        },
    }
    return msgspec.convert({"metadata": {"name": "arm"}, "spec": {"template": template, **spec}}, NodePool)


def test_labels_of_the_template_and_the_pool_are_requirements() -> None:
    pool = pool_view(nodepool(weight=7), EMPTY_CATALOGUE)

    assert pool.requirements["team"].has("a")
    assert pool.requirements[NODEPOOL].has("arm")
    assert pool.requirements[EC2NODECLASS].has("default")
    assert pool.requirements["kubernetes.io/arch"].has("arm64")
    assert pool.taints[0].key == "dedicated"
    assert pool.weight == 7


def test_what_is_left_of_a_limit_is_the_limit_less_what_is_used() -> None:
    pool = pool_view(nodepool(limits={"cpu": "10", "nodes": 3}), EMPTY_CATALOGUE, {"cpu": 4000, "nodes": 1})

    assert pool.limits == {"cpu": 6000, "nodes": 2}


def test_a_limit_as_written_is_what_is_left_and_what_is_used() -> None:
    used = {"cpu": 4000, "memory": 2**30}

    pool = pool_view(nodepool(limits={"cpu": "10", "nodes": 3}), EMPTY_CATALOGUE, used)

    assert pool.used == {"cpu": 4000}
    assert pool.limits["cpu"] + pool.used["cpu"] == 10_000


def test_pools_are_tried_by_weight_and_then_the_last_name_first() -> None:
    pools = [
        Pool(name, EMPTY_CATALOGUE, Requirements(), weight=weight)
        for name, weight in (("a", 0), ("b", 0), ("c", 5))
    ]

    ordered = in_order(pools)

    assert [pool.name for pool in ordered] == ["c", "b", "a"]
    assert nodepool().spec.weight in (None, 0)
