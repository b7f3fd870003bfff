# SPDX-License-Identifier: Apache-2.0
import base64
import gzip
import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml

from karpenter.api.core import Taint
from karpenter.api.ec2nodeclass import KubeletConfiguration
from karpenter.cloud.aws.userdata import CLUSTER_CIDR_UNKNOWN, INVALID, UserDataError
from tests.unit.cloud.aws.userdata.builders import CLUSTER, content_of, node_class, parts_of, render, text_of

NODE_CONFIG = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  containerd: {}
"""

_OURS = "karpenter.sh/capacity-type=spot,karpenter.sh/do-not-sync-taints=true"
LABELS_TOLD = f"{_OURS},karpenter.sh/nodepool=default,team=a"


def arguments(**options: Any) -> list[str]:
    script = content_of(parts_of(text_of(node_class("al2@latest", **options.pop("of", {})), **options))[-1])
    return shlex.split(script[script.index("/etc/eks/bootstrap.sh") :].replace("\\\n", ""))


def kubelet_arguments(**options: Any) -> list[str]:
    words = arguments(**options)
    return shlex.split(words[words.index("--kubelet-extra-args") + 1])


def config(**options: Any) -> Any:
    text = text_of(node_class("al2023@latest", **options.pop("of", {})), **options)
    return yaml.safe_load(content_of(parts_of(text)[-1]))


def test_al2_calls_its_bootstrap_script_with_the_cluster() -> None:
    assert arguments()[:10] == [
        "/etc/eks/bootstrap.sh",
        "shop",
        "--apiserver-endpoint",
        CLUSTER.endpoint,
        "--b64-cluster-ca",
        CLUSTER.ca_bundle,
        "--dns-cluster-ip",
        "10.100.0.10",
        "--use-max-pods",
        "false",
    ]


def test_al2_leaves_out_what_is_not_known() -> None:
    bare = replace(CLUSTER, ca_bundle="", dns_ip="")

    words = arguments(cluster=bare, max_pods=None)

    assert words[:5] == [
        "/etc/eks/bootstrap.sh",
        "shop",
        "--apiserver-endpoint",
        CLUSTER.endpoint,
        "--kubelet-extra-args",
    ]


def test_al2_is_told_ipv6_when_dns_has_such_an_address() -> None:
    assert "--ip-family" not in arguments()
    assert arguments(cluster=replace(CLUSTER, dns_ip="fd30::a"))[6:8] == ["--ip-family", "ipv6"]
    assert "--ip-family" in arguments(cluster=replace(CLUSTER, dns_ip="", ip_family="ipv6"))


def test_al2_joins_the_disks_of_the_instance() -> None:
    assert arguments(of={"raid0": True})[-2:] == ["--local-disks", "raid0"]


def test_an_address_of_dns_that_is_none_is_refused_by_its_field() -> None:
    kubelet = KubeletConfiguration(cluster_dns=("kube-dns",))

    with pytest.raises(UserDataError, match=r"spec.kubelet.clusterDNS\[0\]: 'kube-dns' is not an IP address"):
        arguments(of={"kubelet": kubelet})


def test_kubelet_settings_come_in_karpenters_order() -> None:
    kubelet = KubeletConfiguration(
        cluster_dns=("10.0.0.1", "10.0.0.2"),
        max_pods=10,
        pods_per_core=2,
        system_reserved={"memory": "1Gi", "cpu": "100m"},
        kube_reserved={"cpu": "1"},
        eviction_hard={"nodefs.available": "10%", "memory.available": "5%"},
        eviction_soft={"memory.available": "1Gi"},
        eviction_soft_grace_period={"memory.available": "1m"},
        eviction_max_pod_grace_period=60,
        image_gc_high_threshold_percent=80,
        image_gc_low_threshold_percent=50,
        cpu_cfs_quota=True,
    )

    flags = kubelet_arguments(of={"kubelet": kubelet})

    assert flags == [
        f"--node-labels={LABELS_TOLD}",
        "--register-with-taints=team=a:NoSchedule,karpenter.sh/unregistered:NoExecute",
        "--max-pods=10",
        "--pods-per-core=2",
        "--system-reserved=cpu=100m,memory=1Gi",
        "--kube-reserved=cpu=1",
        "--eviction-hard=memory.available<5%,nodefs.available<10%",
        "--eviction-soft=memory.available<1Gi",
        "--eviction-soft-grace-period=memory.available=1m",
        "--eviction-max-pod-grace-period=60",
        "--image-gc-high-threshold=80",
        "--image-gc-low-threshold=50",
        "--cpu-cfs-quota=true",
    ]


def test_a_quota_that_is_off_is_said() -> None:
    assert (
        kubelet_arguments(of={"kubelet": KubeletConfiguration(cpu_cfs_quota=False)})[-1]
        == "--cpu-cfs-quota=false"
    )


def test_labels_that_a_kubelet_may_not_set_are_left_out() -> None:
    labels = {
        "kubernetes.io/arch": "amd64",
        "x.k8s.io/y": "1",
        "node-restriction.kubernetes.io/z": "1",
        "mine": "1",
    }

    assert kubelet_arguments(labels=labels)[0] == "--node-labels=karpenter.sh/do-not-sync-taints=true,mine=1"


def test_of_a_taint_given_twice_the_first_stays() -> None:
    taints = (
        Taint(key="team", value="a", effect="NoSchedule"),
        Taint(key="team", value="b", effect="NoSchedule"),
        Taint(key="karpenter.sh/unregistered", effect="NoExecute"),
    )

    flags = kubelet_arguments(taints=taints)

    assert flags[1] == "--register-with-taints=team=a:NoSchedule,karpenter.sh/unregistered:NoExecute"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"labels": {"a=b": "c"}}, "label:"),
        ({"labels": {"a": "b c"}}, "labels:"),
        ({"taints": (Taint(key="a:b", effect="NoSchedule"),)}, "taint:"),
        ({"taints": (Taint(key="a", value="b=c", effect="NoSchedule"),)}, "taint:"),
        (
            {"of": {"kubelet": KubeletConfiguration(kube_reserved={"cpu=": "1"})}},
            "spec.kubelet.kubeReserved:",
        ),
        (
            {"of": {"kubelet": KubeletConfiguration(kube_reserved={"cpu": "1 "})}},
            "spec.kubelet.kubeReserved:",
        ),
    ],
)
def test_a_value_that_the_kubelet_would_read_differently_is_refused(
    options: dict[str, Any], field: str
) -> None:
    with pytest.raises(UserDataError, match=f"EC2NodeClass default: {field}"):
        arguments(**options)


def test_al2023_gets_a_node_config() -> None:
    kubelet = KubeletConfiguration(kube_reserved={"memory": "1Gi", "cpu": "1"}, pods_per_core=2)

    found = config(of={"kubelet": kubelet, "raid0": True})

    assert found == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": "shop",
                "apiServerEndpoint": CLUSTER.endpoint,
                "certificateAuthority": CLUSTER.ca_bundle,
                "cidr": "10.100.0.0/16",
            },
            "instance": {"localStorage": {"strategy": "RAID0"}},
            "kubelet": {
                "config": {
                    "clusterDNS": ["10.100.0.10"],
                    "kubeReserved": {"cpu": "1", "memory": "1Gi"},
                    "maxPods": 58,
                    "podsPerCore": 2,
                    "registerWithTaints": [
                        {"key": "team", "value": "a", "effect": "NoSchedule"},
                        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
                    ],
                },
                "flags": [
                    f'--node-labels="{LABELS_TOLD}"',
                ],
            },
        },
    }


def test_al2023_finds_the_certificate_itself_where_none_is_known() -> None:
    assert "certificateAuthority" not in config(cluster=replace(CLUSTER, ca_bundle=""))["spec"]["cluster"]


@pytest.mark.parametrize("bundle", ["not base64!", "ä"])
def test_a_certificate_that_is_not_base64_is_refused(bundle: str) -> None:
    with pytest.raises(UserDataError, match="cluster CA bundle: the bundle is not base64"):
        config(cluster=replace(CLUSTER, ca_bundle=bundle))


def test_al2023_waits_for_the_service_cidr() -> None:
    with pytest.raises(UserDataError, match="service CIDR") as caught:
        config(cluster=replace(CLUSTER, service_cidr=""))

    assert caught.value.reason == CLUSTER_CIDR_UNKNOWN


@pytest.mark.parametrize(
    ("alias", "custom", "content_type", "charset"),
    [
        ("al2@latest", "#!/bin/sh\necho hi\n", "text/x-shellscript", "us-ascii"),
        ("al2@latest", "#cloud-config\nruncmd: []\n", "text/cloud-config", "us-ascii"),
        ("al2@latest", NODE_CONFIG, "text/x-shellscript", "us-ascii"),
        ("al2023@latest", "#!/bin/sh\napiVersion: no\n", "text/x-shellscript", "us-ascii"),
        ("al2023@latest", "echo hi\n", "text/x-shellscript", "us-ascii"),
        ("al2023@latest", "# only: a comment\n", "text/x-shellscript", "us-ascii"),
        ("al2023@latest", NODE_CONFIG, "application/node.eks.aws", None),
    ],
)
def test_the_users_own_text_is_the_first_part(
    alias: str, custom: str, content_type: str, charset: str | None
) -> None:
    first, _ = parts_of(text_of(node_class(alias, custom=custom)))

    assert (first.get_content_type(), first.get_content_charset()) == (content_type, charset)
    assert content_of(first) == custom


def test_a_script_without_shebang_is_kept_with_a_warning() -> None:
    (warning,) = render(node_class("al2@latest", custom="echo hi")).warnings

    assert str(warning) == "spec.userData: the script does not begin with #!, so cloud-init cannot run it"
    assert "#!/bin/bash" in warning.hint


def test_blanks_alone_are_no_user_data() -> None:
    assert text_of(node_class(custom=" \n")) == text_of(node_class())


def test_parts_of_the_users_archive_are_kept_before_ours() -> None:
    custom = (
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n'
        f"--B\nContent-Type: application/node.eks.aws\n\n{NODE_CONFIG}\n"
        "--B\nContent-Type: text/x-shellscript\nContent-Transfer-Encoding: base64\n\nZWNobyBoaQ==\n--B--\n"
    )

    parts = parts_of(text_of(node_class(custom=custom)))

    assert [content_of(part) for part in parts[:2]] == [NODE_CONFIG, "echo hi"]
    assert len(parts) == 3


@pytest.mark.parametrize(
    ("custom", "line", "problem"),
    [
        ("apiVersion: node.eks.aws/v1alpha1\nkind: [", 2, "the NodeConfig cannot be read: not YAML"),
        ("foo: bar\nkind: NodeConfig", 1, "apiVersion None, kind NodeConfig is not a NodeConfig"),
        ("\n\nfoo: bar", 3, "is not a NodeConfig"),
        (f"{NODE_CONFIG}---\n{NODE_CONFIG}", 1, "one NodeConfig is expected, 2 found"),
        (
            "Content-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: application/node.eks.aws\n\na: [\n--B--",
            6,
            "the NodeConfig cannot be read",
        ),
        ("Content-Type: multipart/mixed; boundary=B\n\n--B\n#!/bin/sh\n--B--", 4, "is not a MIME header"),
        (base64.b64encode(gzip.compress(b"x" * 99, mtime=0)).decode(), 1, "this is gzip encoded in base64"),
        (base64.b64encode(b"#!/bin/sh\necho hi").decode(), 1, "this is text encoded in base64"),
    ],
)
def test_broken_user_data_is_refused_with_class_field_and_line(custom: str, line: int, problem: str) -> None:
    with pytest.raises(UserDataError) as caught:
        render(node_class(custom=custom))

    assert caught.value.message.startswith(f"EC2NodeClass default: spec.userData line {line}: ")
    assert problem in caught.value.message
    assert (caught.value.node_class, caught.value.field, caught.value.line) == (
        "default",
        "spec.userData",
        line,
    )
    assert caught.value.reason == INVALID
    assert caught.value.hint


@pytest.mark.parametrize("custom", ["poweroff", "abcd efg", base64.b64encode(b"hello there").decode()])
def test_words_that_only_look_like_base64_are_a_script(custom: str) -> None:
    assert content_of(parts_of(text_of(node_class("al2@latest", custom=custom)))[0]) == custom
