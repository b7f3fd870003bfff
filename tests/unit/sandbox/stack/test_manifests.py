# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.sandbox.stack.manifests import eks_addons


def test_dns_of_an_ipv6_cluster_has_an_ipv6_address() -> None:
    (plain,) = (each for each in eks_addons() if each["kind"] == "Service")
    (ipv6,) = (each for each in eks_addons("ipv6") if each["kind"] == "Service")

    assert "clusterIP" not in plain["spec"]
    assert ":" in ipv6["spec"]["clusterIP"]
    assert ipv6["spec"]["ipFamilies"] == ["IPv6"]
