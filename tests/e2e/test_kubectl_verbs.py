# SPDX-License-Identifier: Apache-2.0
"""Every verb of kubectl that people use, on a sandbox that is at work: nodes, pods, rollouts, figures."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from tests.e2e.product import Product, wait_for
from tests.e2e.scenarios import SandboxPlane, manifest, wait_until_ready

pytestmark = pytest.mark.timeout(300)

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {type: karpenter}
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: 100m, memory: 64Mi}}
"""


class Cluster:
    """kubectl in one namespace of the sandbox."""

    def __init__(self, product: Product, namespace: str) -> None:
        self.product = product
        self.namespace = namespace

    def __call__(self, *words: str, stdin: str | None = None, fails: bool = False, editor: str = "") -> str:
        done = self.product.plane.kubectl(
            "-n", self.namespace, *words, input=stdin, check=False, environ={"KUBE_EDITOR": editor}
        )
        assert (done.returncode != 0) is fails, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout + (done.stderr if fails else "")

    def field(self, path: str, *words: str) -> str:
        """What a JSONPath of an object says."""
        return self("get", *words, "-o", f"jsonpath={{{path}}}")


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    directory = tmp_path_factory.mktemp("verbs")
    with SandboxPlane(directory / "plane") as plane, Product(plane, directory / "product") as product:
        product.apply(manifest("w1"))
        wait_until_ready(product, "nodepool/default")
        yield product


