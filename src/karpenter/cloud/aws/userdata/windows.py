# SPDX-License-Identifier: Apache-2.0
"""User data of Windows: PowerShell between tags, the user's text first, then the call that joins the cluster.

The tags are ours; the user's own are refused, because the agent would stop at the first that closes.
"""

from __future__ import annotations

import re
from typing import Final

from karpenter.cloud.aws.userdata.errors import BrokenTextError
from karpenter.cloud.aws.userdata.node import Node, kubelet_flags
from karpenter.cloud.aws.userdata.quoting import powershell_quote

__all__ = ["powershell_script"]

_OWN_TAG: Final = re.compile(r"<\s*/?\s*powershell\b", re.IGNORECASE)
_SCRIPT: Final = '[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1"'


def powershell_script(node: Node) -> str:
    """Give the whole text.

    Raises:
        BrokenTextError: The user's own text has tags.
        UnquotableError: A value cannot be written into it.
    """
    cluster = node.cluster
    call = (
        f"& $EKSBootstrapScriptFile -EKSClusterName {powershell_quote(cluster.name, 'cluster name')}"
        f" -APIServerEndpoint {powershell_quote(cluster.endpoint, 'cluster endpoint')}"
    )
    if cluster.ca_bundle:
        call += f" -Base64ClusterCA {powershell_quote(cluster.ca_bundle, 'cluster CA bundle')}"
    call += f" -KubeletExtraArgs {powershell_quote(' '.join(kubelet_flags(node)), 'kubelet arguments')}"
    if node.dns_ip:
        call += f" -DNSClusterIP {powershell_quote(node.dns_ip, 'spec.kubelet.clusterDNS[0]')}"
    return "\n".join(("<powershell>", *_custom(node.custom), _SCRIPT, call, "</powershell>", ""))


def _custom(text: str) -> tuple[str, ...]:
    tag = _OWN_TAG.search(text)
    if tag is not None:
        raise BrokenTextError(
            f"{tag[0]!r} would end the script early",
            line=text.count("\n", 0, tag.start()) + 1,
            hint="leave the powershell tags out; they are put around the whole",
        )
    # The empty line ends a last line that the user's text would continue.
    return (text, "") if text else ()
