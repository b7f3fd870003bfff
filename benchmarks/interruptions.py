# SPDX-License-Identifier: Apache-2.0
"""A flood of interruption messages through the EC2 model's queue: `python -m benchmarks.interruptions`.

The model runs as a program of its own and is reached by boto3. Of the messages some are right, the rest are duplicates
(with the same and with other event ids), garbage, kinds that nobody knows, other accounts and regions, and instances
that are none of ours. One handler call in a hundred fails and must be told again. Measured is the rate from the first
receiving until only what failed is left; promised is that each right one is acted on exactly once, none is lost and
nothing crashes. Real time, so the machine's load shows. With --unlimited our own request limit is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import boto3
from tests.component.aws.stand import CLUSTER, Model, running_model

from karpenter.cloud.aws.api import BotoAws
from karpenter.cloud.aws.calls import Limit
from karpenter.cloud.aws.discovery import Account
from karpenter.cloud.aws.interruption import Actor, Interruption, InterruptionQueue, PollReport, Verdict
from karpenter.cloud.aws.ratelimit import Bucket
from karpenter.kit.clock import SystemClock

__all__ = ["measure"]

PROMISE = "each right one acted on once, none lost, none crashes"

_KINDS = (
    ("aws.ec2", "EC2 Spot Instance Interruption Warning", "spot_interrupted"),
    ("aws.ec2", "EC2 Instance Rebalance Recommendation", "rebalance_recommendation"),
    ("aws.ec2", "EC2 Instance State-change Notification", "instance_terminated"),
    ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", "capacity_reservation_interrupted"),
    ("aws.health", "AWS Health Event", "scheduled_change"),
)
_GARBAGE = (
    "",
    "hello",
    "{",
    "[]",
    "null",
    '{"version": "0"}',
    '{"detail": ' * 200,
    "\u0000\ufffd",
    "x" * 5000,
)


@dataclass
class Flood:
    """Messages, and what must come of them."""

    account: str
    region: str
    random: Random
    bodies: list[str] = field(default_factory=list)
    expected: set[tuple[str, str]] = field(default_factory=set)

    def event(self, kind: int, instance_id: str, **more: Any) -> str:
        """One event of our account."""
        source, detail_type, _ = _KINDS[kind]
        detail: dict[str, Any] = {"instance-id": instance_id, "state": "terminated"}
        if source == "aws.health":
            detail = {
                "service": "EC2",
                "eventTypeCategory": "scheduledChange",
                "affectedEntities": [{"entityValue": instance_id}],
            }
        return json.dumps(
            {
                "version": "0",
                "id": f"{self.random.getrandbits(64):016x}",
                "detail-type": detail_type,
                "source": source,
                "account": self.account,
                "region": self.region,
                "time": "2026-01-01T00:00:00Z",
                "detail": detail,
                **more,
            }
        )

    def fill(self, count: int) -> None:
        """Make so many messages, in a random order that is the same in every run."""
        right, repeated = count * 40 // 100, count * 25 // 100
        pairs = [(number % len(_KINDS), f"i-{number // len(_KINDS):017x}") for number in range(right)]
        self.expected = {(_KINDS[kind][2], instance_id) for kind, instance_id in pairs}
        rights = [self.event(kind, instance_id) for kind, instance_id in pairs]
        again = self.random.choices(range(right), k=repeated)
        twins = [rights[each] if each % 2 else self.event(*pairs[each]) for each in again]
        strangers = [
            self.event(number % len(_KINDS), f"i-f{number:016x}") for number in range(count * 10 // 100)
        ]
        foreign = [
            self.event(0, f"i-{number:017x}", **({"account": "999"} if number % 2 else {"region": "mars-1"}))
            for number in range(count * 5 // 100)
        ]
        unknown = [
            self.event(0, f"i-{number:017x}", **{"detail-type": f"Kind {number % 50}"})
            for number in range(count * 10 // 100)
        ]
        made = rights + twins + strangers + foreign + unknown
        made += [self.random.choice(_GARBAGE) or " " for _ in range(count - len(made))]
        self.random.shuffle(made)
        self.bodies = made


@dataclass
class Claims:
    """Stands for the controller: knows its own instances, acts once each, fails now and then."""

    flood: Flood
    acted: Counter[tuple[str, str]] = field(default_factory=Counter)
    strangers: int = 0
    calls: int = 0

    async def handle(self, interruption: Interruption) -> None:
        """Act on what is ours."""
        self.calls += 1
        await asyncio.sleep(0)
        if self.calls % 100 == 0:
            raise RuntimeError("the API server is away")
        for instance_id in interruption.instance_ids:
            if instance_id.startswith("i-f"):
                self.strangers += 1
            else:
                self.acted[interruption.kind.value, instance_id] += 1


@dataclass
class Log:
    """What the reader reports, and when it last received something."""

    reports: list[PollReport] = field(default_factory=list)
    deleted: int = 0
    last_at: float = 0.0

    def note(self, report: PollReport) -> None:
        """Take in one report."""
        self.reports.append(report)
        self.deleted += report.deleted
        if report.count:
            self.last_at = time.monotonic()


def send(model: Model, bodies: list[str]) -> None:
    """Put all messages into the queue."""
    for start in range(0, len(bodies), 500):
        model.do("actions", [{"message": {"body": body}} for body in bodies[start : start + 500]])


async def measure(model: Model, count: int, *, unlimited: bool = False) -> dict[str, Any]:
    """Send the messages, read the queue until it is empty, and return what was measured.

    Args:
        model: The running model; the environment leads to it.
        count: How many messages.
        unlimited: Whether requests go out as fast as they can.
    """
    clock = SystemClock()
    fast = {limit: Bucket(clock, rate_per_s=1e6, burst=1e6) for limit in Limit}
    aws = BotoAws(limits=fast if unlimited else None)
    flood = Flood(await Account(aws, clock, cluster_name=CLUSTER).id(), aws.region, Random(7))  # noqa: S311 - the same flood in every run
    flood.fill(count)
    send(model, flood.bodies)
    claims, log = Claims(flood), Log()
    queue = InterruptionQueue(
        aws, clock, Actor(claims.handle, clock), queue_name=CLUSTER, verify=_all_fit, on_poll=log.note
    )
    started = log.last_at = time.monotonic()
    reader = asyncio.create_task(queue.run())
    read_s, read, turns = 0.0, 0, 0
    while not reader.done() and log.deleted < count and turns < 50:
        await asyncio.sleep(0.2)
        if time.monotonic() - log.last_at > 2:
            read_s, read = (read_s, read) if read_s else (log.last_at - started, log.deleted)
            # What failed is hidden for 20 seconds of the model's time.
            model.do("clock", {"advanceSeconds": 21})
            log.last_at = time.monotonic()
            turns += 1
    read_s, read = (read_s, read) if read_s else (log.last_at - started, log.deleted)
    crashed = reader.done()
    reader.cancel()
    aws.close()
    rate = round(read / read_s) if read_s else 0
    return _result(flood, claims, log.reports, rate, crashed=crashed, left=_left(model))


async def _all_fit(interruption: Interruption) -> Verdict:
    # The flood names instances that the model never had; reading the queue is what is measured here.
    return Verdict(interruption.instance_ids)


def _left(model: Model) -> int:
    client = boto3.client("sqs", region_name=model.region)
    url = client.get_queue_url(QueueName=CLUSTER)["QueueUrl"]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    told = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(value) for value in told.values())


def _result(
    flood: Flood,
    claims: Claims,
    reports: list[PollReport],
    messages_per_second: int,
    *,
    crashed: bool,
    left: int,
) -> dict[str, Any]:
    ignored: Counter[str] = Counter()
    for report in reports:
        ignored.update(report.ignored)
    return {
        "messages": len(flood.bodies),
        "right": len(flood.expected),
        "acted_on": len(claims.acted.keys() & flood.expected),
        "acted_on_twice": sum(times > 1 for times in claims.acted.values()),
        "acted_on_wrongly": len(claims.acted.keys() - flood.expected),
        "lost": len(flood.expected - claims.acted.keys()),
        "duplicates": sum(report.duplicates for report in reports),
        "instances_of_others": claims.strangers,
        "ignored": dict(sorted(ignored.items())),
        "handler_failures": sum(len(report.failures) for report in reports),
        "parked": sum(len(report.parked) for report in reports),
        "left_in_queue": left,
        "crashed": crashed,
        "messages_per_second": messages_per_second,
        "promise": PROMISE,
    }


def main(arguments: list[str]) -> int:
    """Run the benchmark and print what was measured, as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interruptions", description=__doc__)
    parser.add_argument("--messages", type=int, default=15_000)
    parser.add_argument("--unlimited", action="store_true", help="without our own request limit")
    options = parser.parse_args(arguments)
    with running_model() as model:
        os.environ.update(model.environment)
        result = asyncio.run(measure(model, options.messages, unlimited=options.unlimited))
    print(json.dumps(result, indent=2))
    wrong = ("acted_on_twice", "acted_on_wrongly", "lost", "parked", "left_in_queue", "crashed")
    return 0 if not any(result[each] for each in wrong) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
