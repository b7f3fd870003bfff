# SPDX-License-Identifier: Apache-2.0
"""The reference pages say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.reference import PAGES

_DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"


def test_every_page_is_current() -> None:
    # In a process of its own: what other tests did to the commands must not show.
    done = subprocess.run(
        [sys.executable, "-m", "tools.reference", "--check"],
        cwd=_DOCS.parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("commands.md", "## `karpenter install aws`"),
        ("settings.md", "| `--batch-idle-duration` | `BATCH_IDLE_DURATION` | `1s` |"),
        ("metrics.md", "karpenter_nodeclaims_created_total"),
        ("kinds.md", "## karpenter.sh/v1 NodePool"),
        ("aws-calls.md", "`ec2:CreateFleet` | changes | launches instances"),
    ],
)
def test_a_page_has_what_people_look_for(page: str, words: str) -> None:
    assert words in (_DOCS / page).read_text(encoding="utf-8")


def test_there_is_a_page_for_each_maker() -> None:
    assert {path.name for path in _DOCS.glob("*.md")} >= set(PAGES)
