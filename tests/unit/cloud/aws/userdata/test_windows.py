# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from karpenter.cloud.aws.userdata import UserDataError
from tests.unit.cloud.aws.userdata.builders import CLUSTER, node_class, text_of


@pytest.mark.parametrize("alias", ["windows2019@latest", "windows2022@latest", "windows2025@latest"])
def test_every_windows_calls_its_bootstrap_script(alias: str) -> None:
    assert text_of(node_class(alias)) == (
        "<powershell>\n"
        '[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1"\n'
        f"& $EKSBootstrapScriptFile -EKSClusterName 'shop' -APIServerEndpoint '{CLUSTER.endpoint}'"
        f" -Base64ClusterCA '{CLUSTER.ca_bundle}'"
        " -KubeletExtraArgs '--node-labels=\"karpenter.sh/capacity-type=spot,karpenter.sh/do-not-sync-taints=true,"
        'karpenter.sh/nodepool=default,team=a" '
        '--register-with-taints="team=a:NoSchedule,karpenter.sh/unregistered:NoExecute" --max-pods=58\''
        " -DNSClusterIP '10.100.0.10'\n"
        "</powershell>\n"
    )


def test_what_is_not_known_is_not_said() -> None:
    text = text_of(node_class("windows2022@latest"), cluster=replace(CLUSTER, ca_bundle="", dns_ip=""))

    assert "-Base64ClusterCA" not in text
    assert "-DNSClusterIP" not in text


def test_the_users_text_comes_first_and_cannot_run_into_ours() -> None:
    lines = text_of(node_class("windows2022@latest", custom="Write-Host `")).splitlines()

    assert lines[:3] == ["<powershell>", "Write-Host `", ""]
    assert lines[3].startswith("[string]$EKSBootstrapScriptFile")


@pytest.mark.parametrize("tag", ["<powershell>", "</PowerShell>", "< / powershell >"])
def test_tags_of_the_users_own_are_refused_with_their_line(tag: str) -> None:
    with pytest.raises(UserDataError, match=r"spec\.userData line 2: .* would end the script early"):
        text_of(node_class("windows2022@latest", custom=f"Write-Host a\n{tag}"))
