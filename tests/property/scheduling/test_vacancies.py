# SPDX-License-Identifier: Apache-2.0
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karpenter.scheduling.vacancies import Vacancies

AMOUNTS = st.tuples(st.integers(-3, 9), st.integers(-3, 9))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(free=st.lists(AMOUNTS, max_size=8), asked=AMOUNTS)
def test_nodes_that_hold_a_pod_are_those_with_as_much_of_everything(
    free: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    found = Vacancies(free).holding(asked)

    roomy = [node for node, (cpu, memory) in enumerate(free) if cpu >= asked[0] and memory >= asked[1]]
    assert found == sum(1 << node for node in roomy)


def test_what_was_asked_before_is_known() -> None:
    vacancies = Vacancies([(4, 4), (2, 8)])

    assert vacancies.holding((3, 1)) == vacancies.holding((3, 1)) == 0b01
