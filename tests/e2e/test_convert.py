# SPDX-License-Identifier: Apache-2.0
"""What `karpenter convert` prints, applied with kubectl to a real API server that has our definitions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from karpenter.api import crds
from tests.e2e.controlplane import ControlPlane, eventually

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
GOLDEN = ROOT / "tests" / "golden" / "convert"
OURS = "nodepools.v1.karpenter.sh,nodeclaims.v1.karpenter.sh,ec2nodeclasses.v1.karpenter.k8s.aws"
OLD = "provisioners.karpenter.sh,machines.karpenter.sh,awsnodetemplates.karpenter.k8s.aws"
WALKTHROUGHS = ["inflate.yaml", "default-provisioner.yaml", "teams.yaml", "consolidating-provisioner.yaml"]


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with our definitions served."""
    for name in crds.file_names():
        control_plane.kubectl("apply", "--server-side", "-f", "-", input=crds.text(name))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
    for resource in f"{OURS},{OLD}".split(","):
        eventually(partial(_is_served, control_plane, resource), f"{resource} is served")
    control_plane.kubectl("create", "namespace", "karpenter", check=False)
    return control_plane


@pytest.fixture(autouse=True)
def no_leftovers(plane: ControlPlane) -> Iterator[None]:
    """No object of our kinds stays behind after a test, whatever finalizers it has."""
    yield
    for name in _names(plane, f"{OURS},{OLD}"):
        plane.kubectl("patch", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', check=False)
        plane.kubectl("delete", name, "--wait=false", check=False)


@pytest.mark.parametrize("example", WALKTHROUGHS)
def test_a_converted_walkthrough_is_accepted_and_stored_as_printed(plane: ControlPlane, example: str) -> None:
    made = convert(EXAMPLES / example)
    assert made.returncode == 0, made.stderr

    plane.kubectl("apply", "--validate=strict", "-f", "-", input=made.stdout)

    stored = json.loads(plane.kubectl("get", OURS, "-o", "json").stdout)["items"]
    printed = json.loads(convert(EXAMPLES / example, "-o", "json").stdout)["items"]
    ours = {key(each): each for each in printed if each["apiVersion"].startswith("karpenter")}
    assert {key(each) for each in stored} == set(ours)
    for each in stored:
        assert each["spec"] == filled_in(each["spec"], ours[key(each)]["spec"])


@pytest.mark.parametrize("case", ["selectors", "shared-template", "exported", "beta"])
def test_every_reviewed_conversion_is_accepted(plane: ControlPlane, case: str) -> None:
    plane.kubectl("apply", "--validate=strict", "-f", GOLDEN / f"{case}.yaml")


def test_what_goes_back_to_v1beta1_is_accepted_as_v1beta1(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--validate=strict", "-f", GOLDEN / "back-to-v1beta1.yaml")


def test_the_broken_copy_is_refused_by_us_and_by_the_server_with_the_same_path(plane: ControlPlane) -> None:
    broken = EXAMPLES / "broken-provisioner.yaml"

    ours = convert(broken)
    servers = plane.kubectl("apply", "--validate=strict", "-f", broken, check=False)

    assert (ours.returncode, ours.stdout) == (1, "")
    assert servers.returncode != 0
    assert 'unknown field "spec.requirements[0].requirements"' in servers.stderr
    assert 'unknown field "spec.requirements[0].requirements"' in ours.stderr
    lax = plane.kubectl("apply", "--validate=ignore", "-f", broken, check=False)
    assert "spec.requirements[0].key: Required value" in lax.stderr
    assert "spec.requirements[0].key: Required value" in ours.stderr


def test_old_objects_go_through_the_server_and_come_out_converted(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-f", EXAMPLES / "default-provisioner.yaml")
    exported = plane.kubectl("get", OLD, "-o", "yaml").stdout

    made = convert("-", stdin=exported)

    assert made.returncode == 0, made.stderr
    kinds = sorted(
        each["kind"] for each in json.loads(convert("-", "-o", "json", stdin=exported).stdout)["items"]
    )
    assert kinds == ["EC2NodeClass", "NodePool"]
    plane.kubectl("apply", "--validate=strict", "-f", "-", input=made.stdout)


def test_objects_written_as_v1beta1_and_handed_out_as_v1_convert_to_what_was_meant(
    plane: ControlPlane,
) -> None:
    plane.kubectl("apply", "-f", EXAMPLES / "inflate.yaml")
    exported = plane.kubectl("get", OURS, "-o", "yaml").stdout
    assert "apiVersion: karpenter.sh/v1\n" in exported

    made = convert("-", stdin=exported)

    assert made.returncode == 0, made.stderr
    assert "group: karpenter.k8s.aws" in made.stdout
    plane.kubectl(
        "apply", "--validate=strict", "--server-side", "--force-conflicts", "-f", "-", input=made.stdout
    )


def convert(source: Path | str, *options: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    script = "import sys; from karpenter.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "convert", "-f", str(source), *options]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)


def key(manifest: dict[str, Any]) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def filled_in(stored: Any, printed: Any) -> Any:
    """What was printed, with what the server adds to mappings by way of defaults."""
    if isinstance(stored, dict) and isinstance(printed, dict):
        return {**stored, **{name: filled_in(stored.get(name), inner) for name, inner in printed.items()}}
    return printed


def _is_served(plane: ControlPlane, resource: str) -> bool:
    return plane.kubectl("get", resource, check=False).returncode == 0


def _names(plane: ControlPlane, resources: str) -> list[str]:
    return plane.kubectl("get", resources, "-o", "name").stdout.split()
