# SPDX-License-Identifier: Apache-2.0
"""The reference pages say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.reference import PAGES, main

_DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"


def test_every_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--check"])

    assert code == 0, capsys.readouterr().err


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
