# SPDX-License-Identifier: Apache-2.0
"""The part of an installation that happens in Kubernetes: aws-auth, and the charts."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from karpenter import kube
from karpenter.cli import install
from karpenter.cloud.aws.install import Choices, Site
from karpenter.operator.journal import CONFIG_MAPS
from tests.unit.controllers.paper import PaperClient

_OTHERS = "- rolearn: arn:aws:iam::1:role/other\n  groups: [system:nodes]\n"
_SITE = Site(
    choices=Choices("prod"),
    region="us-west-2",
    account="1",
    partition="aws",
    endpoint="https://x",
    issuer="i",
    provider_arn="p",
    by_entries=False,
    by_config_map=True,
    subnets=(),
    groups=(),
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> PaperClient:
    """An API server on paper that the command finds."""
    paper = PaperClient()

    class Found:
        def __init__(self, _: object) -> None:
            pass

        async def __aenter__(self) -> PaperClient:
            return paper

        async def __aexit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(kube, "Client", Found)
    monkeypatch.setattr(kube, "load_config", lambda *_: None)
    return paper


def _map_roles(server: PaperClient) -> str:
    found = server.raw_object(CONFIG_MAPS, "aws-auth", "kube-system")
    assert found is not None
    text: str = found["data"]["mapRoles"]
    return text


async def test_the_role_is_added_below_others_once_and_taken_out_again(server: PaperClient) -> None:
    meta: Mapping[str, Any] = {"name": "aws-auth", "namespace": "kube-system"}
    server.store(CONFIG_MAPS, {"metadata": meta, "data": {"mapRoles": _OTHERS}})

    await install._write_aws_auth(_SITE, None, present=True)
    await install._write_aws_auth(_SITE, None, present=True)
    added = _map_roles(server)
    await install._write_aws_auth(_SITE, None, present=False)

    assert added.startswith(_OTHERS)
    assert added.count("KarpenterNodeRole-prod") == 1
    assert _map_roles(server) == _OTHERS
    assert len(server.calls) == 2


async def test_a_cluster_without_aws_auth_gets_one_and_keeps_none(server: PaperClient) -> None:
    await install._write_aws_auth(_SITE, None, present=False)
    assert server.calls == []

    await install._write_aws_auth(_SITE, None, present=True)

    assert "KarpenterNodeRole-prod" in _map_roles(server)


def test_the_plan_says_whether_aws_auth_has_the_role(server: PaperClient) -> None:
    assert install._aws_auth(_SITE, None)["action"] == "change"
    meta: Mapping[str, Any] = {"name": "aws-auth", "namespace": "kube-system"}
    role = "- rolearn: arn:aws:iam::1:role/KarpenterNodeRole-prod\n  groups: [system:nodes]\n"
    server.store(CONFIG_MAPS, {"metadata": meta, "data": {"mapRoles": role}})

    assert install._aws_auth(_SITE, None)["action"] == "keep"


def test_helm_installs_both_charts_and_its_complaint_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[list[str]] = []

    def run(arguments: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        called.append(arguments)
        return subprocess.CompletedProcess(arguments, len(called) // 3, "", "it does not fit")

    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/helm")
    monkeypatch.setattr("subprocess.run", run)

    install._install_charts(_SITE, tmp_path, tmp_path / "config")
    with pytest.raises(click.exceptions.Exit):
        install._install_charts(_SITE, tmp_path, None)

    assert [each[3] for each in called] == ["karpenter-crd", "karpenter", "karpenter-crd"]
    assert "it does not fit" in capsys.readouterr().err
