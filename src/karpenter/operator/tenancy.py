# SPDX-License-Identifier: Apache-2.0
"""Whether pods say anything about tenancy: only then are offerings of dedicated hardware worth their memory and time.

Each tenancy repeats every offering of every type, and hardly any pod ever asks. So a NodePool that is silent about
tenancy offers dedicated hardware while some pod names the label, in its node selector or its node affinity.
"""

from __future__ import annotations

from collections.abc import Iterator

from karpenter.api.core import Pod
from karpenter.api.labels import INSTANCE_TENANCY
from karpenter.kube import Change, Informer

__all__ = ["TenancyDemand"]


class TenancyDemand:
    """The pods that name the tenancy label; true while there is one."""

    def __init__(self, pods: Informer[Pod]) -> None:
        self._asking: set[str] = set()
        pods.on_change(self._changed)

    def __call__(self) -> bool:
        """Return whether any pod names the label."""
        return bool(self._asking)

    def _changed(self, change: Change[Pod]) -> None:
        uid = change.object.metadata.uid
        if change.new is not None and INSTANCE_TENANCY in _named_labels(change.new):
            self._asking.add(uid)
        else:
            self._asking.discard(uid)


def _named_labels(pod: Pod) -> Iterator[str]:
    """Yield the node labels that a pod's selector and affinity name."""
    yield from pod.spec.node_selector
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is None:
        return
    terms = affinity.required.node_selector_terms if affinity.required is not None else ()
    for term in (*terms, *(each.preference for each in affinity.preferred)):
        yield from (expression.key for expression in term.match_expressions)
