# SPDX-License-Identifier: Apache-2.0
"""A control plane, and the programs around it, for the length of an ``async with`` block.

The control plane is a real one with an audit log, unless the row asks for the sandbox's (see ``planes``).

The programs are those that users run, each in a process of its own: the EC2 model, the kubelets, our controller, the
Go Karpenter. None outlives the benchmark. Everything is on loopback, in one run directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from tests.e2e.controlplane import ChildProcess, ControlPlane, ProcessGroup
from tests.e2e.controlplane.startup import free_port

from benchmarks.live.gopeer import GoPeer, go_environment
from benchmarks.live.moments import Request, read_audit
from benchmarks.live.planes import make_plane
from karpenter.errors import KarpenterError
from karpenter.kube import Client, KubeError, NotFoundError, load_config

__all__ = ["BenchmarkError", "Stage", "until"]

CLUSTER: Final = "sandbox"
_OUR_CRDS: Final = Path(__file__).parents[2] / "src" / "karpenter" / "api" / "crds"
_AT_ONCE: Final = 64
_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
_OUR_KINDS: Final = (
    _CLAIMS,
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
)


class BenchmarkError(KarpenterError):
    """Something that a row waited for did not come about."""


async def until(look: Callable[[], Any], what: str, *, timeout_s: float = 60.0, every_s: float = 0.2) -> Any:
    """Waits until an asynchronous look sees something, and gives it.

    Raises:
        BenchmarkError: It did not within the time.
    """
    end = time.monotonic() + timeout_s
    while True:
        seen = await look()
        if seen:
            return seen
        if time.monotonic() > end:
            raise BenchmarkError(f"not within {timeout_s:g} s: {what}")
        await asyncio.sleep(every_s)


class Stage:
    """The control plane, and what runs around it."""

    def __init__(self, directory: Path, say: Callable[[str], None], plane: str = "real") -> None:
        self.directory = directory
        self.say = say
        self.plane = make_plane(plane, directory / "plane")
        self.model_url = ""
        self.metrics_url = ""
        self.programs: dict[str, ChildProcess] = {}
        self._group: ProcessGroup | None = None
        self._client: Client | None = None
        self._audit_offset = 0

    async def __aenter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        await asyncio.to_thread(self.plane.__enter__)
        self._group = ProcessGroup(self.directory)
        config = load_config(self.plane.kubeconfig)
        self._client = Client(config, qps=5000, burst=5000, timeout_s=120, user_agent="benchmark")
        await self._client.__aenter__()
        self.say(f"control plane up after {time.monotonic() - started:.0f} s; logs in {self.directory}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.__aexit__(kind, error, traceback)
        if self._group is not None:
            await asyncio.to_thread(self._group.stop)
        await asyncio.to_thread(self.plane.__exit__, kind, error, traceback)

    @property
    def api(self) -> Client:
        """The API server, as its admin and without a rate limit."""
        assert self._client is not None
        return self._client

    async def start_model(self) -> None:
        """Starts the EC2 model and waits until it can be asked."""
        program = self._run("ec2", "sandbox", "ec2", "--cluster-version", "1.34")

        async def address() -> str:
            self._check(program)
            lines = program.log_file.read_text(encoding="utf-8").splitlines()
            return next(
                (each.partition("=")[2] for each in lines if each.startswith("AWS_ENDPOINT_URL=")), ""
            )

        self.model_url = await until(address, "the EC2 model says where it is")

    async def start_kubelets(self, *options: str) -> None:
        """Starts the kubelets of all machines of the model."""
        flags = ("--kubeconfig", str(self.plane.kubeconfig), "--ec2", self.model_url)
        self._run("kubelets", "sandbox", "kubelets", *flags, *options)

    async def start_ours(self, **settings: str) -> ChildProcess:
        """Starts our controller, with its own defaults but for what is named, and waits until it leads."""
        await self.apply_crds(_OUR_CRDS)
        port = free_port()
        self.metrics_url = f"http://127.0.0.1:{port}/metrics"
        flags = {
            "cluster-name": CLUSTER,
            "metrics-port": str(port),
            "health-probe-port": "0",
            "leader-election-namespace": "kube-system",
            "interruption-queue": CLUSTER,
            **{key.replace("_", "-"): value for key, value in settings.items()},
        }
        program = self._run("controller", "controller", *(f"--{key}={value}" for key, value in flags.items()))
        await self._leading(program, "leading")
        return program

    async def start_paper(self, catalogue: Path, **settings: str) -> ChildProcess:
        """Starts our controller on a cloud of a file (see ``papercloud``), and waits until it leads."""
        await self.apply_crds(_OUR_CRDS)
        port = free_port()
        self.metrics_url = f"http://127.0.0.1:{port}/metrics"
        environ = {
            **os.environ,
            "KUBECONFIG": str(self.plane.kubeconfig),
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "CLUSTER_NAME": CLUSTER,
            "METRICS_PORT": str(port),
            "HEALTH_PROBE_PORT": "0",
            "LEADER_ELECTION_NAMESPACE": "kube-system",
            **settings,
        }
        argv: list[str | Path] = [sys.executable, "-m", "benchmarks.live.papercloud", catalogue]
        program = self._start("controller", argv, environ)
        await self._leading(program, "leading")
        return program

    async def start_go(self, peer: GoPeer, **settings: str) -> ChildProcess:
        """Starts the Go Karpenter, with its own defaults but for what is named, and waits until it leads."""
        await self.apply_crds(peer.crds)
        own = go_environment(
            os.environ, self.plane.kubeconfig, metrics_port=free_port(), health_port=free_port()
        )
        environ = {**own, **settings}
        program = self._start("go-karpenter", [peer.program], environ)
        await self._leading(program, "Starting workers")
        return program

    def processes(self) -> dict[str, ChildProcess]:
        """Gives the programs of the control plane and those around it, by name."""
        return {**self.plane.processes, **self.programs}

    async def stop(self, name: str) -> None:
        """Ends a program and waits until it is gone."""
        await asyncio.to_thread(self.programs.pop(name).stop, 15.0)

    async def apply_crds(self, directory: Path) -> None:
        """Installs the CRDs of a directory in place of what is there, and waits until they are served."""
        await asyncio.to_thread(
            self.plane.kubectl, "apply", "--server-side", "--force-conflicts", "-f", directory
        )
        await asyncio.to_thread(
            self.plane.kubectl,
            "wait",
            "--for=condition=established",
            "crd",
            "--all",
            "--timeout=120s",
            timeout_s=130,
        )

    async def remove_crds(self) -> None:
        """Removes every CRD, and with them the objects of their kinds, whose controller is gone."""
        for path in _OUR_KINDS:
            for item in await self.items(path):
                name = item["metadata"]["name"]
                await asyncio.to_thread(
                    self.plane.request,
                    "PATCH",
                    f"{path}/{name}",
                    {"metadata": {"finalizers": None}},
                    content_type="application/merge-patch+json",
                )
        await asyncio.to_thread(self.plane.kubectl, "delete", "crd", "--all", "--timeout=120s", timeout_s=130)

    async def create(self, path: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Creates one object."""
        return self._data(await self.api.raw("POST", path, manifest))

    async def create_all(self, path: str, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Creates many objects, some at a time."""
        free = asyncio.Semaphore(_AT_ONCE)

        async def one(manifest: Mapping[str, Any]) -> None:
            async with free:
                await self.api.raw("POST", path, manifest)

        await asyncio.gather(*(one(each) for each in manifests))

    async def items(self, path: str) -> list[dict[str, Any]]:
        """Lists objects as they are; none if their kind is not served."""
        try:
            found: list[dict[str, Any]] = self._data(await self.api.raw("GET", path)).get("items") or []
        except NotFoundError:
            return []
        return found

    async def is_ready(self, path: str) -> bool:
        """Tells whether there are objects of a list and all say that they are Ready."""
        found = await self.items(path)
        return bool(found) and all(
            any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in item.get("status", {}).get("conditions", ())
            )
            for item in found
        )

    async def delete_all(self, path: str) -> None:
        """Asks the server to delete all objects of a list, without waiting for any kubelet."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        try:
            await self.api.raw("DELETE", path, options)
        except NotFoundError:
            return

    async def claims(self) -> list[dict[str, Any]]:
        """Lists the NodeClaims."""
        return await self.items(_CLAIMS)

    async def clear(self, *, timeout_s: float = 120.0) -> None:
        """Takes all pods and claims away and waits until the controller has ended all nodes."""
        await self.delete_all("/api/v1/namespaces/default/pods")

        async def empty() -> bool:
            claims, nodes = await self.claims(), await self.items("/api/v1/nodes")
            for claim in claims:
                if not claim["metadata"].get("deletionTimestamp"):
                    await self._delete(f"{_CLAIMS}/{claim['metadata']['name']}")
            for node in nodes if not claims else ():
                await self._delete(f"/api/v1/nodes/{node['metadata']['name']}")
            return not claims and not nodes and not await self.items("/api/v1/namespaces/default/pods")

        await until(empty, "all pods, claims and nodes are gone", timeout_s=timeout_s, every_s=0.5)

    def model(self, view: str) -> Any:
        """Looks at the EC2 model."""
        return _fetch_json(f"{self.model_url}/_model/{view}")

    def metrics(self) -> str:
        """Gives what our controller counts, in Prometheus' text format."""
        with urllib.request.urlopen(self.metrics_url, timeout=30) as answer:  # noqa: S310 - loopback
            text: str = answer.read().decode()
            return text

    def audit(self, *resources: str) -> list[Request]:
        """Gives the requests about some resources that were answered since the last `forget_audit`."""
        with self._audit_log.open(encoding="utf-8") as log:
            log.seek(self._audit_offset)
            return read_audit(log, *resources)

    def forget_audit(self) -> None:
        """Leaves what was audited so far out of the next `audit`."""
        self._audit_offset = self._audit_log.stat().st_size

    @property
    def _audit_log(self) -> Path:
        if not isinstance(self.plane, ControlPlane):
            raise BenchmarkError(
                "the sandbox's requests are not written down", hint="run this row on a real control plane"
            )
        return self.plane.audit_log

    def _run(self, name: str, *arguments: str) -> ChildProcess:
        environ = {
            **os.environ,
            "KUBECONFIG": str(self.plane.kubeconfig),
            "AWS_ENDPOINT_URL": self.model_url,
            "AWS_REGION": "us-west-2",
            "AWS_ACCESS_KEY_ID": "model",
            "AWS_SECRET_ACCESS_KEY": "model",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        return self._start(name, [sys.executable, "-m", "karpenter", *arguments], environ)

    def _start(self, name: str, argv: list[str | Path], environ: Mapping[str, str]) -> ChildProcess:
        assert self._group is not None
        self.programs[name] = self._group.start(name, argv, environ=environ)
        return self.programs[name]

    async def _leading(self, program: ChildProcess, words: str) -> None:
        async def says() -> bool:
            self._check(program)
            return program.log_says(words)

        await until(says, f"{program.name} leads", timeout_s=90)

    def _check(self, program: ChildProcess) -> None:
        if not program.is_running:
            raise program.failure(f"ended with exit code {program.exit_code}")

    async def _delete(self, path: str) -> None:
        try:
            await self.api.raw("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1"})
        except KubeError:
            return

    def _data(self, body: bytes) -> dict[str, Any]:
        return msgspec.json.decode(body, type=dict[str, Any])


def _fetch_json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - loopback
        return json.loads(answer.read())
