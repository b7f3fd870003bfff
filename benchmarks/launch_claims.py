# SPDX-License-Identifier: Apache-2.0
"""Launching many NodeClaims against the EC2 model, throttled as EC2 publishes: `python -m benchmarks.launch_claims`.

The model runs as a program of its own; the provider reaches it by boto3 and environment variables. Measured is the
time from the first order until every claim has its machine and every machine runs, the calls by operation, the share
that was throttled, and doubles: instances beyond one per claim, ever. Real time, so the machine's load shows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.component.aws.stand import CLUSTER, Model, default_class, running_model, simple_claim

from karpenter.cloud.aws.api import BotoAws, CallRecord
from karpenter.cloud.aws.journal import FileJournal
from karpenter.cloud.aws.provider import AwsSettings, connect

__all__ = ["measure"]

PROMISE = "all running, 0 doubles, < 1 % throttled"


async def measure(model: Model, claims: int, *, journal: Path | None) -> dict[str, Any]:
    """Launch the claims and return what was measured.

    Args:
        model: The running model; the environment leads to it.
        claims: How many claims are ordered at once.
        journal: Directory of the launch journal; without it every claim is a request of its own.
    """
    records: list[CallRecord] = []
    aws = BotoAws(on_call=records.append)
    provider = await connect(
        AwsSettings(cluster_name=CLUSTER), aws=aws, journal=FileJournal(journal) if journal else None
    )
    node_class = await default_class(aws)
    records.clear()
    model.do("throttling")  # full buckets, whatever connecting has used
    started = time.monotonic()
    machines = await asyncio.gather(*(provider.create(simple_claim(n), node_class) for n in range(claims)))
    launched_s = time.monotonic() - started
    while len(model.instances("running")) < claims:  # noqa: ASYNC110 - the model has no way to tell us
        await asyncio.sleep(0.5)
    running_s = time.monotonic() - started
    await provider.close()
    aws.close()
    calls = Counter(record.operation for record in records)
    throttled = sum(record.code == "RequestLimitExceeded" for record in records)
    return {
        "claims": claims,
        "launch": "shared, with a journal" if journal else "one request per claim",
        "machines": len({machine.provider_id for machine in machines}),
        "doubles": len(model.instances()) - claims,
        "seconds_until_launched": round(launched_s, 1),
        "seconds_until_running": round(running_s, 1),
        "calls": dict(sorted(calls.items())),
        "throttled_percent": round(100 * throttled / len(records), 2),
        "promise": PROMISE,
    }


def main(arguments: list[str]) -> int:
    """Run the benchmark and print what was measured, as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.launch_claims", description=__doc__)
    parser.add_argument("--claims", type=int, default=1000)
    parser.add_argument("--single", action="store_true", help="one request per claim, without a journal")
    options = parser.parse_args(arguments)
    with running_model() as model, tempfile.TemporaryDirectory() as directory:
        os.environ.update(model.environment)
        journal = None if options.single else Path(directory)
        result = asyncio.run(measure(model, options.claims, journal=journal))
    print(json.dumps(result, indent=2))
    met = result["machines"] == options.claims and not result["doubles"] and result["throttled_percent"] < 1
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
