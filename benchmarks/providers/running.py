# SPDX-License-Identifier: Apache-2.0
"""Runs the whole comparison: one EC2 model, the Go program and our provider on it, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import boto3
from tests.component.aws.stand import CLUSTER, Model, running_model

from benchmarks.peers.toolchain import Say
from benchmarks.providers.asking import ask_go
from benchmarks.providers.cases import Launch, changed_specs, error_cases, launches, node_classes
from benchmarks.providers.comparing import (
    Tally,
    error_differences,
    hash_differences,
    launch_differences,
    type_differences,
)
from benchmarks.providers.ours import Ours, our_error, our_hash

__all__ = ["Sizes", "compare_providers"]

_REGION: Final = "us-west-2"
_RESERVED: Final = (("m5.xlarge", "us-west-2a", 500), ("c5.2xlarge", "us-west-2b", 500))
_GROUPS: Final[dict[str, dict[str, Any]]] = {
    "near": {"Strategy": "cluster"},
    "apart": {"Strategy": "partition", "PartitionCount": 3},
    "spread": {"Strategy": "spread"},
}


@dataclass(frozen=True)
class Sizes:
    """How much is compared."""

    seed: int = 1
    classes: int = 20
    launches: int = 30


async def compare_providers(program: Path, sizes: Sizes, say: Say) -> Tally:
    """Ask both sides about the same cases and return every difference."""
    with running_model("--no-throttling", region=_REGION) as model, _environment(model):
        written = node_classes(sizes.seed, sizes.classes, _reserve(model), list(_GROUPS))
        _make_groups(model)
        ours = await Ours.open(model, written)
        try:
            say(f"{len(written)} node classes are resolved; asking the Go program ...")
            return await _compare(program, model, ours, launches(sizes.seed, written, sizes.launches), say)
        finally:
            await ours.close()


async def _compare(program: Path, model: Model, ours: Ours, asked: list[Launch], say: Say) -> Tally:
    tally = Tally()
    listed = [ours.types(place) for place in range(len(ours.classes))]
    changed = dict(changed_specs(ours.wire(0)))
    question = {
        "region": _REGION,
        "cluster": {"name": CLUSTER, "endpoint": ours.endpoint, "caBundle": ours.certificate, "dnsIP": ""},
        "types": [ours.wire(place) for place in range(len(ours.classes))],
        "launches": [{"nodeClass": ours.wire(each.node_class), "nodeClaim": each.claim} for each in asked],
        "errors": error_cases(),
        "hashes": list(changed.values()),
    }
    answer = ask_go(program, {**os.environ, **model.environment, "AWS_ACCESS_KEY_ID": "go"}, question)
    say(f"comparing types, {len(asked)} launches, errors and hashes ...")
    for place, (go, mine) in enumerate(zip(answer["types"], listed, strict=True)):
        tally.add(type_differences(ours.case(place), go, mine))
    made = [await ours.launch(each) for each in asked]
    templates = ours.templates()
    for each, go, own in zip(asked, answer["launches"], made, strict=True):
        name = f"{ours.case(each.node_class)}/{each.claim['metadata']['name']}"
        tally.add(launch_differences(name, go, own, answer["templates"], templates))
    for case, go in zip(error_cases(), answer["errors"], strict=True):
        tally.add(error_differences(case, go, our_error(case)))
    hashes = dict(zip(changed, answer["hashes"], strict=True))
    own_hashes = {name: our_hash(each, ours.certificate) for name, each in changed.items()}
    tally.add(hash_differences(ours.case(0), hashes, own_hashes))
    return tally


@contextmanager
def _environment(model: Model) -> Iterator[None]:
    """Lead boto3 to the model for the length of a block."""
    before = dict(os.environ)
    os.environ.update(model.environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _reserve(model: Model) -> list[str]:
    model.do(
        "reservations",
        [{"instanceType": kind, "zone": zone, "count": count} for kind, zone, count in _RESERVED],
    )
    found: list[dict[str, Any]] = _ec2(model).describe_capacity_reservations()["CapacityReservations"]
    return [each["CapacityReservationId"] for each in found]


def _make_groups(model: Model) -> None:
    client = _ec2(model)
    for name, options in _GROUPS.items():
        client.create_placement_group(GroupName=name, **options)


def _ec2(model: Model) -> Any:
    return boto3.client(
        "ec2",
        endpoint_url=model.url,
        region_name=_REGION,
        aws_access_key_id="admin",
        aws_secret_access_key="admin",  # noqa: S106 - the model takes any
    )
