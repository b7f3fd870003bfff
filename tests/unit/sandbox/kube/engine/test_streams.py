# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.sandbox.kube.api import PODS, Api, container, pod

_STRATEGIC = "application/strategic-merge-patch+json"
_WHY = "containers are not run in the sandbox, they only take time"
_STARTED = f"sandbox: container main of image app:1 was started; {_WHY}"


@pytest.fixture
def api() -> Api:
    return Api()


def _started(api: Api) -> str:
    """Make a pod on a node whose container runs, and return the moment of its start."""
    api.post(PODS, pod("p", nodeName="n"))
    moment = api.engine.now()
    _status(api, {"running": {"startedAt": moment}})
    return moment


def _status(api: Api, state: dict[str, Any], **more: Any) -> None:
    one = {
        "name": "main",
        "ready": True,
        "restartCount": 0,
        "image": "app:1",
        "imageID": "",
        "state": state,
        **more,
    }
    assert api.patch(f"{PODS}/p/status", {"status": {"containerStatuses": [one]}}, _STRATEGIC)[0] == 200


def _log(api: Api, query: str = "") -> str:
    answer = api.raw("GET", f"{PODS}/p/log{query}")
    assert answer.status == 200, answer.body
    return answer.body.decode()


@pytest.mark.parametrize(
    ("subresource", "words"),
    [
        ("exec", "no command can be run in pod p"),
        ("attach", "pod p has no process to attach to"),
        ("portforward", "no port of pod p can be forwarded, nothing listens on it"),
        ("ephemeralcontainers", "no debug container can be added to pod p"),
        ("proxy", "pod p answers no requests"),
        ("resize", "pod p cannot be resized in place"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
def test_what_needs_a_process_is_refused_with_the_reason(
    api: Api, method: str, subresource: str, words: str
) -> None:
    api.post(PODS, pod("p"))

    status, told = api.send(method, f"{PODS}/p/{subresource}")

    assert (status, told["reason"]) == (501, "NotImplemented")
    assert told["message"] == f"{words}: {_WHY}"


def test_a_pod_that_is_not_there_is_not_there_for_streams_either(api: Api) -> None:
    status, told = api.send("POST", f"{PODS}/none/exec")

    assert (status, told["message"]) == (404, 'pods "none" not found')


def test_only_these_subresources_are_known(api: Api) -> None:
    api.post(PODS, pod("p"))

    assert api.send("POST", f"{PODS}/p/dance")[0] == 404


def test_a_log_says_that_the_container_was_started(api: Api) -> None:
    moment = _started(api)

    assert _log(api) == f"{_STARTED}\n"
    assert _log(api, "?container=main&timestamps=true") == f"{moment} {_STARTED}\n"
    assert _log(api, "?tailLines=0") == ""
    assert _log(api, "?limitBytes=7") == "sandbox"


def test_a_log_says_how_the_container_ended(api: Api) -> None:
    api.post(PODS, pod("p", nodeName="n"))
    begun = api.engine.now()
    api.clock.tick(60)
    _status(api, {"terminated": {"startedAt": begun, "finishedAt": api.engine.now(), "exitCode": 3}})

    assert _log(api) == f"{_STARTED}\nsandbox: container main ended with exit code 3\n"
    assert _log(api, "?tailLines=1") == "sandbox: container main ended with exit code 3\n"
    assert _log(api, "?sinceSeconds=30") == "sandbox: container main ended with exit code 3\n"
    assert _log(api, f"?sinceTime={api.engine.now()}") == "sandbox: container main ended with exit code 3\n"


def test_a_restarted_container_has_the_log_of_the_run_before(api: Api) -> None:
    before = _started(api)
    ended = {"terminated": {"startedAt": before, "finishedAt": before, "exitCode": 1}}
    _status(api, {"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended)

    assert "exit code 1" in _log(api, "?previous=true")
    assert "exit code 1" in _log(api)


def test_a_pod_without_a_node_has_an_empty_log(api: Api) -> None:
    api.post(PODS, pod("p"))

    assert _log(api) == ""


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?previous=true", 'previous terminated container "main" in pod "p" not found'),
        ("?container=other", "container other is not valid for pod p"),
        ("?tailLines=-1", "tailLines: -1 is not a number of 0 or more"),
        ("?sinceTime=yesterday", "sinceTime: yesterday is not a time such as 2026-01-01T00:00:00Z"),
    ],
)
def test_a_log_that_there_is_not_is_refused(api: Api, query: str, words: str) -> None:
    _started(api)

    status, told = api.send("GET", f"{PODS}/p/log{query}")

    assert (status, told["message"]) == (400, words)


def test_a_container_that_has_not_been_started_has_no_log(api: Api) -> None:
    api.post(PODS, pod("p", nodeName="n"))
    assert api.send("GET", f"{PODS}/p/log")[1]["message"] == 'container "main" in pod "p" is not available'

    _status(api, {"waiting": {"reason": "ContainerCreating"}})

    told = api.send("GET", f"{PODS}/p/log")[1]["message"]
    assert told == 'container "main" in pod "p" is waiting to start: ContainerCreating'


def test_of_several_containers_one_must_be_named(api: Api) -> None:
    several = [container(), {**container(), "name": "side"}]
    api.post(PODS, pod("p", containers=several, initContainers=[{**container(), "name": "first"}]))

    status, told = api.send("GET", f"{PODS}/p/log")

    assert status == 400
    assert told["message"] == "a container name must be specified for pod p, choose one of: [first main side]"
    assert _log(api, "?container=first") == ""


def test_time_passes_for_since(api: Api) -> None:
    _started(api)
    api.clock.tick(timedelta(hours=1).total_seconds())

    assert _log(api, "?sinceSeconds=60") == ""
