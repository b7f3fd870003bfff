# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from karpenter.sandbox.stack import children
from karpenter.sandbox.stack.calls import KubeApi, Model
from karpenter.sandbox.stack.errors import CallError, StackError
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.record import Options
from karpenter.sandbox.stack.scenario import Match, Play, ScenarioError, Timed, read_scenario, timetable
from tests.unit.sandbox.stack.programs import stack
from tests.unit.sandbox.stack.serving import api

# Programs are started, which takes its time on a machine that does other things.
pytestmark = pytest.mark.timeout(120)

EXAMPLES = Path(__file__).parents[4] / "examples" / "scenarios"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "faults.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_can_be_read(path: Path) -> None:
    assert timetable(read_scenario(path))


def test_steps_come_in_the_order_of_their_times_and_then_of_the_file(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "steps:\n"
        "  - {at: 1m, say: {text: last}}\n"
        "  - {say: {text: first}}\n"
        "  - {at: 10s, say: {text: second}}\n"
        "  - {at: 10s, clearFaults: {}}\n",
    )

    found = timetable(read_scenario(path))

    assert [(each.at_s, each.shown, each.line) for each in found] == [
        (0.0, "first", 3),
        (10.0, "second", 4),
        (10.0, "", 5),
        (60.0, "last", 2),
    ]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("steps:\n  - nodes: {count: 1}\n", 2, "kubelet"),
        ("steps:\n  - nodes:\n      count: 1\n      kubelet: sleepy\n", 4, "sleepy"),
        ("steps:\n  - scale: {deployment: a/b, replicas: many}\n", 2, "replicas"),
        ("steps:\n  - scale:\n      deployment: a/b\n      replicas: -1\n", 4, "negative"),
        ("steps:\n  - nodes:\n      kubelet: silent\n      colour: red\n", 4, "colour"),
        ("steps:\n  - {at: soon, say: {text: a}}\n", 2, "soon"),
        ("steps:\n  - {at: 30, say: {text: a}}\n", 2, "no unit"),
        ("steps:\n  - say: {text: a}\n  - dance: {}\n", 3, "there is no action 'dance'"),
        ("steps:\n  - prices:\n      instanceType: m5.large\n      factor: cheap\n", 4, "prices[0].factor"),
        ("steps:\n  - errors:\n    - {code: A}\n    - {times: few, code: A}\n", 4, "errors[1].times"),
        ("steps:\n  - apply: {file: nowhere.yaml}\n", 2, "nowhere.yaml"),
        ("steps:\n  - {at: 2026-01-01T00:00:00Z, say: {text: a}}\n", 2, "time of day"),
        ("steps: nothing\n", 1, "steps"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ScenarioError) as refused:
        read_scenario(path)

    assert refused.value.message.startswith(f"{path}:{line}: ")
    assert words in refused.value.message


@pytest.mark.parametrize("text", ["speed: 5\nsteps: []\n", "start: 2026-01-01T00:00:00Z\nsteps: []\n"])
def test_a_running_sandbox_has_its_own_time(tmp_path: Path, text: str) -> None:
    with pytest.raises(ScenarioError, match="its own time"):
        read_scenario(written(tmp_path, text))


def test_manifests_beside_it_must_be_yaml(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [", encoding="utf-8")

    with pytest.raises(ScenarioError, match="not YAML"):
        read_scenario(written(tmp_path, "steps:\n  - apply: {file: broken.yaml}\n"))


def node(name: str, kind: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": kind}}}


def test_nodes_are_chosen_by_pattern_and_by_number() -> None:
    nodes = [node("b", "m5.large"), node("a", "m5.xlarge"), node("c", "c5.large")]

    assert Match(instance_type="m5.*").chosen(nodes) == ["a", "b"]
    assert Match(count=1).chosen(nodes) == ["a"]
    assert Match(name="c").chosen(nodes) == ["c"]
    assert Match(zone="us-*").chosen(nodes) == []


def test_a_process_is_killed_by_its_name(home: Home, tmp_path: Path) -> None:
    with stack(home) as sandbox:
        sandbox.up(Options())
        play = Play(sandbox, tmp_path / "faults.yaml")

        play.do(Timed(0, "kill", {"process": "kubelets"}, 1))

        assert not children.is_alive(home, "kubelets")
        for name, words in (("kubelets", "does not run"), ("scheduler", "no process 'scheduler'")):
            with pytest.raises(StackError, match=words):
                play.do(Timed(0, "kill", {"process": name}, 1))
        play.close()


def test_words_are_only_shown(home: Home, tmp_path: Path) -> None:
    with stack(home) as sandbox:
        sandbox.up(Options())
        play = Play(sandbox, tmp_path / "faults.yaml")

        assert play.do(Timed(0, "say", {"text": "hello"}, 1)) == ""
        assert play.do(Timed(0, "nodes", {"kubelet": "silent"}, 1)) == "no node matches"
        play.close()


class Standing:
    """As much of a sandbox as a play asks for: an API that stands, and no model."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    def kube(self) -> KubeApi:
        return self._api

    def model(self) -> Model:
        return Model("http://127.0.0.1:1")


def test_nodes_fail_and_heal_and_go_and_deployments_are_scaled(tmp_path: Path) -> None:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    (tmp_path / "web.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    with api() as (_, client):
        for each in ("a", "b"):
            client.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": each}})
        play = Play(Standing(client), tmp_path / "faults.yaml")  # type: ignore[arg-type]

        def annotations() -> list[Any]:
            return [each["metadata"].get("annotations") for each in client.items("/api/v1/nodes")]

        told = play.do(Timed(0, "nodes", {"kubelet": "silent", "count": 1}, 1))
        failing = annotations()
        play.do(Timed(0, "nodes", {"kubelet": "joins"}, 1))
        healed = annotations()
        applied = play.do(Timed(0, "apply", {"file": "web.yaml"}, 1))
        play.do(Timed(0, "scale", {"deployment": "web", "replicas": 7}, 1))
        play.do(Timed(0, "deleteNodes", {"name": "b"}, 1))

        assert told == "1 node: a"
        assert failing == [{"sandbox.karpenter.sh/kubelet": "silent"}, None]
        assert healed == [None, None]
        assert applied == "1 objects"
        assert client.get(client.path(manifest))["spec"]["replicas"] == 7
        assert [each["metadata"]["name"] for each in client.items("/api/v1/nodes")] == ["a"]
        with pytest.raises(CallError):
            play.do(Timed(0, "clearFaults", {}, 1))
        play.close()


def test_a_step_is_shown_on_one_line() -> None:
    assert Timed(0, "scale", {"deployment": "a", "replicas": 2}, 1).shown == "deployment a, replicas 2"
    assert Timed(0, "errors", [{"code": "A"}, {"code": "B"}], 1).shown == "code A; code B"
    assert Timed(0, "clearFaults", None, 1).shown == ""
