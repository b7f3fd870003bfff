# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.stack.installation import controller_environ, installation
from karpenter.sandbox.stack.record import Options


def deployment(**options: Any) -> dict[str, Any]:
    return next(each for each in installation(Options(**options)) if each["kind"] == "Deployment")


def container(**options: Any) -> dict[str, Any]:
    [found] = deployment(**options)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_labels_and_the_container_are_those_that_people_select() -> None:
    template = deployment()["spec"]["template"]

    assert template["metadata"]["labels"] == {
        "app.kubernetes.io/name": "karpenter",
        "app.kubernetes.io/instance": "karpenter",
    }
    assert container()["name"] == "controller"


def test_it_runs_where_only_what_tolerates_the_taint_of_the_system_node_runs() -> None:
    spec = deployment()["spec"]["template"]["spec"]

    assert {"key": "CriticalAddonsOnly", "operator": "Exists"} in spec["tolerations"]


def test_everything_is_in_the_namespace_that_was_asked_for() -> None:
    made = installation(Options(controller_namespace="kube-system"))

    assert made[0]["metadata"]["name"] == "kube-system"
    assert {each["metadata"]["namespace"] for each in made[1:]} == {"kube-system"}


def test_the_lease_is_named_after_the_pod_and_beside_it() -> None:
    fields = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container()["env"]
        if "valueFrom" in each
    }

    assert fields["POD_NAME"] == "metadata.name"
    assert fields["LEADER_ELECTION_NAMESPACE"] == "metadata.namespace"


def test_the_number_of_replicas_is_that_of_the_options() -> None:
    assert deployment(replicas=2)["spec"]["replicas"] == 2


def test_our_controller_is_called_by_its_command_and_another_program_without_one() -> None:
    assert container()["args"] == ["controller"]
    assert container(controller_program="/bin/other")["args"] == []


def test_settings_reach_the_controller_and_win_over_those_of_the_sandbox() -> None:
    settings = {"interruption-queue": "mine", "log-level": "debug"}
    found = controller_environ(Options(cluster_name="prod", settings=settings))

    assert (found["CLUSTER_NAME"], found["INTERRUPTION_QUEUE"]) == ("prod", "mine")
    assert found["LOG_LEVEL"] == "debug"
    assert found["BIND_ADDRESS"] == "127.0.0.1"


def test_the_queue_is_called_after_the_cluster_and_a_bare_account_has_none() -> None:
    assert controller_environ(Options(cluster_name="prod"))["INTERRUPTION_QUEUE"] == "prod"
    assert controller_environ(Options(bare=True))["INTERRUPTION_QUEUE"] == ""


@pytest.mark.parametrize(("speed", "registration"), [(1, "900000ms"), (4, "225000ms"), (500, "10000ms")])
def test_a_speed_shortens_the_wait_for_nodes_but_not_below_what_a_busy_machine_keeps(
    speed: float, registration: str
) -> None:
    assert controller_environ(Options(speed=speed))["REGISTRATION_TIMEOUT"] == registration
