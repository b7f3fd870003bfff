# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import cel
from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.schema import load_crds
from karpenter.api.schema.regex import compile_pattern
from karpenter.api.schema.structural import Node


def _patterns(node: Node) -> Iterator[str]:
    if node.pattern is not None:
        yield node.pattern.source
    for below in (
        *node.properties.values(),
        node.additional,
        node.items,
        *node.any_of,
        *node.all_of,
        *node.one_of,
    ):
        if below is not None:
            yield from _patterns(below)


PATTERNS = sorted(
    {pattern for definition in load_crds().definitions for pattern in _patterns(definition.node)}
)


@given(st.sampled_from(PATTERNS), st.data())
def test_both_engines_agree_on_our_patterns(pattern: str, data: st.DataObject) -> None:
    compiled = compile_pattern(pattern)
    near = st.from_regex(compiled._python)
    text = data.draw(
        near
        | near.map(lambda found: found + "\n")
        | st.text(st.sampled_from("a0-./%@ \nhmsKMGi+٣é"), max_size=60)
    )

    linear = cel.evaluate("text.matches(pattern)", {"text": text, "pattern": compiled._linear})

    assert (compiled._python.search(text) is not None) is linear
    assert compiled.matches(text) is linear


@given(st.text(max_size=40), st.text(max_size=3))
def test_a_quoted_text_matches_itself_alone(text: str, more: str) -> None:
    quoted = text.replace("\\E", "")
    pattern = compile_pattern(rf"\A\Q{quoted}\E\z")

    assert pattern.matches(quoted)
    assert pattern.matches(quoted + more) is (more == "")
