# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from karpenter.sandbox.stack.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A sandbox's home that is empty yet."""
    made = Home(tmp_path / "sandboxes", "try-1")
    made.make()
    return made
