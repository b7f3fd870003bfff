# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from karpenter.api.manifests import Manifest, ManifestError, read_manifests, write_yaml


def value(text: str) -> Any:
    """Return what a plain YAML value means."""
    (manifest,) = read_manifests(f"x: {text}\n")
    return manifest.object["x"]


def error(text: str | bytes) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        read_manifests(text, "pool.yaml")
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_file_may_hold_many_documents_and_empty_ones_do_not_count_as_objects() -> None:
    text = "# a comment\n---\na: 1\n---\n---\nb: 2\n...\n---\n# nothing\n"

    assert read_manifests(text, "pool.yaml") == (
        Manifest({"a": 1}, "pool.yaml", 0, 3),
        Manifest({"b": 2}, "pool.yaml", 2, 6),
    )
    assert str(read_manifests(text, "pool.yaml")[1]) == "pool.yaml:6"


def test_nothing_holds_nothing() -> None:
    assert read_manifests("") == read_manifests(b" \n") == read_manifests("---\n---\n") == ()


def test_json_is_read_as_json() -> None:
    text = ' {"a": [1, 1.0, 1.5, true, null, "\\u00e9\\n\\ud83d\\ude00"], "b": {}}\n\t{"c": []}'

    assert [manifest.object for manifest in read_manifests(text)] == [
        {"a": [1, 1, 1.5, True, None, "é\n😀"], "b": {}},
        {"c": []},
    ]
    assert [manifest.line for manifest in read_manifests(text)] == [1, 2]
    assert isinstance(read_manifests('{"a": 99999999999999999999}')[0].object["a"], float)
    assert read_manifests('{"a": 1e30}')[0].object["a"] == 1e30
    assert read_manifests('{"a": "\\ud800x"}')[0].object == {"a": "\ufffdx"}


def test_yaml_in_flow_style_may_begin_like_json() -> None:
    assert [manifest.object for manifest in read_manifests("{a: 1,}\n---\n{b: 'x'}\n")] == [
        {"a": 1},
        {"b": "x"},
    ]


def test_a_list_is_taken_apart_with_the_place_of_each_item() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- a: 1\n- &x\n  b: 2\n- *x\n"

    assert [(each.object, each.line, each.item) for each in read_manifests(text)] == [
        ({"a": 1}, 4, 0),
        ({"b": 2}, 5, 1),
        ({"b": 2}, 7, 2),
    ]
    assert read_manifests('{"kind": "List", "items": []}') == ()
    assert read_manifests("kind: List\nitems: text\n")[0].object == {"kind": "List", "items": "text"}
    assert [each.line for each in read_manifests("items: &i\n- a: 1\nkind: List\n")] == [2]
    assert [each.line for each in read_manifests("x: &i [{a: 1}]\nkind: List\nitems: *i\n")] == [1]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("yes", True),
        ("On", True),
        ("y", True),
        ("no", False),
        ("OFF", False),
        ("n", False),
        ("yEs", "yEs"),
        ("~", None),
        ("Null", None),
        ("", None),
        ("010", 8),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("-0b11", -3),
        ("09", 9),
        ("1_000", 1000),
        ("+5", 5),
        ("-0", 0),
        ("1.0", 1),
        ("1e3", 1000),
        ("1.50", 1.5),
        (".5", 0.5),
        ("._5", "._5"),
        ("1e400", "1e400"),
        ("1e30", 1e30),
        ("18446744073709551616", 18446744073709551616.0),
        ("0x1FFFFFFFFFFFFFFFF", "0x1FFFFFFFFFFFFFFFF"),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("1.2.3", "1.2.3"),
        ("+", "+"),
        ("'yes'", "yes"),
        ('"1"', "1"),
        ("=", "="),
        ("!!str 1", "1"),
        ("! 5", "5"),
        ("!!int '5'", 5),
        ("!!float 5", 5),
        ("!!bool yes", True),
        ("!!null ~", None),
        ("!!timestamp 2020-01-01", "2020-01-01"),
        ("!!seq [1]", [1]),
        ("!!map {a: 1}", {"a": 1}),
    ],
)
def test_a_plain_value_means_what_it_means_to_kubectl(text: str, meaning: Any) -> None:
    found = value(text)

    assert found == meaning
    assert type(found) is type(meaning) or isinstance(found, bool) == isinstance(meaning, bool)


