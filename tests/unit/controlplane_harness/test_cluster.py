# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.controlplane import (
    Binaries,
    ComponentFailedError,
    ControlPlane,
    ControlPlaneError,
    KubectlFailedError,
)
from tests.e2e.controlplane.processes import is_alive


def test_a_component_that_cannot_start_is_named_and_its_log_stays(tmp_path: Path) -> None:
    plane = ControlPlane(_programs(tmp_path, etcd="echo 'unknown flag'; exit 2"))

    with pytest.raises(
        ComponentFailedError, match=r"(?s)^etcd ended with exit code 2.*unknown flag"
    ) as failure:
        plane.start()

    log = plane.directory / "logs" / "etcd.log"
    assert str(log) in failure.value.hint
    assert log.read_text(encoding="utf-8") == "unknown flag\n"
    assert not is_alive(plane.processes["etcd"].pid)
    plane.stop()
    assert not plane.directory.exists()


@pytest.mark.parametrize(
    "use",
    [
        lambda plane: plane.url,
        lambda plane: plane.kubeconfig,
        lambda plane: plane.kubectl("version"),
        lambda plane: plane.request("GET", "/"),
    ],
)
def test_a_plane_that_was_not_started_says_so(tmp_path: Path, use: Callable[[ControlPlane], object]) -> None:
    plane = ControlPlane(Binaries(tmp_path))

    with pytest.raises(ControlPlaneError, match="has not been started"):
        use(plane)

    assert plane.processes == {}
    plane.stop()


def test_a_kubectl_that_hangs_is_an_error(tmp_path: Path) -> None:
    plane = ControlPlane(_programs(tmp_path, etcd="exit 2", kubectl="exec sleep 60"))
    with pytest.raises(ComponentFailedError):
        plane.start()

    with pytest.raises(KubectlFailedError, match=r"`kubectl get pods` took longer than 0\.1 s"):
        plane.kubectl("get", "pods", timeout_s=0.1)

    plane.stop()


def _programs(directory: Path, **scripts: str) -> Binaries:
    for name, script in scripts.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (directory / name).chmod(0o755)
    return Binaries(directory)
