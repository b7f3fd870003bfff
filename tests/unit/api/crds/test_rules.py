# SPDX-License-Identifier: Apache-2.0
"""The cases of `cases` before our own schema checks; the end-to-end tests put them before a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.schema.admission import load_crds
from tests.unit.api.crds.cases import ACCEPTED, REFUSED, VALID, Refused, changed


@pytest.mark.parametrize("base", VALID)
def test_a_valid_object_is_accepted(base: str) -> None:
    admission = load_crds().admit(changed(base), strict=True)

    assert admission.accepted, admission.problems


@pytest.mark.parametrize(("base", "path", "value"), ACCEPTED)
def test_a_near_relative_of_a_refused_object_is_accepted(base: str, path: str, value: Any) -> None:
    admission = load_crds().admit(changed(base, path, value), strict=True)

    assert admission.accepted, admission.problems


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_each_rule_refuses_what_it_is_there_for(case: Refused) -> None:
    admission = load_crds().admit(changed(case.base, case.path, case.value))

    assert any(case.message in str(problem) for problem in admission.problems), admission.problems
