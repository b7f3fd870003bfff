# SPDX-License-Identifier: Apache-2.0
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.cloud.aws.unavailable import (
    CapacityTypeOut,
    PoolOut,
    SubnetOut,
    Unavailable,
    What,
    ZoneOut,
)
from karpenter.kit.clock import FakeClock

TYPES, ZONES, CAPACITIES = ("m5.large", "c5.large"), ("a", "b"), ("spot", "on-demand")

things = st.one_of(
    st.builds(
        PoolOut,
        st.sampled_from(CAPACITIES),
        st.sampled_from(TYPES),
        st.sampled_from(ZONES),
        st.sampled_from(["", "pg-1"]),
    ),
    st.builds(CapacityTypeOut, st.sampled_from(CAPACITIES)),
    st.builds(SubnetOut, st.sampled_from(["subnet-a", "subnet-b"])),
    st.builds(ZoneOut, st.just("pg-1"), st.sampled_from(ZONES)),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("mark"), things),
        st.tuples(
            st.just("buy"),
            st.tuples(st.sampled_from(CAPACITIES), st.sampled_from(TYPES), st.sampled_from(ZONES)),
        ),
        st.tuples(st.just("wait"), st.integers(1, 2000)),
    ),
    max_size=30,
)


def answers(unavailable: Unavailable) -> dict[tuple[str, str, str, str], bool]:
    return {
        (capacity, kind, zone, group): unavailable.is_out(
            capacity, kind, zone, subnet_ids=[f"subnet-{zone}"], group=group
        )
        for capacity in CAPACITIES
        for kind in TYPES
        for zone in ZONES
        for group in ("", "pg-1")
    }


@settings(deadline=None)
@given(steps)
def test_versions_move_whenever_an_answer_does_and_waits_stay_in_bounds(
    steps: list[tuple[str, What]],
) -> None:
    clock = FakeClock()
    unavailable = Unavailable(clock)
    seen = (unavailable.version, answers(unavailable), {kind: unavailable.version_of(kind) for kind in TYPES})

    for verb, what in steps:
        if verb == "mark":
            assert 180 <= unavailable.mark(what) <= 1800
        elif verb == "buy":
            unavailable.bought(*what)  # type: ignore[misc]
        else:
            clock.tick(float(what))  # type: ignore[arg-type]
        now = (
            unavailable.version,
            answers(unavailable),
            {kind: unavailable.version_of(kind) for kind in TYPES},
        )

        assert now[0] >= seen[0]
        if now[1] != seen[1]:
            assert now[0] != seen[0]
        for kind in TYPES:
            moved = any(now[1][key] != seen[1][key] for key in now[1] if key[1] == kind)
            assert not moved or now[2][kind] != seen[2][kind]
            assert unavailable.concerns(kind) or not any(out for key, out in now[1].items() if key[1] == kind)
        seen = now

    clock.tick(1800)
    assert unavailable.entries() == ()
    assert not any(answers(unavailable).values())


@settings(deadline=None)
@given(steps)
def test_the_same_history_gives_the_same_answers(steps: list[tuple[str, What]]) -> None:
    def run() -> object:
        clock = FakeClock()
        unavailable = Unavailable(clock)
        for verb, what in steps:
            if verb == "mark":
                unavailable.mark(what)
            elif verb == "buy":
                unavailable.bought(*what)  # type: ignore[misc]
            else:
                clock.tick(float(what))  # type: ignore[arg-type]
        return unavailable.entries(), answers(unavailable), unavailable.version

    assert run() == run()
