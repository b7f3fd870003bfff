# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.kube.engine.bodies import parse_body
from karpenter.sandbox.kube.errors import ApiError

_JSON, _YAML = "application/json", "application/yaml"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (b"a: 2026-01-01", {"a": "2026-01-01"}),
        (b"2: x\ntrue: y\n~: z\n1.5: w", {"2": "x", "true": "y", "null": "z", "1.5": "w"}),
        (b"a: !!set {x, y}", {"a": {"x": None, "y": None}}),
        (b"a: !!binary aGk=", {"a": "hi"}),
        (b"a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
    ],
)
def test_yaml_becomes_what_json_can_say(text: bytes, data: Any) -> None:
    assert parse_body(text, _YAML) == data


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (b"[" * 100_000, _JSON, "exceeded max depth"),
        (b'{"a":' * 500 + b"1" + b"}" * 500, _JSON, "exceeded max depth"),
        (b"a: " + b"[" * 300 + b"]" * 300, _YAML, "exceeded max depth"),
        (b"a: .nan", _YAML, "unsupported value"),
        (b"? {a: b}\n: c", _YAML, "yaml:"),
        (b"a: [\n", _YAML, "did not find expected node content"),
        (b'{"a":', _JSON, "unexpected end of JSON input"),
        (b"\xff", _JSON, "json parse error"),
    ],
)
def test_what_cannot_be_data_is_refused(text: bytes, kind: str, words: str) -> None:
    with pytest.raises(ApiError, match=words) as refused:
        parse_body(text, kind, "Pod")

    assert refused.value.code == 400


def test_aliases_that_grow_without_bounds_are_refused() -> None:
    lines = [b"a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [b"a%d: &a%d [%b]" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 10)]

    with pytest.raises(ApiError, match="excessive aliasing"):
        parse_body(b"\n".join(lines), _YAML)


def test_a_wide_body_is_not_a_deep_one() -> None:
    text = b"[" + b",".join([b"[{}]"] * 1000) + b"]"

    assert len(parse_body(text, _JSON)) == 1000
