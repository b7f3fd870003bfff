# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
from collections.abc import Sequence

import aiohttp
import pytest

from karpenter.observe import Metrics
from karpenter.operator.probes import Probes, ProbesError


def probes(problem: str = "", metrics_port: int = 0, warnings: Sequence[str] = ()) -> Probes:
    """Probes on loopback."""
    metrics = Metrics()

    async def fill_in() -> None:
        metrics.state_node_count.set(7)

    return Probes(
        metrics,
        problem=lambda: problem,
        warnings=lambda: warnings,
        before_metrics=fill_in,
        metrics_port=metrics_port,
        health_port=0,
        host="127.0.0.1",
    )


async def asked(port: int, path: str) -> tuple[int, str]:
    """Status and body of an answer."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_a_replica_that_is_ready_says_so() -> None:
    async with probes() as up:
        alive, ready = await alive_and(up), await asked(up.ports["health"], "/readyz")

    assert alive == ready == (200, "ok\n")


async def alive_and(up: Probes) -> tuple[int, str]:
    """The answer of /healthz."""
    return await asked(up.ports["health"], "/healthz")


async def test_a_replica_that_is_not_ready_lives_and_says_why() -> None:
    async with probes("waiting for the first list of pods") as up:
        alive, ready = await alive_and(up), await asked(up.ports["health"], "/readyz")

    assert alive[0] == 200
    assert ready == (503, "waiting for the first list of pods\n")


async def test_metrics_are_filled_in_when_they_are_asked_for() -> None:
    async with probes() as up:
        status, text = await asked(up.ports["metrics"], "/metrics")

    assert status == 200
    assert "karpenter_cluster_state_node_count 7.0" in text


async def test_a_port_that_is_taken_is_named_with_the_flag_to_change_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ProbesError, match=f"port {port} cannot be used") as caught:
            async with probes(metrics_port=port):
                pass

    assert "--metrics-port" in caught.value.hint


async def test_what_a_person_must_mend_is_named_and_does_not_fail_the_probe() -> None:
    async with probes(warnings=["NodeClaim a cannot be read"]) as up:
        answer = await asked(up.ports["health"], "/readyz")

    assert answer == (200, "ok\nwarning: NodeClaim a cannot be read\n")
