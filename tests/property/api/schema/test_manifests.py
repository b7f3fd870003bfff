# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from karpenter.api.manifests import Manifest, ManifestError, read_manifests, write_yaml

# Texts that YAML might take for something else, and any other text that YAML can carry at all.
_CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.sampled_from("\t\n")
_TEXTS = st.text(_CHARACTERS, max_size=12) | st.from_regex(
    r"[-+.0-9_eExXobTZ:yYnNtrufalse~]{1,8}", fullmatch=True
)
_NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(-1e15, 1e15, allow_nan=False).filter(
    lambda number: not number.is_integer()
)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)
_OBJECTS = st.dictionaries(_TEXTS, _VALUES, max_size=5).filter(lambda obj: obj.get("kind") != "List")


@given(st.lists(_OBJECTS, min_size=1, max_size=3))
@example([{"a": "x\u0085y", "b": "\u2028", "c": "\ufeff"}])
def test_what_is_written_is_read_back_as_it_was(objects: list[dict[str, Any]]) -> None:
    text = write_yaml(objects)

    assert [manifest.object for manifest in read_manifests(text)] == objects
    assert list(yaml.safe_load_all(text)) == objects


@given(_OBJECTS)
def test_json_is_read_as_any_other_reader_reads_it(obj: dict[str, Any]) -> None:
    for text in (json.dumps(obj), json.dumps(obj, indent=2, ensure_ascii=False)):
        assert [manifest.object for manifest in read_manifests(text)] == [obj]


@given(
    st.text(st.sampled_from("a1:-? \n\t[]{},&*!|>'\"#%@`<~.\\\x00é"), max_size=60) | st.binary(max_size=60)
)
def test_any_text_is_read_or_refused_in_one_line(text: str | bytes) -> None:
    read = _read(text)

    if isinstance(read, ManifestError):
        assert read.message.startswith("f:")
        assert "\n" not in read.message
        assert read.hint
    else:
        assert all(isinstance(manifest.object, dict) for manifest in read)
        json.dumps([manifest.object for manifest in read], allow_nan=False)


def _read(text: str | bytes) -> tuple[Manifest, ...] | ManifestError:
    try:
        return read_manifests(text, "f")
    except ManifestError as error:
        return error
