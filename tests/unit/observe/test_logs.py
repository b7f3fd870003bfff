# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from karpenter.errors import KarpenterError
from karpenter.observe import configure, get_log


@pytest.fixture(autouse=True)
def _clean_slate() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    """The lines that were written."""
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_has_karpenters_keys_in_its_order() -> None:
    out = io.StringIO()
    configure(stream=out)

    get_log("nodeclaim.lifecycle").info("launched nodeclaim", NodeClaim={"name": "default-x"}, zone="a")

    [line] = lines(out)
    assert list(line) == ["level", "time", "logger", "message", "controller", "NodeClaim", "zone"]
    assert (line["level"], line["logger"], line["message"]) == ("INFO", "controller", "launched nodeclaim")
    assert line["NodeClaim"] == {"name": "default-x"}


def test_a_warning_has_the_level_that_karpenter_writes() -> None:
    out = io.StringIO()
    configure(stream=out)

    get_log("aws").warning("interruption handling is off")

    assert json.loads(out.getvalue())["level"] == "WARN"


def test_lines_below_the_level_are_left_out() -> None:
    out = io.StringIO()
    configure(level="error", stream=out)
    log = get_log("provisioner")

    log.info("quiet")
    log.error("loud")

    assert [line["message"] for line in lines(out)] == ["loud"]


def test_an_error_shows_its_words_and_its_hint() -> None:
    out = io.StringIO()
    configure(stream=out)
    log = get_log("provisioner")

    log.error("failed", error=KarpenterError("no subnet", hint="tag one"))
    log.error("failed", error=ValueError())

    first, second = lines(out)
    assert (first["error"], first["hint"]) == ("no subnet", "tag one")
    assert second["error"] == "ValueError"
    assert "hint" not in second


def test_secrets_do_not_reach_a_line_wherever_they_are() -> None:
    out = io.StringIO()
    configure(stream=out)

    get_log("x").info(
        "call",
        token="canary-1",
        request={"UserData": "canary-2", "headers": [{"Authorization": "canary-3"}], "count": 3},
        text="sent Bearer canary-4 and AKIAABCDEFGHIJKLMNOP",
        items=("fine", 5),
    )

    text = out.getvalue()
    assert "canary" not in text
    assert "AKIAABCDEFGHIJKLMNOP" not in text
    [line] = lines(out)
    assert line["items"] == ["fine", 5]
    assert line["request"]["count"] == 3


def test_a_person_gets_one_line_without_colour_where_it_is_no_terminal() -> None:
    out = io.StringIO()
    configure(human=True, stream=out)

    get_log("provisioner").info("found provisionable pod(s)", pods=5)

    assert "found provisionable pod(s)" in out.getvalue()
    assert "\x1b[" not in out.getvalue()
    assert out.getvalue().count("\n") == 1
