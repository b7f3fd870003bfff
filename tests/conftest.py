# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: hypothesis sets no time limit for an example, because machines are shared and noisy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
