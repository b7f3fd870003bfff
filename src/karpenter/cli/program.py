# SPDX-License-Identifier: Apache-2.0
"""How this program is called, so that what it tells people to type works as it stands."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

__all__ = ["program"]

_NAME = "karpenter"


def program(*, anew: bool = False) -> str:
    """Return the words that run this program: its name where the shell finds it, else its whole path.

    Args:
        anew: Whether they are for a new terminal, in which no virtual environment is active.
    """
    own = Path(sys.prefix) / "bin" / _NAME
    if not own.exists():
        return f"{shlex.quote(sys.executable)} -m {_NAME}"
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if anew and (active := os.environ.get("VIRTUAL_ENV")):
        places = [each for each in places if Path(each) != Path(active) / "bin"]
    found = shutil.which(_NAME, path=os.pathsep.join(places))
    is_own = found is not None and Path(found).resolve() == own.resolve()
    return _NAME if is_own else shlex.quote(str(own))
