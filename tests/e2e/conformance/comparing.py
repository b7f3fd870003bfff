# SPDX-License-Identifier: Apache-2.0
"""What differs between two servers' answers, and which of it is known.

The known differences stand in ``docs/reference/sandbox-differences.md``, in a table with the request's name in its
first column and the reason in its second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.conformance.normalising import normal
from tests.e2e.conformance.requests import Request
from tests.e2e.conformance.sending import Answer

__all__ = ["DOCUMENT", "differences", "known", "unlike"]

DOCUMENT = Path(__file__).parents[3] / "docs/reference/sandbox-differences.md"
_ROW = re.compile(r"^\| `([^`]+)` \| (.*?) \|$", re.MULTILINE)


def known() -> dict[str, str]:
    """Gives the reason for each request whose answers are known to differ."""
    return dict(_ROW.findall(DOCUMENT.read_text(encoding="utf-8"))) if DOCUMENT.exists() else {}


def differences(
    requests: list[Request], real: Mapping[str, Answer], ours: Mapping[str, Answer]
) -> dict[str, list[str]]:
    """Gives what differs, by the request's name."""
    told = {request.name: normal(real[request.name]) for request in requests if request.compared}
    return unlike(told, ours)


def unlike(told: Mapping[str, Any], ours: Mapping[str, Answer]) -> dict[str, list[str]]:
    """Gives what differs from answers that are in their normal form already, by the request's name."""
    found = {name: list(_unlike(answer, normal(ours[name]), "")) for name, answer in told.items()}
    return {name: lines for name, lines in found.items() if lines}


def _unlike(real: Any, ours: Any, path: str) -> Iterator[str]:
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted(real.keys() | ours.keys()):
            if key not in ours:
                yield f"{path}.{key}: missing, real has {_short(real[key])}"
            elif key not in real:
                yield f"{path}.{key}: extra {_short(ours[key])}"
            else:
                yield from _unlike(real[key], ours[key], f"{path}.{key}")
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for place, (left, right) in enumerate(zip(real, ours, strict=True)):
            yield from _unlike(left, right, f"{path}[{place}]")
    elif real != ours or type(real) is not type(ours):
        yield f"{path}: real {_short(real)}\n      ours {_short(ours)}"


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) < 700 else text[:700] + "..."
