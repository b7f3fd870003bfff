# SPDX-License-Identifier: Apache-2.0
"""The EC2 model as a program of its own, and a provider that reaches it by environment variables alone.

Nothing is patched: the provider makes its boto3 clients as it does in production. ``Remembering`` only spares the
tests from reading a thousand instance types and prices again for each provider; every other call goes out.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from karpenter.api import conditions, labels
from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.ec2nodeclass import (
    AMI,
    AMISelectorTerm,
    EC2NodeClass,
    EC2NodeClassSpec,
    EC2NodeClassStatus,
    SecurityGroup,
    Subnet,
)
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClassRef, Requirement, ResourceRequests
from karpenter.cloud.aws.api import Aws
from karpenter.kit.clock import SystemClock

CLUSTER = "sandbox"
PROFILE = "KarpenterNodeInstanceProfile-sandbox"
REMEMBERED = frozenset(
    {"DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "GetProducts", "DescribeSpotPriceHistory"}
)


@dataclass(frozen=True)
class Model:
    """A running model."""

    url: str
    region: str

    @property
    def environment(self) -> dict[str, str]:
        """All that a process needs to take the model for AWS."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": "model",
            "AWS_SECRET_ACCESS_KEY": "model",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def do(self, action: str, document: Any = None) -> Any:
        """Change the model while it runs."""
        body = json.dumps({} if document is None else document).encode()
        return self._ask(urllib.request.Request(f"{self.url}/_model/{action}", data=body, method="POST"))  # noqa: S310

    def see(self, view: str) -> Any:
        """Look at the model."""
        return self._ask(urllib.request.Request(f"{self.url}/_model/{view}"))  # noqa: S310

    def instances(self, *states: str) -> list[dict[str, Any]]:
        """The instances in these states, or all that ever were."""
        found: list[dict[str, Any]] = self.see("state")["ec2"]["instances"]
        return [each for each in found if not states or each["state"] in states]

    def living(self) -> list[dict[str, Any]]:
        """The instances that cost money."""
        return self.instances("pending", "running")

    def calls(self, operation: str) -> list[dict[str, Any]]:
        """The calls of one operation, in order."""
        found: list[dict[str, Any]] = self.see(f"calls?operation={operation}")["calls"]
        return found

    def _ask(self, request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=15) as answer:  # noqa: S310
                return json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            raise AssertionError(f"{request.full_url}: {refused.read().decode()}") from refused


@contextlib.contextmanager
def running_model(*options: str, region: str = "us-west-2") -> Iterator[Model]:
    """Run ``karpenter sandbox ec2`` for the length of a block."""
    start = "import sys; from karpenter.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "sandbox", "ec2", "--region", region, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            first = process.stdout.readline().strip()
            assert first.startswith("AWS_ENDPOINT_URL="), (first, process.poll())
            yield Model(first.partition("=")[2], region)
        finally:
            process.terminate()
            process.wait(timeout=10)


