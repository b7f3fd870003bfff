# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from karpenter.sandbox.kube.serving.tokens import TokenFileError, read_tokens


def test_tokens_stand_for_users_and_their_groups(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text('a,ann,7,"admins,ops"\n\nb,bob\n', encoding="utf-8")

    users = read_tokens(file)

    assert users["a"].name == "ann"
    assert users["a"].groups == ("admins", "ops", "system:authenticated")
    assert users["b"].uid == ""


@pytest.mark.parametrize(
    ("text", "word"), [("a\n", "line 1"), ("a,ann\na,bob\n", "line 2"), ("\n", "no token")]
)
def test_a_file_with_a_mistake_is_refused_by_its_line(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(TokenFileError, match=word):
        read_tokens(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="cannot be read"):
        read_tokens(tmp_path / "none")
