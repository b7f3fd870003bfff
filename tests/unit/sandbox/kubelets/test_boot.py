# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip

import pytest

from karpenter.api.core import Taint
from karpenter.sandbox.kubelets.boot import AL2, AL2023, BOTTLEROCKET, OTHER, WINDOWS, family_of, read_boot
from karpenter.sandbox.kubelets.kubeletconfig import BootError
from tests.unit.sandbox.kubelets.builders import golden

ENDPOINT = "https://0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com"
LABELS = {
    "karpenter.sh/capacity-type": "spot",
    "karpenter.sh/do-not-sync-taints": "true",
    "karpenter.sh/nodepool": "default",
    "team": "a",
}
TAINTS = {
    Taint(key="team", value="a", effect="NoSchedule"),
    Taint(key="karpenter.sh/unregistered", effect="NoExecute"),
}
NODE_CONFIG = """
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: shop, apiServerEndpoint: "https://x", certificateAuthority: Q0E=, cidr: 10.0.0.0/16}
"""


@pytest.mark.parametrize("merged", ["own", "merged"])
@pytest.mark.parametrize(
    ("name", "family", "raid0"),
    [
        ("al2", AL2, True),
        ("al2023", AL2023, True),
        ("bottlerocket", BOTTLEROCKET, True),
        ("windows2022", WINDOWS, False),
    ],
)
@pytest.mark.parametrize("told", [True, False])
def test_each_image_reads_what_the_provider_wrote(
    name: str, merged: str, family: str, *, raid0: bool, told: bool
) -> None:
    boot = read_boot(golden(f"{name}-{merged}"), family if told else OTHER)

    assert (boot.cluster, boot.endpoint, boot.family, boot.raid0) == ("shop", ENDPOINT, family, raid0)
    assert boot.kubelet.labels == LABELS
    assert set(boot.kubelet.taints) == TAINTS
    assert boot.kubelet.max_pods == 58
    assert boot.kubelet.kube_reserved == {"cpu": "100m", "memory": "1Gi"}
    assert boot.kubelet.eviction_hard == {"memory.available": "5%"}


@pytest.mark.parametrize(
    ("image", "family"),
    [
        ("amazon-eks-node-al2023-x86_64-standard-1.33-v20260101", AL2023),
        ("amazon-eks-node-1.32-v20260101", AL2),
        ("amazon-eks-gpu-node-1.32-v20260101", AL2),
        ("bottlerocket-aws-k8s-1.33-x86_64-v1.2601.1-5ab1e5ed", BOTTLEROCKET),
        ("Windows_Server-2022-English-Core-EKS_Optimized-1.33-2026.01.01", WINDOWS),
        ("my-own-image", OTHER),
    ],
)
def test_the_image_tells_how_user_data_is_read(image: str, family: str) -> None:
    assert family_of(image) == family


def test_a_script_of_ones_own_that_calls_bootstrap_joins() -> None:
    script = b"""#!/bin/bash
# /etc/eks/bootstrap.sh wrong
set -e
/etc/eks/bootstrap.sh shop \\
  --kubelet-extra-args '--max-pods=7
  --node-labels=a=b,c=d --node-labels e=f' --apiserver-endpoint https://x
echo done
"""

    boot = read_boot(script)

    assert (boot.cluster, boot.endpoint) == ("shop", "https://x")
    assert boot.kubelet.max_pods == 7
    assert boot.kubelet.labels == {"a": "b", "c": "d", "e": "f"}


def test_a_later_node_config_is_merged_over_an_earlier_one() -> None:
    mime = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: application/node.eks.aws

kind: NodeConfig
spec: {kubelet: {config: {maxPods: 5, kubeReserved: {cpu: 1m}}, flags: ["--node-labels=a=b"]}}
--b
Content-Type: application/node.eks.aws

kind: NodeConfig
spec:
  cluster: {name: shop, apiServerEndpoint: "https://x", certificateAuthority: Q0E=, cidr: 10.0.0.0/16}
  kubelet: {config: {maxPods: 6}, flags: ["--node-labels=c=d"]}
