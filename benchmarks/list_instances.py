# SPDX-License-Identifier: Apache-2.0
"""How long the EC2 model takes to list 5,000 instances, and the package its public facts to load.

The listing is what the model does for one DescribeInstances, XML included, without the network. The yardstick is the
same listing for the first time, when every instance has to be launched and rendered.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from benchmarks.measure import Row, best_cpu_ms, peak_mib
from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.front.schema import service
from karpenter.sandbox.ec2.front.serialise import render_result
from karpenter.sandbox.ec2.seeds import seeded
from karpenter.sandbox.ec2.world import Options, World

__all__ = ["run"]

INSTANCES: Final = 5_000
_LOAD: Final = """
import time
from karpenter import facts
began = time.process_time()
facts.instance_types()
for region in facts.regions():
    facts.zones(region), facts.offered(region), facts.on_demand_prices(region)
print(1000 * (time.process_time() - began))
"""


def run() -> list[Row]:
    """Measure both."""
    world = _world()
    return [
        Row(
            benchmark="list-instances",
            what=f"{INSTANCES:,} instances of the EC2 model",
            cpu_ms=best_cpu_ms(lambda: _list(world), rounds=3),
            yardstick_ms=best_cpu_ms(lambda: _list(_world()), rounds=1),
            peak_mib=peak_mib(lambda: _list(world)),
            promise="<= 500 ms CPU",
        ),
        Row(
            benchmark="load-facts",
            what="all tables of public facts",
            cpu_ms=min(_load_ms() for _ in range(3)),
            yardstick_ms=_load_ms(),
            peak_mib=0.0,
            promise="<= 100 ms CPU",
        ),
    ]


def _world() -> World:
    world = seeded(ModelClock(), Options())
    ec2 = world.ec2
    subnets = ec2.call("DescribeSubnets")["Subnets"]
    image = ec2.call("DescribeImages", Owners=["amazon"])["Images"][0]["ImageId"]
    data = {"ImageId": image, "InstanceType": "m5.large"}
    ec2.call("CreateLaunchTemplate", LaunchTemplateName="bench", LaunchTemplateData=data)
    overrides = [{"SubnetId": each["SubnetId"]} for each in subnets]
    template = {"LaunchTemplateName": "bench", "Version": "$Latest"}
    for _ in range(INSTANCES // 1000):
        ec2.call(
            "CreateFleet",
            Type="instant",
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": template, "Overrides": overrides}],
            TargetCapacitySpecification={
                "TotalTargetCapacity": 1000,
                "DefaultTargetCapacityType": "on-demand",
            },
        )
    world.advance(60)
    return world


def _list(world: World) -> None:
    answer = world.ec2.call("DescribeInstances")
    operation = service("ec2").operations["DescribeInstances"]
    text = render_result(service("ec2"), operation, answer)
    assert text.count("<instanceId>") == INSTANCES


def _load_ms() -> float:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", _LOAD], check=True, capture_output=True, text=True
    )
    return float(done.stdout)
