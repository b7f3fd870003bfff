# SPDX-License-Identifier: Apache-2.0
"""People's notes in the sandbox, with the manifests as they wrote them: their cluster's name, version and region."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane import KubectlFailedError, find_binaries
from tests.e2e.controlplane.kubectl import Kubectl
from tests.e2e.product import wait_for
from tests.e2e.scenarios import manifest
from tests.e2e.scenes import OLD_KINDS

pytestmark = pytest.mark.timeout(900)

_CLUSTER = "prod"
_PROFILE = f"KarpenterNodeInstanceProfile-{_CLUSTER}"

_STATEFUL = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      nodeSelector: {type: karpenter}
      terminationGracePeriodSeconds: 0
      containers: [{name: db, image: postgres, volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


@dataclass(frozen=True)
class Sandbox:
    """A sandbox that ``karpenter sandbox up`` has started."""

    document: Mapping[str, Any]
    environ: Mapping[str, str]
    kubectl: Kubectl

    def karpenter(self, *arguments: str) -> str:
        """Run a command of ours, with the sandbox's cluster and account; return what it says."""
        done = subprocess.run(
            [sys.executable, "-m", "karpenter", *arguments],
            env=dict(self.environ),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def apply(self, text: str) -> None:
        """Apply manifests as a user does."""
        self.kubectl.run("apply", "-f", "-", input=text)

    def get(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the objects that ``kubectl get`` gives."""
        found = json.loads(self.kubectl.run("get", *arguments, "-o", "json").stdout)
        items: list[dict[str, Any]] = found.get("items", [found])
        return items

    def wait(self, *arguments: str) -> None:
        """Wait with kubectl, as notes do."""
        self.kubectl.run(*arguments, "--timeout=240s", timeout_s=250)

    def model(self, path: str, body: object = None) -> Any:
        """Ask the EC2 model's admin."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.document['ec2']}/_model/{path}", data)  # noqa: S310
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return json.load(answer)

    def instances(self) -> list[dict[str, Any]]:
        """Return the instances that are not gone."""
        found: list[dict[str, Any]] = self.model("state")["ec2"]["instances"]
        return [each for each in found if each["state"] not in {"terminated", "shutting-down"}]


@contextlib.contextmanager
def sandbox(directory: Path, *options: str) -> Iterator[Sandbox]:
    """Start a sandbox for the length of a block; its processes end by themselves should the block not end it."""
    home = directory / "sandboxes"
    environ = {**os.environ, "KARPENTER_SANDBOX_HOME": str(home)}
    command = [sys.executable, "-m", "karpenter", "sandbox"]
    up = [*command, "up", "--cluster-name", _CLUSTER, "--speed", "4", "--life", "20m", "-o", "json", *options]
    try:
        done = subprocess.run(up, env=environ, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        path = Path(document["kubeconfig"])
        aws = {
            "AWS_ENDPOINT_URL": document["ec2"],
            "AWS_REGION": document["region"],
            "AWS_ACCESS_KEY_ID": "admin",
            "AWS_SECRET_ACCESS_KEY": "admin",
            "KUBECONFIG": str(path),
        }
        kubectl = Kubectl(find_binaries(os.environ).path("kubectl"), path, directory / "cache")
        yield Sandbox(document, {**environ, **aws}, kubectl)
    finally:
        subprocess.run([*command, "down"], env=environ, capture_output=True, timeout=60, check=False)


def of_the_cluster(name: str) -> str:
    """Return the manifest of a scenario, with the name of the cluster in it."""
    return manifest(name).replace("sandbox", _CLUSTER)


def test_manifests_of_w1_to_w4_run_as_they_were_written(tmp_path: Path) -> None:
    options = ("--kubernetes-version", "1.32", "--region", "ap-northeast-2")
    with sandbox(tmp_path, *options, "--default-instance-profile", _PROFILE) as up:
        version = json.loads(up.kubectl.run("version", "-o", "json").stdout)["serverVersion"]
        assert (version["major"], version["minor"]) == ("1", "32")

        _w2(up)
        _w3(up)
        _w4(up)
        # The notes of W1 have a node class of the same name as those of W3.
        up.karpenter("sandbox", "reset", "--yes")
        _w1(up)


def _w2(up: Sandbox) -> None:
    up.apply(of_the_cluster("w2"))
    up.apply(of_the_cluster("w2-pod"))
    up.wait("wait", "--for=condition=Ready", "pod/work")

    [node] = up.get("nodes", "-l", "karpenter.sh/nodepool")
    labels = node["metadata"]["labels"]
    assert labels["topology.kubernetes.io/zone"] in {"ap-northeast-2a", "ap-northeast-2c"}
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.32.")
    assert node["status"]["nodeInfo"]["osImage"] == "Amazon Linux 2"
    [instance] = up.instances()
    assert "amazon-eks-" in up.model("state")["ec2"]["images"][instance["image"]]
    _read_the_log_of_the_controller(up, node["metadata"]["name"])
    with pytest.raises(KubectlFailedError, match=r"spec\.requirements\[0\]\.requirements"):
        up.apply(of_the_cluster("w2-broken"))


def _read_the_log_of_the_controller(up: Sandbox, node: str) -> None:
    which = ("-n", "karpenter", "-l", "app.kubernetes.io/name=karpenter", "-c", "controller")
    assert node in up.kubectl.run("logs", *which, "--tail=-1").stdout
    last = up.kubectl.run("logs", *which, "--tail=1").stdout
    assert last.count("\n") == 1
    assert json.loads(last)["level"]


def _w3(up: Sandbox) -> None:
    up.apply(of_the_cluster("w3"))
    up.kubectl.run("scale", "deploy/team1", "--replicas=5")
    up.wait("rollout", "status", "deploy/team1")

    team = {
        each["metadata"]["name"] for each in up.get("nodes", "-l", "team=team1,karpenter.sh/nodepool=team1")
    }
    assert {each["spec"]["nodeName"] for each in up.get("pods", "-l", "app=team1")} <= team
    up.kubectl.run("scale", "deploy/team1", "--replicas=0")


def _w4(up: Sandbox) -> None:
    # The notes' timetable is open from :03 to :10; here it opens now, so that the test need not wait for the hour.
    now = datetime.now(UTC)
    start, end = now.minute, (now + timedelta(minutes=7)).minute
    up.apply(manifest("w4").replace("START", str(start)).replace("END", str(end)))
    wait_for(lambda: up.get("deploy", "overprovision")[0]["spec"]["replicas"] == 5, "the timetable opens")
    up.wait("rollout", "status", "deploy/overprovision")

    nodes = {each["spec"]["nodeName"] for each in up.get("pods", "-l", "app=overprovision")}
    assert len(nodes) == 5
    assert nodes <= {each["metadata"]["name"] for each in up.get("nodes", "-l", "team=team1")}


def _w1(up: Sandbox) -> None:
    up.apply(of_the_cluster("w1"))
    up.apply(manifest("inflate"))
    for count, nodes in ((5, 1), (12, 2)):
        up.kubectl.run("scale", "-n", "other", "deploy/inflate", f"--replicas={count}")
        up.wait("rollout", "status", "-n", "other", "deploy/inflate")
        found = up.get("nodes", "-l", "type=karpenter")
        types = [each["metadata"]["labels"]["node.kubernetes.io/instance-type"] for each in found]
        assert types == ["m5.large"] * nodes


def test_an_installation_on_an_existing_cluster_as_in_w8(tmp_path: Path) -> None:
    options = ("--kubernetes-version", "1.32", "--bare", "--default-instance-profile", _PROFILE)
    with sandbox(tmp_path, *options) as up:
        said = up.karpenter("install", "aws", "--cluster-name", _CLUSTER, "--yes")
        assert "changes made" in said
        # As notes change a setting of an installation.
        up.kubectl.run("set", "env", "-n", "karpenter", "deployment/karpenter", "BATCH_IDLE_DURATION=2s")
        up.wait("rollout", "status", "-n", "karpenter", "deployment/karpenter")
        # From here on the controller may do what its role allows, as in an account.
        up.model("enforce", {"accessKey": "sandbox", "role": f"KarpenterControllerRole-{_CLUSTER}"})

        listed = up.kubectl.run("api-resources", "--categories", "karpenter", "-o", "wide").stdout
        for kind in ("Provisioner", "AWSNodeTemplate", "NodePool", "EC2NodeClass", "NodeClaim"):
            assert f" {kind} " in listed
        up.apply(OLD_KINDS)
        up.wait("wait", "--for=condition=Ready", "pod/waiting")
        [node] = up.get("nodes", "-l", "type=karpenter")
        assert node["metadata"]["labels"]["karpenter.sh/provisioner-name"] == "default"
        _stateful_set_has_a_volume_of_the_default_class(up)

        up.kubectl.run("delete", "pod", "waiting", "--now")
        wait_for(lambda: not up.instances(), "the empty node goes, by consolidation", 240)
        assert up.model("rights")["refused"] == []


def _stateful_set_has_a_volume_of_the_default_class(up: Sandbox) -> None:
    up.apply(_STATEFUL)
    up.wait("rollout", "status", "statefulset/db")

    [claim] = up.get("pvc")
    assert (claim["status"]["phase"], claim["spec"]["storageClassName"]) == ("Bound", "gp3")
    [volume] = up.get("pv")
    assert volume["spec"]["csi"]["driver"] == "ebs.csi.aws.com"
    assert "sandbox: container db of image postgres was started" in up.kubectl.run("logs", "db-0").stdout
    for arguments, words in (
        (("exec", "db-0", "--", "ls"), "no command can be run in pod db-0: containers are not run"),
        (("port-forward", "db-0", "5432"), "no port of pod db-0 can be forwarded"),
    ):
        with pytest.raises(KubectlFailedError, match=words):
            up.kubectl.run(*arguments)
    up.kubectl.run("delete", "statefulset", "db", "--timeout=60s", timeout_s=70)
