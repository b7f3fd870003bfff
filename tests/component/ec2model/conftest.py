# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.component.ec2model.standing import Model, standing_model


@pytest.fixture(scope="module")
def server() -> Iterator[Model]:
    with standing_model() as model:
        yield model


@pytest.fixture
def model(server: Model) -> Model:
    """Gives the module's model, begun anew."""
    server.post("reset")
    return server
