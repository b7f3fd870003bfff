# SPDX-License-Identifier: Apache-2.0
"""What a machine's user data does to the machine itself, as far as it is seen from outside.

The model runs no scripts. One thing is read out of them: a kernel panic on purpose, by which people try out what
happens when an instance fails its status check.
"""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from typing import Any, Final

from karpenter.sandbox.ec2.compute.seam import Params

__all__ = ["panic_after"]

_PANIC: Final = re.compile(rb"echo\s+['\"]?c['\"]?\s*>\s*/proc/sysrq-trigger")
_SLEEP: Final = re.compile(rb"\bsleep\s+(\d+)\b")


def panic_after(data: Params) -> timedelta | None:
    """Return how long after its start a machine panics, by the pauses that its script makes before; None if never."""
    text: Any = base64.b64decode(data.get("UserData") or "")
    panic = _PANIC.search(text)
    if panic is None:
        return None
    return timedelta(seconds=sum(int(each) for each in _SLEEP.findall(text, 0, panic.start())))
