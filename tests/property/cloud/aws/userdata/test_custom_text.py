# SPDX-License-Identifier: Apache-2.0
"""The user's own text reaches its reader as it was written, and never reaches into ours."""

from __future__ import annotations

import base64
import tomllib
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from karpenter.cloud.aws.userdata import Cluster, UserDataError
from karpenter.cloud.aws.userdata.mime import Part, is_archive, read_archive, write_archive
from karpenter.cloud.aws.userdata.toml import write_toml
from tests.property.cloud.aws.userdata import readers
from tests.property.cloud.aws.userdata.expectations import Case
from tests.property.cloud.aws.userdata.texts import anything

MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PLAIN = Case(
    cluster=Cluster("shop", "https://shop", service_cidr="10.100.0.0/16"),
    kubelet=None,
    labels={},
    taints=(),
    max_pods=1,
    raid0=False,
    custom="",
)
scripts = st.one_of(anything, anything.map(lambda text: f"#!/bin/bash\n{text}"))
words = st.text(alphabet="abcXYZ0189-/'+_,.:=?", min_size=1, max_size=30)

scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | anything
    | st.datetimes()
    | st.dates()
    | st.times()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=8,
)


@MANY
@given(scripts, st.sampled_from(["al2@latest", "al2023@latest"]))
def test_a_script_is_its_own_part_and_ours_stays_the_same(text: str, alias: str) -> None:
    assume(text.strip() and not is_archive(text))
    ours = readers.content(readers.parts(PLAIN.render(alias).data.decode())[0])
    try:
        archive = replace(PLAIN, custom=text).render(alias).data.decode()
    except UserDataError as error:
        assert error.line is not None  # noqa: PT017  refused or kept, both with a promise
        return

    first, second = readers.parts(archive)

    kept = text.replace("\r\n", "\n")
    assert readers.content(first) in (kept, kept.lstrip())
    assert readers.content(second) == ours


@st.composite
def archives(draw: st.DrawFn) -> tuple[str, list[str]]:
    """An archive with its own boundary, and the texts in it."""
    boundary = draw(words.filter(lambda text: not text.endswith(" ")))
    texts = draw(st.lists(anything, min_size=1, max_size=4))
    texts = [text.replace("\r", "") for text in texts]
    assume(not any(boundary in text for text in texts))
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for text in texts:
        encoded = base64.b64encode(text.encode()).decode()
        lines += [f"--{boundary}", "Content-Type: text/x-shellscript", "Content-Transfer-Encoding: base64"]
        lines += ["", encoded]
    return "\n".join([*lines, f"--{boundary}--", ""]), texts


@MANY
@given(archives(), st.sampled_from(["al2@latest", "al2023@latest"]))
def test_an_archive_keeps_its_parts_under_our_boundary(archive: tuple[str, list[str]], alias: str) -> None:
    custom, texts = archive

    *theirs, _ = readers.parts(replace(PLAIN, custom=custom).render(alias).data.decode())

    assert [readers.content(part) for part in theirs] == texts


@MANY
@given(st.lists(st.builds(Part, st.just(("Content-Type: text/plain",)), anything), min_size=1, max_size=4))
def test_our_reader_and_the_email_parser_agree_about_what_we_write(parts: list[Part]) -> None:
    parts = [replace(part, text=part.text.replace("\r", "")) for part in parts]

    written = write_archive(parts)

    texts = [part.text for part in parts]
    assert [part.text for part in read_archive(written)] == texts
    assert [part.get_payload() for part in readers.parts(written)] == texts


@MANY
@given(st.dictionaries(anything, values, max_size=4))
def test_tomllib_reads_back_whatever_we_write(table: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(table)) == table


@MANY
@given(st.dictionaries(anything, values, max_size=3))
def test_settings_of_the_user_that_we_do_not_touch_are_kept(table: dict[str, Any]) -> None:
    custom = write_toml({"settings": {"network": table}})
    assume(len(custom.encode()) < 8000)

    read = tomllib.loads(replace(PLAIN, custom=custom).render("bottlerocket@latest").data.decode())

    assert read["settings"]["network"] == table


@MANY
@given(
    anything, st.sampled_from(["al2@latest", "al2023@latest", "bottlerocket@latest", "windows2022@latest"])
)
def test_any_text_gives_user_data_or_an_error_that_names_class_and_field(text: str, alias: str) -> None:
    try:
        replace(PLAIN, custom=text).render(alias)
    except UserDataError as error:
        assert (error.node_class, error.field) == ("any", "spec.userData")  # noqa: PT017
        assert error.line is not None  # noqa: PT017
        assert 1 <= error.line <= text.count("\n") + 1  # noqa: PT017
