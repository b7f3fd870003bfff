# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.operator.settings import Gates, Settings, SettingsError, read_settings, table

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


def test_gates_are_switched_by_name_and_unknown_ones_are_ignored() -> None:
    environ = {**NAMED, "FEATURE_GATES": "NodeRepair=true, ReservedCapacity=false,FromTheFuture=true,"}

    assert read_settings({}, environ).feature_gates == Gates(node_repair=True, reserved_capacity=False)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "name of the cluster"),
        ({**NAMED, "LOG_LEVEL": "loud"}, "LOG_LEVEL=loud: must be one of debug"),
        ({**NAMED, "BATCH_IDLE_DURATION": "5"}, "BATCH_IDLE_DURATION=5"),
        ({**NAMED, "BATCH_IDLE_DURATION": "20s"}, "longer than --batch-max-duration 10s"),
        ({**NAMED, "AMI_REFRESH_INTERVAL": "10s"}, "must be 60s or more"),
        ({**NAMED, "VM_MEMORY_OVERHEAD_PERCENT": "7.5"}, "from 0 to 1"),
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
