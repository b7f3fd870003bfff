# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.kube import AlreadyExistsError, ForbiddenError
from karpenter.operator.journal import CONFIG_MAPS
from karpenter.operator.removing import ConfigMapStore, choices
from karpenter.operator.settings import Gates, Settings
from tests.unit.controllers.paper import PaperClient


async def test_a_text_is_kept_in_one_config_map() -> None:
    client = PaperClient()
    store = ConfigMapStore(client, "karpenter")
    assert await store.load() == ""

    await store.save("first")
    await store.save("second")

    assert await ConfigMapStore(client, "karpenter").load() == "second"
    assert len((await client.list(CONFIG_MAPS)).items) == 1


async def test_whoever_else_made_it_first_is_no_trouble_and_missing_rights_are() -> None:
    client = PaperClient()
    client.fail("create", "configmaps", AlreadyExistsError("there", status=409, reason="AlreadyExists"))
    await ConfigMapStore(client, "karpenter").save("a")
    client.fail("patch", "configmaps", ForbiddenError("no", status=403))

    with pytest.raises(ForbiddenError):
        await ConfigMapStore(client, "karpenter").save("a")


def test_what_is_set_is_what_is_decided_by() -> None:
    settings = Settings(
        cluster_name="c",
        consolidation_horizon=7200.0,
        consolidation_eviction_price=0.5,
        min_values_policy="BestEffort",
        feature_gates=Gates(spot_to_spot_consolidation=True),
    )

    found = choices(settings)

    assert found.horizon_h == 2.0
    assert found.eviction_price == 0.5
    assert found.spot_to_spot
    assert found.solve.min_values == "BestEffort"
