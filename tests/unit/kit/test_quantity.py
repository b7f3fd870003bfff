# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from karpenter.kit.quantity import (
    Format,
    Quantity,
    QuantityError,
    SuffixMistake,
    parse_milli,
    parse_quantity,
    parse_value,
    suffix_mistake,
)

ROWS: list[list[Any]] = json.loads((Path(__file__).parent / "vectors" / "quantity.json").read_text())
ACCEPTED = [row for row in ROWS if row[1] is not None]
REFUSED = [row[0] for row in ROWS if row[1] is None]


def test_there_are_enough_vectors_of_both_kinds() -> None:
    assert len(ACCEPTED) >= 200
    assert len(REFUSED) >= 80


@pytest.mark.parametrize("row", ACCEPTED, ids=lambda row: repr(row[0]))
def test_a_text_means_what_it_means_to_kubernetes(row: list[Any]) -> None:
    text, unit_format, printed, canonical, value, milli = row

    quantity = parse_quantity(text)

    assert quantity.format.value == unit_format
    assert str(quantity) == printed
    assert quantity.canonical() == canonical
    assert value in (None, quantity.value())
    assert milli in (None, quantity.milli())


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_a_text_that_kubernetes_refuses_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    assert "quantity" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (2, "2"),
        (0, "0"),
        (-3, "-3"),
        (0.5, "500m"),
        (1000.0, "1k"),
        (1e22, "10e21"),
        (1e21, "1e+21"),
        (1e-7, "100e-9"),
    ],
)
def test_numbers_from_json_and_yaml_are_quantities(raw: float, expected: str) -> None:
    assert str(parse_quantity(raw)) == expected


@pytest.mark.parametrize("raw", [True, None, [], float("inf"), float("nan")], ids=repr)
def test_what_is_neither_text_nor_number_is_refused(raw: Any) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(raw)

    assert caught.value.hint


