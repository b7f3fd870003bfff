# SPDX-License-Identifier: Apache-2.0
"""The four kinds of patch, and who owns which field."""

__all__ = ["fieldsets", "managed", "plain", "strategic"]
