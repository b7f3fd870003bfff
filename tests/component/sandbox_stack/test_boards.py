# SPDX-License-Identifier: Apache-2.0
"""Karpenter's published Grafana boards find on a sandbox what they ask for, and deleted pools are shown no more.

`boards.json` has the facts of the boards: which metric each panel asks for, and by which labels. What another program
brings is left out: `job` and `cluster` are labels of the scrape, `node_time_seconds` is the node exporter's.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from karpenter.cli import main
from karpenter.sandbox.stack.calls import KubeApi, text_at
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.record import load
from karpenter.sandbox.stack.replicas import metrics_addresses
from tests.component.sandbox_stack.test_whole import DEPLOYMENT, closing, ready_nodes, root, wait_for

__all__ = ["closing", "root"]

_PANELS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("boards.json").read_text(encoding="utf-8")
)
_POOLS = "/apis/karpenter.sh/v1/nodepools"


class Scrape:
    """What a controller shows now."""

    def __init__(self, address: str) -> None:
        # Asking again and again must leave time for what is waited for.
        time.sleep(0.5)
        text = text_at(address)
        self.samples = [each for family in text_string_to_metric_families(text) for each in family.samples]

    def has(self, panel: dict[str, Any]) -> bool:
        """Tell whether a panel has something to show."""
        return any(
            each.name == panel["metric"]
            and set(panel["labels"]) <= each.labels.keys()
            and panel["where"].items() <= each.labels.items()
            and not math.isnan(each.value)
            for each in self.samples
        )

    def of_pools(self, prefix: str) -> int:
        """Count the series of pools whose name begins so."""
        return sum(each.labels.get("nodepool", "").startswith(prefix) for each in self.samples)


@pytest.mark.timeout(240)
def test_no_panel_is_empty_and_deleted_pools_are_not_shown(
    root: Path, closing: Callable[[KubeApi], KubeApi], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sandbox", "up", "--default-pool", "--speed", "20", "--life", "10m", "-o", "json"]) == 0
    capsys.readouterr()
    record = load(Home(root).record)
    assert record is not None
    api = closing(KubeApi(record.server, record.token, Home(root).authority))
    address = metrics_addresses(Home(root))[0]
    pool = next(each for each in api.items(_POOLS) if each["metadata"]["name"] == "default")
    for number in range(10):
        shape = {key: pool[key] for key in ("apiVersion", "kind", "spec")}
        api.apply({**shape, "metadata": {"name": f"short-{number}"}})
    wait_for(lambda: Scrape(address).of_pools("short-") >= 10, "the pools are shown")
    for number in range(10):
        api.delete(f"{_POOLS}/short-{number}")
    wait_for(lambda: Scrape(address).of_pools("short-") == 0, "the deleted pools are not shown")

    # Two nodes, one of which is not needed any more.
    requests = {"requests": {"cpu": "1500m", "memory": "512Mi"}}
    template = json.loads(json.dumps(DEPLOYMENT["spec"]["template"]))
    template["spec"]["containers"][0]["resources"] = requests
    anti = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    template["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}
    }
    api.apply({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "template": template}})
    wait_for(lambda: len(ready_nodes(api)) >= 2, "two nodes are ready")
    wait_for(lambda: Scrape(address).has(_started()), "the pods have started")
    api.merge(api.path(DEPLOYMENT), {"spec": {"replicas": 1}})
    missing: list[str] = []

    def is_full() -> bool:
        scrape = Scrape(address)
        missing[:] = [f"{each['board']}: {each['panel']}: {each}" for each in _PANELS if not scrape.has(each)]
        return not missing

    try:
        wait_for(is_full, "every panel has something to show", 90)
    except AssertionError as error:
        raise AssertionError("\n".join(missing)) from error


def _started() -> dict[str, Any]:
    return next(each for each in _PANELS if each["metric"] == "karpenter_pods_startup_duration_seconds")
