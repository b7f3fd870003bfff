# SPDX-License-Identifier: Apache-2.0
"""Calls handlers of a small world directly, without HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from karpenter.sandbox.ec2 import services
from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.contract import Request, Waiting
from karpenter.sandbox.ec2.seeds import seeded
from karpenter.sandbox.ec2.world import Options, World

START = datetime(2026, 1, 1, tzinfo=UTC)
_HANDLERS = services.handlers()


def a_world(**options: Any) -> World:
    """Gives a seeded world whose clock stands still."""
    return seeded(ModelClock.fixed(START), Options(**options))


def ask(world: World, service: str, operation: str, access_key: str = "key", **parameters: Any) -> Any:
    """Calls one handler as a boto3 user would."""
    request = Request(service, operation, access_key, world.region, "request", world.clock.now(), world)
    answer: Mapping[str, Any] | Waiting = _HANDLERS[service][operation](request, parameters)
    return answer
