# SPDX-License-Identifier: Apache-2.0
"""The real kubectl against the sandbox: what people type, and what they see."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from karpenter.sandbox.kube.kubeconfig import write_kubeconfig
from karpenter.sandbox.kube.serving.certificates import CERTIFICATE, serving_context
from tests.e2e.conformance.running import sandbox
from tests.e2e.controlplane import find_binaries

Kubectl = Callable[..., str]

_INFLATE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate, namespace: default}
spec:
  replicas: %d
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      containers:
      - {name: inflate, image: "pause:3.7", resources: {requests: {cpu: "1"}}}
"""


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    program = find_binaries(os.environ).path("kubectl")
    token = secrets.token_hex(8)
    with sandbox(token, serving_context(tmp_path)) as url:
        write_kubeconfig(tmp_path / "kubeconfig", url, token, (tmp_path / CERTIFICATE).read_bytes())
        environ = {
            **os.environ,
            "KUBECONFIG": str(tmp_path / "kubeconfig"),
            "KUBECACHEDIR": str(tmp_path / "cache"),
            "KUBECTL_KUBERC": "false",
        }

        def run(*arguments: str | Path, stdin: str | None = None, fails: bool = False, **more: str) -> str:
            done = subprocess.run(
                [program, *arguments],
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                check=False,
                timeout=30,
                env={**environ, **more},
            )
            assert (done.returncode != 0) is fails, done.stderr
            return done.stdout + (done.stderr if fails else "")

        yield run


def _node(kubectl: Kubectl, name: str) -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"capacity": {"cpu": "4", "memory": "16Gi"}, "conditions": conditions}
    kubectl(
        "create",
        "-f",
        "-",
        stdin=str({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}),
    )


def test_get_in_all_its_forms(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")
    kubectl("run", "p", "--image=nginx", "--labels=colour=red")

    assert "CONTAINERS" in kubectl("get", "deployments", "-o", "wide")
    assert "kind: Deployment" in kubectl("get", "deploy", "web", "-o", "yaml")
    assert '"kind": "Deployment"' in kubectl("get", "deploy", "web", "-o", "json")
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "1"
    assert "deployment.apps/web" in kubectl("get", "all", "-A")
    assert "red" in kubectl("get", "pods", "-L", "colour", "--sort-by=.metadata.name")
    assert "p" in kubectl("get", "pods", "-l", "colour=red", "--no-headers")
    assert "p" in kubectl("get", "pods", "--field-selector=status.phase=Pending", "--no-headers")
    assert "NotFound" in kubectl("get", "pod", "none", fails=True)


def test_get_watches(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "m")

    shown = kubectl("get", "configmaps", "-w", "--request-timeout=2s", "--no-headers", fails=False)

    assert shown.startswith("m ")


def test_apply_on_the_client_and_on_the_server(kubectl: Kubectl) -> None:
    assert "created" in kubectl("apply", "-f", "-", stdin=_INFLATE % 0)
    assert "configured" in kubectl("apply", "-f", "-", stdin=_INFLATE % 2)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=_INFLATE % 2)
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=_INFLATE % 2)
    kubectl("scale", "deploy/inflate", "--replicas=9")
    assert "conflict" in kubectl("apply", "--server-side", "-f", "-", stdin=_INFLATE % 3, fails=True)
    assert "serverside-applied" in kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=_INFLATE % 3
    )
    assert "replicas" in kubectl("diff", "-f", "-", stdin=_INFLATE % 4, fails=True)


def test_a_manifest_with_a_mistake_is_refused_by_its_field(kubectl: Kubectl) -> None:
    wrong = (_INFLATE % 1).replace("replicas:", "replica:")

    assert 'unknown field "spec.replica"' in kubectl("apply", "-f", "-", stdin=wrong, fails=True)


