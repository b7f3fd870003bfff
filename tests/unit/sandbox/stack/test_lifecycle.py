# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from karpenter.sandbox.kubelets.processes import ProcessRecord
from karpenter.sandbox.stack import children
from karpenter.sandbox.stack.calls import KubeApi, answers
from karpenter.sandbox.stack.errors import (
    NotUpError,
    OtherOptionsError,
    PortTakenError,
    StackError,
    StartError,
    StoppedError,
)
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.lifecycle import DOWN, PARTLY, UP, Stack
from karpenter.sandbox.stack.pieces import SYSTEM_NODE, Piece
from karpenter.sandbox.stack.record import Options, Record, load, save
from tests.unit.sandbox.stack.programs import Programs, programs, stack, tiny

# Programs are started, which takes its time on a machine that does other things.
pytestmark = pytest.mark.timeout(120)

OPTIONS = Options()


def test_up_returns_when_all_is_ready_and_down_leaves_no_process_and_no_port(home: Home) -> None:
    with stack(home) as sandbox:
        started = sandbox.up(OPTIONS)
        record = started.record

        assert started.names == ("kube", "ec2", "kubelets")
        assert (started.restored, started.lost) == (False, ())
        assert answers(f"{record.server}/readyz", authority=home.authority)
        assert sandbox.status().state == UP

        ended = sandbox.down()

    assert sorted(ended) == ["ec2", "kube", "kubelets"]
    assert not answers(f"{record.server}/readyz", authority=home.authority)
    assert not home.directory.exists()


def test_what_died_is_told_by_status_and_mended_by_up_and_the_others_go_on(home: Home) -> None:
    with stack(home) as sandbox:
        record = sandbox.up(OPTIONS).record
        before = {name: child.pid for name, child in record.children.items()}
        children.kill(home, "kube", record.children["kube"])

        found = sandbox.status()
        started = sandbox.up(OPTIONS)
        again = started.record

        assert found.state == PARTLY
        assert {each.name: each.running for each in found.pieces} == {
            "kube": False,
            "ec2": True,
            "kubelets": True,
        }
        assert (started.names, started.restored) == (("kube",), False)
        assert (again.ports, again.token) == (record.ports, record.token)
        assert {name: again.children[name].pid for name in ("ec2", "kubelets")} == {
            name: before[name] for name in ("ec2", "kubelets")
        }
        assert sandbox.up(OPTIONS).names == ()


def test_options_that_differ_from_those_it_runs_with_are_refused(home: Home) -> None:
    with stack(home) as sandbox:
        record = sandbox.up(OPTIONS).record

        with pytest.raises(OtherOptionsError, match=r"speed 1\.0, not 5") as refused:
            sandbox.up(Options(speed=5), given=["speed"])
        with pytest.raises(OtherOptionsError, match=f"kube on port {record.ports['kube']}"):
            sandbox.up(OPTIONS, ports={"kube": 1})

        assert "--name" in refused.value.hint
        assert sandbox.up(Options(speed=5)).names == ()


def test_two_sandboxes_run_side_by_side(home: Home) -> None:
    with stack(home) as one, stack(Home(home.root, "try-2")) as two:
        first = one.up(OPTIONS).record
        second = two.up(OPTIONS).record

        assert not set(first.ports.values()) & set(second.ports.values())
        assert first.token != second.token

        one.down()

        assert two.status().state == UP


def test_a_port_that_is_taken_is_told_and_nothing_is_left_running(home: Home) -> None:
    with stack(home) as sandbox, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(PortTakenError, match=f"port {port} of 127.0.0.1 is in use") as refused:
            sandbox.up(OPTIONS, ports={"kube": port})

    assert refused.value.hint
    assert not home.record.exists()


def test_a_program_that_fails_takes_a_new_sandbox_down_with_its_words(home: Home) -> None:
    with stack(home, programs(tiny("broken", "fail", says="never"))) as sandbox:
        with pytest.raises(StartError, match="broken ended: it cannot be") as refused:
            sandbox.up(OPTIONS)

        assert "broken.log" in refused.value.hint
        assert not any(children.is_alive(home, name) for name in ("kube", "ec2", "kubelets"))


def test_a_program_that_is_never_ready_is_named(home: Home) -> None:
    def alone(_: Home, __: Record) -> list[Piece]:
        return [tiny("slow", "speak", says="never said")]

    with (
        stack(home, alone, patience_s=0.5) as sandbox,
        pytest.raises(StartError, match=r"not ready after 0\.5 s: slow"),
    ):
        sandbox.up(OPTIONS)


