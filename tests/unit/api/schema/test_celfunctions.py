# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta
from typing import Any

import cel
import pytest

from karpenter.api.schema.cel import EvaluationError, compile_expression


def value_of(source: str, value: Any = None) -> Any:
    expression = compile_expression(source)
    return expression.evaluate(cel.Context({"self": value}, dict(expression.functions)))


@pytest.mark.parametrize(
    ("source", "value", "result"),
    [
        ("self.find('^([^/]+)')", "karpenter.sh/x", "karpenter.sh"),
        ("self.find('z')", "abc", ""),
        ("self.findAll('[0-9]+')", "1 a 22", ["1", "22"]),
        ("self.findAll('[0-9]+', 1)", "1 a 22", ["1"]),
        (r"self.matches('^\\d+$')", "12", True),
        (r"self.matches(r'^\d+$')", "٣", False),
        ("self.charAt(1)", "aéc", "é"),
        ("self.charAt(3)", "aéc", ""),
        ("self.indexOf('c')", "abcc", 2),
        ("self.indexOf('c', 3)", "abcc", 3),
        ("self.indexOf('z')", "abcc", -1),
        ("self.lastIndexOf('b')", "abab", 3),
        ("self.lastIndexOf('b', 2)", "abab", 1),
        ("self.lowerAscii()", "AÉ", "aÉ"),
        ("self.upperAscii()", "aé", "Aé"),
        ("self.replace('a', 'b')", "aa", "bb"),
        ("self.replace('a', 'b', 1)", "aa", "ba"),
        ("self.reverse()", "abc", "cba"),
        ("self.split('@')", "a@b@c", ["a", "b", "c"]),
        ("self.split('@', 2)", "a@b@c", ["a", "b@c"]),
        ("self.split('@', 0)", "a@b@c", []),
        ("self.split('')", "aé", ["a", "é"]),
        ("self.split('', 2)", "abc", ["a", "bc"]),
        ("self.substring(1)", "abc", "bc"),
        ("self.substring(1, 2)", "abc", "b"),
        ("self.trim()", " a ", "a"),
        ("self.join()", ["a", "b"], "ab"),
        ("self.join('-')", ["a", "b"], "a-b"),
        ("bool(self)", "True", True),
        ("bool(self)", "f", False),
        ("bool(self)", True, True),
        ("self.isSorted()", [1, 1, 2], True),
        ("self.isSorted()", ["b", "a"], False),
        ("self.sum()", [1, 2], 3),
        ("self.sum()", [0.5, 0.5], 1.0),
        ("self.sum()", [timedelta(seconds=1), timedelta(seconds=2)], timedelta(seconds=3)),
        ("self.sum()", [], 0),
        ("self.min()", [2, 1], 1),
        ("self.max()", [2, 1], 2),
        ("self.indexOf('b')", ["a", "b", "b"], 1),
        ("self.indexOf('z')", ["a"], -1),
        ("self.lastIndexOf('b')", ["b", "b", "a"], 1),
        ("self.lastIndexOf('z')", ["a"], -1),
        ("sets.contains(self, [1])", [1, 2], True),
        ("sets.equivalent(self, [2, 1, 1])", [1, 2], True),
        ("sets.intersects(self, [3])", [1, 2], False),
        ("isQuantity(self)", "1.5Gi", True),
        ("isQuantity(self)", "1.5GB", False),
        ("quantity(self) == quantity('1000m')", "1", True),
        ("quantity(self).isLessThan(quantity('1Gi'))", "1G", True),
        ("quantity(self).isGreaterThan(quantity('1Gi'))", "1G", False),
        ("quantity(self).compareTo(quantity('1k'))", "1000", 0),
        ("quantity(self).asInteger()", "2k", 2000),
        ("quantity(self).isInteger()", "500m", False),
        ("quantity(self).asApproximateFloat()", "500m", 0.5),
        ("quantity(self).add(quantity('1')).add(1).sub(quantity('1')).sub(1).asInteger()", "5", 5),
        ("quantity(self).sign()", "-5", -1),
        ("isURL(self)", "https://example.com", True),
        ("isURL(self)", "/a/b", True),
        ("isURL(self)", "a/b", False),
        ("isURL(self)", "", False),
        ("url(self).getScheme()", "https://u@example.com:80/a?b=c", "https"),
        ("url(self).getHost()", "https://u@example.com:80/a?b=c", "example.com:80"),
        ("url(self).getHost()", "https://example.com", "example.com"),
        ("url(self).getHostname()", "https://[::1]:80/", "::1"),
        ("url(self).getPort()", "https://example.com:80", "80"),
        ("url(self).getPort()", "/path", ""),
        ("url(self).getEscapedPath()", "https://example.com/a%20b?c", "/a%20b"),
        ("url(self).getQuery()", "https://example.com/?a=1&a=2&b", {"a": ["1", "2"], "b": [""]}),
    ],
)
def test_a_function_gives_what_the_api_server_gives(source: str, value: Any, result: Any) -> None:
    assert value_of(source, value) == result


# The evaluator logs a warning of its own for a function that fails.
@pytest.mark.parametrize(
    ("source", "value", "words"),
    [
        ("self.charAt(5)", "abc", "index out of range: 5"),
        ("self.indexOf('a', 9)", "abc", "index out of range: 9"),
        ("self.lastIndexOf('a', 9)", "abc", "index out of range: 9"),
        ("self.substring(4)", "abc", "index out of range: 4"),
        ("self.substring(2, 1)", "abc", "invalid substring range. start: 2, end: 1"),
        ("bool(self)", "yes", "type conversion error from 'string' to 'bool'"),
        ("bool(self)", "tRUE", "type conversion error from 'string' to 'bool'"),
        ("self.min()", [], "min called on empty list"),
        ("self.max()", [], "max called on empty list"),
        ("self.sum()", [2**63 - 1, 1], "integer overflow"),
        ("quantity(self)", "x", "quantities must match the regular expression"),
        ("quantity(self).asInteger()", "500m", "cannot convert value to integer"),
        ("url(self)", "x", "URL parse error during conversion from string"),
    ],
)
def test_a_function_that_cannot_answer_says_why(source: str, value: Any, words: str) -> None:
    with pytest.raises(EvaluationError, match=words.replace(".", r"\.")):
        value_of(source, value)
