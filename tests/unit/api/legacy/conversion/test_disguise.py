# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.legacy import convert
from karpenter.api.schema import load_crds
from tests.unit.api.legacy.builders import (
    beta_claim,
    beta_class,
    beta_pool,
    converted,
    node_class,
    node_pool,
    warned_fields,
)


def read_as_v1(written: dict[str, Any]) -> dict[str, Any]:
    """What an API server that stores v1 hands out for an object written through v1beta1."""
    stored = load_crds().admit(written).object
    return load_crds().admit({**stored, "apiVersion": stored["apiVersion"].replace("v1beta1", "v1")}).object


@pytest.mark.parametrize(
    "written",
    [
        beta_pool(kubelet={"maxPods": 5}, disruption={"expireAfter": "48h"}),
        beta_pool(
            disruption={"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m", "expireAfter": "Never"}
        ),
        beta_pool(),
        beta_claim(),
        beta_class(),
        beta_class(
            amiFamily="Ubuntu", amiSelectorTerms=[{"id": "ami-1"}], metadataOptions={"httpTokens": "optional"}
        ),
    ],
)
def test_an_object_written_as_v1beta1_and_handed_out_as_v1_converts_as_it_was_meant(
    written: dict[str, Any],
) -> None:
    handed_out = read_as_v1(written)

    conversion = convert([handed_out])

    assert [load_crds().admit(each).object for each in conversion.objects] == [
        load_crds().admit(each).object for each in converted(written)
    ]
    assert (f"{written['kind']} {written['metadata']['name']}", "apiVersion") in warned_fields(conversion)


@pytest.mark.parametrize(
    "broken",
    [
        node_pool(nodeClassRef={"name": "default"}, terminationGracePeriod="1h"),
        node_pool(nodeClassRef={"kind": "EC2NodeClass"}),
        node_pool(nodeClassRef="text"),
        node_class(amiSelectorTerms=None),
        {**node_pool(), "spec": "text"},
    ],
)
def test_a_broken_v1_object_stays_a_broken_v1_object(broken: dict[str, Any]) -> None:
    conversion = convert([broken])

    assert conversion.objects == (broken,)
    assert all("the API server will refuse it" in warning.text for warning in conversion.warnings)
    assert conversion.warnings
