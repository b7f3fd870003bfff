# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from karpenter.operator.process import prepare_process


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The tests share this process."""
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)


def test_threads_hand_the_interpreter_on_ten_times_as_often() -> None:
    prepare_process()

    assert sys.getswitchinterval() == pytest.approx(0.0005)


def test_the_allocator_gives_back_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda *numbers: told.append(numbers))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)

    prepare_process()

    assert told == [(-8, 2), (-3, 65536), (-1, 262144)]


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())

    prepare_process()
