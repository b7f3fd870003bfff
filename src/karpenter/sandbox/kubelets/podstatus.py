# SPDX-License-Identifier: Apache-2.0
"""The statuses that a kubelet writes for a pod, from the pod and from how far it has come.

Pure: the moment is an argument. Each status is a patch of ``/status``; conditions that others write (scheduled,
disruption target) stay, because conditions are merged by type.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from karpenter.model.resources import is_sidecar
from karpenter.sandbox.kubelets.admission import Refusal
from karpenter.sandbox.kubelets.objects import PodView

__all__ = ["Progress", "progress_status", "refused_status", "terminated", "timestamp"]

_COMPLETED: Final = "Completed"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pod has come.

    Attributes:
        host_ip: The node's address.
        pod_ip: The pod's own, once it has one.
        started_at: When the kubelet took it.
        inits_done: How many init containers have ended (or, sidecars, have begun).
        running_since: When the containers started; None before.
        ready: Whether they pass their readiness probes.
        exit_code: How the containers ended; None while they have not.
        waiting: Why ended containers wait to be started again.
        restarts: How often they were.
        ended_at: When they ended.
        last: How the run before ended, as the status has it; None where it is not told.
    """

    host_ip: str
    started_at: datetime
    pod_ip: str = ""
    inits_done: int = 0
    running_since: datetime | None = None
    ready: bool = False
    exit_code: int | None = None
    waiting: str = ""
    restarts: int = 0
    ended_at: datetime | None = None
    last: dict[str, Any] | None = None


def timestamp(moment: datetime) -> str:
    """Gives a moment as the API writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def refused_status(refusal: Refusal, now: datetime) -> dict[str, Any]:
    """Gives the status of a pod that the kubelet did not take."""
    return {
        "phase": "Failed",
        "reason": refusal.reason,
        "message": refusal.message,
        "startTime": timestamp(now),
    }


def progress_status(pod: PodView, progress: Progress, now: datetime) -> dict[str, Any]:
    """Gives the status of a pod that has come that far."""
    inits = pod.spec.init_containers
    initialized = progress.inits_done >= len(inits)
    phase = _phase(progress)
    over = phase in {"Succeeded", "Failed"}
    ready = progress.ready and progress.exit_code is None
    why_not = "PodCompleted" if phase == "Succeeded" else "PodFailed" if over else "ContainersNotReady"
    unready = [each.name for each in pod.spec.containers]
    message = f"containers with unready status: [{' '.join(unready)}]" if not over else ""

    def condition(kind: str, *, holds: bool, reason: str = "", text: str = "") -> dict[str, Any]:
        return {
            "type": kind,
            "status": "True" if holds else "False",
            # Said even where it is empty: the patch must take away what was said before.
            "reason": "" if holds else reason,
            "message": "" if holds else text,
            "lastTransitionTime": timestamp(now),
        }

    status: dict[str, Any] = {
        "phase": phase,
        "startTime": timestamp(progress.started_at),
        "hostIP": progress.host_ip,
        "hostIPs": [{"ip": progress.host_ip}],
        "conditions": [
            condition("PodReadyToStartContainers", holds=bool(progress.pod_ip) and not over),
            condition(
                "Initialized",
                holds=initialized or over,
                reason="ContainersNotInitialized",
                text=f"containers with incomplete status: [{' '.join(each.name for each in inits)}]",
            ),
            condition("Ready", holds=ready, reason=why_not, text=message),
            condition("ContainersReady", holds=ready, reason=why_not, text=message),
        ],
        "containerStatuses": [
            _container(each.name, each.image, progress, ready=ready, initialized=initialized)
            for each in pod.spec.containers
        ],
    }
    if inits:
        status["initContainerStatuses"] = [
            _init(
                each.name, each.image, progress, is_done=index < progress.inits_done, sidecar=is_sidecar(each)
            )
            for index, each in enumerate(inits)
        ]
    if progress.pod_ip:
        status |= {"podIP": progress.pod_ip, "podIPs": [{"ip": progress.pod_ip}]}
    return status


def _phase(progress: Progress) -> str:
    if progress.exit_code is not None and not progress.waiting:
        return "Failed" if progress.exit_code else "Succeeded"
    return "Running" if progress.running_since or progress.waiting else "Pending"


def _container(
    name: str, image: str, progress: Progress, *, ready: bool, initialized: bool
) -> dict[str, Any]:
    status = _basics(name, image) | {"ready": ready, "started": False, "restartCount": progress.restarts}
    if progress.last is not None:
        status["lastState"] = {"terminated": progress.last}
    if progress.waiting:
        return status | {
            "state": {"waiting": {"reason": progress.waiting}},
            "lastState": {"terminated": terminated(progress)},
        }
    if progress.exit_code is not None:
        return status | {"state": {"terminated": terminated(progress)}}
    if progress.running_since is None:
        reason = "ContainerCreating" if initialized else "PodInitializing"
        return status | {"state": {"waiting": {"reason": reason}}}
    return status | {
        "started": True,
        "state": {"running": {"startedAt": timestamp(progress.running_since)}},
        "containerID": f"containerd://{name}",
    }


def terminated(progress: Progress) -> dict[str, Any]:
    """Return how containers that have ended did so, as a container's status has it."""
    began = progress.running_since or progress.started_at
    return {
        "exitCode": progress.exit_code,
        "reason": "Error" if progress.exit_code else _COMPLETED,
        "startedAt": timestamp(began),
        "finishedAt": timestamp(progress.ended_at or began),
    }


def _init(name: str, image: str, progress: Progress, *, is_done: bool, sidecar: bool) -> dict[str, Any]:
    status = _basics(name, image) | {"ready": is_done, "restartCount": 0, "started": is_done and sidecar}
    began = timestamp(progress.started_at)
    if not is_done:
        return status | {"state": {"waiting": {"reason": "PodInitializing"}}}
    if sidecar and progress.exit_code is None:
        return status | {"state": {"running": {"startedAt": began}}}
    ended = {"exitCode": 0, "reason": _COMPLETED, "startedAt": began, "finishedAt": began}
    return status | {"state": {"terminated": ended}, "started": False}


def _basics(name: str, image: str) -> dict[str, Any]:
    return {"name": name, "image": image, "imageID": ""}
