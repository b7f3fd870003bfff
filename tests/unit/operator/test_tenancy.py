# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import INSTANCE_TENANCY
from karpenter.kit.clock import FakeClock
from karpenter.operator.tenancy import TenancyDemand
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import pod

_DEDICATED = {"key": INSTANCE_TENANCY, "operator": "In", "values": ["dedicated"]}
_TERM = {"matchExpressions": [_DEDICATED]}


def _affinity(**node: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": node}}


@pytest.mark.parametrize(
    ("spec", "names_it"),
    [
        ({}, False),
        ({"nodeSelector": {"team": "a"}}, False),
        ({"affinity": {}}, False),
        (_affinity(), False),
        ({"nodeSelector": {INSTANCE_TENANCY: "dedicated"}}, True),
        (_affinity(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": [_TERM]}), True),
        (
            _affinity(preferredDuringSchedulingIgnoredDuringExecution=[{"weight": 1, "preference": _TERM}]),
            True,
        ),
    ],
)
def test_dedicated_hardware_is_in_demand_while_a_pod_names_tenancy(
    spec: dict[str, Any], names_it: object
) -> None:
    _, cluster = paper_cluster(FakeClock())
    demand = TenancyDemand(cluster.informers.pods)
    asking: Pod = pod("web", **spec)

    cluster.informers.pods.observe(asking)
    before = demand()
    cluster.informers.pods.observe_gone(asking)

    assert before is names_it
    assert not demand()
