# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.legacy import convert
from tests.unit.api.legacy.builders import (
    beta_claim,
    beta_pool,
    converted,
    machine,
    node_template,
    provisioner,
    refusals,
    warned_fields,
)


def test_a_machine_becomes_a_claim_on_the_same_class() -> None:
    (new,) = converted(machine(resources={"requests": {"cpu": "2", "pods": 3}}))

    assert (new["apiVersion"], new["kind"]) == ("karpenter.sh/v1", "NodeClaim")
    assert new["spec"]["resources"] == {"requests": {"cpu": "2", "pods": 3}}
    assert new["spec"]["nodeClassRef"]["name"] == "default"


def test_applying_a_claim_orders_a_new_instance_which_is_warned_of() -> None:
    for old in (machine(), beta_claim()):
        old["status"] = {"providerID": "aws:///a/i-1"}

        conversion = convert([old])

        assert "status" not in conversion.objects[0]
        assert (f"{old['kind']} default-x7k2p", "status") in warned_fields(conversion)


@pytest.mark.parametrize(("seconds", "expiry"), [(3600, "1h"), (None, "Never")])
def test_a_machine_expires_as_its_provisioner_said(seconds: int | None, expiry: str) -> None:
    _, new = converted(provisioner(ttlSecondsUntilExpired=seconds), machine())

    assert new["spec"]["expireAfter"] == expiry


def test_a_beta_claim_expires_as_its_pool_said() -> None:
    _, new = converted(beta_pool(disruption={"expireAfter": "48h"}), beta_claim())

    assert new["spec"]["expireAfter"] == "48h"


@pytest.mark.parametrize("pool", ["absent", ""])
def test_without_its_pool_a_claim_never_expires_and_says_so(pool: str) -> None:
    for old in (machine(pool=pool), beta_claim(pool=pool)):
        conversion = convert([old])

        assert conversion.objects[0]["spec"]["expireAfter"] == "Never"
        assert (f"{old['kind']} default-x7k2p", "spec.expireAfter") in warned_fields(conversion)


def test_a_machine_uses_the_class_that_its_provisioners_settings_made() -> None:
    kubelet = {"maxPods": 9}
    _, _, node_class, other, claim = converted(
        provisioner("a"),
        provisioner("b", kubeletConfiguration=kubelet),
        node_template(),
        machine(kubelet=kubelet),
    )

    assert claim["spec"]["nodeClassRef"]["name"] == node_class["metadata"]["name"]
    assert node_class["spec"]["kubelet"] == kubelet
    assert other["metadata"]["name"] == "default-a"


def test_a_machine_without_node_template_is_refused() -> None:
    assert [field for field, _ in refusals(convert([machine(machineTemplateRef=None)]))] == [
        "spec.machineTemplateRef.name"
    ]


def test_a_machine_of_another_cloud_is_refused() -> None:
    conversion = convert([machine(machineTemplateRef={"name": "a", "kind": "GCPNodeTemplate"})])

    assert [field for field, _ in refusals(conversion)] == ["spec.machineTemplateRef.kind"]
