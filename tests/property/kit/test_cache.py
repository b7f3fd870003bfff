# SPDX-License-Identifier: Apache-2.0
"""The cache against the plainest model: a list of entries in the order of their last setting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import FakeClock

KEYS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 6)),
        st.tuples(st.just("get"), KEYS, st.just(0)),
        st.tuples(st.just("delete"), KEYS, st.just(0)),
        st.tuples(st.just("expire"), KEYS, st.integers(0, 6)),
        st.tuples(st.just("wait"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("sweep"), KEYS, st.just(0)),
    ),
    max_size=40,
)


class Model:
    """Entries as (key, value, life, end of life); the first is the longest untouched."""

    def __init__(self, max_size: int, *, sliding: bool) -> None:
        self.max_size = max_size
        self.sliding = sliding
        self.entries: list[tuple[int, int, int, int]] = []
        self.now = 0

    def alive(self) -> list[tuple[int, int]]:
        return [(key, value) for key, value, _, end in self.entries if end > self.now]

    def drop(self, key: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] != key]

    def put(self, key: int, value: int, life: int) -> None:
        self.drop(key)
        if life > 0:
            self.entries = [*self.entries, (key, value, life, self.now + life)][-self.max_size :]

    def get(self, key: int) -> int | None:
        found = next((entry for entry in self.entries if entry[0] == key), None)
        if found is None or found[3] <= self.now:
            self.drop(key)
            return None
        if self.sliding:
            self.put(key, found[1], found[2])
        return found[1]

    def sweep(self) -> int:
        before = len(self.entries)
        self.entries = [entry for entry in self.entries if entry[3] > self.now]
        return before - len(self.entries)


@given(steps=STEPS, max_size=st.integers(1, 4), sliding=st.booleans())
def test_the_cache_does_what_the_model_does(
    *, steps: list[tuple[str, int, int]], max_size: int, sliding: bool
) -> None:
    clock = FakeClock()
    cache = TTLCache[int, int](clock, ttl_s=3, max_size=max_size, sliding=sliding)
    model = Model(max_size, sliding=sliding)

    for number, (action, key, life) in enumerate(steps):
        if action == "set":
            cache.set(key, number, ttl_s=life)
            model.put(key, number, life)
        elif action == "get":
            assert cache.get(key) == model.get(key)
        elif action == "delete":
            assert cache.delete(key) == (key in dict(model.alive()))
            model.drop(key)
        elif action == "expire":
            value = dict(model.alive()).get(key)
            assert cache.expire(key, in_s=life) == (value is not None)
            if value is None:
                model.drop(key)
            else:
                model.put(key, value, life)
        elif action == "wait":
            clock.tick(key)
            model.now += key
        else:
            assert cache.sweep() == model.sweep()

        assert cache.items() == model.alive()
        assert len(cache) <= max_size
