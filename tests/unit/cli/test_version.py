# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import platform

import pytest

from karpenter import __version__
from karpenter.cli import main


def test_the_version_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0

    shown = capsys.readouterr().out
    assert shown.startswith(f"karpenter {__version__} (Python {platform.python_version()}, ")
    assert shown.count("\n") == 1


def test_the_version_is_data_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "-o", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["version"] == __version__
    assert found["pythonVersion"] == platform.python_version()
    assert found["platform"].startswith(f"{platform.system().lower()}/")
