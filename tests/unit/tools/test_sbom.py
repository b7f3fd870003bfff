# SPDX-License-Identifier: Apache-2.0
"""The list of what the product is made of."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tools.sbom import bill_of_materials, read_lock

_ROOT = Path(__file__).resolve().parents[3]
_HASH = "a" * 64


def test_every_runtime_dependency_is_named_with_its_release_and_hashes() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (_ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8")

    document = bill_of_materials(lock, project)

    named = {each["name"] for each in document["components"]}
    assert {"aiohttp", "boto3", "click", "msgspec", "pyyaml", "structlog"} <= named
    assert all(each["properties"] for each in document["components"])
    assert document == bill_of_materials(lock, project)


def test_a_marker_is_kept() -> None:
    lock = f"colorama==0.4.6 ; sys_platform == 'win32' \\\n    --hash=sha256:{_HASH}\n"

    assert read_lock(lock) == [
        {"name": "colorama", "version": "0.4.6", "marker": "sys_platform == 'win32'", "hashes": [_HASH]}
    ]


@pytest.mark.parametrize(
    ("lock", "words"), [("click>=8\n", "line 1"), ("click==8.2.0\n", "packages without a hash: click")]
)
def test_a_lock_that_pins_too_little_is_refused(lock: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_lock(lock)
