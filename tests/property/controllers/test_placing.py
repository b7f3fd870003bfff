# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.core import Pod
from karpenter.controllers.provisioning.placeable import placeable
from karpenter.model.resources import Resources, pod_requests, total
from karpenter.model.snapshot import NodeView
from karpenter.scheduling.templates import compile_daemons


def _pod(name: str, cpu: int, priority: int = 0, **spec: Any) -> Pod:
    asked = {"requests": {"cpu": f"{cpu}m"}}
    whole = {"containers": [{"name": "c", "resources": asked}], "priority": priority, **spec}
    return msgspec.convert({"metadata": {"name": name, "uid": name}, "spec": whole}, Pod)


_SIZES = st.integers(0, 900)
_PODS = st.lists(st.tuples(_SIZES, st.integers(0, 3), st.booleans()), max_size=8)


@given(room=st.integers(1, 3000), pods=_PODS, there=_SIZES, daemon=_SIZES, awaited=_SIZES)
def test_what_is_bound_fits_beside_everything_that_belongs_there(
    room: int, pods: list[tuple[int, int, bool]], there: int, daemon: int, awaited: int
) -> None:
    size = Resources({"cpu": room, "memory": 1 << 30, "pods": 20})
    view = NodeView("n", {}, size, pods=(_pod("there", there, nodeName="n"),))
    promised = [_pod(f"p{number}", cpu, priority) for number, (cpu, priority, _) in enumerate(pods)]
    may_be = {f"p{number}": allowed for number, (_, _, allowed) in enumerate(pods)}
    guest, daemons = _pod("awaited", awaited), compile_daemons([_pod("daemon", daemon)])

    chosen = placeable(view, promised, [guest], daemons, may_be=may_be)

    taken = total(map(pod_requests, (*view.pods, guest, daemons[0].pod, *chosen)))
    assert not chosen or taken.fits(size)
    assert all(may_be[pod.metadata.uid] for pod in chosen)
    assert placeable(view, promised[::-1], [guest], daemons, may_be=may_be) == chosen
    # Nobody is passed over for a pod of lesser priority that could have made room.
    for pod in promised:
        if may_be[pod.metadata.uid] and pod not in chosen:
            above = [each for each in promised if (each.spec.priority or 0) > (pod.spec.priority or 0)]
            equal = [each for each in promised if each.spec.priority == pod.spec.priority and each is not pod]
            needed = total(map(pod_requests, (*view.pods, guest, daemons[0].pod, *above, *equal, pod)))
            assert not needed.fits(size)
