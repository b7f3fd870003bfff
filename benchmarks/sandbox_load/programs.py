# SPDX-License-Identifier: Apache-2.0
"""The programs of a sandbox with the controller, and what each of them costs: CPU seconds and resident memory."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.controlplane import ChildProcess, ProcessGroup
from tests.e2e.scenarios import SandboxPlane

__all__ = ["Programs", "cpu_s", "rss_mib", "running"]

_CRDS = Path(__file__).parents[2] / "src" / "karpenter" / "api" / "crds"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Programs:
    """The sandbox and what runs in it."""

    def __init__(self, plane: SandboxPlane, group: ProcessGroup, directory: Path) -> None:
        self.plane = plane
        self._group = group
        self._directory = directory

    @property
    def all(self) -> dict[str, ChildProcess]:
        """The programs by name."""
        return {**self.plane.processes, **{each.name: each for each in self._group.children}}

    def start(self, name: str, *words: str, environ: Mapping[str, str] | None = None) -> ChildProcess:
        """Start one of our programs."""
        argv = [sys.executable, "-m", "karpenter", *words]
        return self._group.start(name, argv, environ={**os.environ, **(environ or {})})

    def start_all(self) -> None:
        """Start the EC2 model, the kubelets and the controller."""
        for file in sorted(_CRDS.glob("*.yaml")):
            for each in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                self.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        model = self.start("ec2", "sandbox", "ec2", "--cluster-version", "1.34")
        endpoint = _said(model, "AWS_ENDPOINT_URL=")
        kubeconfig = str(self.plane.kubeconfig)
        self.start("kubelets", "sandbox", "kubelets", "--kubeconfig", kubeconfig, "--ec2", endpoint)
        flags = {
            "cluster-name": "sandbox",
            "metrics-port": "0",
            "health-probe-port": "0",
            # One replica: on a busy machine a lease that is lost would be measured, not the work.
            "disable-leader-election": "true",
            "leader-election-namespace": "kube-system",
            "interruption-queue": "sandbox",
        }
        environ = {
            "KUBECONFIG": kubeconfig,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-west-2",
            "AWS_ACCESS_KEY_ID": "model",
            "AWS_SECRET_ACCESS_KEY": "model",
        }
        words = [f"--{key}={value}" for key, value in flags.items()]
        self.start("controller", "controller", *words, environ=environ)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request that must succeed, and return the answer."""
        reply = self.plane.request(method, path, body)
        assert reply.is_success, f"{method} {path}: {reply.text[:500]}"
        return reply.json()

    def cpu_s(self) -> dict[str, float]:
        """How much CPU time each program has used."""
        return {name: cpu_s(each.pid) for name, each in self.all.items()}

    def rss_mib(self) -> dict[str, int]:
        """How much memory each program holds."""
        return {name: rss_mib(each.pid) for name, each in self.all.items()}

    def ended(self) -> list[str]:
        """The programs that are no longer there."""
        return [name for name, each in self.all.items() if not each.is_running]


@contextmanager
def running(directory: Path) -> Iterator[Programs]:
    """Run everything for the length of a block."""
    with SandboxPlane(directory / "plane", audit=False) as plane, ProcessGroup(directory) as group:
        programs = Programs(plane, group, directory)
        programs.start_all()
        yield programs


def _said(program: ChildProcess, start: str) -> str:
    for _ in range(600):
        for line in program.log_file.read_text(encoding="utf-8").splitlines():
            if line.startswith(start):
                return line.removeprefix(start).strip()
        time.sleep(0.1)
    raise program.failure(f"did not say {start}")


def cpu_s(pid: int) -> float:
    """Gives how much CPU time a process has used; nothing if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_mib(pid: int) -> int:
    """Gives how much memory a process holds; nothing if it is gone."""
    try:
        return round(int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * _PAGE_MIB)
    except FileNotFoundError:
        return 0