@dataclass
class Remembering:
    """An ``Aws`` that keeps the answers of the long listings, which no test changes."""

    aws: Aws
    pages_seen: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def region(self) -> str:
        return self.aws.region

    async def call(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        return await self.aws.call(service, operation, **parameters)

    async def pages(
        self, service: str, operation: str, /, **parameters: Any
    ) -> AsyncIterator[dict[str, Any]]:
        if operation not in REMEMBERED:
            async for page in self.aws.pages(service, operation, **parameters):
                yield page
            return
        key = f"{operation} {json.dumps(parameters, sort_keys=True, default=lambda _: '')}"
        if key not in self.pages_seen:
            self.pages_seen[key] = [page async for page in self.aws.pages(service, operation, **parameters)]
        for page in self.pages_seen[key]:
            yield page


async def make_profile(aws: Aws, name: str = PROFILE) -> None:
    """Make the instance profile that node classes of the tests name."""
    profiles = (await aws.call("iam", "ListInstanceProfiles"))["InstanceProfiles"]
    if any(each["InstanceProfileName"] == name for each in profiles):
        return
    await aws.call("iam", "CreateInstanceProfile", InstanceProfileName=name)
    role = f"KarpenterNodeRole-{CLUSTER}"
    await aws.call("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role)


async def found_status(aws: Aws, *parameters: tuple[str, str], generation: int = 1) -> EC2NodeClassStatus:
    """The status that the controllers of node classes would write: what is there, and Ready."""
    ours = [{"Name": "tag:karpenter.sh/discovery", "Values": [CLUSTER]}]
    subnets = (await aws.call("ec2", "DescribeSubnets", Filters=ours))["Subnets"]
    groups = (await aws.call("ec2", "DescribeSecurityGroups", Filters=ours))["SecurityGroups"]
    version = (await aws.call("eks", "DescribeCluster", name=CLUSTER))["cluster"]["version"]
    images = []
    for arch, path in parameters:
        name = path.format(version=version)
        found = (await aws.call("ssm", "GetParameter", Name=name))["Parameter"]["Value"]
        requirement = NodeSelectorRequirement(key=labels.ARCH, operator="In", values=(arch,))
        images.append(AMI(id=found, requirements=(requirement,)))
    types = (*conditions.EC2_NODE_CLASS.dependents, conditions.READY)
    return EC2NodeClassStatus(
        subnets=tuple(
            Subnet(id=each["SubnetId"], zone=each["AvailabilityZone"], zone_id=each["AvailabilityZoneId"])
            for each in subnets
        ),
        security_groups=tuple(SecurityGroup(id=each["GroupId"], name=each["GroupName"]) for each in groups),
        amis=tuple(images),
        conditions=tuple(
            Condition(type=each, status="True", observed_generation=generation) for each in types
        ),
    )


AL2023_PARAMETERS = tuple(
    (
        arch,
        f"/aws/service/eks/optimized-ami/{{version}}/amazon-linux-2023/{name}/standard/recommended/image_id",
    )
    for arch, name in ((labels.AMD64, "x86_64"), (labels.ARM64, "arm64"))
)


async def default_class(aws: Aws, **spec: Any) -> EC2NodeClass:
    """A node class for Amazon Linux 2023, found and ready."""
    await make_profile(aws)
    terms = (AMISelectorTerm(alias="al2023@latest"),)
    return EC2NodeClass(
        metadata=ObjectMeta(name="default", uid="class-default", generation=1),
        spec=EC2NodeClassSpec(**{"ami_selector_terms": terms, "instance_profile": PROFILE, **spec}),
        status=await found_status(aws, *AL2023_PARAMETERS),
    )


def simple_claim(
    number: int,
    *,
    types: tuple[str, ...] = ("c5.large", "m5.large", "m6i.large"),
    capacity: tuple[str, ...] = (labels.ON_DEMAND,),
    annotations: Mapping[str, str] | None = None,
    more: tuple[Requirement, ...] = (),
) -> NodeClaim:
    """A claim for a small machine."""
    uid = f"00000000-0000-4000-8000-{number:012d}"
    return NodeClaim(
        metadata=ObjectMeta(
            name=f"general-{number:05d}",
            uid=uid,
            labels={labels.NODEPOOL: "general"},
            annotations=annotations or {},
        ),
        spec=NodeClaimSpec(
            requirements=(
                Requirement(key=labels.CAPACITY_TYPE, operator="In", values=capacity),
                Requirement(key=labels.INSTANCE_TYPE, operator="In", values=types),
                *more,
            ),
            node_class_ref=NodeClassRef(group=labels.AWS_GROUP, kind="EC2NodeClass", name="default"),
            resources=ResourceRequests(requests={"cpu": "1", "memory": "2Gi"}),
        ),
    )


class JumpingClock(SystemClock):
    """The machine's clock, which a test can put forward: for waits of minutes that no test has."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead_s)
