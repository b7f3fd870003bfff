# SPDX-License-Identifier: Apache-2.0
"""What a kubelet would serve of a container: its log in a few lines, and a refusal for all that needs a process.

Containers of the sandbox take time and do nothing else, but for those that are processes (``serving.relays``). There is
nothing to enter, to attach to or to connect with, and the refusal says so; it is the same for ``kubectl exec``,
``attach``, ``port-forward``, ``debug``, ``cp`` and ``proxy``.
A log tells when the container was started and how it ended. What a real server refuses is refused in its words.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.sandbox.kube.engine.calls import Call, Target
from karpenter.sandbox.kube.engine.engine import Engine
from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.kinds.catalogue import Resource

__all__ = ["NEEDS_PROCESS", "pod_log", "refuse_stream"]

Object = dict[str, Any]

# Resource and subresource, and what cannot be done.
NEEDS_PROCESS: Final = {
    ("pods", "exec"): "no command can be run in pod {name}",
    ("pods", "attach"): "pod {name} has no process to attach to",
    ("pods", "portforward"): "no port of pod {name} can be forwarded, nothing listens on it",
    ("pods", "proxy"): "pod {name} answers no requests",
    ("pods", "ephemeralcontainers"): "no debug container can be added to pod {name}",
    ("pods", "resize"): "pod {name} cannot be resized in place",
    ("nodes", "proxy"): "the kubelet of node {name} answers no requests",
    ("services", "proxy"): "service {name} answers no requests",
}
_WHY: Final = "containers are not run in the sandbox, they only take time"
# In the order in which a real server names them.
_GROUPS: Final = (
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
)


def refuse_stream(engine: Engine, resource: Resource, target: Target) -> ApiError:
    """Return the refusal of a request that needs a process.

    Raises:
        ApiError: There is no such object.
    """
    engine.stored(resource, target)
    told = NEEDS_PROCESS[resource.plural, target.subresource].format(name=target.name)
    return ApiError(501, "NotImplemented", f"{told}: {_WHY}")


def pod_log(engine: Engine, resource: Resource, target: Target, call: Call) -> bytes:
    """Return the log of a container; one that is still to be started has none.

    Raises:
        ApiError: There is no such pod or container, it has not been started, or an option makes no sense.
    """
    pod = engine.stored(resource, target).obj
    name = _container(pod, call.query.get("container", ""))
    if not pod["spec"].get("nodeName"):
        return b""
    state = _state(pod, name, previous=call.flag("previous"))
    image = next(each.get("image", "") for each in _containers(pod) if each["name"] == name)
    lines = list(_lines(name, image, state))
    since = _since(engine, call)
    if since is not None:
        lines = [each for each in lines if datetime.fromisoformat(each[0]) >= since]
    tail = _number(call, "tailLines")
    if tail is not None:
        lines = lines[len(lines) - min(tail, len(lines)) :]
    stamped = call.flag("timestamps")
    text = "".join(f"{moment} {words}\n" if stamped else f"{words}\n" for moment, words in lines).encode()
    return text[: _number(call, "limitBytes")]


def _containers(pod: Object) -> list[Object]:
    return [each for group, _ in _GROUPS for each in pod["spec"].get(group) or ()]


def _container(pod: Object, wanted: str) -> str:
    name = pod["metadata"]["name"]
    names = [str(each["name"]) for each in _containers(pod)]
    if wanted:
        if wanted not in names:
            raise ApiError.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(pod["spec"]["containers"]) == 1:
        return str(pod["spec"]["containers"][0]["name"])
    listed = " ".join(names)
    raise ApiError.bad_request(
        f"a container name must be specified for pod {name}, choose one of: [{listed}]"
    )


def _state(pod: Object, container: str, *, previous: bool) -> Object:
    """Return how a container that was started is, or was before it was restarted."""
    status, about = pod.get("status") or {}, f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    found = [each for _, group in _GROUPS for each in status.get(group) or () if each["name"] == container]
    if not found:
        raise ApiError.bad_request(f"{about} is not available")
    state, last = found[0].get("state") or {}, (found[0].get("lastState") or {}).get("terminated")
    if previous:
        if not last:
            raise ApiError.bad_request(f"previous terminated {about} not found")
        return dict(last)
    started = state.get("running") or state.get("terminated") or last
    if not started:
        reason = (state.get("waiting") or {}).get("reason", "")
        raise ApiError.bad_request(f"{about} is waiting to start: {reason}")
    return dict(started)


def _lines(container: str, image: str, state: Object) -> Iterator[tuple[str, str]]:
    """Yield what there is to tell of a container, each with its moment."""
    if state.get("startedAt"):
        yield state["startedAt"], f"sandbox: container {container} of image {image} was started; {_WHY}"
    if state.get("finishedAt"):
        code = state.get("exitCode", 0)
        yield state["finishedAt"], f"sandbox: container {container} ended with exit code {code}"


def _since(engine: Engine, call: Call) -> datetime | None:
    seconds, moment = _number(call, "sinceSeconds"), call.query.get("sinceTime")
    if seconds is not None:
        return engine.moment() - timedelta(seconds=seconds)
    try:
        return datetime.fromisoformat(moment) if moment else None
    except ValueError as error:
        raise ApiError.bad_request(
            f"sinceTime: {moment} is not a time such as 2026-01-01T00:00:00Z"
        ) from error


def _number(call: Call, name: str) -> int | None:
    text = call.query.get(name)
    if not text:
        return None
    if not text.isdecimal():
        raise ApiError.bad_request(f"{name}: {text} is not a number of 0 or more")
    return int(text)