@pytest.fixture
def web(product: Product, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A namespace with a Deployment of two pods that run."""
    name = f"t{abs(hash(request.node.name)) % 10**8}"
    product.plane.kubectl("create", "namespace", name)
    kubectl = Cluster(product, name)
    kubectl("apply", "-f", "-", stdin=WEB.replace("NAMESPACE", name))
    kubectl("rollout", "status", "deploy/web", "--timeout=60s")
    yield kubectl
    product.plane.kubectl("delete", "namespace", name, "--wait=false")


def test_get_shows_what_is_asked_for_in_every_form(web: Cluster) -> None:
    rows = web("get", "pods").splitlines()
    assert rows[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row.split()[1:4] for row in rows[1:]] == [["1/1", "Running", "0"]] * 2
    wide = web("get", "pods", "-o", "wide")
    assert wide.splitlines()[0].split()[5:7] == ["IP", "NODE"]
    assert "\nkind: Deployment\n" in web("get", "deploy", "web", "-o", "yaml")
    assert json.loads(web("get", "pods", "-o", "json"))["kind"] == "List"
    assert web.field(".status.readyReplicas", "deploy", "web") == "2"
    assert web("get", "pods", "-o", "jsonpath={range .items[*]}{.status.phase} {end}") == "Running Running "
    assert web("get", "pods", "-o", "custom-columns=P:.status.phase").split() == ["P", "Running", "Running"]
    assert web("get", "deploy", "-o", "go-template={{range .items}}{{.metadata.name}}{{end}}") == "web"
    assert web("get", "deploy", "-o", "name").strip() == "deployment.apps/web"
    everywhere = web("get", "pods", "-A", "--no-headers")
    assert everywhere.count(web.namespace) == 2
    assert web("get", "pods", "-l", "app=web", "--no-headers").count("Running") == 2
    assert web("get", "pods", "-l", "app!=web", "--no-headers") == ""
    assert web("get", "pods", "-l", "app in (web,db)", "-o", "name").count("pod/") == 2
    assert "web" in web("get", "pods", "-L", "app").splitlines()[1].split()[-1]
    assert web("get", "pods", "--field-selector=status.phase=Running", "-o", "name").count("pod/") == 2
    assert web("get", "pods", "--field-selector=status.phase!=Running", "-o", "name") == ""
    ordered = web("get", "pods", "--sort-by=.metadata.name", "-o", "name").split()
    assert ordered == sorted(ordered)
    assert web("get", "pods,deploy,rs", "-o", "name").count("/") == 4
    assert "app=web" in web("get", "pods", "--show-labels")
    assert "READY" in web("get", "all")
    assert len(web("get", "pods", "--chunk-size=1", "-o", "name").split()) == 2
    assert "NotFound" in web("get", "pod", "none", fails=True)
    assert "doesn't have a resource type" in web("get", "nonsense", fails=True)
    assert "error parsing" in web("get", "pods", "-o", "jsonpath={.items[", fails=True)


def test_get_nodes_pools_and_claims_show_their_columns(web: Cluster) -> None:
    assert web("get", "nodes").splitlines()[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert "INTERNAL-IP" in web("get", "nodes", "-o", "wide")
    assert "NODECLASS" in web("get", "nodepools")
    claims = web("get", "nodeclaims").splitlines()
    assert claims[0].split()[:4] == ["NAME", "TYPE", "CAPACITY", "ZONE"]
    assert "m5" in claims[1] or "c5" in claims[1]
    assert "READY" in web("get", "ec2nodeclasses")
    for kind in ("events", "endpointslices", "leases", "sa", "configmaps", "csinodes", "controllerrevisions"):
        web("get", kind, "-A")


def test_get_w_follows_what_happens(web: Cluster) -> None:
    web("create", "configmap", "first")
    watching = threading.Timer(1.0, lambda: web("create", "configmap", "second"))
    watching.start()

    shown = web("get", "configmaps", "-w", "--no-headers", "--request-timeout=4s")
    watching.join()

    assert [row.split()[0] for row in shown.splitlines() if row.split()[0] in {"first", "second"}] == [
        "first",
        "second",
    ]


def test_describe_tells_of_pods_nodes_pools_and_workloads(web: Cluster) -> None:
    [pod, _] = web("get", "pods", "-o", "name").split()
    told = web("describe", pod)
    assert "Scheduled" in told
    assert "Successfully assigned" in told
    assert "Node-Selectors:" in told
    node = web.field(".spec.nodeName", pod)
    told = web("describe", "node", node)
    for row in ("Capacity:", "Allocatable:", "Non-terminated Pods:", "Allocated resources:", "Conditions:"):
        assert row in told
    assert "100m" in told.partition("Non-terminated Pods")[2]
    assert "NewReplicaSet" in web("describe", "deploy", "web")
    assert "Controlled By:" in web("describe", "rs")
    assert "Node Class Ref" in web("describe", "nodepool", "default")
    assert "Provider ID" in web("describe", "nodeclaims")
    assert "Subnets" in web("describe", "ec2nodeclass", "default")
    assert "Name:" in web("describe", "namespace", web.namespace)


def test_apply_create_replace_and_diff(web: Cluster) -> None:
    text = WEB.replace("NAMESPACE", web.namespace)
    assert "unchanged" in web("apply", "-f", "-", stdin=text)
    assert "configured" in web("apply", "-f", "-", stdin=text.replace("replicas: 2", "replicas: 1"))
    web("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    assert web.field(".spec.replicas", "deploy", "web") == "2"
    assert "serverside-applied" in web("apply", "--server-side", "-f", "-", stdin=text)
    refused = web(
        "apply",
        "--server-side",
        "--field-manager=other",
        "-f",
        "-",
        stdin=text.replace("replicas: 2", "replicas: 5"),
        fails=True,
    )
    assert 'conflict with "kubectl"' in refused
    assert ".spec.replicas" in refused
    assert "dry run" in web("apply", "--dry-run=server", "-f", "-", stdin=text)
    assert "replicas: 7" in web(
        "diff", "-f", "-", stdin=text.replace("replicas: 2", "replicas: 7"), fails=True
    )
    assert "created" in web("create", "configmap", "c", "--from-literal=a=b")
    assert "already exists" in web("create", "configmap", "c", fails=True)
    assert web.field(".data.a", "configmap", "c") == "b"
    assert "replaced" in web(
        "replace", "-f", "-", stdin="{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: x}}"
    )
    assert web.field(".data.a", "configmap", "c") == "x"
    assert "unknown field" in web("apply", "-f", "-", stdin=text.replace("replicas", "replica"), fails=True)


def test_edit_patch_label_and_annotate(web: Cluster) -> None:
    assert "edited" in web("edit", "deploy", "web", editor="sed -i 's/replicas: 2/replicas: 3/'")
    assert web.field(".spec.replicas", "deploy", "web") == "3"
    assert web("edit", "deploy", "web", editor="true") == ""
    assert "edited" in web("edit", "nodepool", "default", editor='sed -i \'s/cpu: "1000"/cpu: "999"/\'')
    assert web.field(".spec.limits.cpu", "nodepool", "default") == "999"

    web(
        "patch",
        "deploy",
        "web",
        "-p",
        '{"spec":{"template":{"spec":{"containers":[{"name":"web","tty":true}]}}}}',
    )
    assert web.field(".spec.template.spec.containers[0].image", "deploy", "web").startswith("registry")
    web("patch", "deploy", "web", "--type=merge", "-p", '{"metadata":{"labels":{"tier":"front"}}}')
    web("patch", "deploy", "web", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":1}]')
    assert web.field(".metadata.labels.tier", "deploy", "web") == "front"
    assert web.field(".spec.replicas", "deploy", "web") == "1"
    assert "Invalid" in web("patch", "deploy", "web", "-p", '{"spec":{"replicas":-1}}', fails=True)
    web("patch", "deploy", "web", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    assert web.field(".spec.replicas", "deploy", "web") == "2"

    web("label", "deploy", "web", "a=b")
    assert "already has a value" in web("label", "deploy", "web", "a=c", fails=True)
    web("label", "deploy", "web", "a=c", "--overwrite")
    web("label", "deploy", "web", "tier-")
    web("annotate", "deploy", "web", "note=hello")
    assert web.field(".metadata.labels.a", "deploy", "web") == "c"
    assert web.field(".metadata.labels.tier", "deploy", "web") == ""
    assert web.field(".metadata.annotations.note", "deploy", "web") == "hello"
    assert web("label", "pods", "--all", "seen=yes").count("labeled") == 2


def test_scale_and_rollouts(web: Cluster) -> None:
    assert "scaled" in web("scale", "deploy/web", "--replicas=3", "--current-replicas=2")
    assert "Expected replicas" in web(
        "scale", "deploy/web", "--replicas=9", "--current-replicas=2", fails=True
    )
    assert "successfully rolled out" in web("rollout", "status", "deploy/web", "--timeout=60s")
    assert "restarted" in web("rollout", "restart", "deploy/web")
    assert "successfully rolled out" in web("rollout", "status", "deploy/web", "--timeout=60s")
    web("set", "image", "deploy/web", "web=registry.k8s.io/pause:3.9")
    web("rollout", "status", "deploy/web", "--timeout=60s")
    assert len(web("rollout", "history", "deploy/web").strip().splitlines()) == 5
    assert "pause:3.9" in web("rollout", "history", "deploy/web", "--revision=3")
    assert "rolled back" in web("rollout", "undo", "deploy/web")
    web("rollout", "status", "deploy/web", "--timeout=60s")
    assert web.field(".spec.template.spec.containers[0].image", "deploy", "web").endswith(":3.10")
    web("rollout", "undo", "deploy/web", "--to-revision=3")
    assert web.field(".spec.template.spec.containers[0].image", "deploy", "web").endswith(":3.9")
    web("rollout", "pause", "deploy/web")
    assert web.field(".spec.paused", "deploy", "web") == "true"
    web("rollout", "resume", "deploy/web")
    web("rollout", "status", "deploy/web", "--timeout=60s")
    assert "autoscaled" in web("autoscale", "deploy/web", "--min=1", "--max=3")


def test_nodes_are_tainted_cordoned_drained_and_taken_back(web: Cluster) -> None:
    [pod, _] = web("get", "pods", "-o", "name").split()
    node = web.field(".spec.nodeName", pod)
    assert "tainted" in web("taint", "node", node, "dedicated=x:NoSchedule")
    assert '"dedicated"' in web.field(".spec.taints", "node", node)
    assert "untainted" in web("taint", "node", node, "dedicated=x:NoSchedule-")
    assert "cordoned" in web("cordon", node)
    assert "Ready,SchedulingDisabled" in web("get", "node", node)

    said = web("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")

    assert f"node/{node} drained" in said
    assert "evicting pod" in said or "evicted" in said
    web("rollout", "status", "deploy/web", "--timeout=90s")
    assert node not in web("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")
    assert "uncordoned" in web("uncordon", node)


def test_delete_and_wait(web: Cluster) -> None:
    web("wait", "--for=condition=Available", "deploy/web", "--timeout=30s")
    web("wait", "--for=jsonpath={.status.readyReplicas}=2", "deploy/web", "--timeout=30s")
    [pod, _] = web("get", "pods", "-o", "name").split()
    web("delete", pod, "--timeout=30s")
    web("rollout", "status", "deploy/web", "--timeout=60s")
    assert "timed out" in web(
        "wait", "--for=condition=Available=False", "deploy/web", "--timeout=1s", fails=True
    )
    web("create", "configmap", "gone")
    web("delete", "configmap", "gone", "--dry-run=server")
    web("delete", "configmap", "gone", "--now")
    assert "NotFound" in web("delete", "configmap", "gone", fails=True)
    assert web("delete", "configmap", "gone", "--ignore-not-found") == ""
    web("delete", "deploy", "web", "--cascade=foreground", "--timeout=60s")
    assert web("get", "rs,pods", "-o", "name") == ""
    web("wait", "--for=delete", "deploy/web", "--timeout=10s")
    assert web(
        "create",
        "-f",
        "-",
        stdin="{apiVersion: v1, kind: Pod, metadata: {generateName: g-}, spec: {containers: [{name: c, image: i}]}}",
    ).startswith("pod/g-")
    web("delete", "pods", "--all", "--force", "--grace-period=0")


def test_explain_api_resources_auth_and_top(web: Cluster) -> None:
    assert "FIELD: strategy" in web("explain", "deployment.spec.strategy")
    assert "consolidationPolicy" in web("explain", "nodepool.spec.disruption")
    assert "requirements" in web("explain", "nodepools", "--recursive", "--api-version=karpenter.sh/v1")
    listed = web("api-resources", "-o", "wide")
    for word in ("deployments", "nodepools", "ec2nodeclasses", "provisioners", "scaledobjects"):
        assert word in listed
    ours = web("api-resources", "--categories", "karpenter", "-o", "name").split()
    assert {"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "provisioners.karpenter.sh"} <= set(ours)
    assert "karpenter.sh/v1" in web("api-versions").split()
    assert web("auth", "can-i", "create", "pods").strip() == "yes"
    assert web("auth", "can-i", "delete", "nodepools.karpenter.sh").strip() == "yes"
    assert "Resources" in web("auth", "can-i", "--list")
    assert "sandbox-admin" in web("auth", "whoami")
    rows = wait_for(lambda: web("top", "pods", "--no-headers").splitlines(), "pods have figures", 30)
    assert rows[0].split()[1:] == ["100m", "64Mi"]
    assert "CPU(cores)" in web("top", "nodes")
    assert "running at" in web("cluster-info")
    assert "v1.3" in web("version")
    assert "was started; containers are not run in the sandbox" in web("logs", "deploy/web")
    assert "web-" in web("events", "--for", "deployment/web")
