# SPDX-License-Identifier: Apache-2.0
"""Pods whose containers are processes: small scripts that stand for the program of an image."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from karpenter.kit.clock import SystemClock
from karpenter.sandbox.kubelets.admission import Refusal
from karpenter.sandbox.kubelets.containers import ProcessKeeper
from karpenter.sandbox.kubelets.endpoint import Endpoint, LogOptions, log_lines
from karpenter.sandbox.kubelets.objects import PodView
from karpenter.sandbox.kubelets.pace import Pace
from karpenter.sandbox.kubelets.pods import Addresses, Run
from karpenter.sandbox.kubelets.processes import OwnedError, Process, Processes, records
from karpenter.sandbox.kubelets.settings import Settings
from karpenter.sandbox.stack import leash
from tests.unit.sandbox.kubelets.builders import Paper

# Processes are started, which takes its time on a machine that does other things.
pytestmark = pytest.mark.timeout(120)

HOST = "10.0.0.1"
_SLEEPS = "#!/bin/sh\necho started $GREETING $POD_PORT\nexec sleep 60\n"
_ENDS = "#!/bin/sh\necho once\nexit 3\n"
_IGNORES = "#!/bin/sh\ntrap '' TERM\necho deaf\nwhile :; do sleep 0.1; done\n"
_SERVES = '#!/bin/sh\nexec python3 -m http.server --bind 127.0.0.1 --directory "$ROOT" "$POD_PORT"\n'


def a_pod(*, image: str = "karpenter:sandbox", probe: bool = False, **more: Any) -> PodView:
    env = [{"name": "GREETING", "value": "hello"}, {"name": "POD_PORT", "value": "8080"}]
    container: dict[str, Any] = {
        "name": "controller",
        "image": image,
        "env": [*env, {"name": "ROOT", "value": more.pop("root", "/")}],
        "ports": [{"name": "http", "containerPort": 8080}],
    }
    if probe:
        container["readinessProbe"] = {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 1}
    status: Mapping[str, Any] = more.pop("status", {"phase": "Pending"})
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "uid-p", **more},
        "spec": {"nodeName": "n", "containers": [container]},
        "status": status,
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=PodView)


class Node:
    """A node that runs a script for the image ``karpenter``."""

    def __init__(self, state: Path, script: str) -> None:
        program = state / "program"
        program.write_text(script, encoding="utf-8")
        program.chmod(0o700)
        self.api = Paper()
        self.processes = Processes(state, {"karpenter": str(program)})
        self.running = state / "running" / "pods"
        self.keeper = ProcessKeeper(
            self.api, Pace(SystemClock()), Settings(), Addresses(), processes=self.processes
        )
        self.tasks: list[asyncio.Task[None]] = []

    def live(self, pod: PodView, refusal: Refusal | None = None) -> Run:
        async def admit(_: Run) -> Refusal | None:
            return refusal

        run = Run(pod)
        self.tasks.append(asyncio.create_task(self.keeper.live(run, HOST, admit)))
        return run

    @property
    def last(self) -> dict[str, Any]:
        found = self.api.statuses()
        return found[-1] if found else {}

    @property
    def container(self) -> dict[str, Any]:
        found = self.last.get("containerStatuses") or [{}]
        return dict(found[0])

    @property
    def process(self) -> Process | None:
        return self.processes.of("ns", "p")

    async def stop_watching(self) -> None:
        """Let the pod's task end, as for a pod that is deleted or a kubelet that falls silent."""
        for each in self.tasks:
            each.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Callable[[str], Node]]:
    made: list[Node] = []

    def make(script: str) -> Node:
        found = Node(tmp_path, script)
        found.processes.open()
        made.append(found)
        return found

    yield make
    for each in made:
        await each.stop_watching()
        await each.keeper.close()
        each.processes.close()


async def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until something is so and give it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {seconds:g} s")


def text(node: Node) -> str:
    return Path(node.process.record.log).read_text(encoding="utf-8") if node.process else ""


async def test_a_pod_of_a_known_image_is_a_process_with_its_environment_and_ports(
    node: Callable[[str], Node],
) -> None:
    one = node(_SLEEPS)

    one.live(a_pod())
    await until(lambda: one.container.get("ready"))

    await until(lambda: "\n" in text(one))
    assert one.process is not None
    port = one.process.record.ports[8080]
    assert text(one) == f"started hello {port}\n"
    assert one.last["phase"] == "Running"
    assert (one.container["restartCount"], list(one.container["state"])) == (0, ["running"])
    [(path, record)] = records(one.running)
    assert leash.is_locked(path)
    assert record == one.process.record


