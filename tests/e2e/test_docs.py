# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents, run one after the other as a reader would type them, with the real kubectl.

Every command of every page is run, in a sandbox and against the EC2 model, unless it stands below with the reason why
not. What a page shows as output must come out. Each block has a shell of its own, in which our program is on the PATH
if the page has put it there; the port that pages name is changed into one that is free.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.aws.stand import Model, running_model
from tests.documents import ACTIVATE, FILES, PAGES, ROOT, Block, Command, blocks, manifest_of, page_name
from tests.e2e.controlplane import find_binaries

_TWO_MINUTES = "plays for two minutes; tests/unit/cli/demo has its parts"
_STAYS = "runs until it is interrupted; tests/e2e/product.py starts it so for most end-to-end tests"
_NO_POD = "the sandbox's controller is a process, not a pod; tests/e2e/test_charts.py installs the chart"
# Commands that cannot be run here, and why.
NOT_RUN = {
    "make demo": _TWO_MINUTES,
    "karpenter demo": _TWO_MINUTES,
    "karpenter demo --yes": _TWO_MINUTES,
    "make test": "is all the other tests",
    "python -m tests.e2e.controlplane build": "builds Kubernetes from source: minutes, and a module proxy",
    "python -m benchmarks.live reaction": "measures for seven minutes",
    "karpenter sandbox ec2 --port 4566": _STAYS,
    "karpenter sandbox kubelets --ec2 $AWS_ENDPOINT_URL": _STAYS,
    "karpenter controller --cluster-name sandbox": _STAYS,
    "karpenter controller --cluster-name prod --interruption-queue prod": _STAYS,
    "helm upgrade --install karpenter charts/karpenter -n karpenter --reuse-values "
    "--set settings.earlyPlacement=true,settings.initializationTimeout=10m": (
        "upgrades a release that nobody made here; tests/e2e/test_charts.py renders it"
    ),
    "kubectl -n karpenter rollout status deployment karpenter": _NO_POD,
    "kubectl -n karpenter logs -l app.kubernetes.io/name=karpenter": _NO_POD,
    "kubectl -n karpenter logs deploy/karpenter | grep 'disrupting node(s)'": _NO_POD,
}
# Commands with a word that stands for something of the reader's, and what is run for them.
INSTEAD = {
    "kubectl describe pod PENDING-POD": "kubectl describe pod web",
    "kubectl describe nodeclaim NAME": "kubectl describe nodeclaims",
    # The model's account has one node group, and that is called system.
    "karpenter migrate nodegroups --cluster-name prod --skip system > nodepools.yaml": (
        "karpenter migrate nodegroups --cluster-name prod > nodepools.yaml"
    ),
    # Two minutes in all: here it is read only, and played by tests of the sandbox.
    "karpenter sandbox scenario examples/scenarios/capacity.yaml": (
        "karpenter sandbox scenario examples/scenarios/capacity.yaml --check"
    ),
}
# Commands that are meant to refuse, with their exit codes.
REFUSE = {"karpenter convert -f examples/broken-provisioner.yaml": 1}
# The model's account holds a cluster prod in which nothing is installed, but for pages that are about its own.
_OWN_CLUSTER = {"docs/tasks/ec2-model.md", "docs/tasks/run-the-controller.md"}
_PORT = "4566"
_PROGRAM = str(Path(sys.prefix) / "bin" / "karpenter")
_MARK = "=== command"
_POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {containers: [{name: web, image: nginx, resources: {requests: {cpu: 100m}}}]}
"""

_WITH_COMMANDS = [page for page in PAGES if any(block.commands for block in blocks(page))]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with kubectl, to be found first; our program is for the pages to put on the PATH."""
    directory = tmp_path_factory.mktemp("bin")
    (directory / "kubectl").symlink_to(find_binaries(os.environ).directory / "kubectl")
    return directory


