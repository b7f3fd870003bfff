# SPDX-License-Identifier: Apache-2.0
"""Row ``storm``: 2,000 pending pods at once, all of them running in the end, and what that cost in API calls.

Calls are counted twice: by our client, by verb and resource (its metric), and by the API server (audit log, user agent
``karpenter``). Watches are not limited and not counted. The client's rate limit holds if no stretch of time, however
short or long, has more calls than the burst and what the rate adds in it.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from benchmarks.live import workload
from benchmarks.live.moments import Request
from benchmarks.live.placement import settle
from benchmarks.live.report import Outcome, Table
from benchmarks.live.stage import Stage, until

__all__ = ["COUNT", "PROMISE", "excess", "run"]

COUNT: Final = 2000
PROMISE: Final = "all running; the rate limit holds"
_SHAPE: Final = "generic"
_QPS: Final = 200.0
_BURST: Final = 300.0
_AGENT: Final = "karpenter"
_SHOWN: Final = 12


async def run(stage: Stage, options: argparse.Namespace) -> Outcome:
    """Creates the pods, waits until they run, and counts."""
    count: int = options.storm
    await stage.start_model()
    await stage.start_kubelets()
    await stage.start_ours()
    await stage.create(workload.CLASS_PATH, workload.node_class())
    await stage.create(workload.POOL_PATH, workload.pool(_SHAPE))
    await until(lambda: stage.is_ready(workload.POOL_PATH), "the pool is ready")
    before = _sent(await asyncio.to_thread(stage.metrics))
    stage.forget_audit()
    started = time.monotonic()
    await stage.create_all(workload.POD_PATH, workload.pods(_SHAPE, count))
    left = await settle(stage, count)
    seconds = time.monotonic() - started
    sent = _sent(await asyncio.to_thread(stage.metrics)) - before
    requests = [
        each for each in await asyncio.to_thread(stage.audit) if each.agent == _AGENT and each.verb != "watch"
    ]
    nodes = len(await stage.claims())
    await stage.clear()
    return _outcome(sent, requests, nodes, (count, left), seconds)


def excess(moments: Sequence[float], *, rate_per_s: float, burst: float) -> float:
    """Gives by how many calls a limit was passed in the worst stretch of time; negative if it never was.

    As the limit counts: a bucket of ``burst`` that refills at the rate.
    """
    worst, tokens, last = -burst, burst, None
    for at in sorted(moments):
        if last is not None:
            tokens = min(burst, tokens + (at - last) * rate_per_s)
        tokens -= 1
        last = at
        worst = max(worst, -tokens)
    return worst


def _outcome(
    sent: Counter[str], requests: Sequence[Request], nodes: int, pods: tuple[int, int], seconds: float
) -> Outcome:
    count, left = pods
    seen = Counter(_named(each) for each in requests)
    moments = [each.received_at for each in requests]
    peak = max(Counter(int(each) for each in moments).values(), default=0)
    over = excess(moments, rate_per_s=_QPS, burst=_BURST)
    # What waits in the network or the server's queue may arrive bunched: a tenth of the burst is not a storm.
    holds = over <= _BURST / 10
    total = sum(sent.values())
    head = (
        "PODS",
        "RUNNING",
        "S",
        "NODES",
        "CALLS",
        "A NODE",
        "A POD",
        "SERVER SAW",
        "MOST IN 1 S",
        "LIMIT HOLDS",
    )
    row = (
        str(count),
        str(count - left),
        f"{seconds:.0f}",
        str(nodes),
        str(total),
        f"{total / max(nodes, 1):.1f}",
        f"{total / count:.2f}",
        str(sum(seen.values())),
        str(peak),
        "yes" if holds else f"NO, by {over:.0f}",
    )
    calls = [
        (name, str(number), f"{number / max(nodes, 1):.1f}") for name, number in sent.most_common(_SHOWN)
    ]
    data = {
        "pods": count,
        "running": count - left,
        "seconds": round(seconds, 1),
        "nodes": nodes,
        "calls": total,
        "calls_a_node": round(total / max(nodes, 1), 1),
        "sent": dict(sent.most_common()),
        "server_saw": dict(seen.most_common()),
        "most_in_a_second": peak,
        "over_the_limit": round(over, 1),
        "promise": PROMISE,
    }
    return Outcome(
        [
            Table(f"{count:,} pods at once", head, [row]),
            Table("calls by our client", ("CALL", "NUMBER", "A NODE"), calls),
        ],
        data,
    )


def _sent(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    pattern = re.compile(
        r'^karpenter_kube_requests\{resource="([^"]*)",verb="([^"]*)"\} (\S+)$', re.MULTILINE
    )
    for resource, verb, value in pattern.findall(text):
        if verb != "WATCH":
            found[f"{verb} {resource}"] = int(float(value))
    return found


def _named(request: Request) -> str:
    verb = {"create": "POST", "patch": "PATCH", "update": "PUT", "delete": "DELETE"}.get(request.verb, "GET")
    resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    return f"{verb} {resource}"