def test_keys_are_texts() -> None:
    (manifest,) = read_manifests("1: a\nyes: b\n1.5: c\n'2': d\n0x10: e\n&k f: g\n")

    assert manifest.object == {"1": "a", "true": "b", "1.5": "c", "2": "d", "16": "e", "f": "g"}


def test_anchors_and_merges_are_followed() -> None:
    text = "a: &a {p: 1, q: 2}\nb: {<<: *a, q: 3}\nc: {q: 4, <<: [*a, {r: 5}]}\nd: &s text\ne: *s\n*s : f\n"

    assert read_manifests(text)[0].object == {
        "a": {"p": 1, "q": 2},
        "b": {"p": 1, "q": 3},
        "c": {"q": 4, "p": 1, "r": 5},
        "d": "text",
        "e": "text",
        "text": "f",
    }
    assert read_manifests("a: <<\n")[0].object == {"a": "<<"}


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "4:3", "key 'c' is given twice in one mapping"),
        ("a: 1\nb: {<<: {c: 1}, c: 2, c: 3}\n", "2:23", "key 'c' is given twice in one mapping"),
        ('{"a": 1,\n "a": 2}', "2:2", "key 'a' is given twice in one mapping"),
        ("yes: 1\ntrue: 2\n", "2:1", "key 'true' is given twice in one mapping"),
        ("a:\n\t- b\n", "2:1", "not YAML: found character that cannot start any token"),
        ("a: [1\n", "2:1", "not YAML: did not find expected ',' or ']'"),
        ("a: b: c\n", "1:5", "not YAML: mapping values are not allowed in this context"),
        ("a: \x01\n", "1:4", "not YAML: control characters are not allowed"),
        ("a: *b\n", "1:4", "alias *b names no anchor before it"),
        ("a: &a [*a]\n", "1:8", "alias *a names no anchor before it"),
        ("a: &a 1\n---\nb: *a\n", "3:4", "alias *a names no anchor before it"),
        ("a: &a [1]\n*a : 1\n", "2:1", "a list or mapping cannot be a key"),
        ("[a]: 1\n", "1:1", "a list or mapping cannot be a key"),
        ("~: 1\n", "1:1", "null cannot be a key"),
        (".inf: 1\n", "1:1", "inf cannot be a key"),
        ("1e20: 1\n", "1:1", "100000000000000000000 cannot be a key"),
        ("a: {<<: 5}\n", "1:9", "only mappings can be merged with <<"),
        ("a: {<<: [5]}\n", "1:9", "only mappings can be merged with <<"),
        ("a: .nan\n", "1:4", "not a number that JSON has"),
        ("a: !Ref b\n", "1:4", "tag !Ref is not known"),
        ("a: !Ref [b]\n", "1:4", "tag !Ref is not known"),
        ("a: !!int b\n", "1:4", "'b' cannot be read as !!int"),
        ("- a\n", "1:1", "a manifest is a mapping, not a list"),
        ("just text\n", "1:1", "a manifest is a mapping, not 'just text'"),
        ("kind: List\nitems: [{}, 5]\n", "2:13", "items[1] is not a mapping"),
        ('{"a": 1,}}', "1:9", "not JSON: unexpected }"),
        ('{"a": [1}', "1:9", "not JSON: unexpected }"),
        ('{"a" 1}', "1:6", "not JSON: unexpected 1"),
        ('{"a": 1', "1:8", "not JSON: the text ends too early"),
        ('{"a": 01', "1:7", "not JSON: unexpected '01'"),
        ("{\n\"a\": 'b'", "2:6", "not JSON: unexpected \"'b'\""),
        ('{"a": "\\x"}', "1:7", "not JSON: \\x is not an escape"),
        ('{"a": 1e400}', "1:7", "not a number that JSON has"),
        ('{"a": 1}]', "1:9", "not JSON: unexpected ]"),
        ('{"a": 1} 5', "1:10", "a manifest is a mapping, not 5"),
        ("{a: 1}}", "1:2", "not JSON: unexpected 'a: 1}}'"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_its_place(text: str, place: str, words: str) -> None:
    assert error(text).message == f"pool.yaml:{place}: {words}"


def test_tabs_get_a_hint_of_their_own() -> None:
    assert error("a:\n\t- b\n").hint == "indent with spaces; YAML does not take tabs"
    assert "indentation" in error("a: b: c\n").hint


def test_bytes_are_utf_8_with_or_without_a_mark() -> None:
    assert read_manifests(b"\xef\xbb\xbfa: \xc3\xa9\n")[0].object == {"a": "é"}
    assert read_manifests("\ufeffa: 1\n")[0].object == {"a": 1}
    assert error(b"a: 1\nb: \xff\n").message == "pool.yaml:2:1: the file is not UTF-8 text"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "a: " + "{b: " * 50_000, "- " * 100_000, '{"a":' * 100_000, "{" * 99_999]
)
def test_deep_nesting_is_refused_with_a_limit(text: str) -> None:
    words = error(text).message

    assert "nested more than 100 levels deep" in words or "unexpected" in words