def test_objects_are_changed(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")

    kubectl("scale", "deploy/web", "--replicas=3")
    kubectl("label", "deploy/web", "tier=front")
    kubectl("annotate", "deploy/web", "note=x")
    kubectl(
        "patch",
        "deploy",
        "web",
        "-p",
        '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:1"}]}}}}',
    )
    kubectl("set", "env", "deploy/web", "A=b")
    kubectl("rollout", "restart", "deploy/web")
    kubectl("edit", "deploy", "web", KUBE_EDITOR="sed -i 's/tier: front/tier: back/'")

    paths = (
        "spec.replicas",
        "metadata.labels.tier",
        "metadata.annotations.note",
        "spec.template.spec.containers[0].image",
    )
    template = " ".join(f"{{.{path}}}" for path in paths)
    assert kubectl("get", "deploy", "web", "-o", f"jsonpath={template}") == "3 back x nginx:1"


def test_nodes_are_tainted_cordoned_and_drained(kubectl: Kubectl) -> None:
    _node(kubectl, "n1")

    kubectl("taint", "node", "n1", "a=b:NoSchedule")
    assert "cordoned" in kubectl("cordon", "n1")
    assert "SchedulingDisabled" in kubectl("get", "node", "n1")
    assert "uncordoned" in kubectl("uncordon", "n1")
    assert "drained" in kubectl("drain", "n1", "--force")
    assert "Ready" in kubectl("describe", "node", "n1")
    assert "n1" in kubectl("top", "nodes")


def test_objects_are_deleted_and_waited_for(kubectl: Kubectl) -> None:
    kubectl("run", "p", "--image=nginx")
    kubectl("create", "deployment", "web", "--image=nginx")

    kubectl("delete", "pod", "p")
    kubectl("delete", "deploy", "--all", "--cascade=orphan", "--wait=false")

    assert kubectl("get", "pods", "--no-headers") == ""
    kubectl("wait", "--for=delete", "pod/p", "--timeout=2s")


def test_what_is_served_is_told_and_explained(kubectl: Kubectl) -> None:
    assert "deployments" in kubectl("api-resources")
    assert "apps/v1" in kubectl("api-versions")
    assert "FIELD: strategy" in kubectl("explain", "deployment.spec.strategy")
    assert "v1.34" in kubectl("version")
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    assert "sandbox-admin" in kubectl("auth", "whoami")
    assert "not available" in kubectl("top", "nodes", fails=True)


def test_our_definitions_are_installed_and_used(kubectl: Kubectl) -> None:
    with resources.as_file(resources.files("karpenter.api.crds")) as folder:
        kubectl("apply", *(word for file in sorted(folder.glob("*.yaml")) for word in ("-f", str(file))))
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=5s")
    reference = "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}"
    pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec:\n  template:\n    spec:\n"
    pool += f"      nodeClassRef: {reference}\n      requirements: []\n"

    kubectl("apply", "-f", "-", stdin=pool)
    refused = kubectl(
        "apply", "-f", "-", stdin=pool.replace("requirements: []", "requirements: 5"), fails=True
    )

    assert "NODECLASS" in kubectl("get", "nodepools")
    assert "requirements" in kubectl("explain", "nodepool.spec.template.spec")
    assert "spec.template.spec.requirements" in refused
    assert "Name:         default" in kubectl("describe", "nodepool", "default")


def test_everything_else_that_people_create(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "shop")
    kubectl("create", "serviceaccount", "robot", "-n", "shop")
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    kubectl("create", "job", "j", "--image=busybox")
    kubectl("create", "cronjob", "c", "--image=busybox", "--schedule=*/5 * * * *")
    kubectl("create", "poddisruptionbudget", "b", "--selector=app=a", "--min-available=1")
    kubectl("create", "priorityclass", "high", "--value=100")
    kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    kubectl("create", "service", "clusterip", "svc", "--tcp=80")

    assert "sandbox.shop.robot" in kubectl("create", "token", "robot", "-n", "shop")
    assert "80/TCP" in kubectl("get", "svc", "svc")
    assert "N/A" in kubectl("get", "pdb", "b")
    assert "0/1" in kubectl("get", "job", "j")


def test_a_list_is_applied_item_by_item_and_each_item_is_checked(kubectl: Kubectl) -> None:
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}
        for name in ("one", "two")
    ]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}

    assert (
        kubectl("apply", "-f", "-", stdin=json.dumps(listed))
        == "configmap/one created\nconfigmap/two created\n"
    )

    items[1]["extra"] = {"a": 1}
    said = kubectl("apply", "-f", "-", stdin=json.dumps(listed), fails=True)
    assert "configmap/one unchanged" in said
    assert 'unknown field "extra"' in said


def test_what_needs_a_process_says_why_it_cannot_be_done(kubectl: Kubectl) -> None:
    kubectl("run", "web", "--image=nginx")

    for arguments, words in (
        (("exec", "web", "--", "ls"), "no command can be run in pod web"),
        (("attach", "web"), "pod web has no process to attach to"),
        (("debug", "web", "--image=busybox"), "no debug container can be added to pod web"),
        (("exec", "other", "--", "ls"), 'pods "other" not found'),
    ):
        assert words in kubectl(*arguments, fails=True)
    assert kubectl("logs", "web") == ""
