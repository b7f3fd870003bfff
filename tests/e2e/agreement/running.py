# SPDX-License-Identifier: Apache-2.0
"""One case on a real control plane: make its cluster, let the scheduler bind, see who is left, clean up.

Pods are held back by a scheduling gate until everything else stands and the planned ones are nominated; then all are
let go at once. A case is over when all planned pods are bound and the others have been refused, or when nothing has
moved for a while. Planned pods that are left then lost their place to others, who went elsewhere than planned: they
are planned again, for the cluster as it is, as the controller does whenever a promise was not kept. The controller
never gives up; here some rounds must do.

Claims that are still to be bound get their volume from ``_Run.provision``, which does what a CSI provisioner does once
the scheduler has chosen a node for a claim's first pod: it makes a volume in the zone of that node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from karpenter.api.labels import ZONE
from karpenter.scheduling.classes import age
from tests.e2e.agreement.client import Api, Wire, together
from tests.e2e.agreement.nominating import Nominating, nominations
from tests.e2e.agreement.translation import ASIDE, Case, Key, key_of, translate_again

__all__ = ["Outcome", "prepare", "run_case"]

_NODES = "/api/v1/nodes"
_PODS = "/api/v1/pods"
_CLAIMS = "/api/v1/persistentvolumeclaims"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_GATE = "example.com/not-yet"
_CLAIM: Wire = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
_PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_PATIENT: Wire = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "patient"},
    "value": 0,
    "globalDefault": True,
    "preemptionPolicy": "Never",
}
_POLL_S = 0.05
_QUIET_S = 4.0
# Less than the 50 s after which the control plane gives up a node that says nothing.
_LONGEST_S = 30.0
_ROUNDS = 4


@dataclass(frozen=True)
class Outcome:
    """How a case ended.

    Attributes:
        case: The case.
        placed: The node of each pod that was bound.
        pending: What the scheduler says about each pod that was not.
        asked_again: The planned pods that the scheduler refused and was asked about a second time.
        again: What was planned, round after round, for planned pods that found their place taken.
        seconds: How long it took.
    """

    case: Case
    placed: Mapping[Key, str]
    pending: Mapping[Key, str]
    asked_again: frozenset[Key]
    again: tuple[Case, ...]
    seconds: float

    @property
    def stranded(self) -> dict[Key, str]:
        """The planned pods that stayed pending, with the scheduler's words."""
        return {
            key: words
            for key, words in self.pending.items()
            if key in self.case.planned and key not in self.displaced
        }

    @property
    def displaced(self) -> frozenset[Key]:
        """The planned pods for which there is no place any more, whatever is bought, since others took theirs."""
        return self.again[-1].rejected & self.pending.keys() if self.again else frozenset()

    @property
    def elsewhere(self) -> dict[Key, str]:
        """The planned pods that were bound to another node than planned."""
        return {key: node for key, node in self.placed.items() if self.case.planned.get(key, node) != node}

    @property
    def surprising(self) -> dict[Key, str]:
        """The rejected pods that were bound all the same."""
        return {key: node for key, node in self.placed.items() if key in self.case.rejected}


async def prepare(api: Api, namespaces: Mapping[str, Mapping[str, str]]) -> None:
    """Make what cases share, where it is missing: namespaces with accounts, a default priority that never preempts."""
    known = {each["metadata"]["name"] for each in await api.items("/api/v1/namespaces")}
    for name, labels in namespaces.items():
        if name not in known:
            await api.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}
            )
    if not await api.request("GET", f"{_PRIORITIES}/{_PATIENT['metadata']['name']}", may_miss=True):
        await api.create(_PATIENT)
    for name in (*namespaces, ASIDE):
        await _until_there(api, f"/api/v1/namespaces/{name}/serviceaccounts/default")


async def run_case(api: Api, case: Case, *, how: Nominating, crowd: bool = False) -> Outcome:
    """Carry a case out and leave the control plane as it was.

    Args:
        api: The API server.
        case: The case.
        how: How planned pods are told their node.
        crowd: Whether the rejected pods are let go with the planned ones, and not after them.
    """
    started = time.monotonic()
    run = _Run(api, case, how)
    try:
        await _make_cluster(api, case)
        await run.hold(run.pods)
        await run.nominate({})
        waves = [case.rejected | case.planned.keys()] if crowd else [frozenset(case.planned), case.rejected]
        for wave in waves:
            await run.let_go(wave)
            await run.watch(wave)
            await run.plan_again()
        pods = {key_of(each): each for each in await api.items(_PODS)}
    finally:
        await _clean_up(api, case, run.again)
    ours = {key: pods[key] for key in map(key_of, case.pending)}
    return Outcome(
        case,
        placed={key: _node_of(pod) for key, pod in ours.items() if _node_of(pod)},
        pending={key: _refusal(pod) for key, pod in ours.items() if not _node_of(pod)},
        asked_again=frozenset(run.asked_again),
        again=tuple(run.again),
        seconds=time.monotonic() - started,
    )


