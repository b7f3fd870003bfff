# SPDX-License-Identifier: Apache-2.0
"""Whatever goes into user data is read back by the reader of its language, and nothing else is."""

from __future__ import annotations

import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karpenter.api.base import to_wire
from karpenter.cloud.aws.userdata import UserDataError
from tests.property.cloud.aws.userdata import readers
from tests.property.cloud.aws.userdata.expectations import Case, cases
from tests.property.cloud.aws.userdata.texts import anything

# Each example of the shell is a batch, because starting the shell takes longer than reading a script.
FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
RAID = "000-mount-instance-storage"


def check_flags(text: str, case: Case) -> None:
    flags = readers.kubelet_flags(text)
    kubelet = case.settings
    assert readers.pairs(flags.pop("--node-labels")) == case.told_labels
    assert readers.taints(flags.pop("--register-with-taints")) == case.told_taints
    assert flags.pop("--max-pods") == str(case.told_pods)
    maps = {
        "--system-reserved": (kubelet.system_reserved, "="),
        "--kube-reserved": (kubelet.kube_reserved, "="),
        "--eviction-hard": (kubelet.eviction_hard, "<"),
        "--eviction-soft": (kubelet.eviction_soft, "<"),
        "--eviction-soft-grace-period": (kubelet.eviction_soft_grace_period, "="),
    }
    for name, (entries, separator) in maps.items():
        read = readers.pairs(flags.pop(name), separator) if name in flags else {}
        assert read == dict(entries)
    numbers = {
        "--pods-per-core": kubelet.pods_per_core,
        "--eviction-max-pod-grace-period": kubelet.eviction_max_pod_grace_period,
        "--image-gc-high-threshold": kubelet.image_gc_high_threshold_percent,
        "--image-gc-low-threshold": kubelet.image_gc_low_threshold_percent,
    }
    for name, number in numbers.items():
        assert flags.pop(name, None) == (None if number is None else str(number))
    quota = kubelet.cpu_cfs_quota
    assert flags.pop("--cpu-cfs-quota", None) == (None if quota is None else str(quota).lower())
    assert not flags


def check_bootstrap(words: list[str], case: Case) -> None:
    assert words[0] == case.cluster.name
    read = readers.options(words[1:])
    check_flags(read.pop("--kubelet-extra-args"), case)
    expected = {"--apiserver-endpoint": case.cluster.endpoint, "--use-max-pods": "false"}
    if case.cluster.ca_bundle:
        expected["--b64-cluster-ca"] = case.cluster.ca_bundle
    if case.told_dns:
        expected["--dns-cluster-ip"] = case.told_dns
    if ":" in case.told_dns:
        expected["--ip-family"] = "ipv6"
    if case.raid0:
        expected["--local-disks"] = "raid0"
    assert read == expected


@FEW
@given(st.lists(cases, min_size=1, max_size=10))
def test_a_real_shell_reads_back_every_value_and_runs_one_command(batch: list[Case]) -> None:
    archives = [readers.parts(case.render("al2@latest").data.decode()) for case in batch]

    assert all(len(parts) == 1 for parts in archives)
    with tempfile.TemporaryDirectory() as directory:
        ran = readers.bootstrap_arguments([readers.content(parts[0]) for parts in archives], Path(directory))

    for words, case in zip(ran, batch, strict=True):
        check_bootstrap(words, case)


@MANY
@given(cases)
def test_yaml_reads_back_every_value_of_a_node_config(case: Case) -> None:
    (part,) = readers.parts(case.render("al2023@latest").data.decode())

    # nodeadm takes the bytes between the boundaries, whatever a charset may say.
    payload = part.get_payload()
    assert isinstance(payload, str)
    (document,) = yaml.safe_load_all(payload)

    spec: dict[str, Any] = document["spec"]
    cluster = {"name": case.cluster.name, "apiServerEndpoint": case.cluster.endpoint, "cidr": "10.100.0.0/16"}
    if case.cluster.ca_bundle:
        cluster["certificateAuthority"] = case.cluster.ca_bundle
    assert spec.pop("cluster") == cluster
    assert spec.pop("instance", None) == ({"localStorage": {"strategy": "RAID0"}} if case.raid0 else None)
    (flag,) = spec["kubelet"].pop("flags")
    assert readers.pairs(readers.kubelet_flags(flag)["--node-labels"]) == case.told_labels
    config = spec.pop("kubelet")["config"]
    read_taints = [
        (taint["key"], taint.get("value", ""), taint["effect"]) for taint in config.pop("registerWithTaints")
    ]
    assert read_taints == case.told_taints
    expected = to_wire(case.settings) | {"maxPods": case.told_pods}
    if case.told_dns and not case.settings.cluster_dns:
        expected["clusterDNS"] = [case.told_dns]
    assert config == expected
    assert not spec


