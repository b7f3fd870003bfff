# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from karpenter.kit.quantity import Format, Quantity, QuantityError, parse_milli, parse_quantity, parse_value

SUFFIXES = {
    **{name: Fraction(1000) ** (index - 3) for index, name in enumerate(["n", "u", "m", "", *"kMGTPE"])},
    **{f"{name}i": Fraction(1024) ** (index + 1) for index, name in enumerate("KMGTPE")},
}
NUMBERS = st.from_regex(r"[+-]?(0|[1-9][0-9]{0,7})(\.[0-9]{0,12})?", fullmatch=True)
QUANTITIES = st.builds(Quantity, st.integers(-(10**30), 10**30), st.sampled_from(Format))


def value_of(quantity: Quantity) -> Fraction:
    return Fraction(quantity.nano, 10**9)


@given(NUMBERS, st.sampled_from(sorted(SUFFIXES)))
def test_a_number_is_worth_itself_times_its_suffix_rounded_away_at_the_nano(number: str, suffix: str) -> None:
    exact = Fraction(number.rstrip(".")) * SUFFIXES[suffix]

    read = value_of(parse_quantity(number + suffix))

    limit = 2**63 - 1
    if suffix.endswith("i") and abs(exact) > limit:
        assert abs(read) == limit
    else:
        assert abs(exact) <= abs(read) < abs(exact) + Fraction(1, 10**9)
        assert read * exact >= 0


@given(QUANTITIES)
def test_what_is_printed_reads_back_the_same(quantity: Quantity) -> None:
    capped = quantity.format is Format.BINARY_SI and abs(quantity.nano) > (2**63 - 1) * 10**9

    again = parse_quantity(str(quantity))

    assert again == quantity or capped
    assert again.canonical() == quantity.canonical() or capped


@given(NUMBERS, st.sampled_from(sorted(SUFFIXES)))
def test_the_canonical_form_is_a_fixed_point(number: str, suffix: str) -> None:
    canonical = parse_quantity(number + suffix).canonical()

    assert parse_quantity(canonical).canonical() == canonical
    assert str(parse_quantity(canonical)) == canonical


@given(QUANTITIES, QUANTITIES)
def test_arithmetic_is_that_of_numbers(left: Quantity, right: Quantity) -> None:
    assert value_of(left + right) == value_of(left) + value_of(right)
    assert (left + right) - right == left
    assert left - right == -(right - left)
    assert (left < right) == (value_of(left) < value_of(right))
    assert (left <= right) != (left > right)
    assert (left >= right) != (left < right)


@given(QUANTITIES, st.integers(-15, 20))
def test_scaling_never_gives_less_than_was_asked_for(quantity: Quantity, exponent: int) -> None:
    exact = value_of(quantity) / Fraction(10) ** exponent

    scaled = quantity.scaled(exponent)

    assert abs(exact) <= abs(scaled) < abs(exact) + 1
    assert quantity.scaled(0) == quantity.value()
    assert quantity.scaled(-3) == quantity.milli()


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15))
def test_a_float_is_worth_what_its_shortest_text_says(number: float) -> None:
    exact = Fraction(repr(number))

    read = value_of(parse_quantity(number))

    assert abs(exact) <= abs(read) < abs(exact) + Fraction(1, 10**9)


@given(st.one_of(st.text(max_size=30), st.text(alphabet="0123456789.+-eEinumkKMGTPi ", max_size=12)))
def test_any_text_is_a_quantity_or_refused_and_nothing_else_happens(text: str) -> None:
    with contextlib.suppress(QuantityError):
        quantity = parse_quantity(text)

        assert parse_milli(text) == quantity.milli()
        assert parse_value(text) == quantity.value()
        assert parse_quantity(str(quantity)) == quantity
