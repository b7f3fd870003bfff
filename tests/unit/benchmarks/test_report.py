# SPDX-License-Identifier: Apache-2.0
import json

from benchmarks.peers.report import Row, render_table
from benchmarks.peers.sides import Outcome


def outcome(*, seconds: float, price: float, nodes: int) -> Outcome:
    return Outcome(
        seconds=seconds,
        wall_s=1.0,
        price_per_hour=price,
        nodes=nodes,
        placed_pods=60,
        unschedulable_pods=0,
        max_rss_mib=70,
        lower_bound_per_hour=None,
    )


GO = outcome(seconds=0.5, price=56.0, nodes=3)
OURS = outcome(seconds=0.1, price=42.0, nodes=17)


def test_a_row_shows_both_sides_their_ratios_and_what_is_missed() -> None:
    row = Row("big:60", 60, GO, OURS, 35.0)

    assert " ".join(row.cells()) == (
        "big:60 60 0.500 0.100 5.0x 600 56.000 42.000 35.000 0.75 1.200 3 17 70 70 <= 37.5 $/h"
    )


def test_a_missing_side_leaves_dashes() -> None:
    only_ours = Row("big:60", 60, None, outcome(seconds=0.1, price=37.0, nodes=17), None)
    only_go = Row("big:60", 60, GO, None, 35.0)

    assert " ".join(only_ours.cells()) == "big:60 60 - 0.100 - 600 - 37.000 - - - - 17 - 70 nothing"
    assert " ".join(only_go.cells()) == "big:60 60 0.500 - - - 56.000 - 35.000 - - 3 - 70 - -"


def test_a_problem_without_a_promise_misses_nothing_and_keeps_nothing() -> None:
    assert Row("big:61", 61, GO, OURS, 35.0).cells()[-1] == "-"


def test_the_table_is_aligned_and_ends_with_the_notes() -> None:
    rows = [Row("big:60", 60, GO, OURS, 35.0), Row("diverse:1000", 1000, None, None, None, ["Go: it hung"])]

    head, first, second, blank, note = render_table(rows).splitlines()

    right_edge = head.index("PODS") + len("PODS")
    assert first[:right_edge].endswith("  60")
    assert second[:right_edge].endswith("  1000")
    assert (blank, note) == ("", "diverse:1000: Go: it hung")


def test_the_json_of_a_row_holds_all_that_was_measured() -> None:
    row = json.loads(json.dumps(Row("big:60", 60, GO, None, 35.0, ["ours: missing"]).as_json()))

    assert row["go"]["price_per_hour"] == 56.0
    assert row["ours"] is None
    assert (row["notes"], row["missed"]) == (["ours: missing"], [])
