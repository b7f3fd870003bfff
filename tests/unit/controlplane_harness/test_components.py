# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.controlplane.components import (
    Layout,
    apiserver_flags,
    controller_manager_flags,
    etcd_flags,
    scheduler_flags,
)

LAYOUT = Layout(Path("/run/plane"))
ALL_FLAGS = {
    "etcd": etcd_flags(LAYOUT, 2379, 2380),
    "kube-apiserver": apiserver_flags(LAYOUT, 6443, "https://127.0.0.1:2379"),
    "kube-controller-manager": controller_manager_flags(LAYOUT, 10257),
    "kube-scheduler": scheduler_flags(LAYOUT, 10259),
}


@pytest.mark.parametrize("name", ALL_FLAGS)
def test_every_component_stays_on_loopback_and_in_its_directory(name: str) -> None:
    values = dict(flag.removeprefix("--").partition("=")[::2] for flag in ALL_FLAGS[name])

    addresses = [value for flag, value in values.items() if "address" in flag or "urls" in flag]
    paths = [value for value in values.values() if value.startswith("/")]

    assert addresses
    assert all("127.0.0.1" in each for each in addresses)
    assert paths
    assert all(Path(each).is_relative_to(LAYOUT.root) for each in paths)
    assert len(values) == len(ALL_FLAGS[name])


def test_requests_are_authorized_as_in_a_real_cluster() -> None:
    assert "--authorization-mode=Node,RBAC" in ALL_FLAGS["kube-apiserver"]
    assert "--use-service-account-credentials=true" in ALL_FLAGS["kube-controller-manager"]


def test_the_audit_log_is_written_on_request_alone() -> None:
    without = apiserver_flags(LAYOUT, 6443, "https://127.0.0.1:2379")
    audited = apiserver_flags(LAYOUT, 6443, "https://127.0.0.1:2379", audit=True)

    assert not [flag for flag in without if "audit" in flag]
    assert f"--audit-log-path={LAYOUT.audit_log}" in audited


def test_the_admin_has_the_plain_kubeconfig() -> None:
    assert LAYOUT.kubeconfig("admin") == Path("/run/plane/kubeconfig")
    assert LAYOUT.kubeconfig("kube-scheduler") == Path("/run/plane/kube-scheduler.kubeconfig")
