# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.unit.controllers.storm import Storm


@pytest.mark.parametrize("within_s", [10.0, 0.1])
async def test_many_notices_are_tainted_at_once_ordered_for_together_and_drained_after(
    within_s: float,
) -> None:
    found = await Storm(40, within_s).run()

    assert found.taint_s[-1] < 5.0
    assert found.drained_early == 0
    assert found.left == 0
    assert 0 < found.plans <= 4
