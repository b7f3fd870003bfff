# SPDX-License-Identifier: Apache-2.0
"""The sandbox answers as a real server was recorded to answer, but for the differences that are listed."""

from __future__ import annotations

import pytest

from tests.e2e.conformance.cases import all_requests
from tests.e2e.conformance.comparing import known, unlike
from tests.e2e.conformance.recording import read_recorded
from tests.e2e.conformance.running import answers_of_sandbox


@pytest.mark.timeout(60)
def test_no_answer_differs_from_the_recorded_ones_unless_it_is_listed() -> None:
    ours = answers_of_sandbox(all_requests())

    found = unlike(read_recorded(), ours)

    assert {name: lines[:4] for name, lines in found.items() if name not in known()} == {}
    assert sorted(known().keys() - found.keys()) == []
