# SPDX-License-Identifier: Apache-2.0
import tomllib
from datetime import UTC, date, datetime, time
from typing import Any

import pytest

from karpenter.cloud.aws.userdata.toml import write_toml


def test_tables_follow_the_values_of_their_parent_in_the_order_of_their_names() -> None:
    table = {"b": {"y": 1, "x": {"k": "v"}}, "a": True}

    written = write_toml(table)

    assert written == "a = true\n\n[b]\ny = 1\n\n[b.x]\nk = 'v'\n"


def test_a_table_of_tables_alone_has_no_head_and_an_empty_one_keeps_its() -> None:
    assert write_toml({"a": {"b": {}}}) == "[a.b]\n"


def test_keys_are_quoted_only_where_they_must_be() -> None:
    assert write_toml({"a-b_1": 1, "a.b/c": 2, "": 3}) == "'' = 3\na-b_1 = 1\n'a.b/c' = 2\n"


def test_text_stands_between_single_quotes_unless_it_has_one() -> None:
    assert write_toml({"k": 'C:\\a "b"'}) == "k = 'C:\\a \"b\"'\n"
    assert write_toml({"k": "it's"}) == 'k = "it\'s"\n'


def test_control_characters_are_escaped() -> None:
    assert write_toml({"k": 'a"\\\n\t\r\x00\x7f'}) == 'k = "a\\"\\\\\\n\\t\\r\\u0000\\u007f"\n'


@pytest.mark.parametrize(
    "value",
    [
        [["10.0.0.0", ["a", "b"]]],
        [{"name": "a", "deep": {"n": 1}}, {}],
        1.5,
        float("inf"),
        -3,
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        date(2026, 1, 2),
        time(3, 4, 5),
    ],
)
def test_whatever_toml_can_say_is_read_back(value: Any) -> None:
    assert tomllib.loads(write_toml({"k": value})) == {"k": value}


def test_what_toml_cannot_say_is_a_defect_of_the_caller() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        write_toml({"k": None})
