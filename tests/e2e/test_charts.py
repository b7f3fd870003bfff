# SPDX-License-Identifier: Apache-2.0
"""The charts with a real helm: linted, rendered as the walkthroughs ask, installed on a real control plane."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from karpenter.operator.settings import Settings, read_settings
from tests.e2e.controlplane import ControlPlane
from tests.e2e.helm import CHARTS, Helm, find_helm
from tests.e2e.product import wait_for

pytestmark = pytest.mark.timeout(1500)  # the first run builds helm

_NAME = ("--set", "settings.clusterName=prod")


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(find_helm(os.environ), tmp_path_factory.mktemp("helm"))


def _objects(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = [each for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def _environ(deployment: dict[str, Any]) -> dict[str, str]:
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return {each["name"]: each.get("value", "") for each in container["env"]}


@pytest.mark.parametrize(
    ("value", "role"),
    [
        ("settings.featureGates.capacityBuffer", "karpenter-buffers"),
        ("settings.featureGates.nodeOverlay", "karpenter-overlays"),
        ("settings.earlyPlacement", "karpenter-placement"),
        ("settings.nominatePods", "karpenter-nominations"),
    ],
)
def test_the_rights_of_a_feature_are_granted_only_while_it_is_on(helm: Helm, value: str, role: str) -> None:
    off = _objects(helm("template", "karpenter", CHARTS / "karpenter", *_NAME, "--set", f"{value}=false"))
    on = _objects(helm("template", "karpenter", CHARTS / "karpenter", *_NAME, "--set", f"{value}=true"))

    assert on.keys() - off.keys() == {("ClusterRole", role), ("ClusterRoleBinding", role)}


@pytest.mark.parametrize(("chart", "more"), [("karpenter", _NAME), ("karpenter-crd", ())])
def test_helm_lints_the_chart_strictly(helm: Helm, chart: str, more: tuple[str, ...]) -> None:
    said = helm("lint", "--strict", CHARTS / chart, *more)

    assert "0 chart(s) failed" in said


def test_the_command_of_old_notes_renders_with_its_old_names(helm: Helm) -> None:
    role = "arn:aws:iam::111122223333:role/KarpenterControllerRole-prod"

    rendered = helm(
        "template", "karpenter", CHARTS / "karpenter", "--namespace", "karpenter",
        "--set", "settings.aws.defaultInstanceProfile=KarpenterNodeInstanceProfile-prod",
        "--set", "settings.aws.clusterName=prod",
        "--set", "settings.aws.interruptionQueueName=prod",
        "--set", rf"serviceAccount.annotations.eks\.amazonaws\.com/role-arn={role}",
        "--set", "controller.resources.requests.cpu=1",
        "--set", "controller.resources.requests.memory=1Gi",
        "--set", "controller.resources.limits.cpu=1",
        "--set", "controller.resources.limits.memory=1Gi",
        "--set", "replicas=2",
    )  # fmt: skip

    objects = _objects(rendered)
    deployment = objects["Deployment", "karpenter"]
    environ = _environ(deployment)
    assert environ["CLUSTER_NAME"] == "prod"
    assert environ["DEFAULT_INSTANCE_PROFILE"] == "KarpenterNodeInstanceProfile-prod"
    assert environ["INTERRUPTION_QUEUE"] == "prod"
    assert deployment["spec"]["replicas"] == 2
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": 1, "memory": "1Gi"},
        "limits": {"cpu": 1, "memory": "1Gi"},
    }
    account = objects["ServiceAccount", "karpenter"]
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == role
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    keys = {each["key"] for each in terms["nodeSelectorTerms"][0]["matchExpressions"]}
    assert keys == {"karpenter.sh/nodepool", "karpenter.sh/provisioner-name"}


def test_the_rendered_environment_is_one_that_the_controller_takes(helm: Helm) -> None:
    rendered = helm("template", "karpenter", CHARTS / "karpenter", "--namespace", "karpenter", *_NAME)

    environ = _environ(_objects(rendered)["Deployment", "karpenter"])
    settings = read_settings({}, {name: value for name, value in environ.items() if value})
    # What comes from the pod itself is not in the text; all else is a default, but for the
    # namespace of the state: the rights in the chart are for one namespace, so the chart names it.
    assert settings == Settings(
        cluster_name="prod", karpenter_service="karpenter", state_namespace="karpenter"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "settings.clusterName is not set"),
        ((*_NAME, "--set", "settings.batchIdelDuration=2s"), "batchIdelDuration"),
        ((*_NAME, "--set", "settings.featureGates.nodeRepairs=true"), "nodeRepairs"),
        ((*_NAME, "--set", "replica=3"), "replica"),
        ((*_NAME, "--set", "settings.preferencePolicy=Maybe"), "preferencePolicy"),
        ((*_NAME, "--set", "controller.image.digest=latest"), "digest"),
    ],
)
def test_a_value_that_means_nothing_is_refused_by_its_name(
    helm: Helm, arguments: tuple[str, ...], words: str
) -> None:
    done = helm.run("template", "karpenter", CHARTS / "karpenter", *arguments)

    assert done.returncode != 0
    assert words in done.stderr


def test_the_kinds_chart_can_leave_the_old_kinds_out(helm: Helm) -> None:
    everything = _objects(helm("template", "crds", CHARTS / "karpenter-crd"))
    without = _objects(helm("template", "crds", CHARTS / "karpenter-crd", "--set", "legacyKinds=false"))

    old = {name for _, name in everything} - {name for _, name in without}
    assert old == {
        "provisioners.karpenter.sh",
        "machines.karpenter.sh",
        "awsnodetemplates.karpenter.k8s.aws",
    }
    for kind in everything.values():
        assert kind["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


@pytest.fixture
def installed(control_plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Helm, ControlPlane]]:
    helm = Helm(find_helm(os.environ), tmp_path, control_plane.kubeconfig)
    control_plane.kubectl("create", "namespace", "karpenter-chart")
    restricted = "pod-security.kubernetes.io/enforce=restricted"
    control_plane.kubectl("label", "namespace", "karpenter-chart", restricted)
    yield helm, control_plane
    helm.run("uninstall", "karpenter", "--namespace", "karpenter-chart")
    control_plane.kubectl("delete", "namespace", "karpenter-chart", "--wait=false")


def test_both_charts_install_and_restricted_pod_security_admits_the_pods(
    installed: tuple[Helm, ControlPlane],
) -> None:
    helm, plane = installed
    where = ("--namespace", "karpenter-chart")

    # What kubectl applied before in this run belongs to nobody: helm takes it over.
    helm("upgrade", "--install", "karpenter-crd", CHARTS / "karpenter-crd", *where, "--take-ownership")
    notes = helm("upgrade", "--install", "karpenter", CHARTS / "karpenter", *where, *_NAME)

    assert "Interruption handling is off" in notes
    pods = wait_for(lambda: _pods(plane), "two pods of the controller", 30)
    spec = pods[0]["spec"]
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    listed = plane.kubectl("api-resources", "--categories", "karpenter", "-o", "name").stdout.split()
    assert {
        "nodepools.karpenter.sh",
        "nodeclaims.karpenter.sh",
        "ec2nodeclasses.karpenter.k8s.aws",
        "provisioners.karpenter.sh",
        "awsnodetemplates.karpenter.k8s.aws",
    } <= set(listed)
    again = helm("upgrade", "--install", "karpenter", CHARTS / "karpenter", *where, *_NAME)
    assert "STATUS: deployed" in again


def _pods(plane: ControlPlane) -> list[dict[str, Any]]:
    selector = "app.kubernetes.io/name=karpenter"
    answer = json.loads(
        plane.kubectl("-n", "karpenter-chart", "get", "pods", "-l", selector, "-o", "json").stdout
    )
    return answer["items"] if len(answer["items"]) == 2 else []
