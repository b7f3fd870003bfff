# SPDX-License-Identifier: Apache-2.0
"""What the controller reads of the cluster is incomplete or old: nothing healthy may end for it."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, wait_for
from tests.e2e.scenarios.planes import SandboxPlane
from tests.e2e.scenes import NODE_CLASS, POOL, deployment, events, figure, look_at_model, running
from tests.e2e.stalling import StallingProxy

# The API server takes it, and Python's calendar has no year 0.
YEAR_0 = {
    "type": "Odd",
    "status": "True",
    "reason": "Odd",
    "message": "",
    "lastTransitionTime": "0000-01-01T00:00:00Z",
}
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {minAvailable: 4, selector: {matchLabels: {app: web}}}
"""


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def asked(port: int, path: str) -> tuple[int, str]:
    """Status and body of an answer of the controller."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def silence(port: int) -> str:
    """Return what /readyz says while it refuses because a watch is silent; empty if it does not."""
    status, body = asked(port, "/readyz")
    return body.strip() if status == 503 and "was silent" in body else ""


def states(product: Product) -> list[str]:
    """The states of all instances that ever were."""
    return [each["state"] for each in look_at_model(product, "state")["ec2"]["instances"]]


def uids(product: Product, app: str) -> set[str]:
    """The pods of an app."""
    return {each["metadata"]["uid"] for each in product.get("pods", "-l", f"app={app}")}


def change_status(product: Product, claim: str, *patch: dict[str, Any]) -> None:
    """Patch the status of a claim as a person would."""
    product.plane.kubectl(
        "patch", "nodeclaim", claim, "--subresource=status", "--type=json", "-p", json.dumps(patch)
    )


@pytest.mark.timeout(500)
def test_a_nodeclaim_that_cannot_be_read_keeps_its_instance_across_a_restart(tmp_path: Path) -> None:
    health, metrics = free_port(), free_port()
    settings = {
        "disable-leader-election": "true",
        "health-probe-port": str(health),
        "metrics-port": str(metrics),
    }
    with (
        SandboxPlane(tmp_path / "plane") as plane,
        Product(plane, tmp_path / "product", **settings) as product,
    ):
        product.apply(POOL + "---" + NODE_CLASS + "---" + deployment("web", 2))
        wait_for(lambda: running(product, "web") == 2, "the pods run", 200)
        [claim] = product.get("nodeclaims")
        name, before = claim["metadata"]["name"], uids(product, "web")
        product.end("controller")
        change_status(product, name, {"op": "add", "path": "/status/conditions/-", "value": YEAR_0})

        product.start_controller("second")
        held = "nothing is garbage collected"
        # The rounds after a start are 10 and 20 seconds apart; the instance was ended in the second.
        wait_for(lambda: product.messages("second").count(held) >= 3, "three rounds", 90)
        told = wait_for(lambda: events(product, "Unreadable", name), "it is told on the claim", 30)
        status, body = asked(health, "/readyz")
        counted = asked(metrics, "/metrics")[1]

        figure(f"{held}: {body.strip()}; event: {told[0]}")
        assert states(product) == ["running"]
        assert uids(product, "web") == before
        assert (status, body.splitlines()[0]) == (200, "ok")
        assert f"warning: NodeClaim {name} cannot be read" in body
        assert "lastTransitionTime" in told[0]
        assert 'karpenter_kube_unreadable_objects{resource="nodeclaims"} 1.0' in counted

        added = len(product.get("nodeclaims", name)[0]["status"]["conditions"]) - 1
        change_status(product, name, {"op": "remove", "path": f"/status/conditions/{added}"})
        wait_for(lambda: asked(health, "/readyz") == (200, "ok\n"), "it is read again", 30)
        assert states(product) == ["running"]


@pytest.mark.timeout(600)
def test_a_stalled_watch_of_pods_breaks_no_budget_and_is_shown_after_62_seconds(tmp_path: Path) -> None:
    health = free_port()
    with (
        SandboxPlane(tmp_path / "plane") as plane,
        StallingProxy(plane.url, plane.ca_file, "/api/v1/pods") as proxy,
    ):
        settings = {
            "disable-leader-election": "true",
            "health-probe-port": str(health),
            "kubeconfig": str(proxy.kubeconfig(plane.kubeconfig, tmp_path / "proxied")),
        }
        with Product(plane, tmp_path / "product", **settings) as product:
            product.apply(POOL + "---" + NODE_CLASS + "---" + deployment("first", 1, requests="{cpu: 1500m}"))
            wait_for(lambda: running(product, "first") == 1, "the node is there", 200)
            [claim] = product.get("nodeclaims")
            product.plane.kubectl("delete", "deployment", "first")
            wait_for(lambda: not product.get("pods"), "it is empty", 30)
            time.sleep(2)

            proxy.stall()
            stalled = time.monotonic()
            product.apply(deployment("web", 4, requests="{cpu: 300m}") + "---" + BUDGET)
            wait_for(lambda: running(product, "web") == 4, "the pods run", 60)
            before = uids(product, "web")
            product.plane.kubectl("delete", "nodeclaim", claim["metadata"]["name"], "--wait=false")
            wait_for(lambda: events(product, "FailedDraining"), "the drain is held", 60)
            shown = wait_for(lambda: silence(health), "the silence is shown", 180)

            figure(
                f"seen after {time.monotonic() - stalled:.0f} s: {shown}; {events(product, 'FailedDraining')[0]}"
            )
            assert shown.startswith("the watch of pods was silent for 62 s")
            # A replacement is bought while the drain waits, as always; the instance with the pods runs on.
            assert set(states(product)) == {"running"}
            assert uids(product, "web") == before

            proxy.release()
            product.plane.kubectl("delete", "pdb", "web")
            wait_for(lambda: "running" not in states(product)[:1], "the node is drained and ended", 120)
            wait_for(lambda: asked(health, "/readyz") == (200, "ok\n"), "ready again", 90)
