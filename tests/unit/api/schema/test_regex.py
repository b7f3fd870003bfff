# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.schema.regex import PatternError, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^a$", ["a"], ["a\n", "ba"]),
        (r"\Aa\z", ["a"], ["a\n"]),
        (r"ab", ["xabx"], ["a b"]),
        (r"^\d+$", ["12"], ["٣", ""]),
        (r"^\D+$", ["٣"], ["1"]),
        (r"^\w$", ["_"], ["é"]),
        (r"^\s$", ["\t", "\n"], ["\v", "\u00a0"]),
        (r"^[\s\d]$", [" ", "5"], ["\v", "x"]),
        (r"\bfoo\b", ["a foo b"], ["afoo"]),
        (r"\Boo", ["foo"], ["oo"]),
        (r"^a{,2}$", ["a{,2}"], ["aa"]),
        (r"^a{2,3}?$", ["aa", "aaa"], ["a", "aaaa"]),
        (r"^a{2}$", ["aa"], ["a"]),
        (r"^\Qa.b\E+$", ["a.bb"], ["axb"]),
        (r"^\Qa.b", ["a.b"], ["axb"]),
        (r"^[[:alpha:]_]+$", ["ab_"], ["a1"]),
        (r"^\x41\x{1F600}\101\0$", ["A😀A\0"], ["B"]),
        (r"^[\]\[&|~]+$", ["][&|~"], ["x"]),
        (r"^[]a]$", ["]", "a"], ["b"]),
        (r"^[^]a]$", ["b"], ["]", "a"]),
        (r"^[\x41-\x43\-]$", ["B", "-"], ["D"]),
        (r"(?i)^abc$", ["ABC"], ["abd"]),
        (r"(?m)^a$", ["b\na\nc"], ["b\nab"]),
        (r"^(?P<x>a)(?<y>b)(?:c)(?i:d)(?s-i:.)$", ["abcD\n"], ["abcd"]),
        (r"^\t\*$", ["\t*"], ["t*"]),
        (r"^}$", ["}"], ["{"]),
        (r"^a.c$", ["abc", "aéc"], ["a\nc"]),
    ],
)
def test_a_pattern_matches_as_in_go_on_both_engines(pattern: str, good: list[str], bad: list[str]) -> None:
    compiled = compile_pattern(pattern)

    for text in good:
        assert compiled.matches(text)
        assert compiled.find(text) or text == ""
    for text in bad:
        assert not compiled.matches(text)
        assert compiled.find(text) == ""


@pytest.mark.parametrize(
    "pattern",
    [
        r"a(?=b)",
        r"a(?!b)",
        r"(?<=a)b",
        r"(?>a)",
        r"(?P=x)",
        r"(a)\1",
        r"a**",
        r"a++",
        r"a{2}{3}",
        r"a{1001}",
        r"a{1,1001}",
        r"\p{L}",
        r"\C",
        r"[a",
        r"(a",
        r"a(?i)b",
        r"(?i-s)b",
        r"[[:name:]]",
        r"[[:^alpha:]]",
        r"[\S]",
        r"\x{110000}",
        "\\",
        "*",
    ],
)
def test_what_go_refuses_or_we_cannot_translate_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)

    assert repr(pattern) in caught.value.message


def test_a_text_made_to_hurt_a_backtracking_engine_is_judged_at_once() -> None:
    schedule = compile_pattern(r"^(@(daily|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$")

    assert schedule.matches("0 9 * * mon-fri" + "x" * 100)
    assert not schedule.matches("a " * 50_000 + "\n")


def test_long_texts_know_ascii_digits_and_word_ends_too() -> None:
    long = "x" * 100

    assert compile_pattern(r"^x+\b\d$").matches(long + "1") is False
    assert compile_pattern(r"^x+\d$").matches(long + "1")
    assert not compile_pattern(r"^x+\d$").matches(long + "٣")
    assert compile_pattern(r"^x+\z").matches(long)


def test_matches_are_found_from_the_left_up_to_a_limit() -> None:
    digits = compile_pattern("[0-9]+")

    assert digits.find("a12b3") == "12"
    assert digits.find_all("a12b3") == ["12", "3"]
    assert digits.find_all("a12b3", 1) == ["12"]
    assert digits.find_all("a12b3", 0) == []
