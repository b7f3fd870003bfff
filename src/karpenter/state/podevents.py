# SPDX-License-Identifier: Apache-2.0
"""When a pod last came to a node or left it: what ``consolidateAfter`` counts from.

A pod comes when it is bound and leaves when it is over, begins to end, or is gone; pods of DaemonSets and of the
kubelet do neither. Of pods that were there before we began to look only the time of their binding counts, which the
scheduler wrote: a restart of ours makes no node look busy.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from karpenter.api.core import Node, Pod
from karpenter.api.nodeclaim import NodeClaim
from karpenter.kit.clock import Clock
from karpenter.kube import Change
from karpenter.model.pods import is_active, is_daemon, is_mirror
from karpenter.state.informers import Informers

__all__ = ["PodEvents"]


class PodEvents:
    """The last event of each node, by node name; listeners hear the names of nodes with a new one."""

    def __init__(self, informers: Informers, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, datetime] = {}
        self._listeners: list[Callable[[str], None]] = []
        informers.pods.on_change(self._pod_changed)
        informers.nodes.on_change(self._node_changed)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Adds a listener; it is called with the name of a node."""
        self._listeners.append(listener)

    def last(self, claim: NodeClaim) -> datetime | None:
        """Gives when a pod last came to a claim's node or left it, as far as anybody knows."""
        known = (claim.status.last_pod_event_time, self._last.get(claim.status.node_name))
        return max((each for each in known if each is not None), default=None)

    def _node_changed(self, change: Change[Node]) -> None:
        if change.new is None:
            self._last.pop(change.object.metadata.name, None)

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.object
        if not pod.spec.node_name or is_daemon(pod) or is_mirror(pod):
            return
        if change.old is None:
            moment = _bound_at(pod) if is_active(pod) else None
        else:
            was_there = bool(change.old.spec.node_name) and is_active(change.old)
            is_there = change.new is not None and is_active(change.new)
            moment = self._clock.now() if was_there != is_there else None
        known = self._last.get(pod.spec.node_name)
        if moment is None or (known is not None and moment <= known):
            return
        self._last[pod.spec.node_name] = moment
        for listener in self._listeners:
            listener(pod.spec.node_name)


def _bound_at(pod: Pod) -> datetime | None:
    return next(
        (
            each.last_transition_time
            for each in pod.status.conditions
            if each.type == "PodScheduled" and each.status == "True"
        ),
        None,
    )
