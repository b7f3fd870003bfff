# SPDX-License-Identifier: Apache-2.0
from karpenter.kit.clock import FakeClock
from karpenter.kube import Allowance


def test_an_allowance_is_spent_at_once_and_comes_back_with_time() -> None:
    clock = FakeClock()
    allowance = Allowance(clock, rate_per_s=5, burst=2)

    first = [allowance.take() for _ in range(3)]
    clock.tick(0.25)
    second = [allowance.take() for _ in range(2)]
    clock.tick(100)
    third = [allowance.take() for _ in range(3)]

    assert first == [True, True, False]
    assert second == [True, False]
    assert third == [True, True, False]
