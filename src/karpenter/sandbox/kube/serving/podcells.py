# SPDX-License-Identifier: Apache-2.0
"""How a pod is doing, in one word and a few numbers, as ``kubectl get pods`` shows it.

The word comes from the phase, unless a container, an init container or the pod's own reason says something more
telling; a pod that is being deleted is Terminating.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

__all__ = ["pod_cells", "pod_word"]

Object = Mapping[str, Any]
_NONE: Final = "<none>"


def pod_cells(pod: Object, now: datetime, age: Callable[[str | None, datetime], str]) -> list[Any]:
    """Gives the cells of a pod."""
    spec, status, metadata = pod.get("spec") or {}, pod.get("status") or {}, pod["metadata"]
    sidecars = {
        each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"
    }
    counted = [
        *(status.get("containerStatuses") or ()),
        *(each for each in status.get("initContainerStatuses") or () if each["name"] in sidecars),
    ]
    word, restarts, last = pod_word(pod)
    total = len(spec.get("containers") or ()) + len(sidecars)
    told = f"{restarts} ({age(last, now)} ago)" if restarts and last else str(restarts)
    gates = spec.get("readinessGates") or ()
    held = {each["type"] for each in status.get("conditions") or () if each.get("status") == "True"}
    passed = sum(1 for each in gates if each["conditionType"] in held)
    ready = sum(
        1 for each in counted if each.get("ready") and (each.get("state") or {}).get("running") is not None
    )
    ips = status.get("podIPs") or ()
    address = (ips[0].get("ip") if ips else None) or status.get("podIP") or _NONE
    return [
        metadata["name"],
        f"{ready}/{total}",
        word,
        told,
        age(metadata.get("creationTimestamp"), now),
        address,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        f"{passed}/{len(gates)}" if gates else _NONE,
    ]


def pod_word(pod: Object) -> tuple[str, int, str | None]:
    """Gives the status word, how often containers were restarted, and when one last was."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    word = status.get("reason") or status.get("phase", "")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            word = "SchedulingGated"
    restarts, last = _restarts(status.get("containerStatuses") or ())
    initial, init_restarts, init_last = _initial(spec, status)
    if initial:
        word, restarts, last = initial, init_restarts, init_last
    else:
        word = _running_word(word, status)
        restarts += init_restarts if _sidecars(spec) else 0
    if pod["metadata"].get("deletionTimestamp"):
        word = (
            "Unknown"
            if status.get("reason") == "NodeLost"
            else "Terminating"
            if status.get("phase") not in {"Succeeded", "Failed"}
            else word
        )
    return word, restarts, last


def _sidecars(spec: Object) -> set[str]:
    return {
        each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"
    }


def _restarts(statuses: Any) -> tuple[int, str | None]:
    times = [((each.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for each in statuses]
    return sum(each.get("restartCount", 0) for each in statuses), max(
        (each for each in times if each), default=None
    )


def _initial(spec: Object, status: Object) -> tuple[str, int, str | None]:
    """Gives the word while init containers run; empty afterwards."""
    statuses = status.get("initContainerStatuses") or ()
    restarts, last = _restarts(statuses)
    sidecars = _sidecars(spec)
    for place, each in enumerate(statuses):
        state = each.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if each["name"] in sidecars and each.get("started"):
            continue
        if ended is not None:
            told = ended.get("reason") or (
                f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
            )
            return f"Init:{told}", restarts, last
        if waiting and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}", restarts, last
        return f"Init:{place}/{len(spec.get('initContainers') or ())}", restarts, last
    return "", restarts, last


def _running_word(word: str, status: Object) -> str:
    runs = False
    for each in reversed(status.get("containerStatuses") or ()):
        state = each.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            word = waiting["reason"]
        elif ended is not None:
            word = ended.get("reason") or (
                f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
            )
        elif each.get("ready") and state.get("running") is not None:
            runs = True
    if word == "Completed" and runs:
        ready = any(
            each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ()
        )
        word = "Running" if ready else "NotReady"
    return str(word)
