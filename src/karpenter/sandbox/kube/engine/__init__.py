# SPDX-License-Identifier: Apache-2.0
"""The verbs, over one store and one catalogue."""

__all__ = [
    "admission",
    "admitting",
    "bodies",
    "calls",
    "definitions",
    "deleting",
    "engine",
    "lists",
    "patches",
    "reviews",
    "subresources",
]