@pytest.mark.parametrize(
    "raw",
    ["1e1000", "1e-1000", "1e999999999", "9" * 1001, "0." + "1" * 1001, 10**400],
    ids=lambda raw: str(raw)[:9],
)
def test_numbers_made_to_exhaust_memory_are_refused(raw: str | int) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(raw)

    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("512MB", 'write "512Mi" (powers of 1024) or "512M" (powers of 1000)'),
        ("1K", 'write "1Ki" (powers of 1024) or "1k" (powers of 1000)'),
        ("1.5gi", 'write "1.5Gi" (powers of 1024) or "1.5G" (powers of 1000)'),
        (" 1 Gi", 'write "1Gi"'),
        ("2 cores", 'write "2"'),
        ("1,5", 'write "1.5"'),
    ],
)
def test_the_hint_says_what_was_probably_meant(text: str, hint: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    assert caught.value.hint == hint


@pytest.mark.parametrize("text", ["1parsec", "many", "1Mi3"])
def test_without_a_guess_the_hint_shows_the_form(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    assert '"500m"' in caught.value.hint


def test_sums_are_exact() -> None:
    tenth = parse_quantity("0.1")

    total = tenth + tenth + tenth

    assert total == parse_quantity("300m")
    assert str(total - tenth) == "200m"
    assert str(-total) == "-300m"


def test_zero_takes_the_format_of_what_is_added_or_taken_away() -> None:
    zero = parse_quantity("0")
    gibibyte = parse_quantity("1Gi")

    assert str(zero + gibibyte) == "1Gi"
    assert str(zero - gibibyte) == "-1Gi"
    assert str(gibibyte + parse_quantity("1M")) == "1074741824"
    assert str(gibibyte - parse_quantity("24")) == "1073741800"


def test_a_sum_is_printed_anew_and_not_as_it_was_written() -> None:
    written = parse_quantity("+1.500")

    assert str(written) == "+1.500"
    assert str(written + parse_quantity("0")) == "1500m"


def test_equal_amounts_are_equal_however_written() -> None:
    kibi, plain = parse_quantity("1Ki"), parse_quantity("1024")

    assert kibi == plain
    assert hash(kibi) == hash(plain)
    assert kibi != parse_quantity("1k")
    assert kibi != 1024


def test_quantities_are_ordered_by_amount() -> None:
    small, large = parse_quantity("999m"), parse_quantity("1")

    assert small < large
    assert small <= large
    assert large > small
    assert large >= small
    assert not large < small
    assert sorted([large, small]) == [small, large]


def test_fractions_are_rounded_away_from_zero() -> None:
    quantity = parse_quantity("1500001u")

    assert quantity.value() == 2
    assert quantity.milli() == 1501
    assert (-quantity).value() == -2
    assert (-quantity).milli() == -1501


def test_any_power_of_ten_can_be_the_unit() -> None:
    quantity = parse_quantity("1500k")

    assert quantity.scaled(6) == 2
    assert quantity.scaled(3) == 1500
    assert quantity.scaled(-3) == 1_500_000_000
    assert quantity.scaled(-9) == 1_500_000 * 10**9
    assert quantity.scaled(-10) == 1_500_000 * 10**10
    assert quantity.scaled(-12) == 1_500_000 * 10**12


def test_amounts_beyond_64_bits_stay_exact() -> None:
    quantity = parse_quantity("1000E")

    assert quantity.value() == 10**21
    assert str(quantity) == "1000E"
    assert str(Quantity.from_value(2**70, Format.BINARY_SI)) == "1024Ei"


def test_quantities_are_made_from_whole_and_thousandth_units() -> None:
    assert str(Quantity.from_value(2**30, Format.BINARY_SI)) == "1Gi"
    assert str(Quantity.from_milli(1500)) == "1500m"
    assert str(Quantity.from_value(0)) == "0"
    assert Quantity.from_value(0).is_zero
    assert not Quantity.from_milli(1).is_zero


def test_a_quantity_survives_pickling() -> None:
    quantity = parse_quantity("1.5Gi")

    assert str(pickle.loads(pickle.dumps(quantity))) == "1536Mi"  # noqa: S301 - our own bytes


def test_the_quick_functions_agree_with_the_slow() -> None:
    assert parse_milli("1.5") == 1500
    assert parse_milli(2) == 2000
    assert parse_value("1Gi") == 2**30
    assert parse_value(0.5) == 1


def test_the_quick_functions_tell_true_from_one() -> None:
    assert parse_value(1) == 1

    with pytest.raises(QuantityError):
        parse_value(True)


@pytest.mark.parametrize(
    ("resource", "written", "meant"),
    [
        ("cpu", "100M", "100m"),
        ("cpu", "1Mi", "1m"),
        ("cpu", "0.001M", "0.001m"),
        ("requests.cpu", "250M", "250m"),
        ("limits.memory", "512m", "512Mi"),
        ("memory", "4096m", "4096Mi"),
        ("ephemeral-storage", "1000000m", "1000000Mi"),
        ("storage", "1m", "1Mi"),
        ("hugepages-2Mi", "4m", "4Mi"),
    ],
)
def test_m_and_big_m_confused_is_found(resource: str, written: str, meant: str) -> None:
    mistake = suffix_mistake(resource, written)

    assert mistake is not None
    assert mistake.meant == meant


def test_a_quantity_read_from_the_api_shows_the_mistake_too() -> None:
    assert suffix_mistake("memory", parse_quantity("512m")) == suffix_mistake("memory", "512m")


@pytest.mark.parametrize(
    ("resource", "written"),
    [
        ("cpu", "100m"),
        ("cpu", "1000"),
        ("cpu", "10k"),
        ("cpu", "0.0001M"),
        ("cpu", "0M"),
        ("memory", "512M"),
        ("memory", "512Mi"),
        ("memory", "0m"),
        ("memory", "128974848000m"),
        ("nvidia.com/gpu", "1M"),
        ("pods", "110m"),
    ],
)
def test_odd_but_possible_amounts_are_left_alone(resource: str, written: str) -> None:
    assert suffix_mistake(resource, written) is None


def test_a_suffix_mistake_reads_as_a_sentence() -> None:
    assert suffix_mistake("memory", "512m") == SuffixMistake("memory", "512m", "0.512 bytes", "512Mi")
    assert str(suffix_mistake("cpu", "100M")) == (
        'cpu "100M" is 100000000 cores; "100m" was probably meant (m is a thousandth, M a million)'
    )
