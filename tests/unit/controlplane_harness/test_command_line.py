# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_path_prints_the_directory_and_nothing_else(tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"):
        (tmp_path / name).touch(mode=0o755)

    answer = _run("path", tmp_path)

    assert (answer.returncode, answer.stdout) == (0, f"{tmp_path}\n")


@pytest.mark.parametrize("command", ["path", "build", "up"])
def test_a_missing_program_is_an_error_with_a_hint(tmp_path: Path, command: str) -> None:
    answer = _run(command, tmp_path)

    assert answer.returncode == 1
    assert answer.stdout == ""
    assert f"error: KUBEBUILDER_ASSETS={tmp_path} has no etcd, " in answer.stderr
    assert "\nhint:  " in answer.stderr


def test_build_goes_on_without_programs_where_the_tests_are_optional(tmp_path: Path) -> None:
    answer = _run("build", tmp_path, KARPENTER_E2E_OPTIONAL="1")

    assert answer.returncode == 0
    assert "the tests of tests/e2e are left out" in answer.stderr


def test_a_run_without_programs_ends_with_the_names_of_the_tests(tmp_path: Path) -> None:
    answer = _pytest(tmp_path)

    assert answer.returncode == pytest.ExitCode.USAGE_ERROR
    assert "1 end-to-end tests are left out:" in answer.stderr
    assert "test_kubectl_reads_its_input" in answer.stderr
    assert f"because KUBEBUILDER_ASSETS={tmp_path} has no etcd, " in answer.stderr
    assert "\nhint:  " in answer.stderr


def test_an_optional_run_without_programs_succeeds_and_names_the_tests(tmp_path: Path) -> None:
    answer = _pytest(tmp_path, KARPENTER_E2E_OPTIONAL="1")

    assert answer.returncode == 0
    assert "1 skipped" in answer.stdout
    assert "1 end-to-end tests are left out:" in answer.stdout
    assert "test_kubectl_reads_its_input" in answer.stdout


def _run(command: str, assets: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return _python("-m", "tests.e2e.controlplane", command, KUBEBUILDER_ASSETS=str(assets), **environ)


def _pytest(assets: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    options = ["-q", "-p", "no:cacheprovider", "-k", "test_kubectl_reads_its_input"]
    return _python("-m", "pytest", "tests/e2e", *options, KUBEBUILDER_ASSETS=str(assets), **environ)


def _python(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    # What the outer run has set about pytest, coverage and the control plane is not for the inner one.
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_", "COVERAGE_", "KARPENTER_E2E_"))
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=Path(__file__).parents[3],
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
