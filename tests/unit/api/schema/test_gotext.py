# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import pytest

from karpenter.api.schema.gotext import compact_json, number, plain, quote, type_name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (0.0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (1234567.0, "1.234567e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e21, "1e+21"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_a_number_is_printed_as_go_prints_it(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain é", '"plain é"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x01\x7f", r'"\x01\x7f"'),
        ("\u200b", r'"\u200b"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_what_cannot_be_printed_is_escaped_between_quotes(value: str, text: str) -> None:
    assert quote(value) == text


def test_json_is_compact_sorted_and_safe_in_html() -> None:
    assert (
        compact_json({"b": [1.0, 1.5, None], "a": "<&>"}) == '{"a":"\\u003c\\u0026\\u003e","b":[1,1.5,null]}'
    )


@pytest.mark.parametrize(
    ("value", "text", "name"),
    [
        ({"b": 1, "a": ["x", None]}, "map[a:[x <nil>] b:1]", "map[string]interface {}"),
        ([True, False], "[true false]", "[]interface {}"),
        ("x", "x", "string"),
        (1.5, "1.5", "float64"),
        (7, "7", "int64"),
        (True, "true", "bool"),
    ],
)
def test_any_value_and_its_type_have_go_names(value: Any, text: str, name: str) -> None:
    assert plain(value) == text
    assert type_name(value) == name
