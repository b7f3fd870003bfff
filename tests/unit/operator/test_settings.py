# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.observe import Detail
from karpenter.operator.settings import (
    Gates,
    Setting,
    Settings,
    SettingsError,
    read_settings,
    state_namespace,
    table,
)

NAMED = {"CLUSTER_NAME": "prod"}


def test_the_defaults_are_karpenters() -> None:
    settings = read_settings({}, NAMED)

    assert settings == Settings(cluster_name="prod")
    assert (settings.batch_idle_duration, settings.batch_max_duration) == (1.0, 10.0)
    assert (settings.kube_client_qps, settings.kube_client_burst) == (200, 300)
    assert (settings.metrics_port, settings.health_probe_port) == (8080, 8081)
    # Kubelets and Prometheus ask from outside the pod.
    assert settings.bind_address == "0.0.0.0"  # noqa: S104
    assert settings.vm_memory_overhead_percent == 0.075
    assert settings.leader_election_name == "karpenter-leader-election"
    assert settings.feature_gates == Gates(reserved_capacity=True)


def test_a_flag_wins_over_a_variable_and_that_over_the_default() -> None:
    environ = {**NAMED, "LOG_LEVEL": "debug", "BATCH_IDLE_DURATION": "2s", "ISOLATED_VPC": "true"}

    settings = read_settings({"batch_idle_duration": "500ms", "log_level": None}, environ)

    assert settings.batch_idle_duration == 0.5
    assert settings.log_level == "debug"
    assert settings.isolated_vpc


def test_an_empty_variable_means_the_default_for_all_but_texts() -> None:
    environ = {**NAMED, "RESERVED_ENIS": "", "INTERRUPTION_QUEUE": "", "LOG_LEVEL": "info"}

    settings = read_settings({}, environ)

    assert settings.reserved_enis == 0
    assert settings.interruption_queue == ""


def test_gates_are_switched_by_name() -> None:
    environ = {"CLUSTER_NAME": "x", "FEATURE_GATES": "NodeRepair=true, ReservedCapacity=false,"}

    assert read_settings({}, environ).feature_gates == Gates(node_repair=True, reserved_capacity=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NodeRepiar=true", "there is no feature gate NodeRepiar; did you mean NodeRepair?"),
        ("nodeoverlay=true", "there is no feature gate nodeoverlay; did you mean NodeOverlay?"),
        ("Zzz=true", "there is no feature gate Zzz; there are NodeRepair, ReservedCapacity,"),
        ("Drift=true", "the feature gate Drift is gone: drift is always on; leave it out"),
        ("NodeRepair=maybe", "NodeRepair must be true or false"),
        ("NodeRepair", "'NodeRepair' is not of the form Name=true"),
    ],
)
def test_a_gate_that_is_not_known_is_refused_by_its_name(text: str, said: str) -> None:
    for flags, environ in (({"feature_gates": text}, {}), ({}, {"FEATURE_GATES": text})):
        with pytest.raises(SettingsError) as refused:
            read_settings({"cluster_name": "x", **flags}, environ)
        assert said in refused.value.message
        assert refused.value.hint == "e.g. --feature-gates=NodeRepair=true,ReservedCapacity=false"


