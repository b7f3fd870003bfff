# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api import labels as names
from karpenter.controllers.disruption.records import Record, record_of
from tests.unit.state.worlds import claim


def test_what_a_command_wrote_is_read_again() -> None:
    record = Record("id", 1.5, reason="Empty", remove=("c1",))

    found = record_of(claim("c1", metadata={"annotations": {names.DISRUPTION_COMMAND: record.text()}}))

    assert found == record


@pytest.mark.parametrize(
    "text", ["", "{", '{"command":"x"}', '{"command":"x","decided_at":1,"reason":"Because"}']
)
def test_what_was_written_by_others_is_no_record(text: str) -> None:
    assert record_of(claim("c1", metadata={"annotations": {names.DISRUPTION_COMMAND: text}})) is None
