# SPDX-License-Identifier: Apache-2.0
"""Runs the load and prints what was measured: `python -m benchmarks.sandbox_load [--nodes N] [--pods N] [-o json]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.console import say
from benchmarks.sandbox_load.counting import Counter
from benchmarks.sandbox_load.programs import Programs, running

_APPS = 10
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_STEADY_S = 20.0
# What one pod asks for on an m5.xlarge, which offers 3920m: ten fit, eleven do not.
_TYPE, _OFFERED_M = "m5.xlarge", 3900


@dataclass(frozen=True)
class Load:
    """What is asked for."""

    nodes: int
    pods: int
    watchers: int
    slow: int
    timeout_s: float

    @property
    def count(self) -> int:
        """How many pods there will be: the same number of each Deployment."""
        return self.pods // _APPS * _APPS

    @property
    def pod_m(self) -> int:
        """Millicores of one pod, so that all nodes are needed."""
        return _OFFERED_M // max(round(self.pods / self.nodes), 1)


def _prepare(programs: Programs) -> None:
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [_TYPE]}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    terms = [{"tags": {"karpenter.sh/discovery": "sandbox"}}]
    programs.send(
        "POST",
        "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "role": "KarpenterNodeRole-sandbox",
                "subnetSelectorTerms": terms,
                "securityGroupSelectorTerms": terms,
            },
        },
    )
    programs.send(
        "POST",
        "/apis/karpenter.sh/v1/nodepools",
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {
                "template": {"spec": {"requirements": [requirement], "nodeClassRef": reference}},
                # What is measured is how nodes come; nobody is to take them away meanwhile.
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
            },
        },
    )


def _is_ready(programs: Programs) -> bool:
    found = programs.send("GET", "/apis/karpenter.sh/v1/nodepools/default")
    conditions = found.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _deployment(place: int, replicas: int, pod_m: int) -> dict[str, Any]:
    name = f"load-{place}"
    requests = {"cpu": f"{pod_m}m", "memory": "64Mi"}
    container = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
        },
    }


async def _until(
    done: Callable[[], bool], programs: Programs, counter: Counter, timeout_s: float, what: str
) -> float:
    """Wait, telling how far everything is; give the seconds."""
    begun = told = time.monotonic()
    while not done():
        now = time.monotonic()
        if programs.ended():
            raise SystemExit(f"{', '.join(programs.ended())} ended; see the logs")
        if now - begun > timeout_s:
            say(f"not within {timeout_s:g} s: {what}")
            return now - begun
        if now - told > 5:
            told = now
            say(f"  {now - begun:5.0f} s  {counter.line()}")
        await asyncio.sleep(0.1)
    return time.monotonic() - begun


async def _measure(programs: Programs, load: Load) -> dict[str, Any]:
    plane = programs.plane
    counter = Counter(plane.url, plane.token, plane.ca_file)
    await asyncio.to_thread(_prepare, programs)
    async with counter.following():
        await _until(lambda: _is_ready(programs), programs, counter, 180, "the pool is ready")
        idle_mib = programs.rss_mib()
        command = [sys.executable, "-m", "benchmarks.sandbox_load.watching", plane.url, plane.token]
        watching = await asyncio.create_subprocess_exec(
            *command,
            str(plane.ca_file),
            str(load.watchers),
            str(load.slow),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        await asyncio.sleep(2)
        measured = await _bring_up(programs, counter, load)
        say(f"all pods are ready; {_STEADY_S:g} s of rest")
        before = programs.cpu_s()
        await asyncio.sleep(_STEADY_S)
        measured["steady_cpu_percent"] = {
            name: round((now - before[name]) / _STEADY_S * 100, 1) for name, now in programs.cpu_s().items()
        }
        measured["rss_mib"], measured["idle_rss_mib"] = programs.rss_mib(), idle_mib
        measured["seconds"]["until_all_pods_were_gone"] = await _take_down(programs, counter, load)
        out, _ = await watching.communicate(b"\n")
        measured["watching"] = json.loads(out)
    return measured


async def _bring_up(programs: Programs, counter: Counter, load: Load) -> dict[str, Any]:
    """Ask for all pods, wait until they are ready, and give what that took."""
    begun, before = time.monotonic(), programs.cpu_s()
    for place in range(_APPS):
        body = _deployment(place, load.pods // _APPS, load.pod_m)
        await asyncio.to_thread(programs.send, "POST", _DEPLOYMENTS, body)
    pods, nodes, claims = (counter.moments[name] for name in ("pods", "nodes", "claims"))
    await _until(
        lambda: len(pods.ready) >= load.count, programs, counter, load.timeout_s, "all pods are ready"
    )
    seconds = {
        "until_the_last_pod_was_made": _last(pods.made, begun),
        "until_the_scheduler_had_refused_the_last_pod": _last(pods.refused, begun),
        "until_the_last_claim_was_made": _last(claims.made, begun),
        "until_the_last_claim_was_launched": _last(claims.bound, begun),
        "until_the_last_node_was_ready": _last(nodes.ready, begun),
        "until_the_last_pod_was_bound": _last(pods.bound, begun),
        "until_the_last_pod_was_ready": _last(pods.ready, begun),
    }
    return {
        "nodes": len(nodes.ready),
        "pods": len(pods.ready),
        "claims": len(claims.made),
        "seconds": seconds,
        "pods_per_s": round(len(pods.ready) / max(seconds["until_the_last_pod_was_ready"], 0.1), 1),
        "controller_behind_s": round(
            seconds["until_the_last_claim_was_made"]
            - seconds["until_the_scheduler_had_refused_the_last_pod"],
            1,
        ),
        "waits": counter.waits_s(),
        "cpu_s": {name: round(now - before.get(name, 0), 1) for name, now in programs.cpu_s().items()},
    }


async def _take_down(programs: Programs, counter: Counter, load: Load) -> float:
    """Delete everything and give the seconds until the last pod was gone."""
    say("taking everything away")
    for place in range(_APPS):
        path = f"{_DEPLOYMENTS}/load-{place}?propagationPolicy=Background"
        await asyncio.to_thread(programs.send, "DELETE", path)
    pods = counter.moments["pods"]
    what = "all pods are gone"
    return round(await _until(lambda: pods.gone >= load.count, programs, counter, load.timeout_s, what), 1)


def _last(moments: dict[str, float], begun: float) -> float:
    return round(max(moments.values(), default=begun) - begun, 1)


def _print_table(measured: dict[str, Any]) -> None:
    rows = [("WHAT", "MEASURED")]
    rows += [
        ("pods", str(measured["pods"])),
        ("nodes ready", str(measured["nodes"])),
        ("claims", str(measured["claims"])),
    ]
    rows += [(name.replace("_", " "), f"{value:.1f} s") for name, value in measured["seconds"].items()]
    rows += [("pods per second, made to ready", str(measured["pods_per_s"]))]
    rows += [("controller behind the scheduler", f"{measured['controller_behind_s']} s")]
    for name, shares in measured["waits"].items():
        told = ", ".join(f"{share} {value}" for share, value in shares.items())
        rows.append((f"a pod waited {name.removesuffix('_s').replace('_', ' ')}", f"{told} s"))
    for name, mib in measured["rss_mib"].items():
        cpu, steady = measured["cpu_s"].get(name, 0), measured["steady_cpu_percent"].get(name, 0)
        idle = measured["idle_rss_mib"].get(name, 0)
        rows.append((name, f"{mib} MiB resident (idle {idle}), {cpu} s of CPU, {steady} % afterwards"))
    seen = measured["watching"]
    parts = ("events", "cut_off", "relisted", "mistakes")
    told = ", ".join(f"{seen[part]} {part.replace('_', ' ')}" for part in parts)
    rows.append((f"{seen['watchers']} watchers, {seen['slow']} slow", told))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name.ljust(width)}  {value}")


def main(arguments: list[str]) -> int:
    """Run the load and print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sandbox_load", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--watchers", type=int, default=50)
    parser.add_argument("--slow", type=int, default=10, help="how many of the watchers are slow")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for each of the two halves")
    parser.add_argument("--logs", type=Path, help="directory for the programs' logs, which stay")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    load = Load(options.nodes, options.pods, options.watchers, options.slow, options.timeout)
    with tempfile.TemporaryDirectory(prefix="karpenter-load-") as temporary:
        directory = options.logs or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        with running(directory) as programs:
            measured = asyncio.run(_measure(programs, load))
    if options.output == "json":
        print(json.dumps(measured, indent=2))
    else:
        _print_table(measured)
    met = measured["pods"] >= load.count and not measured["watching"]["mistakes"]
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
