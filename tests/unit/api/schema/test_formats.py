# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.schema.formats import CHECKED_FORMATS, FORMATS_WITHOUT_A_CHECK_HERE, normal_name


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            [
                "2025-01-31T23:59:59Z",
                "2025-01-31t23:59:59.5+02:00",
                "2024-02-29T00:00:00Z",
                "2025-01-01T00:00:00ZTlater",
            ],
            ["2025-01-31", "2025-02-29T00:00:00Z", "2025-01-31T24:00:00Z", "2025-01-31T00:60:00Z", "x", ""],
        ),
        (
            "date",
            ["2025-12-31", "2000-02-29"],
            ["2025-13-01", "2025-00-10", "2025-1-1", "1900-02-29", "2025-04-31"],
        ),
        (
            "duration",
            ["1h30m", "0", "-1.5s", ".5h", "1.h", "2 weeks", "5 min", "1D"],
            ["", "1", "h", "5 parsecs", "1:30"],
        ),
        ("byte", ["YWJj", "YQ==", "YWI="], ["", "YQ", "a b="]),
        ("uuid", ["01234567-89ab-CDEF-0123-456789abcdef", "0123456789abcdef0123456789abcdef"], ["0123", ""]),
        ("ipv4", ["10.0.0.1", "010.0.0.01"], ["10.0.0", "::1", "256.0.0.1", ""]),
        ("ipv6", ["::1", "2001:db8::1"], ["10.0.0.1", "::g", "fe80::1%eth0"]),
        ("cidr", ["10.0.0.0/8", "::/0"], ["10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/x", "x/8"]),
        ("password", ["", "anything"], []),
    ],
)
def test_a_format_is_checked_as_the_server_checks_it(name: str, good: list[str], bad: list[str]) -> None:
    check = CHECKED_FORMATS[normal_name(name)]

    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


def test_no_format_is_both_checked_and_refused() -> None:
    assert not FORMATS_WITHOUT_A_CHECK_HERE & CHECKED_FORMATS.keys()
