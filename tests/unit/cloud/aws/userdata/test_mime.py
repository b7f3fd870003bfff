# SPDX-License-Identifier: Apache-2.0
import hashlib
from unittest.mock import patch

import pytest

from karpenter.cloud.aws.userdata.errors import BrokenTextError
from karpenter.cloud.aws.userdata.mime import (
    CLOUD_CONFIG,
    NODE_CONFIG,
    SHELL_SCRIPT,
    Part,
    is_archive,
    part_of,
    read_archive,
    write_archive,
)
from tests.unit.cloud.aws.userdata.builders import content_of, parts_of

ARCHIVE = """\
MIME-Version: 1.0
Content-Type: multipart/mixed;
  boundary="B"

this is for people
--B
Content-Type: text/x-shellscript
X-Note: kept

#!/bin/sh
echo one

--B\t
Content-Type: Application/Node.EKS.aws

two
--B--
after the end
"""


def test_an_archive_is_taken_apart_with_headers_text_and_lines() -> None:
    first, second = read_archive(ARCHIVE)

    assert first == Part(("Content-Type: text/x-shellscript", "X-Note: kept"), "#!/bin/sh\necho one\n", 10)
    assert (second.content_type, second.text, second.line) == (NODE_CONFIG, "two", 16)


def test_line_ends_of_windows_make_no_difference() -> None:
    assert read_archive(ARCHIVE.replace("\n", "\r\n")) == read_archive(ARCHIVE)


def test_a_last_boundary_that_was_left_open_is_forgiven_if_nothing_follows() -> None:
    open_ended = ARCHIVE.replace("--B--\nafter the end\n", "--B\n\n")

    assert read_archive(open_ended) == read_archive(ARCHIVE)


def test_a_part_without_empty_line_has_no_text() -> None:
    (part,) = read_archive("Content-Type: multipart/mixed; boundary=B\n\n--B\nX-Only: headers\n--B--")

    assert part == Part(("X-Only: headers",), "", 5)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("Content-Type: text/plain\n\nhello", 1, "of type text/plain"),
        ("\nContent-Type: multipart/mixed\n\n--B", 2, "names no boundary"),
        ("MIME-Version: 1.0\nnonsense here\n\n", 2, "'nonsense here' is not a MIME header"),
        ("MIME-Version: 1.0", 1, "of type text/plain"),
        ('Content-Type: multipart/mixed; boundary="B"\n\nno part', 1, "has no part"),
        ('Content-Type: multipart/mixed; boundary="B"\n\n--B\n\necho', 3, "never ends"),
        ('Content-Type: multipart/mixed; boundary="B"\n\n--B\n#!/bin/sh\n--B--', 4, "is not a MIME header"),
    ],
)
def test_a_broken_archive_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(BrokenTextError, match=problem) as caught:
        read_archive(text)

    assert caught.value.line == line
    assert caught.value.hint


@pytest.mark.parametrize("start", ["MIME-Version: 1.0", "\n content-type: x", "Content-Type: y"])
def test_an_archive_is_known_by_its_first_header(start: str) -> None:
    assert is_archive(start)


def test_a_script_is_no_archive() -> None:
    assert not is_archive("#!/bin/sh\n# Content-Type: x")


def test_text_beyond_ascii_travels_in_base64_because_cloud_init_garbles_it_otherwise() -> None:
    part = part_of("#!/bin/sh\necho grüße 🚀\n", SHELL_SCRIPT)

    (read,) = parts_of(write_archive([part]))

    assert read["Content-Transfer-Encoding"] == "base64"
    assert content_of(read) == "#!/bin/sh\necho grüße 🚀\n"


def test_nodeadm_gets_text_beyond_ascii_as_it_is() -> None:
    assert part_of("ä", NODE_CONFIG) == Part((f"Content-Type: {NODE_CONFIG}",), "ä")


def test_parts_are_read_back_as_they_were_written() -> None:
    parts = (
        part_of("#cloud-config\n", CLOUD_CONFIG),
        part_of("", SHELL_SCRIPT),
        part_of("x\n\n", SHELL_SCRIPT),
    )

    read = read_archive(write_archive(parts))

    assert [(part.headers, part.text) for part in read] == [(part.headers, part.text) for part in parts]


def test_the_boundary_follows_from_the_content_alone() -> None:
    one, other = part_of("one", SHELL_SCRIPT), part_of("other", SHELL_SCRIPT)

    assert write_archive([one]) == write_archive([one])
    assert write_archive([one]).splitlines()[1] != write_archive([other]).splitlines()[1]


def test_a_boundary_that_stands_in_a_part_is_not_used() -> None:
    digest = hashlib.sha256(b"anything").hexdigest()
    planted = f"--karpenter-{digest[:32]}-0--"

    with patch("karpenter.cloud.aws.userdata.mime.hashlib.sha256") as sha256:
        sha256.return_value.hexdigest.return_value = digest
        written = write_archive([part_of(planted, SHELL_SCRIPT)])

    (part,) = parts_of(written)
    assert content_of(part) == planted
