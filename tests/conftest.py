# SPDX-License-Identifier: Apache-2.0
"""What holds for every test.

Hypothesis sets no time limit for an example, because machines are shared and noisy. A run tries 40 examples of each
property, so that everything together stays within minutes; ``KARPENTER_PROPERTY_EXAMPLES=5000`` tries more.

A run that a script starts in the background ignores SIGINT, and so would every program that a test starts and
interrupts: the default is restored.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile(
    "unhurried", deadline=None, max_examples=int(os.environ.get("KARPENTER_PROPERTY_EXAMPLES", "40"))
)
settings.load_profile("unhurried")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
