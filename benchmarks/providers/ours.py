# SPDX-License-Identifier: Apache-2.0
"""Asks our provider, on the same EC2 model: statuses of node classes, instance types, launches, errors and hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from tests.component.aws.classes import desk_for
from tests.component.aws.stand import CLUSTER, Model

from benchmarks.providers.cases import Launch
from karpenter.api.base import to_wire
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.schema.admission import load_crds
from karpenter.api.schema.defaults import apply_defaults
from karpenter.cloud.aws.amis.families import family_of
from karpenter.cloud.aws.api import BotoAws
from karpenter.cloud.aws.codes import (
    classify,
    is_already_there,
    is_not_found,
    is_template_missing,
    is_throttle,
)
from karpenter.cloud.aws.nodeclass.fingerprint import node_class_hash
from karpenter.cloud.aws.provider import AwsProvider, AwsSettings, connect
from karpenter.errors import KarpenterError
from karpenter.model.instancetypes import InstanceType

__all__ = ["Ours", "our_error", "our_hash"]


@dataclass
class Ours:
    """Our provider on a running model; made by ``open``, and closed by its user."""

    model: Model
    aws: BotoAws
    provider: AwsProvider
    classes: list[EC2NodeClass]
    certificate: str
    endpoint: str

    @classmethod
    async def open(cls, model: Model, written: Sequence[Mapping[str, Any]]) -> Ours:
        """Connect, and find out the status of the node classes as our controllers do."""
        aws = BotoAws()
        desk = await desk_for(aws, dry_runs=False)
        classes = []
        for each in written:
            node_class = msgspec.convert(load_crds().admit(each).check(), EC2NodeClass)
            resolved = await desk.resolve(node_class)
            classes.append(msgspec.structs.replace(node_class, status=resolved.status))
        provider = await connect(
            AwsSettings(cluster_name=CLUSTER),
            aws=aws,
            group_of=desk.parts.placement_groups.group_of,
            reservation_count=desk.parts.reservations.counts.room,
        )
        cluster = (await aws.call("eks", "DescribeCluster", name=CLUSTER))["cluster"]
        return cls(
            model, aws, provider, classes, cluster["certificateAuthority"]["data"], cluster["endpoint"]
        )

    async def close(self) -> None:
        """Let go of AWS."""
        await self.provider.close()
        self.aws.close()

    def wire(self, place: int) -> dict[str, Any]:
        """Return a node class with its status, as the API server stores it: with all defaults."""
        definition = load_crds().definition("karpenter.k8s.aws/v1", "EC2NodeClass")
        found: dict[str, Any] = apply_defaults(to_wire(self.classes[place]), definition.node)
        return found

    def case(self, place: int) -> str:
        """Return what cases of a node class are called: its name and its image family."""
        node_class = self.classes[place]
        return f"{node_class.metadata.name}/{family_of(node_class).name}"

    def types(self, place: int) -> tuple[InstanceType, ...]:
        """Return the instance types of a node class."""
        node_class = self.classes[place]
        group = self.provider.launcher.parts.group_of(node_class)
        return self.provider.types.list(node_class, group=group)

    async def launch(self, asked: Launch) -> dict[str, Any]:
        """Launch a claim; return the requests that it made, and what came of it."""
        before = self._calls()
        made: dict[str, Any] = {}
        try:
            machine = await self.provider.create(
                msgspec.convert(asked.claim, NodeClaim), self.classes[asked.node_class]
            )
        except KarpenterError as refused:
            made["error"] = refused.message
        else:
            made["instanceType"] = machine.labels["node.kubernetes.io/instance-type"]
            made["capacityType"] = machine.labels["karpenter.sh/capacity-type"]
        calls = self.model.see(f"calls?operation=CreateFleet&after={before}")["calls"]
        made["fleets"] = [each["parameters"] for each in calls if each["accessKey"] == "model"]
        return made

    def templates(self) -> dict[str, Any]:
        """Return what all launch templates of ours were made of, by name."""
        return {
            each["parameters"]["LaunchTemplateName"]: each["parameters"]
            for each in self.model.calls("CreateLaunchTemplate")
            if each["accessKey"] == "model"
        }

    def _calls(self) -> int:
        return int(self.model.see("calls?operation=none")["count"])


def our_error(case: Mapping[str, str]) -> dict[str, Any]:
    """Return what we make of an error, in the words of the Go program."""
    code = case["code"]
    cause = classify(code, case["message"])
    return {
        "reason": cause.reason,
        "unfulfillable": cause.is_unfulfillable,
        "notFound": is_not_found(code),
        "alreadyExists": is_already_there(code),
        "rateLimited": is_throttle(code),
        "templateNotFound": is_template_missing(code),
    }


def our_hash(node_class: Mapping[str, Any], certificate: str) -> str:
    """Return our hash of a node class."""
    # Read from JSON, as from the API server.
    read = msgspec.json.decode(msgspec.json.encode(node_class), type=EC2NodeClass)
    return node_class_hash(read, ca_bundle=certificate)