async def _make_cluster(api: Api, case: Case) -> None:
    await together(api.create(each) for each in (*case.settings, *case.volumes))
    await together(
        [
            *(api.create(each) for each in (*case.claims, *case.csi_nodes)),
            *(_make_node(api, each) for each in case.nodes),
        ]
    )
    await together(_make_bound(api, each) for each in case.bound)
    deadline = time.monotonic() + _LONGEST_S
    while not (await _nodes_settled(api, case) and await _claims_settled(api, case)):
        assert time.monotonic() < deadline, f"case {case.name}: nodes or claims do not settle"
        await asyncio.sleep(_POLL_S)


async def _make_node(api: Api, node: Wire) -> None:
    await api.create(node)
    # Admission taints every new node; the node controller would take that back in its own time.
    await api.patch(node, {"spec": {"taints": node["spec"]["taints"]}})


async def _make_bound(api: Api, pod: Wire) -> None:
    await api.create(pod)
    await api.patch(pod, {"status": pod["status"]}, part="status")
    if pod["metadata"]["finalizers"]:
        await api.delete(pod)


async def _nodes_settled(api: Api, case: Case) -> bool:
    seen = {node["metadata"]["name"]: _taints(node) for node in await api.items(_NODES)}
    return all(seen.get(node["metadata"]["name"]) == _taints(node) for node in case.nodes)


async def _claims_settled(api: Api, case: Case) -> bool:
    if not case.bound_claims:
        return True
    claims = [each for each in await api.items(_CLAIMS) if key_of(each) in case.bound_claims]
    waiting = [each for each in claims if each.get("status", {}).get("phase") != "Bound"]
    # A claim that was looked at before its volume is only looked at again after 15 s, or when it changes.
    await together(
        api.patch(claim | _CLAIM, {"metadata": {"labels": {"look": f"{time.monotonic():.3f}"}}})
        for claim in waiting
    )
    return not waiting


