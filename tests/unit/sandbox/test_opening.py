# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.sandbox.opening import foreign


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "127.0.0.1:4566"},
        {"Host": "127.0.0.2"},
        {"Host": "localhost:4566"},
        {"Host": "[::1]:4566"},
        {"Host": "sandbox.internal:80"},
        {"Host": "127.0.0.1:4566", "Origin": "http://127.0.0.1:4566"},
        {"Host": "localhost:4566", "Origin": "https://localhost:4566"},
        {"Host": "localhost:4566", "Sec-Fetch-Site": "same-origin"},
        {"Host": "localhost:4566", "Sec-Fetch-Site": "none"},
    ],
)
def test_programs_and_the_servers_own_pages_are_answered(headers: dict[str, str]) -> None:
    assert foreign(headers, "sandbox.internal") == ""


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        # DNS rebinding: the page's own name stands for 127.0.0.1, and Host shows the name.
        ({"Host": "evil.example:4566"}, "the host evil.example:4566"),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, "the host evil.example"),
        ({"Host": "169.254.169.254"}, "the host 169.254.169.254"),
        ({"Host": "127.0.0.1.evil.example"}, "the host 127.0.0.1.evil.example"),
        ({"Host": "[broken"}, "the host [broken"),
        # A page that sends a form or a script's request.
        ({"Host": "127.0.0.1:4566", "Origin": "https://evil.example"}, "a web page of https://evil.example"),
        ({"Host": "127.0.0.1:4566", "Origin": "null"}, "a web page of null"),
        ({"Host": "127.0.0.1:4566", "Origin": ""}, "a web page of "),
        (
            {"Host": "127.0.0.1:4566", "Origin": "http://127.0.0.1:8080"},
            "a web page of http://127.0.0.1:8080",
        ),
        # A page with an image whose address is a request.
        ({"Host": "127.0.0.1:4566", "Sec-Fetch-Site": "cross-site"}, "a web page of another origin"),
        ({"Host": "127.0.0.1:4566", "Sec-Fetch-Site": "same-site"}, "a web page of another origin"),
    ],
)
def test_a_web_page_is_told_by_its_headers(headers: dict[str, str], told: str) -> None:
    assert told in foreign(headers, "127.0.0.1")
