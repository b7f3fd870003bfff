# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

import pytest

import karpenter.api.legacy
from karpenter.api.legacy import conversion


@pytest.mark.parametrize("name", karpenter.api.legacy.__all__)
def test_the_conversions_names_can_be_had_from_the_package(name: str) -> None:
    assert getattr(karpenter.api.legacy, name) is getattr(conversion, name)


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'convrt'"):
        _ = karpenter.api.legacy.convrt


def test_who_reads_the_types_does_not_wait_for_the_schema_engine() -> None:
    script = "import sys, karpenter.api.legacy.provisioner; sys.exit('karpenter.api.schema' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
