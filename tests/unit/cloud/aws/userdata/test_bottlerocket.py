# SPDX-License-Identifier: Apache-2.0
import tomllib
from dataclasses import replace
from typing import Any

import pytest

from karpenter.api.core import Taint
from karpenter.api.ec2nodeclass import KubeletConfiguration
from karpenter.cloud.aws.userdata import UserDataError
from tests.unit.cloud.aws.userdata.builders import CLUSTER, node_class, render

RAID = "000-mount-instance-storage"
EXPLICIT = ["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]


def settings(alias: str = "bottlerocket@latest", **options: Any) -> dict[str, Any]:
    rendered = render(node_class(alias, **options.pop("of", {})), **options)
    found: dict[str, Any] = tomllib.loads(rendered.data.decode())["settings"]
    return found


def test_the_cluster_labels_and_taints_are_told() -> None:
    taints = (
        Taint(key="a", value="1", effect="NoSchedule"),
        Taint(key="a", value="1", effect="NoExecute"),
    )

    found = settings(taints=taints)

    assert found == {
        "kubernetes": {
            "api-server": CLUSTER.endpoint,
            "cluster-certificate": CLUSTER.ca_bundle,
            "cluster-name": "shop",
            "cluster-dns-ip": "10.100.0.10",
            "max-pods": 58,
            "node-labels": {
                "karpenter.sh/capacity-type": "spot",
                "karpenter.sh/do-not-sync-taints": "true",
                "karpenter.sh/nodepool": "default",
                "team": "a",
            },
            "node-taints": {
                "a": ["1:NoSchedule", "1:NoExecute"],
                "karpenter.sh/unregistered": [":NoExecute"],
            },
        }
    }


def test_kubelet_settings_replace_those_of_the_user() -> None:
    kubelet = KubeletConfiguration(
        max_pods=10,
        system_reserved={"cpu": "1"},
        kube_reserved={"cpu": "2"},
        eviction_hard={"memory.available": "5%"},
        eviction_soft={"memory.available": "6%"},
        eviction_soft_grace_period={"memory.available": "1m"},
        eviction_max_pod_grace_period=60,
        image_gc_high_threshold_percent=80,
        image_gc_low_threshold_percent=50,
        cpu_cfs_quota=False,
    )
    custom = "[settings.kubernetes.kube-reserved]\nmemory = '1Gi'"

    found = settings(of={"kubelet": kubelet, "custom": custom})["kubernetes"]

    assert {
        name: found[name]
        for name in found
        if name.startswith(("kube-", "system-", "eviction", "image", "cpu"))
    } == {
        "system-reserved": {"cpu": "1"},
        "kube-reserved": {"cpu": "2"},
        "eviction-hard": {"memory.available": "5%"},
        "eviction-soft": {"memory.available": "6%"},
        "eviction-soft-grace-period": {"memory.available": "1m"},
        "eviction-max-pod-grace-period": 60,
        "image-gc-high-threshold-percent": "80",
        "image-gc-low-threshold-percent": "50",
        "cpu-cfs-quota-enforced": False,
    }
    assert found["max-pods"] == 10


def test_the_users_settings_are_kept_where_ours_say_nothing() -> None:
    custom = """
[settings.kubernetes]
api-server = "theirs"
node-taints.theirs = ["x:NoSchedule"]
eviction-hard."memory.available" = "12%"
[settings.kubernetes.node-labels]
theirs = "kept"
team = "theirs"
[settings.ntp]
time-servers = ["169.254.169.123"]
"""

    found = settings(of={"custom": custom})

    assert found["ntp"] == {"time-servers": ["169.254.169.123"]}
    assert found["kubernetes"]["api-server"] == CLUSTER.endpoint
    assert found["kubernetes"]["eviction-hard"] == {"memory.available": "12%"}
    assert found["kubernetes"]["node-labels"]["theirs"] == "kept"
    assert found["kubernetes"]["node-labels"]["team"] == "a"
    assert "theirs" not in found["kubernetes"]["node-taints"]


def test_what_is_not_known_is_not_said() -> None:
    custom = "[settings.kubernetes]\ncluster-certificate = 'theirs'"

    found = settings(cluster=replace(CLUSTER, ca_bundle="", dns_ip=""), max_pods=None, of={"custom": custom})

    assert set(found["kubernetes"]) == {"api-server", "cluster-name", "node-labels", "node-taints"}


def test_settings_that_would_make_bottlerocket_refuse_all_are_left_out_with_a_warning() -> None:
    custom = "other = 1\n[settings.kubernetes]\nlabels = 1\nmax-pod = 2\n"

    rendered = render(node_class("bottlerocket@latest", custom=custom))

    found = tomllib.loads(rendered.data.decode())
    assert set(found) == {"settings"}
    assert not {"labels", "max-pod"} & set(found["settings"]["kubernetes"])
    assert [warning.message.split()[0] for warning in rendered.warnings] == [
        "other",
        "settings.kubernetes.labels",
        "settings.kubernetes.max-pod",
    ]


@pytest.mark.parametrize(
    ("custom", "line", "problem"),
    [
        ("#!/bin/bash\n./not-toml.sh", 2, "not TOML"),
        ("a = 1\nb = '''", 2, "not TOML"),
        ("settings = 1", 1, "settings is not a table"),
        ("[settings]\nkubernetes = 1", 1, "settings.kubernetes is not a table"),
        ("[settings.kubernetes]\nnode-labels = 'a'", 1, "settings.kubernetes.node-labels is not a table"),
    ],
)
def test_broken_user_data_is_refused_with_its_line(custom: str, line: int, problem: str) -> None:
    with pytest.raises(UserDataError, match=f"EC2NodeClass default: spec.userData line {line}: {problem}"):
        settings(of={"custom": custom})


def test_bootstrap_commands_must_be_a_table_if_ours_is_to_join_them() -> None:
    with pytest.raises(UserDataError, match=r"settings\.bootstrap-commands is not a table"):
        settings(of={"custom": "[settings]\nbootstrap-commands = 1", "raid0": True})


def test_disks_of_the_instance_are_mounted_beside_the_users_commands() -> None:
    custom = "[settings.bootstrap-commands.mine]\ncommands = [['apiclient', 'x']]\nmode = 'once'\nessential = false"

    commands = settings(of={"custom": custom, "raid0": True})["bootstrap-commands"]

    assert commands["mine"]["mode"] == "once"
    assert commands[RAID] == {
        "commands": [["apiclient", "ephemeral-storage", "init"], ["apiclient", "ephemeral-storage", "bind"]],
        "essential": True,
        "mode": "always",
    }


@pytest.mark.parametrize(
    ("alias", "terms", "images", "named"),
    [
        ("bottlerocket@latest", (), (), []),
        ("bottlerocket@v1.46.0", (), (), []),
        ("bottlerocket@1.45.1", (), (), EXPLICIT),
        ("bottlerocket@2.0.0", (), (), []),
        ("bottlerocket@odd", (), (), EXPLICIT),
        ("", (), (), EXPLICIT),
        ("", ("bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-431fe75a",), (), []),
        ("", ("bottlerocket-aws-k8s-1.33-x86_64-v1.9.0-431fe75a",), (), EXPLICIT),
        ("", ("bottlerocket-*",), ("bottlerocket-aws-k8s-1.33-x86_64-v1.47.0-0",), []),
        ("", ("bottlerocket-*",), ("bottlerocket-x-v1.47.0-0", "bottlerocket-y-v1.45.0-0"), EXPLICIT),
        ("", ("bottlerocket-*",), ("bottlerocket-x-v1.47.0-0", "mine"), EXPLICIT),
    ],
)
def test_directories_are_named_unless_every_image_is_known_to_know_them(
    alias: str, terms: tuple[str, ...], images: tuple[str, ...], named: list[str]
) -> None:
    of = {"raid0": True, "family": "Bottlerocket", "term_names": terms, "image_names": images}

    bind = settings(alias, of=of)["bootstrap-commands"][RAID]["commands"][1]

    assert bind == ["apiclient", "ephemeral-storage", "bind", *named]
