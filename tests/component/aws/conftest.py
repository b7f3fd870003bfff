# SPDX-License-Identifier: Apache-2.0
"""One model for all tests of this folder, made fresh for each; a provider that only the environment leads to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from karpenter.cloud.aws.api import BotoAws
from karpenter.cloud.aws.provider import AwsProvider, AwsSettings, connect
from tests.component.aws.stand import CLUSTER, Model, Remembering, running_model

Connect = Callable[..., Awaitable[AwsProvider]]


@pytest.fixture(scope="session")
def _shared_model() -> Iterator[Model]:
    with running_model() as model:
        yield model


@pytest.fixture(scope="session")
def _seen() -> dict[str, list[dict[str, Any]]]:
    return {}


@pytest.fixture
def model(_shared_model: Model, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model with nothing in it but what a cluster needs, and the environment that leads there."""
    _shared_model.do("reset")
    for name, value in _shared_model.environment.items():
        monkeypatch.setenv(name, value)
    return _shared_model


@pytest.fixture
async def aws(model: Model, _seen: dict[str, list[dict[str, Any]]]) -> AsyncIterator[Remembering]:
    """AWS as the environment says."""
    assert model.url
    boto = BotoAws()
    yield Remembering(boto, _seen)
    boto.close()


@pytest.fixture
async def connected(aws: Remembering) -> AsyncIterator[Connect]:
    """Makes providers, and closes them."""
    made: list[AwsProvider] = []

    async def make(**options: Any) -> AwsProvider:
        provider = await connect(AwsSettings(cluster_name=CLUSTER), **{"aws": aws, **options})
        made.append(provider)
        return provider

    yield make
    for provider in made:
        await provider.close()
