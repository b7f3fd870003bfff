# SPDX-License-Identifier: Apache-2.0
"""Which pods must not be moved now: do-not-disrupt, and PodDisruptionBudgets that allow no more evictions.

As Karpenter: a pod under do-not-disrupt holds its node, DaemonSet and static pods too; a pod that two budgets select
cannot be evicted at all, since the eviction API refuses it; an unhealthy pod passes a budget that always allows those.
Asked is only whether a budget allows one more eviction: the drain waits where it allows fewer than a node has pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from karpenter.api.core import Pod
from karpenter.api.core.policy import PodDisruptionBudget
from karpenter.api.labels import DISRUPTED_TAINT
from karpenter.consolidation.types import VerdictKind
from karpenter.model.pods import do_not_disrupt, is_active, is_mirror
from karpenter.model.selectors import Selector, compile_selector
from karpenter.model.taints import tolerates
from karpenter.scheduling.plan import pod_name

__all__ = ["Obstacle", "Protection"]

_ALWAYS = "AlwaysAllow"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A pod that holds its node.

    Attributes:
        kind: What protects it.
        pod: Its namespace and name.
        pdbs: The budgets that protect it, as namespace and name.
        until: When the protection ends by itself, if it does.
    """

    kind: VerdictKind
    pod: str
    pdbs: tuple[str, ...] = ()
    until: float | None = None


class Protection:
    """Tells which pods must not be moved at one moment."""

    def __init__(self, pdbs: Iterable[PodDisruptionBudget], now: float) -> None:
        self._now = datetime.fromtimestamp(now, UTC)
        # By namespace and one label that a budget demands: a cluster may have hundreds, and every pod is asked about.
        self._budgets: dict[tuple[str, tuple[str, str] | None], list[tuple[Selector, PodDisruptionBudget]]]
        self._budgets = {}
        for pdb in pdbs:
            selector = compile_selector(pdb.spec.selector)
            place = (pdb.metadata.namespace, next(iter(selector.pairs), None))
            self._budgets.setdefault(place, []).append((selector, pdb))

    def obstacle(self, pods: Iterable[Pod]) -> Obstacle | None:
        """Return what holds a node with these pods, the first by the pods' names; None if nothing does."""
        for pod in sorted(pods, key=pod_name):
            if is_active(pod):
                found = self._annotated(pod) or self._budgeted(pod)
                if found is not None:
                    return found
        return None

    def _annotated(self, pod: Pod) -> Obstacle | None:
        says = do_not_disrupt(pod, self._now)
        if not says.active:
            return None
        until = says.until.timestamp() if says.until is not None else None
        return Obstacle(VerdictKind.POD_PROTECTED, pod_name(pod), until=until)

    def _budgeted(self, pod: Pod) -> Obstacle | None:
        if is_mirror(pod) or tolerates(pod.spec.tolerations, DISRUPTED_TAINT):
            return None
        found = self._selecting(pod)
        names = tuple(sorted(f"{pdb.metadata.namespace}/{pdb.metadata.name}" for pdb in found))
        if len(found) > 1:
            return Obstacle(VerdictKind.SEVERAL_PDBS, pod_name(pod), names)
        if not found or found[0].status.disruptions_allowed > 0:
            return None
        if found[0].spec.unhealthy_pod_eviction_policy == _ALWAYS and not _is_ready(pod):
            return None
        return Obstacle(VerdictKind.PDB, pod_name(pod), names)

    def _selecting(self, pod: Pod) -> list[PodDisruptionBudget]:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        return [
            pdb
            for pair in (None, *labels.items())
            for selector, pdb in self._budgets.get((namespace, pair), ())
            if selector.matches(labels)
        ]


def _is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
