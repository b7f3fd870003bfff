# SPDX-License-Identifier: Apache-2.0
"""How a node loses the taint that evicts, so that no pod is lost which comes a moment later: pure.

A node joins with ``karpenter.sh/unregistered:NoExecute``. If that were just taken off, the scheduler could bind a pod
before the control plane's taint eviction, which follows nodes by itself, has heard of it. The pod would be deleted:
one that a workload owns starts again elsewhere, a bare one is lost.

So the taint becomes ``NoSchedule`` first, and goes when kube-controller-manager has shown that it knows. It shows it by
an annotation that its TTL controller keeps on every node. We take the annotation off together with the taint; it comes
back only when that process has seen the node without both, and its taint eviction reads the same cache. The answer
takes milliseconds. Whoever takes over after a crash in between finds the taint and goes on.

A node that is not ready needs none of this as long as it carries ``node.kubernetes.io/not-ready:NoSchedule``: the same
process takes that off, and only after it has seen the node ready, which is later than what we wrote.

What cannot be promised: where nobody keeps the annotation, a node waits for a moment and nothing is known. Where the
controller manager does not answer for 15 s, the node is let go (another one that leads by then begins with what is
true). A taint eviction that runs in a process of its own answers nobody. Pods that bear ``not-ready`` but not our taint
come to a node that boots, and registers without being asked about, as they did before.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.base import to_wire
from karpenter.api.core import Node, Taint
from karpenter.controllers.lifecycle.joining import is_ready
from karpenter.model.taints import same_taint

__all__ = ["ANSWER", "Disarming", "disarming_patch", "is_armed", "is_shielded"]

ANSWER: Final = "node.alpha.kubernetes.io/ttl"

_NOT_READY: Final = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
# Another controller manager leads by then: a lease runs out after 15 s.
_LONGEST_S: Final = 15.0
# Without anybody to ask. A judgement: informers lag by milliseconds.
_UNASKED_S: Final = 0.25
# A node that boots has time, and needs it: when it has just joined, the annotation is written more than once, and one
# of these may be taken for an answer.
_BOOTING_S: Final = 1.0


def is_armed(node: Node) -> bool:
    """Tells whether a node carries our taint that evicts."""
    return _carries(node, names.UNREGISTERED_TAINT)


def is_shielded(node: Node) -> bool:
    """Tells whether the control plane must look at a node once more before the scheduler uses it."""
    return not is_ready(node) and _carries(node, _NOT_READY)


def disarming_patch(node: Node) -> dict[str, Any]:
    """Gives the merge patch by which a node evicts nobody and still takes no pods, and which asks who knows."""
    others = [taint for taint in node.spec.taints if taint.key != names.UNREGISTERED_TAINT.key]
    metadata: dict[str, Any] = {"resourceVersion": node.metadata.resource_version}
    if ANSWER in node.metadata.annotations:
        metadata["annotations"] = {ANSWER: None}
    return {
        "metadata": metadata,
        "spec": {"taints": [to_wire(each) for each in (*others, names.REGISTERING_TAINT)]},
    }


class Disarming:
    """The nodes that evict nobody any more and are not known for it yet, by the names of their claims."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}

    def note(self, name: str, before: Node, now: float) -> None:
        """Remembers that a node was patched, and whether that asked for an answer."""
        self._since.setdefault(name, now)
        if ANSWER in before.metadata.annotations:
            self._asked_at[name] = now

    def can_ask(self, name: str, node: Node) -> bool:
        """Tells whether a node can be asked about that was not, for want of the annotation or since a restart."""
        return (
            _carries(node, names.REGISTERING_TAINT)
            and ANSWER in node.metadata.annotations
            and name not in self._asked_at
        )

    def wait_s(self, name: str, node: Node, now: float) -> float:
        """Gives the seconds that are left until a node may take pods; nothing if it may, or evicts still."""
        if not _carries(node, names.REGISTERING_TAINT):
            return 0.0
        since = self._since.setdefault(name, now)
        asked_at = self._asked_at.get(name)
        if asked_at is None:
            end = since + _UNASKED_S
        else:
            end = now if ANSWER in node.metadata.annotations else asked_at + _LONGEST_S
        if not is_ready(node):
            end = max(end, since + _BOOTING_S)
        return max(0.0, end - now)

    def forget(self, name: str) -> None:
        """Forgets a node that has registered or is gone."""
        self._since.pop(name, None)
        self._asked_at.pop(name, None)


def _carries(node: Node, wanted: Taint) -> bool:
    return any(same_taint(taint, wanted) for taint in node.spec.taints)
