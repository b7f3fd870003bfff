# SPDX-License-Identifier: Apache-2.0
"""Our plans beside those of the Go scheduler, on random problems with every kind of constraint.

The whole table is printed (``-s`` shows it); ``python -m tests.e2e.peer FIRST LAST`` gives it for other seeds.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from benchmarks.peers.toolchain import PeerUnavailableError, build_peer

from tests.e2e.controlplane.binaries import OPTIONAL_VARIABLE
from tests.e2e.peer import EXPLANATIONS, Tally, compared

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SEEDS = range(400)
DIFFERENCES = Path(__file__).parents[2] / "docs" / "reference" / "differences.md"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return build_peer(os.environ, say)
    except PeerUnavailableError as error:
        # As the control plane's programs: left out only where somebody says that it may be.
        (pytest.skip if os.environ.get(OPTIONAL_VARIABLE) == "1" else pytest.fail)(str(error))


@pytest.fixture(scope="module")
def tally(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Tally:
    found = compared(program, SEEDS, tmp_path_factory.mktemp("go"))
    for line in found.lines():
        say(line)
    return found


def test_where_go_places_every_pod_so_do_we_at_no_higher_price_or_the_difference_is_listed(
    tally: Tally,
) -> None:
    assert tally.unexplained == []


def test_most_problems_can_be_compared(tally: Tally) -> None:
    assert tally.errors == []
    assert sum(tally.placed.values()) >= 0.7 * len(SEEDS)
    assert tally.binding >= 0.2 * len(SEEDS)


def test_we_place_more_pods_more_often_than_fewer_and_are_cheaper_more_often_than_dearer(
    tally: Tally,
) -> None:
    assert tally.placed["more"] > 5 * tally.placed["fewer"]
    assert tally.price["lower"] > 5 * tally.price["higher"]


def test_every_explanation_is_a_listed_difference() -> None:
    rows = set(re.findall(r"^\| ([^|]+?) \|", DIFFERENCES.read_text(encoding="utf-8"), re.MULTILINE))

    assert set(EXPLANATIONS) <= rows
