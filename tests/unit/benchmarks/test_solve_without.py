# SPDX-License-Identifier: Apache-2.0
from benchmarks.solve_without import cluster

from karpenter.scheduling import solve


def test_the_cluster_is_full_of_pods_that_find_another_place() -> None:
    snapshot = cluster(nodes=12, pods_per_node=20)
    node = snapshot.nodes[0]

    plan = solve(snapshot.without([node.name]), node.pods)

    assert [len(each.pods) for each in snapshot.nodes] == [20] * 12
    assert sum(map(len, plan.existing.values())) == 20
    assert not plan.new_nodes
