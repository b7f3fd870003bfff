# SPDX-License-Identifier: Apache-2.0
"""The cluster at one moment: machines with what they hold and cost, and pods that wait or run.

Made from the API's objects alone; prices come from the EC2 model, by instance. A machine is a NodeClaim with its Node
once that has joined. Amounts are what pods ask for, in bytes and millicores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from karpenter.api import labels as names
from karpenter.kit.quantity import parse_milli, parse_value

__all__ = ["Machine", "Picture", "Pod", "State", "picture"]

Wire = Mapping[str, Any]
# The cluster's own pods, and the controller's.
_SYSTEM_NAMESPACES = ("kube-system", "karpenter")


class State(StrEnum):
    """How far a machine is."""

    ORDERED = "ordered"
    LAUNCHED = "booting"
    JOINED = "joined"
    READY = "ready"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod: what it asks for and where it is."""

    key: str
    workload: str
    memory_bytes: int
    cpu_milli: int
    node: str
    running: bool

    @property
    def pending(self) -> bool:
        """Tells whether it has no node yet."""
        return not self.node


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine, from the order to its end.

    Attributes:
        claim: Its NodeClaim.
        ordered: When, as the API writes times.
        candidates: The types that the order allows, empty where it names none.
        planned_pods: How many pods it was ordered for.
        price_per_hour: In dollars; None where it is not known.
        used: What its pods ask for, memory in bytes and cpu in millicores.
        room: What it has for pods, likewise.
    """

    claim: str
    ordered: str
    node: str
    instance: str
    instance_type: str
    capacity_type: str
    zone: str
    state: State
    candidates: tuple[str, ...]
    planned_pods: int
    price_per_hour: float | None
    pods: int
    used: tuple[int, int]
    room: tuple[int, int]

    @property
    def shown(self) -> str:
        """Gives its short name."""
        return self.node.partition(".")[0] or self.claim

    @property
    def memory_share(self) -> float:
        """Tells how much of the memory for pods is asked for, from 0 to 1."""
        return self.used[0] / self.room[0] if self.room[0] else 0.0

    @property
    def cpu_share(self) -> float:
        """Tells how much of the cpu for pods is asked for, from 0 to 1."""
        return self.used[1] / self.room[1] if self.room[1] else 0.0


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it."""

    machines: tuple[Machine, ...] = ()
    pods: tuple[Pod, ...] = ()
    removals: Mapping[str, str] | None = None
    """Why claims go, by name, in the controller's words."""

    @property
    def price_per_hour(self) -> float:
        """Gives what the machines cost that are there, or on their way."""
        return sum(each.price_per_hour or 0.0 for each in self.machines)

    @property
    def pending(self) -> tuple[Pod, ...]:
        """Gives the pods without a node."""
        return tuple(each for each in self.pods if each.pending)

    @property
    def running(self) -> int:
        """Counts the pods that run."""
        return sum(each.running for each in self.pods)

    @property
    def is_quiet(self) -> bool:
        """Tells whether every machine is ready and every pod runs."""
        return self.running == len(self.pods) and all(each.state == State.READY for each in self.machines)


def picture(
    *,
    claims: Iterable[Wire],
    nodes: Iterable[Wire],
    pods: Iterable[Wire],
    events: Iterable[Wire] = (),
    prices: Mapping[str, float | None],
) -> Picture:
    """Gives the cluster from lists of its objects; ``prices`` are dollars an hour by instance id."""
    seen_pods = tuple(_pod(each) for each in pods if _counts(each))
    by_node: dict[str, list[Pod]] = {}
    for pod in seen_pods:
        by_node.setdefault(pod.node, []).append(pod)
    known = {each["spec"].get("providerID", ""): each for each in nodes}
    machines = [_machine(each, known, by_node, prices) for each in claims]
    machines.sort(key=lambda each: (each.ordered, each.claim))
    removals = {
        each["involvedObject"]["name"]: each.get("message", "")
        for each in events
        if each.get("reason") == "DisruptionTerminating" and each["involvedObject"].get("kind") == "NodeClaim"
    }
    return Picture(tuple(machines), tuple(sorted(seen_pods, key=lambda each: each.key)), removals)


def _counts(pod: Wire) -> bool:
    return (
        "deletionTimestamp" not in pod["metadata"]
        and pod.get("status", {}).get("phase") in {"Pending", "Running"}
        and pod["metadata"]["namespace"] not in _SYSTEM_NAMESPACES
    )


def _pod(pod: Wire) -> Pod:
    metadata, spec = pod["metadata"], pod["spec"]
    requests = [each.get("resources", {}).get("requests", {}) for each in spec.get("containers", ())]
    owner = next((each["name"] for each in metadata.get("ownerReferences", ())), metadata["name"])
    # A ReplicaSet is called after its Deployment, with a hash behind.
    workload = owner.rpartition("-")[0] if "pod-template-hash" in metadata.get("labels", {}) else owner
    return Pod(
        key=f"{metadata['namespace']}/{metadata['name']}",
        workload=f"{metadata['namespace']}/{workload}",
        memory_bytes=sum(parse_value(each["memory"]) for each in requests if "memory" in each),
        cpu_milli=sum(parse_milli(each["cpu"]) for each in requests if "cpu" in each),
        node=spec.get("nodeName", ""),
        running=pod["status"]["phase"] == "Running",
    )


def _machine(
    claim: Wire,
    nodes: Mapping[str, Wire],
    by_node: Mapping[str, list[Pod]],
    prices: Mapping[str, float | None],
) -> Machine:
    labels, status = claim["metadata"].get("labels", {}), claim.get("status", {})
    provider_id = status.get("providerID", "")
    node = nodes.get(provider_id) if provider_id else None
    # The Node goes before its claim, which is still called after it then.
    name = node["metadata"]["name"] if node else status.get("nodeName", "")
    held = by_node.get(name, []) if name else []
    allocatable = (node or claim).get("status", {}).get("allocatable", {})
    requests = claim["spec"].get("resources", {}).get("requests", {})
    instance = provider_id.rpartition("/")[2]
    return Machine(
        claim=claim["metadata"]["name"],
        ordered=claim["metadata"].get("creationTimestamp", ""),
        node=name,
        instance=instance,
        instance_type=labels.get(names.INSTANCE_TYPE, ""),
        capacity_type=labels.get(names.CAPACITY_TYPE, ""),
        zone=labels.get(names.ZONE, ""),
        state=_state(claim, node, provider_id),
        candidates=_candidates(claim),
        planned_pods=parse_value(requests.get("pods", "0")),
        price_per_hour=prices.get(instance),
        pods=len(held),
        used=(sum(each.memory_bytes for each in held), sum(each.cpu_milli for each in held)),
        room=(parse_value(allocatable.get("memory", "0")), parse_milli(allocatable.get("cpu", "0"))),
    )


def _state(claim: Wire, node: Wire | None, provider_id: str) -> State:
    if "deletionTimestamp" in claim["metadata"]:
        return State.LEAVING
    if node is None:
        return State.LAUNCHED if provider_id else State.ORDERED
    conditions = claim.get("status", {}).get("conditions", ())
    done = any(each["type"] == "Initialized" and each["status"] == "True" for each in conditions)
    return State.READY if done and _is_ready(node) else State.JOINED


def _is_ready(node: Wire) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _candidates(claim: Wire) -> tuple[str, ...]:
    for each in claim["spec"].get("requirements", ()):
        if each["key"] == names.INSTANCE_TYPE and each.get("operator") == "In":
            return tuple(each.get("values", ()))
    return ()