@pytest.fixture(scope="module")
def cluster(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A sandbox for all pages, with a pod that has a node and objects of old kinds; gives its kubeconfig."""
    home = tmp_path_factory.mktemp("shared")
    environ = _environ(tools, home)

    def do(*words: str, text: str = "", **more: str) -> str:
        done = subprocess.run(
            words,
            env={**environ, **more},
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = do(_PROGRAM, "sandbox", "up", "--default-pool")
    kubeconfig = re.search(r"KUBECONFIG='?([^'\n]+)", said)
    assert kubeconfig is not None, said
    try:
        old = (ROOT / FILES["old.yaml"]).read_text(encoding="utf-8").replace("karpenter-default", "old")
        do("kubectl", "apply", "-f", "-", text=f"{_POD}---\n{old}", KUBECONFIG=kubeconfig[1])
        do("kubectl", "wait", "--for=condition=Ready", "pod/web", "--timeout=60s", KUBECONFIG=kubeconfig[1])
        yield Path(kubeconfig[1])
    finally:
        do(_PROGRAM, "sandbox", "down")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", _WITH_COMMANDS, ids=page_name)
def test_the_commands_of_a_page_work_in_their_order(
    page: Path, tools: Path, cluster: Path, tmp_path: Path
) -> None:
    desk = _desk(page, tmp_path / "desk")
    prod = () if page_name(page) in _OWN_CLUSTER else ("--bare", "--cluster-name", "prod")
    with running_model(*prod) as model:
        environ = {
            **_environ(tools, tmp_path),
            **model.environment,
            "KUBECONFIG": str(cluster),
        }

        is_active = False
        for block in blocks(page):
            _play(block, environ, desk, model, is_active=is_active)
            is_active = is_active or any(command.line == ACTIVATE for command in block.commands)


def test_what_is_not_run_is_still_in_the_documents() -> None:
    lines = {command.line for page in PAGES for block in blocks(page) for command in block.commands}

    assert lines >= {*NOT_RUN, *INSTEAD, *REFUSE}
    assert len(lines - NOT_RUN.keys()) > 3 * len(NOT_RUN)


def _environ(tools: Path, home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "KUBE"))}
    return {
        **kept,
        "PATH": f"{tools}:{_path_without_our_program()}",
        "KARPENTER_SANDBOX_HOME": str(home / "sandboxes"),
        "HOME": str(home),
    }


def _path_without_our_program() -> str:
    places = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(each for each in places if not (Path(each) / "karpenter").exists())


def _desk(page: Path, desk: Path) -> Path:
    """Make a directory with the files that a reader of the page has, as ``make demo`` leaves it."""
    desk.mkdir()
    (desk / ".venv").symlink_to(sys.prefix)
    for name in ("examples", "charts"):
        (desk / name).symlink_to(ROOT / name)
    for name, stands_for in FILES.items():
        if not stands_for:
            (desk / name).write_text(manifest_of(page), encoding="utf-8")
        elif name.endswith("/"):
            (desk / name).mkdir()
            shutil.copy(ROOT / stands_for, desk / name)
        else:
            shutil.copy(ROOT / stands_for, desk / name)
    return desk


def _play(
    block: Block, environ: dict[str, str], desk: Path, model: Model, *, is_active: bool = False
) -> None:
    """Type the commands of a block, and see that each does what the page says."""
    wanted = [command for command in block.commands if _can_run(command)]
    if not wanted:
        return
    # A page that starts a model of its own gets a free port for it, all others the model that is there.
    port = (
        model.url.rpartition(":")[2]
        if not any("sandbox ec2" in each.line for each in wanted)
        else _free_port()
    )
    answers = desk / ".answers"
    answers.write_text("y\n", encoding="utf-8")
    # What is started in the background is waited for: a reader goes on when it has said where it is.
    up = f"for _ in $(seq 300); do curl -s -o /dev/null http://127.0.0.1:{port}/_model && break; sleep 0.1; done"
    lines = [
        # Whatever happens on the way, no process is left behind.
        f"trap 'kill $started 2>/dev/null; {_PROGRAM} sandbox down >/dev/null 2>&1' EXIT",
        # A reader types on in the same shell.
        *([ACTIVATE] if is_active else []),
        # Whoever is asked says yes.
        *(
            f"{{ {INSTEAD.get(command.line, command.line).replace(_PORT, port)}\n}} < {answers}; echo '{_MARK}' $?"
            + (f"; started=$!; {up}" if command.line.endswith("&") else "")
            for command in wanted
        ),
    ]

    done = subprocess.run(
        ["/bin/sh", "-c", "\n".join(lines)],
        env=environ,
        cwd=desk,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )

    parts = re.split(rf"^{_MARK} (\d+)\n", done.stdout, flags=re.MULTILINE)
    codes = dict(zip([command.line for command in wanted], map(int, parts[1::2]), strict=False))
    assert codes == {command.line: REFUSE.get(command.line, 0) for command in wanted}, done.stdout
    for command, said in zip(wanted, parts[::2], strict=False):
        _assert_shown(command, said)


def _can_run(command: Command) -> bool:
    program = command.line.split()[0]
    return command.line not in NOT_RUN and (program != "aws" or shutil.which("aws") is not None)


def _assert_shown(command: Command, said: str) -> None:
    """See that the output that a page shows came out, in its order; ``...`` stands for lines that are left out."""
    lines = iter([_plain(line) for line in said.splitlines()])
    for line in command.output:
        if line != "...":
            assert _plain(line) in lines, f"{command.line} does not say {line!r}:\n{said}"


def _plain(line: str) -> str:
    """Take out what differs from run to run: times, ports, ids."""
    line = re.sub(r"\d+ ms", "N ms", line.rstrip())
    line = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:N", line)
    return re.sub(r"\b(subnet|sg|vpc|i)-[0-9a-f]{8,}", r"\1-N", line)


def _free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])
