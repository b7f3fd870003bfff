# SPDX-License-Identifier: Apache-2.0
"""The sandbox's Kubernetes API answers as the real one does, but for the differences that the documentation lists."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.conformance.cases import all_requests
from tests.e2e.conformance.comparing import differences, known, unlike
from tests.e2e.conformance.recording import read_recorded
from tests.e2e.conformance.requests import Request
from tests.e2e.conformance.running import answers_of_real, answers_of_sandbox
from tests.e2e.conformance.sending import Answer
from tests.e2e.controlplane import ControlPlane

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

_FEWEST = 300


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    return all_requests()


@pytest.fixture(scope="module")
def answers(
    requests: list[Request], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Mapping[str, Answer], Mapping[str, Answer]]:
    # A plane of its own: its controllers are stopped, and what the requests leave behind would trouble other tests.
    directory: Path = tmp_path_factory.mktemp("conformance")
    with ControlPlane(directory=directory) as plane:
        real = answers_of_real(requests, plane)
    return real, answers_of_sandbox(requests)


def test_there_are_enough_requests_to_call_it_a_comparison(requests: list[Request]) -> None:
    compared = [request for request in requests if request.compared]

    assert len(compared) >= _FEWEST
    assert {request.method for request in compared} == {"GET", "POST", "PUT", "PATCH", "DELETE"}


def test_no_answer_differs_that_is_not_listed(
    requests: list[Request], answers: tuple[Mapping[str, Answer], Mapping[str, Answer]]
) -> None:
    real, ours = answers

    found = differences(requests, real, ours)

    fresh = {name: lines for name, lines in found.items() if name not in known()}
    assert not fresh, "\n".join(f"{name}\n    " + "\n    ".join(lines[:8]) for name, lines in fresh.items())


def test_every_listed_difference_is_still_one(
    requests: list[Request], answers: tuple[Mapping[str, Answer], Mapping[str, Answer]]
) -> None:
    real, ours = answers

    found = differences(requests, real, ours)

    assert sorted(known().keys() - found.keys()) == []


def test_what_was_recorded_is_still_what_a_real_server_says(
    requests: list[Request], answers: tuple[Mapping[str, Answer], Mapping[str, Answer]]
) -> None:
    real, _ = answers

    assert unlike(read_recorded(), real) == {}
    assert read_recorded().keys() == {request.name for request in requests if request.compared}


def test_the_sandbox_never_fails_where_the_real_server_does_not(
    answers: tuple[Mapping[str, Answer], Mapping[str, Answer]],
) -> None:
    real, ours = answers

    worse = [name for name, answer in ours.items() if answer.status >= 500 > real[name].status]

    assert worse == []
