# SPDX-License-Identifier: Apache-2.0
"""Whole inputs and what `karpenter convert` makes of them, on stdout and on stderr, kept as files.

The inputs are the files in examples/ and tests/golden/convert/*.input.yaml. After an intended change,
`KARPENTER_UPDATE_GOLDEN=1 python -m pytest tests/golden` writes the expectations anew; review them as a diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from karpenter.api.legacy import convert
from karpenter.api.manifests import read_manifests
from karpenter.cli.convert import findings, rendered

ROOT = Path(__file__).parents[2]
EXPECTED = Path(__file__).parent / "convert"
INPUTS = {
    path.name.removesuffix(".yaml").removesuffix(".input"): path
    for path in (*sorted((ROOT / "examples").glob("*.yaml")), *sorted(EXPECTED.glob("*.input.yaml")))
}


@pytest.mark.parametrize("case", INPUTS)
def test_convert_makes_what_was_reviewed(case: str) -> None:
    path = INPUTS[case]
    to: Literal["v1", "v1beta1"] = "v1beta1" if case.startswith("back-") else "v1"

    manifests = read_manifests(path.read_bytes(), path.name)
    conversion = convert([manifest.object for manifest in manifests], to=to)
    outcome = {
        "yaml": rendered(conversion, "yaml"),
        "txt": "".join(f"{label} {line}".lstrip() + "\n" for label, line in findings(conversion, manifests)),
    }

    for suffix, text in outcome.items():
        expected = EXPECTED / f"{case}.{suffix}"
        if os.environ.get("KARPENTER_UPDATE_GOLDEN"):
            expected.write_text(text, encoding="utf-8")
        assert text == expected.read_text(encoding="utf-8")


def test_every_expectation_has_an_input() -> None:
    expected = {path.stem for path in EXPECTED.iterdir() if not path.name.endswith(".input.yaml")}

    assert expected == set(INPUTS)
