# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents, run one after the other in a sandbox with the real kubectl, as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.controlplane import find_binaries

_DOCS = Path(__file__).resolve().parents[2] / "docs"
# A block is run if the line above it says so.
_MARKED = re.compile(r"<!-- run in a sandbox -->\n```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PAGES = [page for page in sorted(_DOCS.rglob("*.md")) if _MARKED.search(page.read_text(encoding="utf-8"))]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_work_in_their_order(page: Path, tmp_path: Path) -> None:
    lines = [
        line[2:]
        for block in _MARKED.findall(page.read_text(encoding="utf-8"))
        for line in block.splitlines()
        if line.startswith("$ ")
    ]
    program = tmp_path / "karpenter"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m karpenter "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    # Whatever happens on the way, no process is left behind.
    script = "\n".join(["set -ex", "trap 'karpenter sandbox down || true' EXIT", *lines])
    environ = {
        **os.environ,
        "PATH": f"{tmp_path}:{find_binaries(os.environ).directory}:{os.environ['PATH']}",
        "KARPENTER_SANDBOX_HOME": str(tmp_path / "sandboxes"),
        "HOME": str(tmp_path),
    }

    done = subprocess.run(
        ["/bin/sh", "-c", script], env=environ, capture_output=True, text=True, timeout=360, check=False
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_there_are_pages_to_run() -> None:
    assert _PAGES
