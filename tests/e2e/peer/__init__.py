# SPDX-License-Identifier: Apache-2.0
"""The Go scheduler as a second opinion: asked about the same random problems, its plans held against ours.

``python -m tests.e2e.peer FIRST LAST`` prints the table of a range of seeds and every difference that is to be told.
"""

from tests.e2e.peer.asking import GoAnswer, ask_go
from tests.e2e.peer.comparing import EXPLANATIONS, Comparison, Tally, compare
from tests.e2e.peer.running import compared

__all__ = ["EXPLANATIONS", "Comparison", "GoAnswer", "Tally", "ask_go", "compare", "compared"]