@MANY
@given(
    cases, st.dictionaries(anything, anything, max_size=3), st.dictionaries(anything, anything, max_size=3)
)
def test_tomllib_reads_back_every_setting(
    case: Case, labels: dict[str, str], user_labels: dict[str, str]
) -> None:
    case = replace(case, labels={**case.labels, **labels})
    written = "\n".join(f"{basic(key)} = {basic(value)}" for key, value in user_labels.items())
    case = replace(case, custom=f"[settings.kubernetes.node-labels]\n{written}\n")

    read = tomllib.loads(case.render("bottlerocket@latest").data.decode())["settings"]

    kubelet, kubernetes = case.settings, read.pop("kubernetes")
    assert kubernetes.pop("node-labels") == user_labels | case.told_labels
    told: dict[str, list[str]] = {}
    for key, value, effect in case.told_taints:
        told.setdefault(key, []).append(f"{value}:{effect}")
    assert kubernetes.pop("node-taints") == told
    expected = {
        "api-server": case.cluster.endpoint,
        "cluster-name": case.cluster.name,
        "cluster-certificate": case.cluster.ca_bundle or None,
        "cluster-dns-ip": case.told_dns or None,
        "max-pods": case.told_pods,
        "system-reserved": dict(kubelet.system_reserved) or None,
        "kube-reserved": dict(kubelet.kube_reserved) or None,
        "eviction-hard": dict(kubelet.eviction_hard) or None,
        "eviction-soft": dict(kubelet.eviction_soft) or None,
        "eviction-soft-grace-period": dict(kubelet.eviction_soft_grace_period) or None,
        "eviction-max-pod-grace-period": kubelet.eviction_max_pod_grace_period,
        "image-gc-high-threshold-percent": text_or_none(kubelet.image_gc_high_threshold_percent),
        "image-gc-low-threshold-percent": text_or_none(kubelet.image_gc_low_threshold_percent),
        "cpu-cfs-quota-enforced": kubelet.cpu_cfs_quota,
    }
    assert kubernetes == {name: value for name, value in expected.items() if value is not None}
    assert set(read.pop("bootstrap-commands", {})) == ({RAID} if case.raid0 else set())
    assert not read


@MANY
@given(cases, st.sampled_from(["", 'Write-Host "hi"', "Write-Host `"]))
def test_powershell_reads_back_every_value_and_runs_one_command(case: Case, custom: str) -> None:
    case = replace(case, custom=custom)
    try:
        text = case.render("windows2022@latest").data.decode()
    except UserDataError as error:
        # The agent that runs user data would act on a tag, whatever quotes stand around it.
        assert "tag" in error.message  # noqa: PT017  either outcome is right, and each is checked
        return

    opening, *rest = text.split("[string]$EKSBootstrapScriptFile = ")
    assert opening == f"<powershell>\n{custom}\n\n" if custom else "<powershell>\n"
    script, call = "".join(rest).split("\n", 1)
    assert script == '"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1"'
    assert text.lower().count("powershell>") == 2
    read = readers.powershell_arguments(call.removesuffix("\n</powershell>\n"))
    check_flags(read.pop("KubeletExtraArgs"), case)
    expected = {"EKSClusterName": case.cluster.name, "APIServerEndpoint": case.cluster.endpoint}
    if case.cluster.ca_bundle:
        expected["Base64ClusterCA"] = case.cluster.ca_bundle
    if case.told_dns:
        expected["DNSClusterIP"] = case.told_dns
    assert read == expected


def basic(text: str) -> str:
    """Write a text in TOML with every character escaped by number, apart from the writer under test."""
    return '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'


def text_or_none(number: int | None) -> str | None:
    return None if number is None else str(number)
