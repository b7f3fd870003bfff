# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from karpenter.cli import main
from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.lifecycle import Stack
from karpenter.sandbox.stack.record import Record, load


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Record]:
    """A sandbox of its own; it does not outlive the test."""
    monkeypatch.setenv("KARPENTER_SANDBOX_HOME", str(tmp_path))
    try:
        assert main(["sandbox", "up", "--speed", "10", "--life", "10m"]) == 0
        found = load(Home(tmp_path).record)
        assert found is not None
        yield found
    finally:
        home = Home(tmp_path)
        if home.record.exists():
            Stack(home).down(keep=False)