@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_a_default_is_shown_as_it_would_be_typed(row: Setting) -> None:
    shown = row.shown_default

    assert row.read(shown) == row.default if shown else not row.default


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("batch_first_duration", "150ms"),
        ("registration_timeout", "15m"),
        ("consolidation_horizon", "24h"),
        ("disruption_validation_delay", "5s"),
        ("consolidation_minimum_saving", "0.02"),
        ("vm_memory_overhead_percent", "0.075"),
        ("eks_control_plane", "true"),
        ("cpu_requests", "1000"),
    ],
)
def test_a_default_has_the_unit_of_its_setting(name: str, shown: str) -> None:
    assert [row.shown_default for row in table() if row.name == name] == [shown]


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "name of the cluster"),
        ({**NAMED, "LOG_LEVEL": "loud"}, "LOG_LEVEL=loud: must be one of debug"),
        ({**NAMED, "BATCH_IDLE_DURATION": "5"}, "BATCH_IDLE_DURATION=5"),
        ({**NAMED, "BATCH_IDLE_DURATION": "20s"}, "longer than --batch-max-duration 10s"),
        ({**NAMED, "AMI_REFRESH_INTERVAL": "10s"}, "must be 60s or more"),
        ({**NAMED, "VM_MEMORY_OVERHEAD_PERCENT": "7.5"}, "from 0 to below 1"),
        ({**NAMED, "VM_MEMORY_OVERHEAD_PERCENT": "1"}, "from 0 to below 1"),
        ({**NAMED, "VM_MEMORY_OVERHEAD_PERCENT": "nan"}, "from 0 to below 1"),
        ({**NAMED, "RESERVED_ENIS": "-1"}, "must be 0 or more"),
        ({**NAMED, "RESERVED_ENIS": "two"}, "RESERVED_ENIS=two"),
        ({**NAMED, "ISOLATED_VPC": "maybe"}, "true or false"),
        ({**NAMED, "FEATURE_GATES": "NodeRepair"}, "not of the form Name=true"),
        ({**NAMED, "PREFERENCE_POLICY": "respect"}, "Respect, Ignore"),
    ],
)
def test_nonsense_is_refused_with_the_name_of_the_setting(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        read_settings({}, environ)


def test_a_refused_flag_is_named_as_a_flag_with_an_example() -> None:
    with pytest.raises(SettingsError, match="--batch-max-duration=soon") as caught:
        read_settings({"batch_max_duration": "soon"}, NAMED)

    assert caught.value.hint == "e.g. --batch-max-duration=10s"


def test_every_setting_has_a_flag_a_variable_and_words() -> None:
    rows = {row.name: row for row in table()}

    assert rows["cluster_name"].flag == "--cluster-name"
    assert rows["cluster_name"].env == "CLUSTER_NAME"
    assert all(row.text.endswith(".") and row.group for row in rows.values())


@pytest.mark.parametrize("text", ["true", "1", "T", "false", "0", "F"])
def test_switches_read_what_go_reads(text: str) -> None:
    assert read_settings({}, {**NAMED, "ISOLATED_VPC": text}).isolated_vpc == (text in "true1T")


@pytest.mark.parametrize(
    ("text", "details"),
    [("", ()), ("nodes, pods", (Detail.NODES, Detail.PODS)), ("all", tuple(Detail))],
)
def test_detailed_metrics_are_switched_on_by_name(text: str, details: tuple[Detail, ...]) -> None:
    flags = {"cluster_name": "c", "detailed_metrics": text}

    assert read_settings(flags, {}).detailed_metrics == frozenset(details)


def test_a_detailed_metric_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingsError, match="'pod' is none of nodes, pods, instancetypes, all"):
        read_settings({"cluster_name": "c", "detailed_metrics": "nodes,pod"}, {})


@pytest.mark.parametrize(
    ("lease", "chosen", "expected"),
    [
        ("", "", "karpenter"),
        ("elsewhere", "", "elsewhere"),
        ("kube-system", "", "karpenter-state"),
        ("kube-system", "mine", "mine"),
    ],
)
def test_state_is_never_kept_where_the_clusters_own_config_maps_are(
    lease: str, chosen: str, expected: str
) -> None:
    flags = {"cluster_name": "c", "leader_election_namespace": lease, "state_namespace": chosen}

    assert state_namespace(read_settings(flags, {}), "karpenter") == expected


def test_kube_system_is_refused_for_state() -> None:
    with pytest.raises(SettingsError, match="aws-auth"):
        read_settings({"cluster_name": "c", "state_namespace": "kube-system"}, {})