--b--
"""

    kubelet = read_boot(mime.encode()).kubelet

    assert kubelet.max_pods == 6
    assert kubelet.kube_reserved == {"cpu": "1m"}
    assert kubelet.labels == {"a": "b", "c": "d"}


def test_a_script_may_set_huge_pages_aside() -> None:
    script = "#!/bin/bash\n# vm.nr_hugepages=1\nsudo sysctl -w vm.nr_hugepages=2048\n"
    joins = f"{script}/etc/eks/bootstrap.sh shop\n"
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n--B\n'
    archive = (
        f"{head}Content-Type: text/x-shellscript\n\n{script}"
        f"--B\nContent-Type: application/node.eks.aws\n\n{NODE_CONFIG}--B--\n"
    )

    assert read_boot(joins.encode(), AL2).huge_pages == 2048
    assert read_boot(archive.encode(), AL2023).huge_pages == 2048
    assert read_boot(NODE_CONFIG.encode(), AL2023).huge_pages == 0


def test_packed_user_data_is_unpacked() -> None:
    assert read_boot(gzip.compress(NODE_CONFIG.encode())).cluster == "shop"


@pytest.mark.parametrize(
    ("text", "family", "why"),
    [
        ("", OTHER, "no user data"),
        ("\x1f\x8bx", OTHER, "cannot be decoded"),
        ("#!/bin/bash\necho hello", OTHER, "no script calls"),
        ("#!/bin/bash\n/etc/eks/bootstrap.sh 'shop", AL2, "never closed"),
        ("#!/bin/bash\n/etc/eks/bootstrap.sh --ip-family ipv6", AL2, "name of the cluster is missing"),
        ("#!/bin/bash\n/etc/eks/bootstrap.sh shop --ip-family", AL2, "has no value"),
        ('#!/bin/bash\n/etc/eks/bootstrap.sh shop --kubelet-extra-args "--a=\'"', AL2, "taken apart"),
        (NODE_CONFIG, AL2, "no script calls"),
        ("#!/bin/bash\n/etc/eks/bootstrap.sh shop", AL2023, "no NodeConfig"),
        (NODE_CONFIG.replace("name: shop, ", ""), AL2023, "name is missing"),
        (NODE_CONFIG.replace("certificateAuthority: Q0E=, ", ""), AL2023, "certificateAuthority is missing"),
        ("kind: NodeConfig\nspec: [", AL2023, "cannot read a NodeConfig"),
        ("- 1\nkind: NodeConfig", AL2023, "cannot read a NodeConfig"),
        ("[settings", BOTTLEROCKET, "cannot read its settings"),
        ("[settings.kubernetes]\napi-server='x'", BOTTLEROCKET, "cluster-name is missing"),
        ("echo", WINDOWS, "powershell tags"),
        ("<powershell>echo</powershell>", WINDOWS, r"no line calls Start-EKSBootstrap\.ps1"),
        (
            "<powershell>& $EKSBootstrapScriptFile -DNSClusterIP x</powershell>",
            WINDOWS,
            "EKSClusterName is missing",
        ),
    ],
)
def test_what_an_image_cannot_follow_keeps_the_machine_out(text: str, family: str, why: str) -> None:
    with pytest.raises(BootError, match=why):
        read_boot(text.encode("latin-1"), family)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("--node-labels=kubernetes.io/role=x", "may not set the label"),
        ("--node-labels=team.k8s.io/role=x", "may not set the label"),
        ("--node-labels=nothing", "has no '='"),
        ("--register-with-taints=a=b", "not key=value:effect"),
        ("--register-with-taints=a=b:NoSchedule,a=c:NoSchedule", "duplicated taints"),
        ("--max-pods=many", "not a number"),
    ],
)
def test_a_kubelet_that_refuses_its_flags_never_joins(flags: str, why: str) -> None:
    with pytest.raises(BootError, match=why):
        read_boot(f"#!/bin/bash\n/etc/eks/bootstrap.sh shop --kubelet-extra-args '{flags}'".encode())


def test_labels_of_kubernetes_that_kubelets_may_set_are_taken() -> None:
    labels = "topology.kubernetes.io/zone=a,node.kubernetes.io/x=y,kubelet.kubernetes.io/z=1,karpenter.sh/w=2"
    script = f"#!/bin/bash\n/etc/eks/bootstrap.sh shop --kubelet-extra-args '--node-labels={labels}'"

    assert len(read_boot(script.encode()).kubelet.labels) == 4
