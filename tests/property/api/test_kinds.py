# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karpenter.api.crds.kinds import KINDS
from tests.property.api.strategies import anything

TYPES = [version.type for kind in KINDS for version in kind.versions]


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_object_survives_the_way_over_the_wire(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    value: Any = data.draw(anything(kind))

    back = msgspec.json.decode(msgspec.json.encode(value), type=kind)

    assert back == value
