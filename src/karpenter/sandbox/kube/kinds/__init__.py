# SPDX-License-Identifier: Apache-2.0
"""What objects look like, by data: shapes, defaults, rules, versions, and what is special about a kind."""

__all__ = [
    "behaviour",
    "catalogue",
    "checks",
    "defaults",
    "podrules",
    "protobuf",
    "reading",
    "rules",
    "shapes",
    "versions",
]
