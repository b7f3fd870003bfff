# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.component.aws.conftest import Connect
from tests.component.aws.stand import Model, Remembering, default_class
from tests.component.aws.victim import KILLED, Config

_TYPES = ("c5.large", "m5.large", "m6i.large")


def _small(pages: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The listings with only the types that the claims name, so that a child starts at once."""
    small: dict[str, list[dict[str, Any]]] = {}
    for key, seen in pages.items():
        field = key.partition(" ")[0].removeprefix("Describe").removesuffix("s") + "s"
        if field not in {"InstanceTypes", "InstanceTypeOfferings"}:
            small[key] = [{}]
            continue
        items = [item for page in seen for item in page[field] if item["InstanceType"] in _TYPES]
        small[key] = [{field: items}]
    return small


async def _sweep(
    model: Model, aws: Remembering, connected: Connect, directory: Path, **options: Any
) -> list[dict[str, Any]]:
    await connected()
    config = Config(
        url=model.url,
        region=model.region,
        directory=str(directory / "claims"),
        pages=str(directory / "pages"),
        node_class=await default_class(aws),
        **options,
    )
    (directory / "pages").write_bytes(pickle.dumps(_small(aws.pages_seen)))
    (directory / "claims").mkdir()
    # Restarted controllers find what is left of their predecessor before EC2's lists show it.
    model.do("settings", {"launchLagSeconds": 1.5})
    model.do("throttling", {"enabled": False})
    ran = subprocess.run(  # noqa: ASYNC221 - nothing else runs meanwhile
        [sys.executable, "-m", "tests.component.aws.victim", msgspec.json.encode(config).decode()],
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def _assert_once_each(lines: list[dict[str, Any]], claims: int) -> None:
    for line in lines:
        told = {name: line[name] for name in ("claims", "launched", "living", "leaked", "missing")}
        expected = {"claims": claims, "launched": claims, "living": claims, "leaked": 0, "missing": 0}
        assert told == expected, line
    assert lines[0]["codes"] == [0]
    assert all(line["codes"][1] == 0 for line in lines[1:]), lines
    killed = [line for line in lines[1:] if line["codes"][0] == KILLED]
    # Threads answer in any order, so a late turn may come after the end; every call and write must be met.
    assert len(killed) >= 0.8 * (len(lines) - 1)


@pytest.mark.timeout(400)
async def test_a_batch_killed_at_any_call_or_write_is_launched_once_each(
    model: Model, aws: Remembering, connected: Connect, tmp_path: Path
) -> None:
    lines = await _sweep(model, aws, connected, tmp_path, claims=3, journal=True)

    _assert_once_each(lines, 3)
    names = [line["point"] for line in lines]
    for point in ("CreateFleet", "CreateLaunchTemplate", "intent", "assignment", "status"):
        assert f"before {point}" in names
        assert f"after {point}" in names


@pytest.mark.timeout(400)
async def test_a_single_launch_killed_at_any_call_or_write_happens_once(
    model: Model, aws: Remembering, connected: Connect, tmp_path: Path
) -> None:
    lines = await _sweep(model, aws, connected, tmp_path, claims=1, journal=False)

    _assert_once_each(lines, 1)
    assert "after CreateFleet" in [line["point"] for line in lines]


@pytest.mark.timeout(400)
async def test_a_batch_killed_between_any_two_awaits_is_launched_once_each(
    model: Model, aws: Remembering, connected: Connect, tmp_path: Path
) -> None:
    # `KARPENTER_KILL_TURNS=1:60:1` meets every turn (there are about 37); without it every second one is met.
    first, last, step = (int(part) for part in os.environ.get("KARPENTER_KILL_TURNS", "1:36:2").split(":"))

    lines = await _sweep(
        model, aws, connected, tmp_path, claims=3, journal=True, turns=tuple(range(first, last, step))
    )

    _assert_once_each(lines, 3)


@pytest.mark.timeout(400)
async def test_the_sweep_notices_a_journal_that_forgets_and_tokens_that_differ(
    model: Model, aws: Remembering, connected: Connect, tmp_path: Path
) -> None:
    lines = await _sweep(
        model, aws, connected, tmp_path, claims=2, journal=True, without=("journal", "token")
    )

    assert any(line["launched"] > 2 and line["leaked"] for line in lines), lines
