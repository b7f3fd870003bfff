# SPDX-License-Identifier: Apache-2.0
"""The real server's answers, normalised and kept in a file, so that the comparison also runs where there is no Go.

The file is written by ``python -m tests.e2e.conformance --record``; the end-to-end tests check that it is still what a
real server says.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.conformance.normalising import normal
from tests.e2e.conformance.requests import Request
from tests.e2e.conformance.sending import Answer

__all__ = ["FILE", "read_recorded", "record"]

FILE = Path(__file__).parent / "recorded.json.xz"


def record(requests: list[Request], real: Mapping[str, Answer]) -> None:
    """Writes the answers of a real server down."""
    told = {request.name: normal(real[request.name]) for request in requests if request.compared}
    text = json.dumps(told, separators=(",", ":"), sort_keys=True)
    FILE.write_bytes(lzma.compress(text.encode(), preset=9))


def read_recorded() -> dict[str, Any]:
    """Gives the normalised answers by the request's name."""
    told: dict[str, Any] = json.loads(lzma.decompress(FILE.read_bytes()))
    return told