async def test_a_pod_of_another_image_takes_time_and_has_no_process(node: Callable[[str], Node]) -> None:
    one = node(_SLEEPS)

    one.live(a_pod(image="nginx:1"))
    await until(lambda: one.container.get("ready"))

    assert one.process is None


async def test_a_pod_that_the_kubelet_does_not_take_is_not_started(node: Callable[[str], Node]) -> None:
    one = node(_SLEEPS)

    one.live(a_pod(), Refusal("OutOfcpu", "there is no room"))

    assert (await until(lambda: one.last))["reason"] == "OutOfcpu"
    assert one.process is None


async def test_a_pod_is_ready_as_long_as_its_probe_is_answered(
    node: Callable[[str], Node], tmp_path: Path
) -> None:
    one = node(_SERVES)
    one.live(a_pod(probe=True, root=str(tmp_path)))

    await until(lambda: one.container.get("state", {}).get("running"))
    assert not one.container["ready"]
    (tmp_path / "ready").write_text("yes", encoding="utf-8")
    await until(lambda: one.container["ready"])
    (tmp_path / "ready").unlink()
    await until(lambda: not one.container["ready"])


async def test_what_has_ended_is_started_again_and_the_pauses_grow(node: Callable[[str], Node]) -> None:
    one = node(_ENDS)
    one.live(a_pod())

    waiting = await until(
        lambda: (
            one.container
            if one.container.get("restartCount") == 1 and "waiting" in one.container["state"]
            else None
        )
    )

    assert waiting["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert waiting["lastState"]["terminated"]["exitCode"] == 3
    assert not waiting["ready"]
    # The first time it was started again at once.
    assert one.last["phase"] == "Running"
    assert len(one.api.statuses()) < 10


async def test_a_process_that_is_killed_counts_as_a_restart_and_says_how_it_ended(
    node: Callable[[str], Node],
) -> None:
    one = node(_SLEEPS)
    one.live(a_pod())
    await until(lambda: one.container.get("ready"))
    assert one.process is not None

    os.kill(one.process.record.pid, signal.SIGKILL)

    again = await until(lambda: one.container if one.container.get("restartCount") == 1 else None)
    assert again["lastState"]["terminated"]["exitCode"] == 137
    await until(lambda: one.container["ready"])
    assert Path(one.process.record.log).name == "1.log"


async def test_a_pod_that_is_deleted_ends_its_process_and_is_removed(node: Callable[[str], Node]) -> None:
    one = node(_SLEEPS)
    run = one.live(a_pod())
    await until(lambda: one.container.get("ready"))
    assert one.process is not None
    process = one.process
    await one.stop_watching()

    run.pod = a_pod(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=30)
    await one.keeper.end(run, HOST)

    assert not process.is_running
    assert one.container["state"]["terminated"]["exitCode"] == 143
    assert one.api.verbs()[-1] == "DELETE namespaces/ns/pods/p"
    assert records(one.running) == []
    assert one.process is None


async def test_what_does_not_hear_is_killed_after_the_grace_period(node: Callable[[str], Node]) -> None:
    one = node(_IGNORES)
    run = one.live(a_pod())
    await until(lambda: text(one) == "deaf\n")
    await one.stop_watching()

    run.pod = a_pod(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=1)
    await one.keeper.end(run, HOST)

    assert one.container["state"]["terminated"]["exitCode"] == 137


async def test_a_pod_that_is_gone_at_once_takes_its_process_with_it(node: Callable[[str], Node]) -> None:
    one = node(_SLEEPS)
    run = one.live(a_pod())
    process = await until(lambda: one.process)
    await one.stop_watching()

    one.keeper.release(run)

    await asyncio.wait_for(process.wait(), 60)
    assert one.process is None


async def test_a_kubelet_that_takes_its_pods_up_again_finds_the_process_that_runs(
    node: Callable[[str], Node],
) -> None:
    one = node(_SLEEPS)
    one.live(a_pod())
    await until(lambda: one.container.get("ready"))
    process = one.process
    await one.stop_watching()

    one.live(a_pod(status={"phase": "Running", "containerStatuses": [{"restartCount": 0}]}))
    count = len(one.api.statuses())
    await until(lambda: len(one.api.statuses()) > count)

    assert one.process is process
    assert one.container["restartCount"] == 0


async def test_a_process_that_ended_with_its_kubelet_is_started_again_as_a_restart(
    node: Callable[[str], Node],
) -> None:
    one = node(_SLEEPS)

    one.live(a_pod(status={"phase": "Running", "containerStatuses": [{"restartCount": 2}]}))

    await until(lambda: one.container.get("ready"))
    assert one.container["restartCount"] == 3


async def test_processes_end_with_their_owner_even_if_that_one_cannot_end_them(
    node: Callable[[str], Node],
) -> None:
    one = node(_SLEEPS)
    one.live(a_pod())
    process = await until(lambda: one.process)
    await one.stop_watching()

    # As the kernel does when the owner is killed.
    one.processes.close()

    await asyncio.wait_for(process.wait(), 60)


def test_the_processes_of_a_directory_have_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karpenter.sandbox.kubelets.processes._LOOK_AGAIN_S", 0.001)
    one, other = Processes(tmp_path, {}), Processes(tmp_path, {})
    one.open()

    with pytest.raises(OwnedError, match="another program runs the pods of") as refused:
        other.open()
    one.close()
    other.close()
    other.open()
    other.close()

    assert "--state" in refused.value.hint


async def test_the_kubelet_serves_the_log_as_far_as_it_is_wanted(node: Callable[[str], Node]) -> None:
    one = node("#!/bin/sh\nfor i in 1 2 3; do echo line $i; done\nexec sleep 60\n")
    endpoint = Endpoint(one.processes, "secret")
    url = f"http://127.0.0.1:{await endpoint.start()}"
    one.live(a_pod())
    await until(lambda: text(one).count("\n") == 3)
    try:
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer secret"}) as session:

            async def get(path: str) -> tuple[int, str]:
                async with session.get(f"{url}/{path}") as answer:
                    return answer.status, await answer.text()

            log = "containerLogs/ns/p/controller"
            assert await get(log) == (200, "line 1\nline 2\nline 3\n")
            assert await get(f"{log}?tailLines=1") == (200, "line 3\n")
            assert await get(f"{log}?limitBytes=8") == (200, "line 1\nl")
            assert (await get(f"{log}?previous=true"))[0] == 410
            assert (await get("containerLogs/ns/p/other"))[0] == 404
            assert one.process is not None
            status, ports = await get("ports/ns/p")
            assert (status, msgspec.json.decode(ports)) == (200, {"8080": one.process.record.ports[8080]})
            assert (await get("ports/ns/other"))[0] == 404
            async with session.get(f"{url}/{log}", headers={"Authorization": "Bearer other"}) as refused:
                assert refused.status == 401
    finally:
        await endpoint.stop()


async def test_a_log_that_is_followed_goes_on_until_the_process_ends(
    node: Callable[[str], Node], tmp_path: Path
) -> None:
    one = node(f"#!/bin/sh\necho first\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.1; done\necho second\n")
    endpoint = Endpoint(one.processes, "secret")
    url = f"http://127.0.0.1:{await endpoint.start()}"
    one.live(a_pod())
    await until(lambda: text(one) == "first\n")
    try:
        async with (
            aiohttp.ClientSession(headers={"Authorization": "Bearer secret"}) as session,
            session.get(f"{url}/containerLogs/ns/p/controller?follow=true&tailLines=5") as answer,
        ):
            assert await answer.content.readline() == b"first\n"
            (tmp_path / "go").touch()
            assert await answer.content.readline() == b"second\n"
            assert await answer.content.read() == b""
    finally:
        await endpoint.stop()


def test_lines_since_a_moment_are_found_by_the_time_in_them() -> None:
    content = (
        b'{"level": "INFO", "time": "2026-01-01T00:00:00Z", "message": "a"}\n'
        b'{"level": "INFO", "time": "2026-01-01T00:01:00Z", "message": "b"}\n'
        b"a line of a traceback\n"
    )

    since = list(log_lines(content, LogOptions({"sinceTime": "2026-01-01T00:00:30Z"})))
    stamped = list(log_lines(content, LogOptions({"timestamps": "true", "tailLines": "1"})))

    assert since == content.splitlines(keepends=True)[1:]
    assert stamped == [b"2026-01-01T00:01:00Z a line of a traceback\n"]
    assert list(log_lines(content, LogOptions({"sinceSeconds": "10"}))) == []
