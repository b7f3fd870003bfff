# SPDX-License-Identifier: Apache-2.0
"""Our AWS provider beside the Go provider's own packages: types, launches, errors and hashes, on one EC2 model.

`python -m benchmarks.providers` compares more, and prints what it finds.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from benchmarks.peers.toolchain import PeerUnavailableError
from benchmarks.providers.asking import build_go
from benchmarks.providers.listed import row_of
from benchmarks.providers.running import Sizes, compare_providers

from tests.e2e.controlplane.binaries import OPTIONAL_VARIABLE
from tests.e2e.scenes import figure

pytestmark = pytest.mark.timeout(2400)  # the first run builds the Go program

_SIZES = Sizes(classes=6, launches=6)


@pytest.fixture(scope="module")
def program() -> Path:
    """The Go program."""
    try:
        return build_go(os.environ, figure)
    except PeerUnavailableError as error:
        # As the control plane's programs: left out only where somebody says that it may be.
        (pytest.skip if os.environ.get(OPTIONAL_VARIABLE) == "1" else pytest.fail)(str(error))


def test_every_difference_from_the_go_provider_is_a_listed_one(program: Path) -> None:
    tally = asyncio.run(compare_providers(program, _SIZES, figure))

    figure(f"{tally.compared:,} values compared, {len(tally.names)} differences, all of them listed")
    assert tally.compared > 100_000
    assert {
        name: tally.differences[name][0]
        for name in tally.names
        if row_of(name, tally.differences[name]) is None
    } == {}
