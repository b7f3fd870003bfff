# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest
from benchmarks.sandbox_load.watching import Seen, verdict


def _seen(*events: tuple[str, str, int]) -> Seen:
    seen = Seen()
    for kind, uid, revision in events:
        line = {"type": kind, "object": {"metadata": {"uid": uid, "resourceVersion": str(revision)}}}
        seen.take_line(msgspec.json.encode(line))
    return seen


def test_a_life_in_order_is_no_mistake() -> None:
    seen = _seen(("ADDED", "a", 5), ("MODIFIED", "a", 6), ("BOOKMARK", "", 8), ("DELETED", "a", 9))

    assert seen.mistakes == []
    assert seen.objects == {}
    assert seen.revision == 9


@pytest.mark.parametrize(
    "events",
    [
        (("ADDED", "a", 5), ("ADDED", "a", 6)),
        (("ADDED", "a", 5), ("MODIFIED", "a", 5)),
        (("ADDED", "a", 5), ("ADDED", "b", 4)),
        (("MODIFIED", "a", 5),),
        (("DELETED", "a", 5),),
        (("BOOKMARK", "", 8), ("ADDED", "a", 7)),
    ],
)
def test_what_comes_twice_too_late_or_out_of_nothing_is_noticed(
    events: tuple[tuple[str, str, int], ...],
) -> None:
    told = verdict([_seen(*events)], 0)

    assert told["mistakes"] == 1