def test_a_sandbox_that_could_not_be_mended_keeps_what_runs(home: Home) -> None:
    with stack(home) as sandbox:
        record = sandbox.up(OPTIONS).record
        worse = Stack(home, programs=programs(tiny("broken", "fail", says="never")))

        with pytest.raises(StartError):
            worse.up(OPTIONS)

        assert answers(f"{record.server}/readyz", authority=home.authority)


def test_the_user_may_want_no_more_while_it_starts(home: Home) -> None:
    sandbox = Stack(home, programs=programs(), stopped=lambda: True)

    with pytest.raises(StoppedError):
        sandbox.up(OPTIONS)

    assert not home.record.exists()


def test_what_is_kept_comes_up_again_at_the_same_addresses(home: Home) -> None:
    with stack(home) as sandbox:
        before = sandbox.up(Options(keep=True, speed=3), given=["keep", "speed"]).record
        (home.data / "kept").touch()
        home.journal.touch()
        sandbox.down()
        assert sandbox.status().state == DOWN

        started = sandbox.up(OPTIONS)
        after = started.record

        assert len(started.names) == 3
        assert (started.restored, started.lost) == (True, ())
        assert (after.ports, after.token, after.options) == (before.ports, before.token, before.options)
        assert (home.data / "kept").exists()

        sandbox.down(keep=False)

    assert load(home.record) is None


def test_one_whose_programs_were_all_killed_comes_up_again_with_what_was_in_it(home: Home) -> None:
    with stack(home) as sandbox:
        before = sandbox.up(Options(speed=3)).record
        (home.data / "kept").touch()
        for name, child in before.children.items():
            children.kill(home, name, child)

        started = sandbox.up(OPTIONS)

        assert (started.names, started.restored) == (("kube", "ec2", "kubelets"), True)
        assert (started.record.ports, started.record.token) == (before.ports, before.token)
        assert started.record.options == before.options
        assert (home.data / "kept").exists()
        # The tiny model writes nothing down.
        assert started.lost == ("what was in the account",)

        sandbox.down()

    assert not home.directory.exists()


def test_one_that_may_begin_anew_has_nothing_of_what_was_in_it(home: Home) -> None:
    with stack(home) as sandbox:
        sandbox.up(OPTIONS)
        (home.data / "old").touch()

        started = sandbox.up(OPTIONS, fresh=True)

        assert (len(started.names), started.restored) == (3, False)
        assert not (home.data / "old").exists()


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        (Options(region="eu-west-1"), ["region"], "region us-west-2, not eu-west-1"),
        (Options(cluster_name="b"), ["cluster_name"], "cluster name sandbox, not b"),
        (
            Options(settings={"default-instance-profile": "p"}),
            ["settings"],
            "instance profiles KarpenterNodeInstanceProfile-sandbox, not KarpenterNodeInstanceProfile-sandbox, p",
        ),
    ],
)
def test_what_an_account_was_made_from_cannot_be_changed_when_it_comes_up_again(
    home: Home, options: Options, given: list[str], words: str
) -> None:
    record = Record(name=home.name, options=Options(keep=True), token="t", ports={})
    save(home.record, record)

    with pytest.raises(OtherOptionsError, match=words) as refused:
        Stack(home, programs=programs()).up(options, given=given)

    assert "karpenter sandbox down --no-keep --name try-1" in refused.value.hint
    assert load(home.record) == record


def test_what_could_not_be_brought_up_again_is_still_there_for_the_next_try(home: Home) -> None:
    with stack(home) as sandbox:
        before = sandbox.up(OPTIONS).record
        (home.data / "kept").touch()
        for name, child in before.children.items():
            children.kill(home, name, child)
        worse = Stack(home, programs=programs(tiny("broken", "fail", says="never")))

        with pytest.raises(StartError):
            worse.up(OPTIONS)

        assert (home.data / "kept").exists()
        assert sandbox.status().state == DOWN
        assert sandbox.up(OPTIONS).restored


def test_settings_that_differ_are_named(home: Home) -> None:
    with stack(home) as sandbox:
        sandbox.up(Options(settings={"log-level": "debug"}))

        with pytest.raises(OtherOptionsError, match="settings log-level=debug, not log-level=info"):
            sandbox.up(Options(settings={"log-level": "info"}), given=["settings"])


def test_a_kept_sandbox_takes_another_port_if_its_own_is_taken(home: Home) -> None:
    with stack(home) as sandbox, socket.socket() as taken:
        before = sandbox.up(Options(keep=True)).record
        sandbox.down()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", before.ports["kube"]))
        taken.listen()

        after = sandbox.up(OPTIONS).record

        assert after.ports["kube"] != before.ports["kube"]


def test_reset_empties_it_at_the_same_addresses(home: Home) -> None:
    with stack(home) as sandbox:
        before = sandbox.up(OPTIONS).record
        (home.data / "old").touch()

        after = sandbox.reset()

        assert after.ports == before.ports
        assert not (home.data / "old").exists()
        assert sandbox.status().state == UP