def test_a_hundred_levels_are_fine() -> None:
    assert read_manifests("a: " + "[" * 99 + "]" * 99)


def test_a_file_over_the_limit_is_refused_unread() -> None:
    assert "the file is larger than 10 MiB" in error("a: " + "x" * (10 * 1024 * 1024)).message
    assert "the file is larger than 10 MiB" in error(b"x" * (10 * 1024 * 1024 + 1)).message


def test_aliases_cannot_multiply_beyond_a_limit() -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]" for level in range(1, 9)]

    assert "more than 500,000 values, those that aliases repeat included" in error("\n".join(lines)).message


def test_a_large_block_of_text_is_one_value() -> None:
    (manifest,) = read_manifests("a: |\n" + "  0123456789\n" * 300_000)

    assert len(manifest.object["a"]) == 3_300_000


def test_what_is_written_is_ordered_and_read_back_as_it_was() -> None:
    obj = {
        "status": {"phase": "A"},
        "spec": {
            "userData": "#!/bin/bash\necho 'a'\n\n  indented\n",
            "trailing": "a \nb",
            "lines": "a\r\nb\tc",
            "looks": [
                "yes",
                "1",
                "1.0",
                "null",
                "",
                "~",
                "2020-01-01",
                "0x1F",
                "1_000",
                "=",
                "<<",
                "1:30",
                "a: b",
                "- a",
            ],
            "is": [True, 1, 1.5, None, {}, []],
            "long": "word " * 100 + "end",
            "unicode": "é😀",
        },
        "extra": 1,
        "metadata": {"name": "a", "labels": {"yes": "no", "10": "5"}},
        "kind": "NodePool",
        "apiVersion": "karpenter.sh/v1",
    }

    text = write_yaml([obj, {"kind": "B"}])

    assert [line for line in text.splitlines() if line[:1].isalpha()] == [
        "apiVersion: karpenter.sh/v1",
        "kind: NodePool",
        "metadata:",
        "spec:",
        "status:",
        "extra: 1",
        "kind: B",
    ]
    assert [manifest.object for manifest in read_manifests(text)] == [obj, {"kind": "B"}]
    assert "\n---\n" in text
    assert "  userData: |\n    #!/bin/bash\n" in text
    assert '- "yes"' in text
    shared = ["x"]
    assert write_yaml([{"a": shared, "b": shared}]) == "a:\n- x\nb:\n- x\n"


def test_other_readers_of_yaml_agree_on_what_is_written() -> None:
    obj = {"a": ["yes", "010", "1e3", "x"], "b": {"on": "off"}}

    assert yaml.safe_load(write_yaml([obj])) == obj
    assert read_manifests(json.dumps(obj))[0].object == obj


def test_nothing_is_written_for_nothing() -> None:
    assert write_yaml([]) == ""
