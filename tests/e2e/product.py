# SPDX-License-Identifier: Apache-2.0
"""The whole product as a user runs it: a control plane, and EC2 model, kubelets and controller as programs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tests.component.aws.rights import confine
from tests.patience import patient

if TYPE_CHECKING:
    from tests.e2e.scenarios.planes import Plane

__all__ = ["Product", "wait_for"]

_CLUSTER = "sandbox"
# Seconds are enough; a machine that many share may need more.
_END_S = 60.0


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait until something is so and give it; say what was waited for if it is not."""
    limit = patient(seconds)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {limit:g} s: {what}")


class Product:
    """Programs around one control plane, up inside a ``with`` block; their logs stay in a directory.

    Args:
        plane: real, or the sandbox's.
        directory: where logs go.
        region: what the EC2 model models.
        cluster_version: of the cluster that it models.
        model: more flags of the EC2 model.
        kubelets: more flags of the kubelets.
        settings: more flags of the controller.
    """

    # Whether our controller is started with the rest.
    with_controller: ClassVar[bool] = True

    def __init__(
        self,
        plane: Plane,
        directory: Path,
        *,
        region: str = "us-west-2",
        cluster_version: str = "1.34",
        model: Sequence[str] = (),
        kubelets: Sequence[str] = (),
        **settings: str,
    ) -> None:
        self.plane = plane
        self._directory = directory
        self._region = region
        self._cluster_version = cluster_version
        self._model = model
        self._kubelets = kubelets
        self._settings = settings
        self._programs: dict[str, subprocess.Popen[str]] = {}
        self.endpoint = ""

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        crds = Path(__file__).parents[2] / "src" / "karpenter" / "api" / "crds"
        self.plane.kubectl("apply", "--server-side", "-f", crds)
        try:
            where = ("--region", self._region, "--cluster-version", self._cluster_version)
            model = self.start("ec2", "sandbox", "ec2", *where, *self._model, read=True)
            assert model.stdout is not None
            self.endpoint = model.stdout.readline().strip().partition("=")[2]
            # The controller has the rights that an installation gives it, and no others.
            confine(self.endpoint, _CLUSTER, region=self._region)
            places = ("--kubeconfig", str(self.plane.kubeconfig), "--ec2", self.endpoint)
            self.start("kubelets", "sandbox", "kubelets", *places, *self._kubelets)
            if self.with_controller:
                self.start_controller()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        refused = self.refused() if error is None and "ec2" in self._programs else []
        self.stop()
        assert not refused, f"the policies of an installation do not allow {refused}"

    def start_controller(self, name: str = "controller") -> subprocess.Popen[str]:
        """Start a replica of the controller."""
        flags = {
            "cluster-name": _CLUSTER,
            "metrics-port": "0",
            "health-probe-port": "0",
            "leader-election-namespace": "kube-system",
            "interruption-queue": _CLUSTER,
            **self._settings,
        }
        return self.start(name, "controller", *(f"--{key}={value}" for key, value in flags.items()))

    def start(self, name: str, *arguments: str, read: bool = False) -> subprocess.Popen[str]:
        """Start one of our programs; its words go to a file of its name."""
        with (self._directory / f"{name}.log").open("a", encoding="utf-8") as log:
            self._programs[name] = subprocess.Popen(
                [sys.executable, "-m", "karpenter", *arguments],
                env=self.environ,
                stdout=subprocess.PIPE if read else log,
                stderr=log,
                text=True,
            )
        return self._programs[name]

    @property
    def environ(self) -> Mapping[str, str]:
        """What the programs and an aws CLI need to find the control plane and the model."""
        return {
            **os.environ,
            "KUBECONFIG": str(self.plane.kubeconfig),
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self._region,
            "AWS_ACCESS_KEY_ID": "model",
            "AWS_SECRET_ACCESS_KEY": "model",
        }

    def kill(self, name: str) -> None:
        """Kill a program without a chance to tidy up."""
        program = self._programs.pop(name)
        program.send_signal(signal.SIGKILL)
        program.wait(10)

    def refused(self) -> list[dict[str, Any]]:
        """What the controller asked of AWS and had no right to."""
        with urllib.request.urlopen(f"{self.endpoint}/_model/rights", timeout=15) as answer:  # noqa: S310
            found: list[dict[str, Any]] = json.load(answer)["refused"]
        return found

    def process(self, name: str = "controller") -> subprocess.Popen[str]:
        """A program that was started."""
        return self._programs[name]

    def end(self, name: str) -> float:
        """Ask one program to end and give the seconds that it took."""
        program = self._programs.pop(name)
        asked = time.monotonic()
        program.terminate()
        assert program.wait(30) == 0
        return time.monotonic() - asked

    def stop(self) -> None:
        """Ask every program to end, in the reverse order, and see that it does."""
        for program in reversed(self._programs.values()):
            program.terminate()
        stubborn = []
        for name, program in reversed(self._programs.items()):
            try:
                program.wait(_END_S)
            except subprocess.TimeoutExpired:
                stubborn.append(name)
                program.kill()
                program.wait()
            if program.stdout is not None:
                program.stdout.close()
        self._programs.clear()
        assert not stubborn, f"{', '.join(stubborn)} did not end within {_END_S:g} s"

    def log(self, name: str = "controller") -> Iterator[dict[str, Any]]:
        """Yield the lines that a controller has written."""
        for line in (self._directory / f"{name}.log").read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)

    def messages(self, name: str = "controller") -> list[str]:
        """The messages of a controller, in order."""
        return [str(line.get("message", "")) for line in self.log(name)]

    def get(self, *arguments: str) -> list[dict[str, Any]]:
        """The objects that ``kubectl get`` gives."""
        found = json.loads(self.plane.kubectl("get", *arguments, "-o", "json").stdout)
        items: list[dict[str, Any]] = found.get("items", [found])
        return items

    def apply(self, manifest: str) -> None:
        """Apply manifests as a user does."""
        self.plane.kubectl("apply", "-f", "-", input=manifest)

    def ready(self, kind: str, name: str) -> bool:
        """Whether an object says that it is Ready."""
        [found] = self.get(kind, name)
        conditions = found.get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def aws(self, service: str = "ec2") -> Any:
        """A client of the model, as boto3 has it; the caller closes it."""
        import boto3  # noqa: PLC0415 - the model's own library, not needed to start it

        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=self._region,
            aws_access_key_id="admin",
            aws_secret_access_key="admin",
        )

    def instances(self) -> list[dict[str, Any]]:
        """The instances of the account that are not gone, as boto3 has them."""
        with contextlib.closing(self.aws()) as client:
            pages = client.get_paginator("describe_instances").paginate()
            return [
                instance
                for page in pages
                for reservation in page["Reservations"]
                for instance in reservation["Instances"]
                if instance["State"]["Name"] not in {"terminated", "shutting-down"}
            ]