class _Run:
    """The pods of a case on their way."""

    def __init__(self, api: Api, case: Case, how: Nominating) -> None:
        self.api = api
        self.case = case
        self.how = how
        self.nominated: dict[Key, str] = {}
        self.asked_again: set[Key] = set()
        self.again: list[Case] = []
        self.provisioned: set[Key] = set()
        self.zones = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in case.nodes}
        self.pods = {key_of(pod): pod for pod in case.pending}
        self.turns = {key: age(case.pods[key]) for key in self.pods}

    @property
    def latest(self) -> Case:
        """What was planned last."""
        return self.again[-1] if self.again else self.case

    async def hold(self, wave: Iterable[Key]) -> None:
        """Make pods that are not to be scheduled yet.

        The scheduler takes pods of one priority in the order in which it first hears of them: by age, as the problem
        has it.
        """
        for key in sorted(wave, key=self.turns.__getitem__):
            pod = self.pods[key]
            await self.api.create({**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": _GATE}]}})

    async def nominate(self, bound: Mapping[Key, str]) -> None:
        """Tell pods their node whose turn it is, and take back what no longer holds."""
        due = nominations(self.latest, self.how, bound)
        changed: dict[Key, str | None] = {
            key: node for key, node in due.items() if self.nominated.get(key) != node
        }
        changed |= {key: None for key in self.nominated if key not in due and key not in bound}
        self.nominated = due
        await together(
            self.api.patch(self.pods[key], {"status": {"nominatedNodeName": node}}, part="status")
            for key, node in changed.items()
        )

    async def let_go(self, wave: Iterable[Key]) -> None:
        """Hand pods over to the scheduler, all at one moment and the oldest first."""
        with self.api.scheduler_paused():
            for key in sorted(wave, key=self.turns.__getitem__):
                await self.api.patch(self.pods[key], {"spec": {"schedulingGates": None}})

    async def watch(self, wave: frozenset[Key]) -> None:
        """Wait until all planned pods of a wave are bound and the rest refused, or nothing moves any more."""
        deadline = time.monotonic() + _LONGEST_S
        last: object = None
        moved = time.monotonic()
        while time.monotonic() < deadline:
            await self.provision()
            seen = {key_of(pod): pod for pod in await self.api.items(_PODS)}
            bound = {key: _node_of(seen[key]) for key in self.pods if _node_of(seen[key])}
            await self.nominate(bound)
            state = {key: _refusal(seen[key]) for key in wave - bound.keys()}
            stranded = state.keys() & self.latest.planned.keys()
            calm_s = time.monotonic() - moved
            if state != last:
                last, moved = state, time.monotonic()
            elif all(state.values()) and calm_s > (_QUIET_S if stranded else 2 * _POLL_S):
                if stranded <= self.asked_again:
                    return
                await self.ask_again(stranded)
                moved = time.monotonic()
            await asyncio.sleep(_POLL_S)

    async def plan_again(self) -> None:
        """Plan pods again that lost their place, as the controller does, while that helps."""
        while self.how is Nominating.IN_TURN and len(self.again) < _ROUNDS:
            bound = await self.bound()
            left = self.case.planned.keys() - bound.keys()
            if not left or (self.again and left <= self.latest.rejected):
                return
            made = [each for case in (self.case, *self.again) for each in case.settings]
            again = translate_again(self.case, self.latest.plan, bound)
            self.again.append(replace(again, settings=tuple(x for x in again.settings if x not in made)))
            self.zones |= {
                each["metadata"]["name"]: each["metadata"]["labels"][ZONE] for each in self.latest.nodes
            }
            await _make_cluster(self.api, self.latest)
            await self.nominate(bound)
            await self.ask_again(left)
            await self.watch(frozenset(left))

    async def bound(self) -> dict[Key, str]:
        """Give the node of each pod that is bound by now."""
        seen = {key_of(pod): pod for pod in await self.api.items(_PODS)}
        return {key: _node_of(seen[key]) for key in self.pods if _node_of(seen[key])}

    async def ask_again(self, stranded: AbstractSet[Key]) -> None:
        """Make pods anew: the scheduler would come back to them only after some minutes."""
        self.asked_again |= stranded
        await together(self.api.delete(self.pods[key]) for key in stranded)
        await self.hold(stranded)
        await together(
            self.api.patch(self.pods[key], {"status": {"nominatedNodeName": node}}, part="status")
            for key, node in self.nominated.items()
            if key in stranded
        )
        await self.let_go(stranded)

    async def provision(self) -> None:
        """Make the volumes of claims for which the scheduler has chosen a node."""
        if len(self.case.claims) == len(self.case.bound_claims):
            return
        for claim in await self.api.items(_CLAIMS):
            node = claim["metadata"].get("annotations", {}).get(_SELECTED_NODE)
            if node is not None and key_of(claim) not in self.provisioned:
                self.provisioned.add(key_of(claim))
                await self.api.create(_new_volume(claim, self.zones[node]))


def _new_volume(claim: Wire, zone: str) -> Wire:
    namespace, name = key_of(claim)
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"made-{claim['metadata']['uid']}"},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": name, "uid": claim["metadata"]["uid"]},
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }


async def _clean_up(api: Api, case: Case, again: Iterable[Case]) -> None:
    kept = [pod for pod in case.bound if pod["metadata"]["finalizers"]]
    await together(_free(api, pod) for pod in kept)
    at_once = {"gracePeriodSeconds": 0}
    for namespace in sorted({key_of(pod)[0] for pod in (*case.bound, *case.pending)}):
        await api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods", at_once)
    spaces = sorted({key_of(claim)[0] for claim in case.claims})
    await together(
        api.request("DELETE", path, at_once)
        for path in (
            _NODES,
            "/apis/storage.k8s.io/v1/csinodes",
            *(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims" for namespace in spaces),
        )
    )
    if case.claims:
        await api.request("DELETE", "/api/v1/persistentvolumes", at_once)
    await together(api.delete(each) for made in (case, *again) for each in made.settings)
    deadline = time.monotonic() + _LONGEST_S
    while await api.items(_PODS) or await api.items(_NODES):
        assert time.monotonic() < deadline, f"case {case.name}: pods or nodes do not go away"
        await asyncio.sleep(_POLL_S)


async def _free(api: Api, pod: Wire) -> None:
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    await api.request("PATCH", path, {"metadata": {"finalizers": None}}, may_miss=True)


async def _until_there(api: Api, path: str) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not await api.request("GET", path, may_miss=True):
        assert time.monotonic() < deadline, f"{path} does not appear"
        await asyncio.sleep(_POLL_S)


def _taints(node: Wire) -> list[tuple[str, str, str]]:
    return sorted(
        (each["key"], each.get("value", ""), each["effect"]) for each in node["spec"].get("taints", ())
    )


def _node_of(pod: Wire) -> str:
    node: str = pod["spec"].get("nodeName", "")
    return node


def _refusal(pod: Wire) -> str:
    """Give what the scheduler says about a pod; nothing while it has not tried."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["reason"] != "SchedulingGated":
            words: str = condition["message"]
            return words
    # The scheduler does not even queue a pod whose claim for a device is missing, and says nothing about it.
    return "waits for a resource claim" if pod["spec"].get("resourceClaims") else ""