def test_there_is_nothing_to_do_about_one_that_is_not_there(home: Home) -> None:
    sandbox = Stack(home)

    for ask in (sandbox.status, sandbox.down, sandbox.reset, sandbox.kube, sandbox.model):
        with pytest.raises(NotUpError, match="no sandbox 'try-1'") as refused:
            ask()

    assert refused.value.hint == "karpenter sandbox up --name try-1"


def test_asking_for_one_that_is_not_there_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(NotUpError):
        Stack(Home(tmp_path, "nobody")).down()

    assert not (tmp_path / "nobody").exists()


def test_one_that_is_down_is_not_asked(home: Home) -> None:
    with stack(home) as sandbox:
        sandbox.up(Options(keep=True))
        assert sandbox.kube().items("/api/v1/nodes") == []
        sandbox.down()

        with pytest.raises(NotUpError, match="is down"):
            sandbox.model()


def test_a_sandbox_has_one_owner(home: Home) -> None:
    with Stack(home).owning(), pytest.raises(StackError, match="foreground"), Stack(home).owning():
        pass


def test_what_its_owner_leaves_behind_ends_by_itself(home: Home) -> None:
    with stack(home) as sandbox:
        with sandbox.owning():
            record = sandbox.up(OPTIONS, owned=True).record

        assert children._wait(home, list(record.children.items()), time.monotonic() + 10) == []


def with_system_node() -> Programs:
    return programs(tiny(SYSTEM_NODE, "speak", says="at work"))


def test_the_controller_is_installed_where_there_is_a_node_for_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[str] = []
    monkeypatch.setattr(KubeApi, "apply", lambda _, manifest: applied.append(manifest["kind"]))
    with stack(home, with_system_node()) as sandbox:
        assert sandbox.up(Options(eks_addons=True, keep=True)).names[-1] == SYSTEM_NODE

        assert {"Namespace", "ServiceAccount", "Service", "Deployment", "DaemonSet"} <= set(applied)
        applied.clear()
        sandbox.down()
        sandbox.up(OPTIONS)
        # What people changed of it stays, until they ask for something else.
        assert "Deployment" not in applied
        sandbox.down()
        sandbox.up(Options(replicas=2), given=["replicas"])
        assert applied.count("Deployment") == 2


def write_replica(home: Home, log: Path, age_s: float = 0.0) -> None:
    home.pods.mkdir(parents=True, exist_ok=True)
    record = ProcessRecord(
        namespace="karpenter",
        pod="karpenter-1",
        container="controller",
        pid=1,
        started=datetime.now(UTC) - timedelta(seconds=age_s),
        log=str(log),
        ports={8081: 1},
    )
    (home.pods / "karpenter-1_controller").write_bytes(msgspec.json.encode(record))


def test_a_controller_that_ends_is_told_with_its_words(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "0.log"
    log.write_text("error: it cannot be\n", encoding="utf-8")

    def never(*_: object) -> bool:
        write_replica(home, log)
        return False

    monkeypatch.setattr("karpenter.sandbox.stack.lifecycle.are_ready", never)
    with (
        stack(home, with_system_node()) as sandbox,
        pytest.raises(StartError, match="controller ended: it cannot be") as refused,
    ):
        sandbox.up(OPTIONS)

    assert str(log) in refused.value.hint


def test_a_controller_that_ended_with_the_sandbox_is_no_failure_and_one_that_is_never_ready_is_named(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> bool:
        write_replica(home, tmp_path / "0.log", age_s=3600)
        return False

    monkeypatch.setattr("karpenter.sandbox.stack.lifecycle.are_ready", never)
    with (
        stack(home, with_system_node(), patience_s=5) as sandbox,
        pytest.raises(StartError, match="not ready after 5 s: controller"),
    ):
        sandbox.up(OPTIONS)


def test_waiting_for_the_controller_ends_when_the_user_wants_no_more(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()

    def never(*_: object) -> bool:
        told.set()
        return False

    monkeypatch.setattr("karpenter.sandbox.stack.lifecycle.are_ready", never)
    with pytest.raises(StoppedError):
        Stack(home, programs=with_system_node(), stopped=told.is_set).up(OPTIONS)


def test_status_shows_the_controller_among_the_processes(home: Home, tmp_path: Path) -> None:
    with stack(home, with_system_node()) as sandbox:
        sandbox.up(OPTIONS)
        write_replica(home, tmp_path / "0.log")

        found = sandbox.status()

    assert [each.name for each in found.pieces][-2:] == [SYSTEM_NODE, "controller"]
    assert (found.pieces[-1].running, found.pieces[-1].address) == (False, "http://127.0.0.1:1")
    assert found.state == PARTLY
