# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tools.image import docker_command, main

ROOT = Path(__file__).resolve().parents[3]
DIGEST = "sha256:" + "0123456789abcdef" * 4
BUILD = f"python:3.11.13-slim-bookworm@{DIGEST}"
RUN = f"gcr.io/distroless/python3-debian12:nonroot@{DIGEST}"


def test_an_image_for_others_is_built_from_bases_with_digests_and_says_so_in_its_labels() -> None:
    command = docker_command(BUILD, RUN, "karpenter:1")

    assert command[:2] == ["docker", "build"]
    assert f"BUILD={BUILD}" in command
    assert f"RUN={RUN}" in command
    assert f"org.opencontainers.image.base.digest={DIGEST}" in command
    assert command[-3:] == ["--tag", "karpenter:1", "."]


@pytest.mark.parametrize("base", ["", "python:3.11", "python@sha256:12", f"python:3.11 @{DIGEST}"])
def test_a_base_without_a_digest_is_refused_by_its_name(
    base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--build", BUILD, "--run", base]) == 2
    assert main(["--build", base, "--run", RUN]) == 2

    said = capsys.readouterr().err
    assert f"error: RUN={base}: not pinned by digest" in said
    assert f"error: BUILD={base}: not pinned by digest" in said
    assert "hint:" in said


def test_docker_is_run_with_the_command_and_its_code_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nexit 7\n', encoding="utf-8")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin")

    assert main(["--build", BUILD, "--run", RUN, "--tag", "karpenter:1"]) == 7
    assert (
        (tmp_path / "asked")
        .read_text(encoding="utf-8")
        .startswith("build --pull --build-arg BUILD=python:3.11")
    )


def test_the_bases_of_the_dockerfile_name_a_whole_release_where_tags_do() -> None:
    bases = dict(
        re.findall(r"^ARG (BUILD|RUN)=(\S+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    )

    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm(@sha256:[0-9a-f]{64})?", bases["BUILD"])
    assert bases["RUN"].startswith("gcr.io/distroless/python3-debian12:nonroot")
