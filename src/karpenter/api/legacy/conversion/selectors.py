# SPDX-License-Identifier: Apache-2.0
"""The old selector maps as lists of v1 terms.

An old selector is one map: every entry must hold, and a comma list in a value means any of these. A v1
selector is a list of terms of which any may hold, each with single values. So the lists are multiplied out:
ids x names x owners x the values of each tag. Refused is what no list of terms can say: an id together with
anything else (v1 lets an id stand only by itself), more than 30 terms, and an empty entry in a list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

from karpenter.api.legacy.conversion.findings import Journal, RawObject

__all__ = ["MOST_TERMS", "terms_from_selector"]

MOST_TERMS = 30

# The special keys of the old selectors, and the field of a term that each became.
_IDS = ("aws-ids", "aws::ids")
_IMAGE_KEYS = {"aws::name": "name", "aws::owners": "owner"}


def terms_from_selector(
    selector: Mapping[str, str], path: str, journal: Journal, *, images: bool = False
) -> list[RawObject]:
    """Returns the terms that select what the old map selected.

    Args:
        selector: The old map, in the order of the manifest; the terms follow that order.
        path: Where the map stands, for messages.
        journal: Takes the refusals.
        images: Whether this is an amiSelector, which also knows names and owners.

    Returns:
        The terms; empty if the selector is empty or was refused.
    """
    if not selector:
        return []
    special = _IMAGE_KEYS if images else {}
    refusals_before = len(journal.refusals)
    values = {key: _split(value, f"{path}[{key}]", journal) for key, value in selector.items()}
    if len(journal.refusals) > refusals_before:
        return []
    ids = list(dict.fromkeys(id_ for key in _IDS for id_ in values.get(key, ())))
    others = {key: choices for key, choices in values.items() if key not in _IDS}
    if ids and others:
        journal.refuse(
            path,
            f"ids together with {', '.join(others)}: in v1 an id must stand by itself in its term",
            f"an id names exactly one thing already: remove {', '.join(others)}, or the ids",
        )
        return []
    count = len(ids) or math.prod(len(choices) for choices in others.values())
    if count > MOST_TERMS:
        journal.refuse(
            path,
            f"the comma lists multiply out to {count} terms, v1 allows {MOST_TERMS}",
            "give what you select a common tag and select by that",
        )
        return []
    if ids:
        return [{"id": id_} for id_ in ids]
    return [_term(dict(zip(others, choice, strict=True)), special) for choice in product(*others.values())]


def _split(value: str, path: str, journal: Journal) -> list[str]:
    parts = [part.strip() for part in value.split(",")]
    if "" in parts:
        journal.refuse(
            path, f"{value!r} holds an empty value, which selects nothing in v1", 'write "*" for any value'
        )
    return list(dict.fromkeys(parts))


def _term(chosen: Mapping[str, str], special: Mapping[str, str]) -> RawObject:
    term: RawObject = {special[key]: value for key, value in chosen.items() if key in special}
    tags = {key: value for key, value in chosen.items() if key not in special}
    if tags:
        term["tags"] = tags
    return term
